"""Old events leave the store: into an archive, if there is one, and out of the log, a few rows with each commit.

Only events that nothing needs any more may go: those behind a snapshot, and before the oldest decision that is open or
that the store's index does not have yet. Closed decisions leave the index together with their events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.tasks import Task
from driftbandit.serving.loop.events import AnyEvent, Decided, Run, decode, unpack_run
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.removals import Pruned
from driftbandit.serving.stores.rows import Batch, LoopRow

logger = logging.getLogger("driftbandit")

_LOOK_MS = 60_000
"""How often to look for old events."""

_SLACK = 10
"""Events go once the oldest is older than it may be by one in so many parts: archives of many events are better."""

_RUNS = 50
_EVENTS = 2_000
"""Runs of events that go with one commit, at most, and about how many events: some milliseconds' work."""

_SHARDS = 20
"""Shards whose oldest events are looked at together."""


class Archive(Protocol):
    """Where old events go."""

    def upto(self, loop: int, shard: int) -> int:
        """Number of the last event that is archived; 0 if none is."""
        ...

    def write(self, open_reader: Callable[[], Store], row: LoopRow, shard: int, upto: int, before: int) -> int:
        """Archive the events up to a number that are older than a time; returns the number of the last one.

        Called from a thread of its own.
        """
        ...

    def read(self, loop: int, shard: int, upto: int) -> Iterator[AnyEvent]:
        """Events 1 to `upto`; raises ValueError if one of them is missing."""
        ...

    def ids_of(self, loop: int, shard: int, scope: str) -> list[str]:
        """Ids of the archived decisions of a scope."""
        ...

    def erase(self, loop: int, shard: int, scope: str, ids: Container[str], until: int) -> None:
        """Replace the events of a scope, whose decisions have these ids, by tombstones."""
        ...


@dataclass(frozen=True, slots=True)
class Retention:
    """How long events stay in the store.

    Attributes
    ----------
    keep : int
        Milliseconds.
    archive : Archive or None
        Where older events go; None drops them.
    """

    keep: int
    archive: Archive | None = None


class Pruner:
    """Removes old events from the shards that are served here, one shard after the other.

    Parameters
    ----------
    store : Store
        Where the events are.
    clock : callable
        Milliseconds since 1970.
    keeper : Keeper
        Knows which shards are served.
    retention : Retention or None
        How long events stay; None keeps them.
    background : bool
        Whether the archive is written in a thread of its own.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        keeper: Keeper,
        retention: Retention | None,
        *,
        background: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._retention = retention
        self._background = background
        self._next_look = 0
        self._shards: list[Loop] = []
        self._archiving: Task[int] | None = None
        self._upto = 0

    @property
    def busy(self) -> bool:
        """Whether the next commit has events to remove."""
        return self._upto > 0

    @property
    def archiving(self) -> bool:
        """Whether events are being archived."""
        return self._archiving is not None

    def look(self) -> None:
        """See whether events are too old, or have been archived; called about once per second."""
        if self._retention is None or self._upto:
            return
        if self._archiving is not None:
            task = self._archiving
            if not task.done:
                return
            if task.error is not None:
                logger.error("old events stay in the store, since they cannot be archived: %s", task.error)
            self._upto, self._archiving = task.result or 0, None
            if self._upto:
                return
            self._shards.pop(0)
        self._shards = [loop for loop in self._shards if self._keeper.serves(loop)]
        if not self._shards and self._clock() >= self._next_look:
            self._next_look = self._clock() + _LOOK_MS
            self._shards = self._keeper.here()
        for _ in range(_SHARDS):
            if not self._shards or self._begin(self._retention, self._shards[0]):
                return
            self._shards.pop(0)

    def _begin(self, retention: Retention, loop: Loop) -> bool:
        """Begin with a shard; False if none of its events may go."""
        oldest = self._store.whole_runs(loop.number, loop.shard, 0, 1)
        now, free = self._clock(), _free(loop)
        if not oldest or oldest[0].last > free or _time(oldest[0]) > now - retention.keep - retention.keep // _SLACK:
            return False
        before, archive = now - retention.keep, retention.archive
        if archive is None:
            self._upto = free
            return True
        row = self._keeper.parts(loop.name).row
        write = partial(archive.write, self._store.reader, row, loop.shard, free, before)
        self._archiving = Task(write, background=self._background)
        if not self._background:
            self.look()
        return True

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit."""
        if self._retention is None or not self._upto:
            return
        loop, upto = self._shards[0], 0
        ids: list[str] = []
        before = self._clock() - self._retention.keep
        if self._keeper.serves(loop):
            for run in self._store.whole_runs(loop.number, loop.shard, 0, _RUNS):
                if run.last > self._upto or len(ids) > _EVENTS or _time(run) > before:
                    break
                upto = run.last
                ids += [event.id for event in map(decode, unpack_run(run.bodies)) if isinstance(event, Decided)]
        if upto:
            batch.pruned.append(Pruned(loop.number, loop.shard, upto, ids))
        else:
            self._upto = 0
            self._shards.pop(0)


def _free(loop: Loop) -> int:
    """Number of the last event that nothing needs any more."""
    oldest = next(iter(loop.state.recent.values()), None)
    return min(loop.outbox.saved_at, loop.state.seq - 1, loop.state.seq if oldest is None else oldest.seq - 1)


def _time(run: Run) -> int:
    """When the last event of a run happened."""
    event: AnyEvent = decode(unpack_run(run.bodies)[-1])
    return event.time
