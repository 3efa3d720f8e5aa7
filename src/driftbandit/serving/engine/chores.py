"""What the engine removes from the store beside its other work: deleted loops, erased scopes, old events."""

from __future__ import annotations

from collections.abc import Callable, Container

from driftbandit.serving.engine.erasing import Eraser
from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.removing import Sweeper
from driftbandit.serving.engine.retention import Pruner, Retention
from driftbandit.serving.engine.saving import Saver
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import Batch


class Chores:
    """Removes a little with each commit.

    Parameters
    ----------
    store, clock, keeper, saver :
        The engine's.
    retention : Retention or None
        How long events stay; None keeps them.
    background : bool
        Whether archives are written in a thread of their own.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        keeper: Keeper,
        saver: Saver,
        retention: Retention | None,
        background: bool,
    ) -> None:
        self._sweeper = Sweeper(store, clock)
        archive = None if retention is None else retention.archive
        self._eraser = Eraser(store, clock, keeper, saver, archive, background=background)
        self._pruner = Pruner(store, clock, keeper, retention, background=background)

    @property
    def busy(self) -> bool:
        """Whether the next commit has something to remove."""
        return self._sweeper.busy or (self._eraser.busy if self._eraser.erases else self._pruner.busy)

    def look(self, held: Container[int]) -> None:
        """See what is to be removed; called about once per second, with the shards that this process holds."""
        self._sweeper.look(held)
        # One after the other: no event may move to the archive while a scope is being erased.
        if not self._pruner.archiving:
            self._eraser.look()
        if not self._eraser.erases:
            self._pruner.look()

    def fill(self, batch: Batch) -> None:
        """Add a slice to a commit."""
        self._sweeper.fill(batch)
        self._eraser.fill(batch)
        if not self._eraser.erases:
            self._pruner.fill(batch)

    def settle(self) -> bool:
        """After a commit: take the next steps; says whether one logged an event, which must be committed at once."""
        return self._eraser.settle()
