"""Old events leave the store: into an archive, if there is one, and out of the log, a few rows with each commit.

Only events that nothing needs any more may go: those behind a snapshot, and before the oldest decision that is open or
that the store's index does not have yet. Closed decisions leave the index together with their events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Protocol

from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.tasks import Task
from driftbandit.serving.loop.events import AnyEvent, Decided, Run, decode, unpack_run
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.stores.base import LATEST, Store
from driftbandit.serving.stores.removals import Pruned
from driftbandit.serving.stores.rows import Batch, LoopRow

logger = logging.getLogger("driftbandit")

_LOOK_MS = 60_000
"""How often to look for old events."""

_SLACK = 10
"""One in so many parts. Events go once the oldest is older than it may be by that; and where the log is too large,
until it is smaller than it may be by that. Archives of many events are better."""

_REST = 20
"""How much longer it is until the log's size is looked up again than it took, at least."""

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
    """Which events stay in the store.

    Attributes
    ----------
    keep : int or None
        For how many milliseconds; None for ever.
    archive : Archive or None
        Where older events go; None drops them.
    size : int or None
        How many bytes the events of all loops may have; None for as many as there are.
    """

    keep: int | None
    archive: Archive | None = None
    size: int | None = None


def surplus(store: Store, size: int, shards: Container[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Where the log is larger than it may be: the number of the last event that is to go, of some (loop, shard).

    Every shard of every loop loses the same share of its bytes, so processes need not ask each other.
    """
    sizes = store.log_sizes()
    total = sum(sizes.values())
    if total <= size:
        return {}
    share = 1.0 - (size - size // _SLACK) / total
    return {key: store.oldest(*key, ceil(share * found)) for key, found in sizes.items() if key in shards}


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
        self._upto = self._before = 0
        self._counting: Task[dict[tuple[int, int], int]] | None = None
        self._surplus: dict[tuple[int, int], int] = {}
        """Number of the last event that is to go since the log is too large, by loop and shard."""

    @property
    def busy(self) -> bool:
        """Whether the next commit has events to remove."""
        return self._upto > 0

    @property
    def archiving(self) -> bool:
        """Whether events are being archived."""
        return self._archiving is not None

    def look(self) -> None:
        """See whether events are too old or too many, or have been archived; called about once per second."""
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
        if not self._shards:
            self._look_again(self._retention)
        for _ in range(_SHARDS):
            if not self._shards or self._begin(self._retention, self._shards[0]):
                return
            self._shards.pop(0)

    def _look_again(self, retention: Retention) -> None:
        """Begin with all shards, if it is time; first the size of the log is looked up, if that matters."""
        if self._counting is None:
            if self._clock() < self._next_look:
                return
            self._next_look = self._clock() + _LOOK_MS
            if retention.size is not None:
                here = {(loop.number, loop.shard) for loop in self._keeper.here()}
                self._counting = Task(partial(self._count, retention.size, here), background=self._background)
        if self._counting is not None:
            if not self._counting.done:
                return
            if self._counting.error is not None:
                logger.error("the size of the log cannot be looked up: %s", self._counting.error)
            self._surplus, self._counting = self._counting.result or {}, None
        self._shards = self._keeper.here()

    def _count(self, size: int, here: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
        began = time.monotonic()
        reader = self._store.reader()
        try:
            return surplus(reader, size, here)
        finally:
            reader.close()
            self._next_look += int(_REST * 1000 * (time.monotonic() - began))

    def _begin(self, retention: Retention, loop: Loop) -> bool:
        """Begin with a shard; False if none of its events may go."""
        oldest = self._store.whole_runs(loop.number, loop.shard, 0, 1)
        now, upto, keep = self._clock(), _free(loop), retention.keep
        if not oldest or oldest[0].last > upto:
            return False
        too_many = self._surplus.pop((loop.number, loop.shard), 0)
        if too_many >= oldest[0].last:
            upto, self._before = min(upto, too_many), LATEST
        elif keep is not None and _time(oldest[0]) <= now - keep - keep // _SLACK:
            self._before = now - keep
        else:
            return False
        archive = retention.archive
        if archive is None:
            self._upto = upto
            return True
        row = self._keeper.parts(loop.name).row
        write = partial(archive.write, self._store.reader, row, loop.shard, upto, self._before)
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
        if self._keeper.serves(loop):
            for run in self._store.whole_runs(loop.number, loop.shard, 0, _RUNS):
                if run.last > self._upto or len(ids) > _EVENTS or _time(run) > self._before:
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
