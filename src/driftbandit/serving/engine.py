"""The decision engine: loops, commands, durable commits and recovery. No HTTP, no threads, no clock of its own.

Commands change memory and queue events; `commit` makes them durable. Only then may their answers leave the process. An
engine whose commit failed must `recover` before it does anything else.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from math import inf
from typing import Any

import msgspec

from driftbandit.serving import events as log
from driftbandit.serving.config import LoopConfig, check
from driftbandit.serving.events import Catalogued, Configured, Decided, Late
from driftbandit.serving.loop import Loop
from driftbandit.serving.messages import (
    BatchReward,
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    RewardRequest,
    check_name,
    iso,
    split_arms,
)
from driftbandit.serving.reading import change_rows, state_bytes
from driftbandit.serving.records import EVERYONE, MAIN, SHADOW, Refused
from driftbandit.serving.stores.base import (
    Batch,
    LoopRow,
    Run,
    Snapshot,
    Store,
    VersionConflict,
)

_READ = 10_000
_RUN = 128
"""Events that are encoded together: few enough to be in the processor's cache still."""


class Elsewhere(Refused):
    """Another process holds the shard."""

    def __init__(self, shard: int, address: str | None) -> None:
        super().__init__(421, f"shard {shard} is served by another process" + (f" at {address}" if address else ""))
        self.address = address


