"""The decision engine: all loops of a store, durable commits, and recovery. It has no HTTP, no thread and no clock.

Commands change memory and queue events; `commit` makes them durable. Only then may their answers leave the process. An
engine whose commit failed must `recover` before it does anything else. If a command fails unexpectedly, only the shards
it worked on are dropped: their log is committed as it was before the command, and they are read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import msgspec

from driftbandit.serving.engine.commands import Answers, Commands, advance
from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.loading import Loader
from driftbandit.serving.engine.messages import (
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
from driftbandit.serving.engine.storage import Source, committed, configured, gather, load_loop, save
from driftbandit.serving.engine.tallies import Tallies, Tally, tell
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.arms import check_different
from driftbandit.serving.loop.config import LoopConfig, check
from driftbandit.serving.loop.events import Catalogued, Configured, Refused
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.model import read_model
from driftbandit.serving.stores.base import Store, VersionConflict

_OPEN_WEIGHT = 4
"""Least number of events between snapshots, per open decision: a snapshot holds all open decisions."""
_RUN = 100
"""Least number of events encoded together: few enough to be still in the processor's cache."""


class Engine:
    """All loops of a store.

    Parameters
    ----------
    store : Store
        Where the log lives.
    clock : callable
        Milliseconds since 1970.
    snapshot_every : int
        How many events, of all loops together, may be after the last snapshots; see `commit`.
    scopes_in_memory : int
        How many scopes of a loop are kept in memory.
    ready : callable, optional
        Says whether settings may come into force. If not, the next `refresh` asks again.
    background : bool
        Whether shards are read in a thread of their own. Then `adopt` must be called from time to time, and commands
        for shards that are not read yet are refused with status 503.

    wake : callable, optional
        Called, from that thread, when there is something to adopt.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        *,
        snapshot_every: int = 100_000,
        scopes_in_memory: int = 1_000_000,
        ready: Callable[[LoopConfig], bool] = lambda config: True,
        background: bool = False,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._scopes_in_memory = scopes_in_memory
        loader = Loader(store, scopes_in_memory, background, wake)
        self._keeper = Keeper(store, clock, loader, ready)
        self._loops = self._keeper.loops
        self._touched = self._keeper.touched
        self._start()

    # Recovery and shards -------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Forget everything in memory and start from what the store has."""
        self.store.reopen()
        self._start()

    def _start(self) -> None:
        self._answers = Answers()
        self._unsaved = 0
        self._tells = False
        self._tallies = Tallies(self.store)
        self._keeper.forget()
        self.refresh()

    def refresh(self) -> None:
        """Take over shards that other processes gave up and settings that they changed.

        To be called every second or so, when everything is committed, since shards may be given to other processes.
        """
        self._keeper.hold()
        self._keeper.read_settings()
        self.adopt()
        self._tells = True
        if any(len(parts.here) < self.store.shards for parts in self._loops.values()):
            self._tallies.read()

    def adopt(self) -> bool:
        """Serve the shards that have been read meanwhile; says whether there were any."""
        found = self._keeper.adopt()
        self._unsaved += sum(loop.state.seq - loop.outbox.saved_at for loop in found)
        return bool(found)

    @property
    def held(self) -> dict[int, int]:
        """Shards that this process holds, with their tokens."""
        return self._keeper.held

    @property
    def loading(self) -> int:
        """How many shards of loops are being read."""
        return sum(len(parts.loading) for parts in self._loops.values())

    @property
    def failed_commands(self) -> int:
        """Commands that failed unexpectedly, and shards that could not close windows or take new settings."""
        return self._keeper.failures

    def carry_out(self, command: Callable[[Engine], Any]) -> Any:
        """What a command returns, or the refusal that it raises. Raises StoreError if the store failed.

        A command that fails otherwise is refused with status 500, and the shard on which it worked is set aside.
        """
        return self._keeper.carry_out(command, self)

    # Commands ------------------------------------------------------------------------------------------------------

    def configure(self, name: str, config: LoopConfig, expected: int | None) -> tuple[bool, Configuration]:
        """Create or change a loop; says whether it is new.

        `expected` is the version that the settings replace. Without it, a loop that exists must have these settings.
        """
        check_name("loop", name)
        try:
            check(config)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        parts = self._loops.get(name)
        if parts is not None and expected is None:
            if parts.config == config:
                return False, self.configuration(name)
            raise Refused(409, f"loop {name!r} exists with other settings; give its version, {parts.row.version}")
        model = None
        if parts is not None and parts.config.model_key == config.model_key:
            model = configured(parts.row).model
        version = self._put(name, expected or 0, config, model)
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

    def _put(self, name: str, expected: int, config: LoopConfig, model: bytes | None) -> int:
        """Store settings and the model with which the loop begins; returns their version."""
        event = Configured(self._clock(), 0, msgspec.json.encode(config), model)
        try:
            row = self.store.put_loop(name, expected, log.encode(event))
        except VersionConflict as error:
            raise Refused(409, f"loop {name!r}: expected version {expected}, found {error.version}") from error
        self._keeper.read_settings(name)
        self.adopt()
        return row.version

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        parts = self._parts(name)
        config = parts.config
        ids, features = split_arms(arms.arms)
        if (features is None) != (config.dim is None) or (features is not None and features.shape[1] != config.dim):
            got = None if features is None else features.shape[1]
            raise Refused(422, f"arms: the loop's dim is {config.dim}, got {got} features per arm")
        check_different(ids)
        body = None if features is None else features.tobytes()
        self.store.put_arms(parts.row.number, log.encode(Catalogued(self._clock(), 0, list(ids), body)))
        self._keeper.read_settings()
        self.adopt()
        return self.configuration(name)

    def look_up(self, name: str, ids: list[str]) -> None:
        """Read what the store knows about these decisions, all at once, before commands name them."""
        parts = self._loops.get(name)
        if parts is not None:
            parts.look_up(ids)

    def at_once(self, name: str) -> Commands:
        """Decisions and rewards of a loop, now; ids that requests name must have gone through `look_up`."""
        parts = self._parts(name)
        for loop in parts.here.values():
            loop.outbox.seal(_RUN)
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
            for loop in list(parts.here.values()):
                if loop.state.due.first <= now:
                    self._touched.add(loop)
                    self._keeper.guarded(loop, partial(advance, loop, now))

    def next_due(self) -> float:
        """When the next window closes, in milliseconds since 1970."""
        return min((loop.state.due.first for loop in self._keeper.here()), default=inf)

    def _parts(self, name: str) -> Parts:
        parts = self._loops.get(name)
        if parts is None:
            raise Refused(404, f"no loop {name[:200]!r}")
        return parts

    # Durability ----------------------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make everything queued durable; returns how many events that were. Raises StoreError if it failed.

        If too many events are after the last snapshots, the shard with the most such events gets a new snapshot: one
        per commit, so that no pause is long.
        """
        count, batch = gather(self._touched)
        if self._tells:  # about once per second
            here = [loop for loop in self._keeper.here() if loop.state.seq != loop.outbox.told_at]
            batch.tallies += [tell(loop) for loop in here]
            self._tells = False
        if batch:
            self.store.commit(batch)
        touched = list(self._touched)
        self._touched.clear()
        self._unsaved += count
        for loop in touched:
            committed(loop)
            served = self._loops[loop.name].here.get(loop.shard) is loop  # unless a command failed
            if served and not all(models.trim() for _, models in loop.learner.roles):
                self._save(loop)  # too few scopes are saved to free enough memory
        if self._keeper.to_save:
            for loop in set(self._keeper.to_save).intersection(self._keeper.here()):
                self._save(loop)
            self._keeper.to_save.clear()
        elif self._unsaved >= self._snapshot_every:
            self._save_most_behind()
        if self._keeper.read_aside():
            self.adopt()
        return count

    def _save_most_behind(self) -> None:
        """Save a snapshot of the shard with the most events after its last one, open decisions considered."""
        behind = {loop: loop.state.seq - loop.outbox.saved_at for loop in self._keeper.here()}
        self._unsaved = sum(behind.values())
        if self._unsaved < self._snapshot_every:
            return
        due = [loop for loop, events in behind.items() if events >= max(1, _OPEN_WEIGHT * loop.waiting)]
        if due:
            self._save(max(due, key=behind.__getitem__))
        else:
            self._unsaved -= self._snapshot_every // 10  # when to look again

    def _save(self, loop: Loop) -> None:
        behind = loop.state.seq - loop.outbox.saved_at
        failed = self._keeper.attempt(loop, partial(save, self.store, loop)) is not None
        self._unsaved = 0 if failed else self._unsaved - behind  # after a failure, not again soon
        for _, models in loop.learner.roles:
            models.trim()

    def snapshot(self) -> None:
        """Save a snapshot of every loop now; all queued events must have been committed."""
        for loop in self._keeper.here():
            self._save(loop)

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

    def tallies(self, name: str) -> list[Tally]:
        """What each shard of a loop has counted; of shards served elsewhere, as it was a second or two ago."""
        return self._tallies.of(self.number(name), self._parts(name).here)

    def check_scope(self, name: str, scope: str) -> None:
        """Refuse if the model of a scope is served by another process, or not read yet."""
        self._parts(name).of_scope(scope)

    def digest(self, name: str, *, whole_log: bool = False) -> str:
        """A hash of a loop's whole state; with `whole_log`, of the state after repeating the whole log.

        If the two differ, a snapshot or the recovery is wrong.
        """
        parts = self._parts(name)
        found = hashlib.sha256()
        for shard, part in sorted(parts.here.items()):
            if whole_log:
                source = Source(self.store, parts.row.number, shard)
                again = load_loop(source, parts.row, self._scopes_in_memory, whole_log=True)
                found.update(state_bytes(again))
            else:
                found.update(state_bytes(part, self.store))
        return found.hexdigest()
