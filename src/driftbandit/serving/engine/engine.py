"""The decision engine: all loops of a store, durable commits, and recovery. It has no HTTP, no thread and no clock.

Commands change memory and queue events; `commit` makes them durable. Only then may their answers leave the process. An
engine whose commit failed must `recover` before it does anything else. If a command fails unexpectedly, only the shards
it worked on are dropped: their log is committed as it was before the command, and they are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from driftbandit.serving.engine.administration import Administration
from driftbandit.serving.engine.chores import Chores
from driftbandit.serving.engine.commands import Answers, Commands
from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.loading import Loader
from driftbandit.serving.engine.messages import (
    Arms,
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    RewardRequest,
)
from driftbandit.serving.engine.reading import digest
from driftbandit.serving.engine.retention import Retention
from driftbandit.serving.engine.saving import Saver
from driftbandit.serving.engine.storage import committed, gather, load_whole
from driftbandit.serving.engine.tallies import Tallies, Tally, tell
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Room
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import Batch

_RUN = 100
"""Least number of events encoded together: few enough to be still in the processor's cache."""
_CLOSED = 1_000
"""About how many windows close with one event."""


class Engine:
    """All loops of a store.

    Parameters
    ----------
    store : Store
        Where the log lives.
    clock : callable
        Milliseconds since 1970.
    snapshot_every : int
        How many events, of all loops together, may be after the last snapshots; see `Saver`.
    memory : int
        Bytes that models and open decisions may take; models used long ago are left to the store.
    ready : callable, optional
        Says whether settings may come into force. If not, the next `refresh` asks again.
    background : bool
        Whether shards are read in a thread of their own. Then `adopt` must be called from time to time, and commands
        for shards that are not read yet are refused with status 503.
    wake : callable, optional
        Called, from that thread, when there is something to adopt.
    retention : Retention, optional
        How long events stay in the store; by default for ever.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        *,
        snapshot_every: int = 100_000,
        memory: int = 1 << 62,
        ready: Callable[[LoopConfig], bool] = lambda config: True,
        background: bool = False,
        wake: Callable[[], None] = lambda: None,
        retention: Retention | None = None,
    ) -> None:
        self.store = store
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._room = Room(memory)
        self._retention = retention
        self._background = background
        archive = None if retention is None else retention.archive
        self._history = None if archive is None else archive.read
        loader = Loader(store, self._room, background, wake, self._history)
        self._keeper = Keeper(store, clock, loader, ready)
        self._admin = Administration(store, clock, self._keeper)
        self._loops = self._keeper.loops
        self._touched = self._keeper.touched
        self._held: int | None = None
        self._start()

    # Recovery and shards -------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Forget everything in memory and start from what the store has."""
        self.store.reopen()
        self._start()

    def _start(self) -> None:
        self._answers = Answers()
        self._saver = Saver(self.store, self._room, self._snapshot_every, self._keeper)
        self._chores = Chores(
            self.store, self._clock, self._keeper, self._saver, self._retention, background=self._background
        )
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
        self._chores.look(self.held)
        self._tells = True
        if any(len(parts.here) < self.store.shards for parts in self._loops.values()):
            self._tallies.read()

    def adopt(self) -> bool:
        """Serve the shards that have been read meanwhile; says whether there were any."""
        found = self._keeper.adopt()
        self._saver.adopt(found)
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

    def configure(
        self, name: str, config: LoopConfig, expected: int | None, arms: Arms | None = None
    ) -> tuple[bool, Configuration]:
        """Create or change a loop; says whether it is new. See `Administration.configure`."""
        new, found = self._admin.configure(name, config, expected, arms)
        self.adopt()
        return new, found

    def put_model(self, name: str, file: bytes) -> Configuration:
        """Let all models of a loop start afresh, each as a copy of the policy in a file."""
        found = self._admin.put_model(name, file)
        self.adopt()
        return found

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        found = self._admin.put_arms(name, arms)
        self.adopt()
        return found

    def delete(self, name: str, who: str) -> None:
        """Delete a loop, asked for by a key; its data goes out of the store with the next commits."""
        self._admin.delete(name, who)
        self._chores.look(self.held)

    def erase(self, name: str, scope: str, who: str) -> str:
        """Erase a scope, asked for by a key, with the next commits; returns the hash that the record keeps."""
        found = self._admin.erase(name, scope, who)
        self._chores.look(self.held)
        return found

    def look_up(self, name: str, ids: list[str]) -> None:
        """Read what the store knows about these decisions, all at once, before commands name them."""
        parts = self._loops.get(name)
        if parts is not None:
            parts.look_up(ids)

    def at_once(self, name: str) -> Commands:
        """Decisions and rewards of a loop, now; ids that requests name must have gone through `look_up`."""
        parts = self._keeper.parts(name)
        for loop in parts.here.values():
            loop.outbox.seal(_RUN)
        return Commands(parts, self._clock() if self._held is None else self._held, self._answers)

    def decide(self, name: str, request: DecisionRequest) -> tuple[bool, Decision]:
        """Choose an arm; see `Commands.decide`."""
        return self.at_once(name).decide(request)

    def reward(self, name: str, decision_id: str, request: RewardRequest) -> bool:
        """Take a reward; see `Commands.reward`."""
        return self.at_once(name).reward(decision_id, request)

    def tick(self, most: float = inf, *, hold: bool = False) -> None:
        """Close the windows that are due, so few at a time that their models fit into memory.

        Of each loop only about `most` are closed, and always some. If more are due, the loop's time stays behind, so
        that nobody waits for all of them, and no reward is late because it waited. With `hold`, decisions and rewards
        until the next commit happen at this time; otherwise a long turn would make more windows due, and be longer.
        """
        now = self._clock()
        for parts in self._loops.values():
            for loop in list(parts.here.values()):
                loop.behind = 0
                if loop.state.due.first <= loop.time_at(now):
                    self._touched.add(loop)
                    self._keeper.guarded(loop, partial(self._close_due, loop, now, most))
        self._held = now if hold else None

    def _close_due(self, loop: Loop, now: int, most: float) -> None:
        state, latest = loop.state, loop.time_at(now)
        closed = 0
        while state.due.first <= latest:
            if closed >= most:
                loop.behind = latest - state.time
                break
            some = state.due.time_of(_CLOSED)
            until = latest if some is None else max(state.time, min(latest, some))
            loop.outbox.events.append(loop.close(until))
            closed += _CLOSED
            if state.due.first <= latest:
                self.commit()
                self._touched.add(loop)

    def until_due(self) -> float:
        """Seconds until the next window is due."""
        now = self._clock()
        late = (loop.state.due.first - loop.time_at(now) - loop.behind for loop in self._keeper.here())
        return min(late, default=inf) / 1000.0

    def behind(self) -> float:
        """Seconds by which the time of some loop is behind the clock, at most."""
        return max((loop.behind for loop in self._keeper.here()), default=0) / 1000.0

    def ahead(self) -> float:
        """Seconds by which the time of some loop is ahead of the clock, at most."""
        return max((loop.ahead for loop in self._keeper.here()), default=0) / 1000.0

    # Durability ----------------------------------------------------------------------------------------------------

    def commit(self) -> int:
        """Make everything queued durable; returns how many events that were. Raises StoreError if it failed.

        A slice of a snapshot may go with it; see `Saver`.
        """
        self._held = None
        count, batch = gather(self._touched)
        if self._tells:  # about once per second
            here = [loop for loop in self._keeper.here() if loop.state.seq != loop.outbox.told_at]
            batch.tallies += [tell(loop) for loop in here]
            self._tells = False
        self._saver.fill(batch)
        self._chores.fill(batch)
        if batch:
            self.store.commit(batch)
        touched = list(self._touched)
        self._touched.clear()
        for loop in touched:
            committed(loop)
        self._saver.settle([loop for loop in touched if self._keeper.serves(loop)], count)
        if self._room.full and self._saver.busy:
            relief = Batch()
            self._saver.fill(relief)
            self.store.commit(relief)
            self._saver.settle([], 0)
        if self._keeper.read_aside():
            self.adopt()
        if self._chores.settle():
            count += self.commit()
        return count

    @property
    def memory(self) -> int:
        """Bytes that models and open decisions take, about."""
        return self._room.used

    @property
    def busy(self) -> bool:
        """Whether the next commit has something to write even if nothing happens."""
        return self._saver.busy or self._chores.busy

    @property
    def rest(self) -> float:
        """Seconds until that commit, if `busy`."""
        return 0.0 if self._chores.busy else self._saver.rest

    def snapshot(self, seconds: float = inf) -> bool:
        """Save a snapshot of every loop now, if there is time for it; says whether there was."""
        until = time.monotonic() + seconds
        self._saver.demand(loop for loop in self._keeper.here() if loop.state.seq > loop.outbox.saved_at)
        while self._saver.busy:
            if time.monotonic() > until:
                return False
            self._saver.hurry()
            self.commit()
        return True

    # Looking ---------------------------------------------------------------------------------------------------------

    def configuration(self, name: str) -> Configuration:
        """The settings of a loop, and their version."""
        return self._admin.configuration(name)

    def names(self) -> list[str]:
        """Names of all loops."""
        return sorted(self._loops)

    def number(self, name: str) -> int:
        """The number of a loop in the store."""
        return self._keeper.parts(name).row.number

    def parts(self, name: str) -> list[Loop]:
        """The shards of a loop that are served here."""
        return list(self._keeper.parts(name).here.values())

    def tallies(self, name: str) -> list[Tally]:
        """What each shard of a loop has counted; of shards served elsewhere, as it was a second or two ago."""
        return self._tallies.of(self.number(name), self._keeper.parts(name).here)

    def check_scope(self, name: str, scope: str) -> None:
        """Refuse if the model of a scope is served by another process, or not read yet."""
        self._keeper.parts(name).of_scope(scope)

    def digest(self, name: str, *, whole_log: bool = False) -> str:
        """A hash of a loop's whole state; with `whole_log`, of the state after repeating the whole log.

        If the two differ, a snapshot or the recovery is wrong.
        """
        parts = self._keeper.parts(name)
        here = [part for _, part in sorted(parts.here.items())]
        if whole_log:
            return digest([load_whole(self.store, parts.row, part.shard, self._history) for part in here], None)
        return digest(here, self.store)