class _Entry:
    """A loop with its shards here."""

    __slots__ = ("config", "only", "parts", "row")

    def __init__(self, row: LoopRow, config: LoopConfig) -> None:
        self.row = row
        self.config = config
        self.parts: dict[int, Loop] = {}
        self.only: Loop | None = None
        """Its only shard, where the store has but one."""


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
        self._loops: dict[str, _Entry] = {}
        self._start()

    # Recovery ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._touched: set[Loop] = set()
        self._iso: tuple[int, str] = (0, "")
        self._policy_version: tuple[int, int, str] = (0, 0, "0.0")
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
            entry = self._loops.get(row.name)
            if entry is not None:
                for shard in lost:
                    entry.parts.pop(shard, None)
            if entry is None or entry.row.version != row.version:
                config = settings(row)
                if not self._ready(config):
                    continue
                if entry is None:
                    entry = self._loops[row.name] = _Entry(row, config)
                entry.config = config
            entry.row = row
            for shard in held:
                if shard not in entry.parts:
                    entry.parts[shard] = self._load(row, shard)
                self._bring_up(entry.parts[shard], row)
            entry.only = entry.parts.get(0) if self.store.shards == 1 else None

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
        unlogged = loop.unlogged
        unlogged.append(event)
        if len(unlogged) == 1:
            self._touched.add(loop)
        elif len(unlogged) == _RUN:
            self._seal(loop)

    @staticmethod
    def _seal(loop: Loop) -> None:
        """Encode the latest events."""
        first = loop.seq - len(loop.unlogged) + 1
        loop.sealed.append(Run(loop.number, loop.shard, first, loop.seq, log.encode_run(loop.unlogged)))
        loop.unlogged.clear()

    def now(self) -> int:
        """Milliseconds since 1970."""
        return self._clock()

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
        entry = self._loops.get(name)
        encoded = msgspec.json.encode(config)
        if entry is not None and expected is None:
            if entry.config == config:
                return False, self.configuration(name)
            raise Refused(409, f"loop {name!r} exists with other settings; give its version, {entry.row.version}")
        try:
            row = self.store.put_loop(name, expected or 0, log.encode(Configured(self._clock(), 0, encoded)))
        except VersionConflict as error:
            raise Refused(409, f"loop {name!r}: expected version {expected or 0}, found {error.version}") from error
        self.refresh()
        return row.version == 1, self.configuration(name)

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        entry = self._entry(name)
        config = entry.config
        ids, features = split_arms(arms.arms)
        if (features is None) != (config.dim is None) or (features is not None and features.shape[1] != config.dim):
            got = None if features is None else features.shape[1]
            raise Refused(422, f"arms: the loop's dim is {config.dim}, got {got} features an arm")
        if len(set(ids)) < len(ids):
            raise Refused(422, "arms: expected different ids, got one twice")
        body = None if features is None else features.tobytes()
        self.store.put_arms(entry.row.number, log.encode(Catalogued(self._clock(), 0, list(ids), body)))
        self.refresh()
        return self.configuration(name)

    def look_up(self, name: str, ids: list[str]) -> None:
        """Read what is known of these decisions from the store, all at once, before commands that name them."""
        entry = self._loops.get(name)
        if entry is None:
            return
        unknown = ids
        for part in entry.parts.values():
            recent = part.recent
            unknown = [given for given in unknown if given not in recent]
        if unknown:
            for found in self.store.closed(entry.row.number, unknown):
                if found.shard in entry.parts:
                    part = entry.parts[found.shard]
                    part.known[found.id] = found
                    self._touched.add(part)

    def decide(self, name: str, request: DecisionRequest, now: int | None = None) -> tuple[bool, Decision]:
        """Choose an arm; says whether the decision is new. Its id must have gone through `look_up`.

        `now` is for those who carry out many commands at one time.
        """
        entry = self._entry(name)
        scope, given, arms = request.scope, request.decision_id, request.arms
        if scope is not None:
            check_name("scope", scope)
        if given is not None:
            known = self._known_by(entry, given, scope)
            if known is not None:
                return False, self._again(known, request)
            check_name("decision_id", given)
        loop = entry.only or self._part(entry, scope)
        now = self._tick(loop, now)
        try:
            pool = loop.pools.get(arms)
        except TypeError:  # arms with features have no hash
            pool = None
        if pool is None:
            pool = loop.pool(None) if arms is None else loop.pool(*split_arms(arms))
        event = loop.decide(now, given or f"{loop.shard:x}-{os.urandom(12).hex()}", scope, pool)
        self._queue(loop, event)
        return True, self._answer(event)

    def _again(self, loop: Loop, request: DecisionRequest) -> Decision:
        """The answer that this decision got before, if the request is the same."""
        given = request.decision_id or ""
        ids, features = (None, None) if request.arms is None else split_arms(request.arms)
        event: Any = self._event(loop, (loop.recent.get(given) or loop.known[given]).seq)
        encoded = None if features is None else features.tobytes()
        if (event.scope, event.arms, event.features) != (request.scope, ids, encoded):
            raise Refused(409, f"decision_id {given!r} was used with another body")
        return self._answer(event)

    def _event(self, loop: Loop, seq: int) -> log.AnyEvent:
        """An event of the log, which may not be in the store yet."""
        back = loop.seq - seq
        if back < len(loop.unlogged):
            return loop.unlogged[-1 - back]
        sealed = next((run for run in loop.sealed if run.first <= seq <= run.last), None)
        body = self.store.event(loop.number, loop.shard, seq) if sealed is None else sealed.event(seq)
        if body is None:
            raise RuntimeError(f"event {seq} is missing from the log")
        event: log.AnyEvent = log.decode(body)
        return event

    def _answer(self, event: Decided) -> Decision:
        if self._iso[0] != event.expires:
            self._iso = event.expires, iso(event.expires)
        version = self._policy_version
        if version[1] != event.learned or version[0] != event.version:
            version = self._policy_version = event.version, event.learned, f"{event.version}.{event.learned}"
        return Decision(event.id, event.arm, event.index, event.propensity, version[2], self._iso[1])

    def reward(self, name: str, decision_id: str, request: RewardRequest | BatchReward, now: int | None = None) -> bool:
        """Take a reward; False if it was known already. Its decision's id must have gone through `look_up`.

        A reward whose window has closed is logged, and refused with status 410.
        """
        entry = self._entry(name)
        loop = entry.only or self._part_of(entry, decision_id, request.scope)
        event = loop.reward(self._tick(loop, now), decision_id, request.value, request.reward_id)
        if event is None:
            return False
        self._queue(loop, event)
        if type(event) is Late:
            raise Refused(410, f"the reward window of decision {decision_id!r} has closed; logged, not learned")
        return True

    def tick(self) -> None:
        """Close the windows that are due."""
        now = self._clock()
        for entry in self._loops.values():
            for loop in entry.parts.values():
                self._tick(loop, now)

    def _tick(self, loop: Loop, now: int | None) -> int:
        """Close a loop's windows that are due; returns its time, which never runs backwards."""
        if now is None:
            now = self._clock()
        if now < loop.time:  # noqa: PLR1730 - max takes twice as long
            now = loop.time
        if loop.due.first <= now and (event := loop.tick(now)) is not None:
            self._queue(loop, event)
        return now

    def next_due(self) -> float:
        """When the next window closes."""
        return min((loop.due.first for entry in self._loops.values() for loop in entry.parts.values()), default=inf)

    def _entry(self, name: str) -> _Entry:
        entry = self._loops.get(name)
        if entry is None:
            raise Refused(404, f"no loop {name[:200]!r}")
        return entry

    def _part(self, entry: _Entry, scope: str | None) -> Loop:
        """The shard that decides for a scope."""
        shards = self.store.shards
        shard = 0
        if shards > 1:
            scoped = entry.config.scoped
            shard = shard_of(entry.row.name, scope if scoped and scope is not None else EVERYONE, shards)
        part = entry.parts.get(shard)
        if part is None:
            if shard in self.held:
                raise Refused(503, f"loop {entry.row.name!r} is getting ready")
            raise Elsewhere(shard, self.store.holder(shard))
        return part

    def _known_by(self, entry: _Entry, decision_id: str, scope: str | None) -> Loop | None:
        """The shard that knows a decision.

        Processes do not ask each other for ids, so that two scopes may have got the same one: a scope's own shard comes
        first, and where that is held elsewhere it is not for this process to say.
        """
        only = entry.only
        if only is not None:
            return only if decision_id in only.recent or decision_id in only.known else None
        own: int | None = None
        if scope is not None and entry.config.scoped:
            own = shard_of(entry.row.name, scope, self.store.shards)
        other: Loop | None = None
        for part in entry.parts.values():
            if decision_id in part.recent or decision_id in part.known:
                if own is None or own == part.shard:
                    return part
                other = part
        if other is None or own not in entry.parts:
            return None
        for row in self.store.closed(entry.row.number, [decision_id]):  # `look_up` was content with the other one
            if row.shard == own:
                entry.parts[own].known[decision_id] = row
                self._touched.add(entry.parts[own])
                return entry.parts[own]
        return other

    def _part_of(self, entry: _Entry, decision_id: str, scope: str | None) -> Loop:
        """The shard to which a decision's reward belongs."""
        known = self._known_by(entry, decision_id, scope)
        if known is not None:
            return known
        if len(self.held) < self.store.shards:
            if not entry.config.scoped or scope is not None:
                self._part(entry, scope)
            else:
                prefix = decision_id.partition("-")[0]
                shard = int(prefix, 16) if len(prefix) <= 3 and all(c in "0123456789abcdef" for c in prefix) else None
                if shard is None or shard not in self.held:
                    raise Elsewhere(shard or -1, self.store.holder(shard) if shard is not None else None)
        raise Refused(404, f"no decision {decision_id[:200]!r} in loop {entry.row.name!r}")

    # Durability ----------------------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make everything queued durable; returns how many events that were. Raises StoreError if it failed."""
        batch = Batch()
        count = 0
        for loop in self._touched:
            if loop.unlogged:
                self._seal(loop)
            if loop.sealed:
                batch.events += loop.sealed
                count += loop.seq - loop.sealed[0].first + 1
            if loop.found:
                batch.changes.extend(change_rows(loop))
        if batch:
            self.store.commit(batch)
        touched, self._touched = self._touched, set()
        for loop in touched:
            loop.sealed.clear()
            loop.known.clear()
            loop.found.clear()
            self._save_if_due(loop)
        return count

    def _save_if_due(self, loop: Loop) -> None:
        models = [part for part in (loop.models, loop.shadow) if part is not None]
        fits = all(part.trim() for part in models)
        if not fits or loop.seq - loop.saved_at >= max(self._snapshot_every, 2 * loop.waiting):
            self._save(loop)
            for part in models:
                part.trim()

    def snapshot(self) -> None:
        """Save a snapshot of every loop now; what is queued must have been committed."""
        for entry in self._loops.values():
            for loop in entry.parts.values():
                self._save(loop)

    def _save(self, loop: Loop) -> None:
        number = self._loops[loop.name].row.number
        rows = []
        for role, models in ((MAIN, loop.models), (SHADOW, loop.shadow)):
            if models is not None:
                rows += [(role, loop.epochs[role], scope, state) for scope, state in models.changed()]
        closed = [(record.id, record.seq, record.reward) for record in loop.closed]
        shot = Snapshot(number, loop.shard, loop.seq, loop.core(), rows, closed, loop.epochs)
        self.store.commit(Batch(snapshots=[shot]))
        loop.forget_closed()
        loop.saved_at = loop.seq
        for models in (loop.models, loop.shadow):
            if models is not None:
                models.saved()

    # Looking ---------------------------------------------------------------------------------------------------------

    def configuration(self, name: str) -> Configuration:
        """A loop's settings."""
        entry = self._entry(name)
        return Configuration(name, entry.row.version, entry.row.arms_version, entry.config)

    def names(self) -> list[str]:
        """Names of all loops."""
        return sorted(self._loops)

    def number(self, name: str) -> int:
        """The number under which the store knows a loop."""
        return self._entry(name).row.number

    def parts(self, name: str) -> list[Loop]:
        """A loop's shards here."""
        return list(self._entry(name).parts.values())

    def digest(self, name: str, *, whole_log: bool = False) -> str:
        """A hash of a loop's whole state; with `whole_log`, of what replaying its log from the start gives.

        Where the two differ, a snapshot or the recovery is wrong.
        """
        entry = self._entry(name)
        found = hashlib.sha256()
        for shard, part in sorted(entry.parts.items()):
            loop = self._load(entry.row, shard, whole_log=True) if whole_log else part
            found.update(state_bytes(loop, self.store, entry.row.number, stored=not whole_log))
        return found.hexdigest()


def settings(row: LoopRow) -> LoopConfig:
    """The settings of a loop that a store knows."""
    event = log.decode(row.config)
    assert isinstance(event, Configured)
    return msgspec.json.decode(event.config, type=LoopConfig)


def shard_of(loop: str, scope: str, shards: int) -> int:
    """Which shard decides for a scope."""
    return zlib.crc32(f"{loop}\n{scope}".encode()) % shards
