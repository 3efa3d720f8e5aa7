"""What is left of deleted loops goes out of the store a few rows at a time, with commits, so that nobody waits."""

from __future__ import annotations

from collections.abc import Callable, Container

from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.removals import Swept
from driftbandit.serving.stores.rows import Batch

_SWEEPER = 0
"""The process that holds this shard sweeps."""

_SETTLED_MS = 60_000
"""How long after its deletion a loop may still get rows: from a process that has not noticed yet."""


class Sweeper:
    """Removes the rows of deleted loops.

    Parameters
    ----------
    store : Store
        Where they are.
    clock : callable
        Milliseconds since 1970.
    """

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._loops: list[int] = []
        self._finished: list[int] = []

    def look(self, held: Container[int]) -> None:
        """Ask the store which deleted loops have rows left, if this process holds the shard that is needed.

        To be called about once per second.
        """
        self._loops, self._finished = [], []
        if _SWEEPER not in held:
            return
        for row in [row for row in self._store.removals(pending=True) if row.scope_hash is None]:
            if self._store.has_rows(row.loop):
                self._loops.append(row.loop)
            elif self._clock() - row.time >= _SETTLED_MS:
                self._finished.append(row.loop)

    @property
    def busy(self) -> bool:
        """Whether there is more to remove."""
        return bool(self._loops)

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit."""
        batch.swept += [Swept(loop, _SWEEPER, self._clock()) for loop in self._finished]
        self._finished = []
        if self._loops and self._store.has_rows(self._loops[-1]):
            batch.swept.append(Swept(self._loops[-1], _SWEEPER, None))
        elif self._loops:
            self._loops.pop()
