"""Snapshots and crowded memory: models go to the store a few at a time, along with commits, so that nobody waits.

A snapshot is everything a loop knew after one event. It begins at once (`Models.freeze`), and is written in slices:
first the models, then the rest, which makes it count. Until then the store keeps what the snapshot before it needs.

When memory is full, models that changed are written as well, and forgotten: they are read again when they are needed.
After a crash the log repeats what happened since the last snapshot, so models that were written since do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Models, Room
from driftbandit.serving.stores.base import Batch, Closed, ModelRow, Outdated, Snapshot, Store

_SLICE = 1 << 20
"""About how many bytes of models go into a commit: some milliseconds' work."""

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
        The least number of a loop's events between snapshots.
    """

    def __init__(self, store: Store, room: Room, every: int) -> None:
        self._store = store
        self._room = room
        self._every = every
        self._shot: _Shot | None = None
        self._sizes: dict[Loop, int] = {}
        self._sweeps: list[tuple[Loop, int, int]] = []
        room.used, room.stuck = 0, False

    @property
    def busy(self) -> bool:
        """Whether there is more to write."""
        return self._shot is not None or bool(self._sweeps) or (self._room.excess > 0 and not self._room.stuck)

    def forget(self, loop: Loop) -> None:
        """Stop caring about a loop that this process no longer serves."""
        self._room.used -= self._sizes.pop(loop, 0)
        self._sweeps = [sweep for sweep in self._sweeps if sweep[0] is not loop]
        if self._shot is not None and self._shot.loop is loop:
            self._shot = None

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit, which must have all events until now."""
        if self._shot is not None:
            self._fill_shot(batch, self._shot)
        if self._room.excess:
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
            shot.written = True

    def _spill(self, batch: Batch) -> None:
        left = _SPILL
        for loop in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            for role, models in loop.learner.roles:
                if left <= 0:
                    return
                left -= _add(batch, loop, (role, loop.state.epochs[role]), loop.state.seq, models.spill(left))

    def _sweep(self, batch: Batch) -> None:
        """Delete some models of earlier epochs."""
        loop, role, epoch = self._sweeps[-1]
        scopes = self._store.outdated(loop.number, loop.shard, role, epoch, _SWEPT)
        if scopes:
            batch.outdated.append(Outdated(loop.number, loop.shard, role, epoch, scopes))
        else:
            self._sweeps.pop()

    def settle(self, touched: Iterable[Loop]) -> None:
        """After a commit: free memory, finish the snapshot, and begin another if one is due."""
        for loop in touched:
            size = loop.nbytes
            self._room.used += size - self._sizes.get(loop, 0)
            self._sizes[loop] = size
        if self._room.excess:
            self._trim()
        self._room.stuck = self._room.full and not any(
            models.unsaved for loop in self._sizes for _, models in loop.learner.roles
        )
        shot = self._shot
        if shot is not None and shot.written:
            shot.loop.forget_closed()
            shot.loop.outbox.saved_at = shot.seq
            self._sweeps += [(shot.loop, role, epoch) for role, epoch, _ in shot.roles if epoch > 1]
            self._shot = None
        if self._shot is None:
            for loop in touched:
                if loop.state.seq - loop.outbox.saved_at >= max(self._every, _OPEN_WEIGHT * loop.waiting):
                    self.begin(loop)
                    break

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

    def begin(self, loop: Loop) -> None:
        """Begin a snapshot of a loop, whose events must have been committed."""
        state = loop.state
        roles = [(role, state.epochs[role], models) for role, models in loop.learner.roles]
        for _, _, models in roles:
            models.freeze()
        self._shot = _Shot(loop, state.seq, state.shot(), roles)


def relieve(store: Store, loop: Loop, room: Room) -> None:
    """Leave the models of a loop that is being read to the store if they take more memory than there is."""
    if loop.nbytes > room.limit:
        for role, models in loop.learner.roles:
            while taken := models.spill(_SPILL):
                batch = Batch()
                _add(batch, loop, (role, loop.state.epochs[role]), loop.state.seq, taken)
                store.commit(batch)
            models.trim(room.limit)


def _add(batch: Batch, loop: Loop, which: tuple[int, int], seq: int, taken: list[tuple[str, bytes]]) -> int:
    """Add models to a batch; returns their bytes."""
    role, epoch = which
    saved = loop.outbox.saved_at
    batch.models += [ModelRow(loop.number, loop.shard, role, epoch, scope, seq, data, saved) for scope, data in taken]
    return sum(len(data) for _, data in taken)
