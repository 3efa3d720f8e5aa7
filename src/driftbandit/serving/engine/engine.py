"""The decision engine: loops, commands, durable commits and recovery. No HTTP, no threads, no clock of its own.

Commands change memory and queue events; `commit` makes them durable. Only then may their answers leave the process. An
engine whose commit failed must `recover` before it does anything else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import inf

import msgspec

from driftbandit.serving.engine.commands import Answers, Commands, advance
from driftbandit.serving.engine.messages import (
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    RewardRequest,
    check_name,
    split_arms,
)
from driftbandit.serving.engine.reading import change_rows, state_bytes
from driftbandit.serving.engine.shards import Parts
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig, check
from driftbandit.serving.loop.events import Catalogued, Configured
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.records import MAIN, SHADOW, Refused
from driftbandit.serving.stores.base import (
    Batch,
    Closed,
    LoopRow,
    Snapshot,
    Store,
    VersionConflict,
)

_READ = 10_000
_INDEXED = 2048
"""Closed decisions that go into the store's index together: enough to share its pages, too few for a long pause."""
_OPEN_WEIGHT = 4
"""Events between snapshots for each open decision, at least: a snapshot holds all of those."""
_RUN = 100
"""Events that are encoded together, at least: while they are in the processor's cache still."""


class Engine:
    """All loops of a store.

    Parameters
    ----------
    store : Store
        Where the log lives.
    clock : callable
        Milliseconds since 1970.
    snapshot_every : int
        Events of a loop between snapshots, at least.
    scopes_in_memory : int
        How many scopes of a loop are kept in memory.
    ready : callable, optional
        Whether settings may come into force. Those for which it says no are left alone until the next `refresh`.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        *,
        snapshot_every: int = 100_000,
        scopes_in_memory: int = 1_000_000,
        ready: Callable[[LoopConfig], bool] = lambda config: True,
    ) -> None:
        self.store = store
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._scopes_in_memory = scopes_in_memory
        self._ready = ready
        self.held: dict[int, int] = {}
        self._loops: dict[str, Parts] = {}
        self._start()

    # Recovery ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._touched: set[Loop] = set()
        self._answers = Answers()
        self._loops.clear()
        self.held = {}
        self.refresh()

    def recover(self) -> None:
        """Forget everything and start from what the store holds."""
        self.store.reopen()
        self._start()

    def refresh(self) -> None:
        """Take over shards and settings that other processes left or changed; called every second or so."""
        held = self.store.hold()
        lost = [shard for shard, token in self.held.items() if held.get(shard) != token]
        self.held = held
        for row in self.store.loops():
            parts = self._loops.get(row.name)
            if parts is not None:
                parts.held = held
                for shard in lost:
                    parts.here.pop(shard, None)
            if parts is None or parts.row.version != row.version:
                config = settings(row)
                if not self._ready(config):
                    continue
                if parts is None:
                    parts = self._loops[row.name] = Parts(row, config, self.store, self._touched)
                    parts.held = held
                parts.config = config
            parts.row = row
            for shard in held:
                if shard not in parts.here:
                    parts.here[shard] = self._load(row, shard)
                self._bring_up(parts.here[shard], row)
            parts.only = parts.here.get(0) if self.store.shards == 1 else None

    def _load(self, row: LoopRow, shard: int, *, whole_log: bool = False) -> Loop:
        """A loop's state: its last snapshot, and the events after it."""
        number = row.number

        def load(role: int, epoch: int, scope: str) -> bytes | None:
            return None if whole_log else self.store.model(number, shard, role, epoch, scope)

        loop = Loop(row.name, shard, load, self._scopes_in_memory, number)
        snapshot = None if whole_log else self.store.snapshot(number, shard)
        if snapshot is not None:
            loop.restore(snapshot[1])
        loop.saved_at = loop.seq
        while True:
            rows = self.store.events(number, shard, loop.seq, _READ)
            for seq, body in rows:
                loop.apply(log.decode(body))
                if loop.seq != seq:
                    raise RuntimeError(f"loop {row.name!r}: event {loop.seq} is missing from the log")
            if len(rows) < _READ:
                break
        loop.found.clear()  # they were stored together with their events
        return loop

    def _bring_up(self, loop: Loop, row: LoopRow) -> None:
        """Log settings and catalogue that the loop has not met yet."""
        if loop.version != row.version:
            event = log.decode(row.config)
            assert isinstance(event, Configured)
            self._record(loop, Configured(self._now(loop), row.version, event.config))
        if row.arms is not None and loop.arms_version != row.arms_version:
            arms = log.decode(row.arms)
            assert isinstance(arms, Catalogued)
            self._record(loop, Catalogued(self._now(loop), row.arms_version, arms.ids, arms.features))

    def _record(self, loop: Loop, event: log.AnyEvent) -> None:
        loop.apply(event)
        self._queue(loop, event)

    def _queue(self, loop: Loop, event: log.AnyEvent) -> None:
        loop.unlogged.append(event)
        self._touched.add(loop)

    def _now(self, loop: Loop) -> int:
        return max(self._clock(), loop.time)

    # Commands ------------------------------------------------------------------------------------------------------

    def configure(self, name: str, config: LoopConfig, expected: int | None) -> tuple[bool, Configuration]:
        """Create or change a loop; says whether it is new. Without an expected version only the same is accepted."""
        check_name("loop", name)
        try:
            check(config)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        parts = self._loops.get(name)
        encoded = msgspec.json.encode(config)
        if parts is not None and expected is None:
            if parts.config == config:
                return False, self.configuration(name)
            raise Refused(409, f"loop {name!r} exists with other settings; give its version, {parts.row.version}")
        try:
            row = self.store.put_loop(name, expected or 0, log.encode(Configured(self._clock(), 0, encoded)))
        except VersionConflict as error:
            raise Refused(409, f"loop {name!r}: expected version {expected or 0}, found {error.version}") from error
        self.refresh()
        return row.version == 1, self.configuration(name)

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        parts = self._parts(name)
        config = parts.config
        ids, features = split_arms(arms.arms)
        if (features is None) != (config.dim is None) or (features is not None and features.shape[1] != config.dim):
            got = None if features is None else features.shape[1]
            raise Refused(422, f"arms: the loop's dim is {config.dim}, got {got} features an arm")
        if len(set(ids)) < len(ids):
            raise Refused(422, "arms: expected different ids, got one twice")
        body = None if features is None else features.tobytes()
        self.store.put_arms(parts.row.number, log.encode(Catalogued(self._clock(), 0, list(ids), body)))
        self.refresh()
        return self.configuration(name)

    def look_up(self, name: str, ids: list[str]) -> None:
        """Read what is known of these decisions from the store, all at once, before they are asked for again."""
        parts = self._loops.get(name)
        if parts is not None:
            parts.look_up(ids)

    def at_once(self, name: str) -> Commands:
        """Commands to a loop that are carried out now; ids of decisions must have gone through `look_up`."""
        parts = self._parts(name)
        for loop in parts.here.values():
            loop.seal(_RUN)
        return Commands(parts, self._clock(), self._answers)

    def decide(self, name: str, request: DecisionRequest) -> tuple[bool, Decision]:
        """Choose an arm now; see `Commands.decide`."""
        return self.at_once(name).decide(request)

    def reward(self, name: str, decision_id: str, request: RewardRequest) -> bool:
        """Take a reward now; see `Commands.reward`."""
        return self.at_once(name).reward(decision_id, request)

    def tick(self) -> None:
        """Close the windows that are due."""
        now = self._clock()
        for parts in self._loops.values():
            for loop in parts.here.values():
                if loop.due.first <= now:
                    advance(loop, now)
                    self._touched.add(loop)

    def next_due(self) -> float:
        """When the next window closes."""
        return min((loop.due.first for parts in self._loops.values() for loop in parts.here.values()), default=inf)

    def _parts(self, name: str) -> Parts:
        parts = self._loops.get(name)
        if parts is None:
            raise Refused(404, f"no loop {name[:200]!r}")
        return parts

    # Durability ----------------------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make everything queued durable; returns how many events that were. Raises StoreError if it failed."""
        batch = Batch()
        count = 0
        for loop in self._touched:
            loop.seal()
            if loop.sealed:
                batch.events += loop.sealed
                count += loop.seq - loop.sealed[0].first + 1
            if loop.found:
                batch.changes.extend(change_rows(loop))
            if len(loop.closed) >= _INDEXED:
                batch.closed.append(Closed(loop.number, loop.shard, loop.closed))
        if batch:
            self.store.commit(batch)
        touched = list(self._touched)
        self._touched.clear()
        for loop in touched:
            loop.sealed.clear()
            loop.known.clear()
            loop.found.clear()
            if len(loop.closed) >= _INDEXED:
                loop.forget_closed()
            self._save_if_due(loop)
        return count

    def _save_if_due(self, loop: Loop) -> None:
        models = [part for part in (loop.models, loop.shadow) if part is not None]
        fits = all(part.trim() for part in models)
        if not fits or loop.seq - loop.saved_at >= max(self._snapshot_every, _OPEN_WEIGHT * loop.waiting):
            self._save(loop)
            for part in models:
                part.trim()

    def snapshot(self) -> None:
        """Save a snapshot of every loop now; what is queued must have been committed."""
        for parts in self._loops.values():
            for loop in parts.here.values():
                self._save(loop)

    def _save(self, loop: Loop) -> None:
        number = self._loops[loop.name].row.number
        rows = []
        for role, models in ((MAIN, loop.models), (SHADOW, loop.shadow)):
            if models is not None:
                rows += [(role, loop.epochs[role], scope, state) for scope, state in models.changed()]
        shot = Snapshot(number, loop.shard, loop.seq, loop.core(), rows, loop.epochs)
        self.store.commit(Batch(closed=[Closed(number, loop.shard, loop.closed)], snapshots=[shot]))
        loop.forget_closed()
        loop.saved_at = loop.seq
        for models in (loop.models, loop.shadow):
            if models is not None:
                models.saved()

    # Looking ---------------------------------------------------------------------------------------------------------

    def configuration(self, name: str) -> Configuration:
        """A loop's settings."""
        parts = self._parts(name)
        return Configuration(name, parts.row.version, parts.row.arms_version, parts.config)

    def names(self) -> list[str]:
        """Names of all loops."""
        return sorted(self._loops)

    def number(self, name: str) -> int:
        """The number under which the store knows a loop."""
        return self._parts(name).row.number

    def parts(self, name: str) -> list[Loop]:
        """A loop's shards here."""
        return list(self._parts(name).here.values())

    def digest(self, name: str, *, whole_log: bool = False) -> str:
        """A hash of a loop's whole state; with `whole_log`, of what replaying its log from the start gives.

        Where the two differ, a snapshot or the recovery is wrong.
        """
        parts = self._parts(name)
        found = hashlib.sha256()
        for shard, part in sorted(parts.here.items()):
            loop = self._load(parts.row, shard, whole_log=True) if whole_log else part
            found.update(state_bytes(loop, self.store, parts.row.number, stored=not whole_log))
        return found.hexdigest()


def settings(row: LoopRow) -> LoopConfig:
    """The settings of a loop that a store knows."""
    event = log.decode(row.config)
    assert isinstance(event, Configured)
    return msgspec.json.decode(event.config, type=LoopConfig)
