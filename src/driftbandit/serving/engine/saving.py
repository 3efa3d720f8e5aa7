"""Snapshots and crowded memory: models go to the store a few at a time, along with commits, so that nobody waits.

A snapshot is everything a loop knew after one event. It begins at once (`Models.freeze`), and is written in slices:
first the models, then the rest, which makes it count. Until then the store keeps what the snapshot before it needs.

When memory is full, models that changed are written as well, and forgotten: they are read again when they are needed.
After a crash the log repeats what happened since the last snapshot, so models that were written since do not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.tallies import tell
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Models, Room
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import Batch, Closed, ModelRow, Outdated, Snapshot

_SLICE = 256 << 10
"""About how many bytes of models go into a commit: a few milliseconds' work."""

_REST = 3.0
"""After a commit with a slice, how many times as long commits go without: a snapshot takes a quarter of the time."""

_SPILL = 8 << 20
"""The same while memory is full."""

_SWEPT = 100
"""Scopes whose outdated models go with one commit."""

_OPEN_WEIGHT = 4
"""Least number of events between snapshots, per open decision: a snapshot holds all open decisions."""


@dataclass(slots=True)
class _Shot:
    """A snapshot under way."""

    loop: Loop
    seq: int
    core: bytes
    roles: list[tuple[int, int, Models]]
    written: bool = False


