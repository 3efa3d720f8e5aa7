"""The decision engine: all loops of a store, durable commits, and recovery. It has no HTTP, no thread and no clock.

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
    Arm,
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    RewardRequest,
    check_name,
    split_arms,
)
from driftbandit.serving.engine.reading import state_bytes
from driftbandit.serving.engine.shards import Parts
from driftbandit.serving.engine.storage import committed, configured, gather, load_loop, news, save, settings
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.arms import check_different
from driftbandit.serving.loop.config import LoopConfig, check
from driftbandit.serving.loop.events import Catalogued, Configured, Refused
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.model import read_model
from driftbandit.serving.stores.base import LoopRow, Store, VersionConflict

_OPEN_WEIGHT = 4
"""Least number of events between snapshots, per open decision: a snapshot holds all open decisions."""
_RUN = 100
"""Least number of events encoded together: few enough to be still in the processor's cache."""


Arms = tuple[Arm | str, ...]


class Engine:
    """All loops of a store.

    Parameters
    ----------
    store : Store
        Where the log lives.
    clock : callable
        Milliseconds since 1970.
    snapshot_every : int
        The least number of a loop's events between snapshots.
    scopes_in_memory : int
        How many scopes of a loop are kept in memory.
    ready : callable, optional
        Says whether settings may come into force. If not, the next `refresh` asks again.
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
        """Forget everything in memory and start from what the store has."""
        self.store.reopen()
        self._start()

    def refresh(self) -> None:
        """Take over shards that other processes gave up and settings that they changed; called every second or so."""
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
                    parts.here[shard] = load_loop(self.store, row, shard, self._scopes_in_memory)
                self._update(parts.here[shard], row)
            parts.only = parts.here.get(0) if self.store.shards == 1 else None

    def _update(self, loop: Loop, row: LoopRow) -> None:
        """Give a loop new settings and a new catalogue from the store."""
        for event in news(loop, row, max(self._clock(), loop.state.time)):
            loop.apply(event)
            loop.outbox.events.append(event)
            self._touched.add(loop)

    # Commands ------------------------------------------------------------------------------------------------------

    def configure(
        self, name: str, config: LoopConfig, expected: int | None, arms: Arms | None = None
    ) -> tuple[bool, Configuration]:
        """Create or change a loop; says whether it is new.

        `expected` is the version that the settings replace. Without it, a loop that exists must have these settings.
        With `arms` the catalogue is replaced in the same step; a change of `dim` needs them if there is a catalogue.
        """
        check_name("loop", name)
        try:
            check(config)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        catalogue = None if arms is None else self._catalogued(config, arms)
        parts = self._loops.get(name)
        if parts is not None and expected is None:
            if parts.config == config:
                return False, self.configuration(name) if arms is None else self.put_arms(name, CatalogueRequest(arms))
            raise Refused(409, f"loop {name!r} exists with other settings; give its version, {parts.row.version}")
        model = None
        if parts is not None:
            if parts.config.model_key == config.model_key:
                model = configured(parts.row).model
            if parts.config.dim != config.dim and parts.row.arms is not None and arms is None:
                raise Refused(422, "arms: a change of dim needs the arms too, since those of the loop no longer fit")
        version = self._put(name, expected or 0, config, model, catalogue)
        return version == 1, self.configuration(name)

    def put_model(self, name: str, file: bytes) -> Configuration:
        """Let all models of a loop start afresh, each as a copy of the policy in a file."""
        parts = self._parts(name)
        try:
            model = read_model(parts.config, file)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        if model != configured(parts.row).model:
            self._put(name, parts.row.version, parts.config, model)
        return self.configuration(name)

    def _put(self, name: str, expected: int, config: LoopConfig, model: bytes | None, arms: bytes | None = None) -> int:
        """Store settings, the model with which the loop begins, and new arms, if any; returns their version."""
        event = Configured(self._clock(), 0, msgspec.json.encode(config), model)
        try:
            row = self.store.put_loop(name, expected, log.encode(event), arms)
        except VersionConflict as error:
            raise Refused(409, f"loop {name!r}: expected version {expected}, found {error.version}") from error
        self.refresh()
        return row.version

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        parts = self._parts(name)
        self.store.put_arms(parts.row.number, self._catalogued(parts.config, arms.arms))
        self.refresh()
        return self.configuration(name)

    def _catalogued(self, config: LoopConfig, arms: Arms) -> bytes:
        """The event of a new catalogue, encoded; refuses arms that do not fit the settings."""
        ids, features = split_arms(arms)
        if (features is None) != (config.dim is None) or (features is not None and features.shape[1] != config.dim):
            got = None if features is None else features.shape[1]
            raise Refused(422, f"arms: the loop's dim is {config.dim}, got {got} features per arm")
        check_different(ids)
        body = None if features is None else features.tobytes()
        return log.encode(Catalogued(self._clock(), 0, list(ids), body))

    def look_up(self, name: str, ids: list[str]) -> None:
        """Read what the store knows about these decisions, all at once, before commands name them."""
        parts = self._loops.get(name)
        if parts is not None:
            parts.look_up(ids)

    def at_once(self, name: str) -> Commands:
        """Decisions and rewards of a loop, now; ids that requests name must have gone through `look_up`."""
        parts = self._parts(name)
        for loop in parts.here.values():
            loop.outbox.seal(loop.state.seq, _RUN)
        return Commands(parts, self._clock(), self._answers)

    def decide(self, name: str, request: DecisionRequest) -> tuple[bool, Decision]:
        """Choose an arm; see `Commands.decide`."""
        return self.at_once(name).decide(request)

    def reward(self, name: str, decision_id: str, request: RewardRequest) -> bool:
        """Take a reward; see `Commands.reward`."""
        return self.at_once(name).reward(decision_id, request)

    def tick(self) -> None:
        """Close the windows that are due."""
        now = self._clock()
        for parts in self._loops.values():
            for loop in parts.here.values():
                if loop.state.due.first <= now:
                    advance(loop, now)
                    self._touched.add(loop)

    def next_due(self) -> float:
        """When the next window closes, in milliseconds since 1970."""
        loops = (loop for parts in self._loops.values() for loop in parts.here.values())
        return min((loop.state.due.first for loop in loops), default=inf)

    def _parts(self, name: str) -> Parts:
        parts = self._loops.get(name)
        if parts is None:
            raise Refused(404, f"no loop {name[:200]!r}")
        return parts

    # Durability ----------------------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make everything queued durable; returns how many events that were. Raises StoreError if it failed."""
        count, batch = gather(self._touched)
        if batch:
            self.store.commit(batch)
        touched = list(self._touched)
        self._touched.clear()
        for loop in touched:
            committed(loop)
            self._save_if_due(loop)
        return count

    def _save_if_due(self, loop: Loop) -> None:
        """Save a snapshot if the last one is old, or if too few scopes are saved to free enough memory."""
        models = [models for _, models in loop.learner.roles]
        fits = all(part.trim() for part in models)
        events = loop.state.seq - loop.outbox.saved_at
        if not fits or events >= max(self._snapshot_every, _OPEN_WEIGHT * loop.waiting):
            save(self.store, loop)
            for part in models:
                part.trim()

    def snapshot(self) -> None:
        """Save a snapshot of every loop now; all queued events must have been committed."""
        for parts in self._loops.values():
            for loop in parts.here.values():
                save(self.store, loop)

    # Looking ---------------------------------------------------------------------------------------------------------

    def configuration(self, name: str) -> Configuration:
        """The settings of a loop, and their version."""
        parts = self._parts(name)
        row = parts.row
        return Configuration(name, row.version, row.arms_version, parts.config, configured(row).model is not None)

    def names(self) -> list[str]:
        """Names of all loops."""
        return sorted(self._loops)

    def number(self, name: str) -> int:
        """The number of a loop in the store."""
        return self._parts(name).row.number

    def parts(self, name: str) -> list[Loop]:
        """The shards of a loop that are served here."""
        return list(self._parts(name).here.values())

    def digest(self, name: str, *, whole_log: bool = False) -> str:
        """A hash of a loop's whole state; with `whole_log`, of the state after repeating the whole log.

        If the two differ, a snapshot or the recovery is wrong.
        """
        parts = self._parts(name)
        found = hashlib.sha256()
        for shard, part in sorted(parts.here.items()):
            if whole_log:
                again = load_loop(self.store, parts.row, shard, self._scopes_in_memory, whole_log=True)
                found.update(state_bytes(again))
            else:
                found.update(state_bytes(part, self.store))
        return found.hexdigest()
