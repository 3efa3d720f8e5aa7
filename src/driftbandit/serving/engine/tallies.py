"""What shards have counted, kept in the store, so that every process knows the totals of all."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from driftbandit.evaluation.anytime import RunningValue
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.state import Counts
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import TallyRow


class Tally(msgspec.Struct, array_like=True, frozen=True):
    """What one shard of a loop has counted, for processes that do not serve it.

    Attributes
    ----------
    counts : Counts
        What happened so far.
    waiting : int
        How many decisions are open.
    scopes : int
        How many scopes are in memory.
    shadow_value : RunningValue
        What the shadow would have earned.
    """

    counts: Counts
    waiting: int
    scopes: int
    shadow_value: RunningValue

    @classmethod
    def of(cls, loop: Loop) -> Tally:
        """What a shard has counted until now."""
        return cls(loop.counts, loop.waiting, len(loop.models), loop.state.shadow_value)


_read = msgspec.msgpack.Decoder(Tally).decode


def tell(loop: Loop) -> TallyRow:
    """A shard's tally, for the store; the loop remembers that it was told."""
    loop.outbox.told_at = loop.state.seq
    return TallyRow(loop.number, loop.shard, msgspec.msgpack.encode(Tally.of(loop)))


class Tallies:
    """The tallies of all loops: live ones of the shards served here, and of other shards what the store has.

    Parameters
    ----------
    store : Store
        Where the processes leave their tallies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: dict[tuple[int, int], Tally] = {}

    def read(self) -> None:
        """Read what the store has."""
        self._stored = {(row.loop, row.shard): _read(row.body) for row in self._store.tallies()}

    def of(self, number: int, here: Mapping[int, Loop]) -> list[Tally]:
        """The tally of each shard of a loop, of which some are here."""
        found = [Tally.of(loop) for loop in here.values()]
        for shard in range(self._store.shards):
            tally = self._stored.get((number, shard))
            if tally is not None and shard not in here:
                found.append(tally)
        return found