class Saver:
    """Decides what to write besides events, and when.

    Parameters
    ----------
    store : Store
        Where it goes.
    room : Room
        How much memory there is.
    every : int
        How many events, of all loops together, may be after the last snapshots. Beyond that, the shard with the most
        such events gets a new snapshot.
    keeper : Keeper
        Knows which loops are served, and which need a new snapshot because theirs is damaged.
    """

    def __init__(self, store: Store, room: Room, every: int, keeper: Keeper) -> None:
        self._store = store
        self._room = room
        self._every = every
        self._keeper = keeper
        self._unsaved = 0
        self._crowded = False
        self._shot: _Shot | None = None
        self._began: float | None = None
        self._rests_until = 0.0
        self._sizes: dict[Loop, int] = {}
        self._sweeps: list[tuple[Loop, int, int]] = []
        room.used, room.stuck = 0, False

    @property
    def busy(self) -> bool:
        """Whether there is more to write."""
        return self._shot is not None or bool(self._keeper.to_save or self._sweeps) or self._crowded

    @property
    def rest(self) -> float:
        """Seconds until there is more to write, if `busy`."""
        waits = self._shot is not None and not (self._keeper.to_save or self._sweeps or self._crowded)
        return max(0.0, self._rests_until - time.monotonic()) if waits else 0.0

    def adopt(self, loops: Iterable[Loop]) -> None:
        """Count the events of loops that have just been read, and forget those that went."""
        self._forget_lost()
        self._unsaved += sum(loop.state.seq - loop.outbox.saved_at for loop in loops)

    def hurry(self) -> None:
        """Write the next slice without a rest."""
        self._rests_until = 0.0

    def demand(self, loops: Iterable[Loop]) -> None:
        """Let these loops have snapshots, one after the other."""
        self._keeper.to_save += loops

    def _forget_lost(self) -> None:
        """Stop caring about loops that this process no longer serves, or whose memory may be ahead of their log."""
        for loop in [loop for loop in self._sizes if not self._keeper.serves(loop)]:
            self._room.used -= self._sizes.pop(loop)
        self._sweeps = [sweep for sweep in self._sweeps if self._keeper.serves(sweep[0])]
        if self._shot is not None and not self._keeper.serves(self._shot.loop):
            self._shot = None

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit, which must have all events until now."""
        if not self.busy:
            return
        self._forget_lost()
        shot, now = self._shot, time.monotonic()
        if shot is not None and (self._crowded or now >= self._rests_until):
            self._began = now
            if self._keeper.attempt(shot.loop, partial(self._fill_shot, batch, shot)) is not None:
                self._give_up()
        if self._crowded:
            self._spill(batch)
        if self._sweeps:
            self._sweep(batch)

    def _fill_shot(self, batch: Batch, shot: _Shot) -> None:
        loop, left = shot.loop, _SLICE
        for role, epoch, models in shot.roles:
            if left > 0:
                left -= _add(batch, loop, (role, epoch), shot.seq, models.take(left))
        if left > 0:
            batch.closed.append(Closed(loop.number, loop.shard, loop.outbox.closed))
            batch.snapshots.append(Snapshot(loop.number, loop.shard, shot.seq, shot.core))
            batch.tallies.append(tell(loop))
            shot.written = True

    def _spill(self, batch: Batch) -> None:
        for loop in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            self._keeper.attempt(loop, partial(self._spill_from, loop, batch))

    @staticmethod
    def _spill_from(loop: Loop, batch: Batch) -> None:
        for role, models in loop.learner.roles:
            left = _SPILL - sum(len(row.state) for row in batch.models)
            if left > 0:
                _add(batch, loop, (role, loop.state.epochs[role]), loop.state.seq, models.spill(left))

    def _sweep(self, batch: Batch) -> None:
        """Delete some models of earlier epochs."""
        loop, role, epoch = self._sweeps[-1]
        scopes = self._store.outdated(loop.number, loop.shard, role, epoch, _SWEPT)
        if scopes:
            batch.outdated.append(Outdated(loop.number, loop.shard, role, epoch, scopes))
        else:
            self._sweeps.pop()

    def settle(self, touched: Iterable[Loop], count: int) -> None:
        """After a commit of so many events: free memory, finish the snapshot, and begin another if one is due."""
        self._unsaved += count
        if self._began is not None:
            now = time.monotonic()
            self._rests_until, self._began = now + _REST * (now - self._began), None
        for loop in touched:
            size = loop.nbytes
            self._room.used += size - self._sizes.get(loop, 0)
            self._sizes[loop] = size
        if self._room.excess:
            self._trim()
        self._crowded = self._room.excess > 0 and any(
            models.unsaved for loop in self._sizes for _, models in loop.learner.roles
        )
        self._room.stuck = self._room.full and not self._crowded
        shot = self._shot
        if shot is not None and shot.written:
            shot.loop.forget_closed()
            self._unsaved -= shot.seq - shot.loop.outbox.saved_at
            shot.loop.outbox.saved_at = shot.seq
            self._sweeps += [(shot.loop, role, epoch) for role, epoch, _ in shot.roles if epoch > 1]
            self._shot = None
        if self._shot is None:
            self._begin_next()

    def _begin_next(self) -> None:
        demanded = self._keeper.to_save
        while demanded:
            loop = demanded.pop(0)
            if self._keeper.serves(loop):
                self.begin(loop)
                return
        if self._unsaved >= self._every:
            self._begin_most_behind()

    def _begin_most_behind(self) -> None:
        """Begin a snapshot of the shard with the most events after its last one, open decisions considered."""
        behind = {loop: loop.state.seq - loop.outbox.saved_at for loop in self._keeper.here()}
        self._unsaved = sum(behind.values())
        due = [loop for loop, events in behind.items() if events >= max(1, _OPEN_WEIGHT * loop.waiting)]
        if self._unsaved < self._every:
            return
        if due:
            self.begin(max(due, key=behind.__getitem__))
        else:
            self._unsaved -= self._every // 10  # when to look again

    def _trim(self) -> None:
        """Forget what the store has, in the largest loops first."""
        for loop in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            for _, models in loop.learner.roles:
                models.trim(self._room.excess + self._room.limit // 20)
            size = loop.nbytes
            self._room.used += size - self._sizes[loop]
            self._sizes[loop] = size
            if not self._room.excess:
                return

    def _give_up(self) -> None:
        """Leave a snapshot that cannot be made; the one before still counts, and the log has what came after."""
        self._shot = None
        self._unsaved = 0  # not again soon

    def begin(self, loop: Loop) -> None:
        """Begin a snapshot of a loop, whose events must have been committed."""
        if self._keeper.attempt(loop, partial(self._begin, loop)) is not None:
            self._give_up()

    def _begin(self, loop: Loop) -> None:
        state = loop.state
        roles = [(role, state.epochs[role], models) for role, models in loop.learner.roles]
        for _, _, models in roles:
            models.freeze()
        self._shot = _Shot(loop, state.seq, state.shot(), roles)


def _add(batch: Batch, loop: Loop, which: tuple[int, int], seq: int, taken: list[tuple[str, bytes]]) -> int:
    """Add models to a batch; returns their bytes."""
    role, epoch = which
    saved = loop.outbox.saved_at
    batch.models += [ModelRow(loop.number, loop.shard, role, epoch, scope, seq, data, saved) for scope, data in taken]
    return sum(len(data) for _, data in taken)
