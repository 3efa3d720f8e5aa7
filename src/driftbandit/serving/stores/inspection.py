"""Reading everything in a store, to find what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from driftbandit.serving.loop.events import decode
from driftbandit.serving.loop.slab import unpack
from driftbandit.serving.loop.state import State
from driftbandit.serving.stores.base import LATEST, Damaged
from driftbandit.serving.stores.runs import bodies_after
from driftbandit.serving.stores.upkeep import Query

if TYPE_CHECKING:
    from driftbandit.serving.stores.sql import SQLStore

_RUNS = 100
"""Runs of events that are read at a time, at most."""

_THERE = "loop NOT IN (SELECT loop FROM removals WHERE scope_hash IS NULL)"
"""Loops that were not deleted: of the others, some rows are gone and some are still to go."""


def damage(store: SQLStore, query: Query) -> Iterator[str]:
    """Look at everything, and say what is not what was written, a line each."""
    for loop, shard in query(f"SELECT DISTINCT loop, shard FROM events WHERE {_THERE} ORDER BY 1, 2"):
        yield from _damaged_log(store, loop, shard)
    for loop, shard, saved in query(f"SELECT loop, shard, seq FROM snapshots WHERE {_THERE} ORDER BY 1, 2"):
        yield from _damaged_snapshot(store, loop, shard)
        models = query("SELECT DISTINCT role, epoch, scope FROM states WHERE loop = ? AND shard = ?", loop, shard)
        for role, epoch, scope in models:
            # The one that the snapshot needs, and the one that the next snapshot will have.
            found = [_damaged_model(store, loop, shard, role, epoch, scope, upto) for upto in (saved, LATEST)]
            yield from dict.fromkeys(line for line in found if line is not None)


def _damaged_log(store: SQLStore, loop: int, shard: int) -> Iterator[str]:
    last = store.pruned(loop, shard)
    while runs := [run for run in store.runs(loop, shard, last, _RUNS) if run[1] > last]:
        for run in runs:
            place = store.place(loop, shard)
            if run[0] != last + 1:
                yield f"{place}: events {last + 1} to {run[0] - 1} are missing"
            last = run[1]
            try:
                events = [decode(body) for _, body in bodies_after([store.checked(loop, shard, *run)], 0, run[1])]
                if len(events) != run[1] - run[0] + 1:
                    yield f"{place}: events {run[0]} to {run[1]}: found {len(events)} of them"
            except Damaged as damaged:
                yield str(damaged)
            except ValueError as error:
                yield f"{place}: events {run[0]} to {run[1]}: {error}"


def _damaged_snapshot(store: SQLStore, loop: int, shard: int) -> Iterator[str]:
    try:
        found = store.snapshot(loop, shard)
        if found is not None:
            state = State()
            state.restore(found[1])
            if not found[0] == state.seq <= store.last(loop, shard):
                yield f"{store.place(loop, shard)}: a snapshot at event {state.seq}, which the log does not have"
    except Damaged as damaged:
        yield str(damaged)
    except ValueError as error:
        yield f"{store.place(loop, shard)}: the snapshot: {error}"


def _damaged_model(store: SQLStore, loop: int, shard: int, role: int, epoch: int, scope: str, upto: int) -> str | None:
    try:
        packed = store.model(loop, shard, role, epoch, scope, upto)
        if packed is not None:
            unpack(packed)
    except Damaged as damaged:
        return str(damaged)
    except (ValueError, TypeError) as error:
        return f"{store.place(loop, shard)}: the model of scope {scope!r}: {error}"
    return None
