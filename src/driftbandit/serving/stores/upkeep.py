"""Looking after a store: how much is in it, and removing deleted loops and erased scopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftbandit.serving.stores.removals import Blotted, Finished, Forgotten, Pruned, Swept
from driftbandit.serving.stores.rows import Batch, SizeRow
from driftbandit.serving.stores.runs import checksum

Query = Callable[..., list[Any]]
"""Runs a statement with its values and returns the rows."""

Many = Callable[[str, Sequence[Sequence[Any]]], None]
"""Runs a statement once per row of values."""

_SIZES = {
    "events": ("events", "sum(last - first + 1)", "length(bodies)"),
    "models": ("states", "count(*)", "length(state) + length(scope)"),
    "snapshots": ("snapshots", "count(*)", "length(core)"),
    "closed": ("closed", "count(*)", "length(id) + 16"),
    "changes": ("changes", "count(*)", "length(body) + length(scope)"),
}
"""Table, number of rows and bytes of a row for each kind of data; numbers beside it are not counted."""

_KEYS = {
    "events": ("shard, first", 100),
    "states": ("shard, role, epoch, scope, seq", 100),
    "snapshots": ("shard", 10),
    "closed": ("id", 2_000),
    "changes": ("shard, number", 1_000),
    "tallies": ("shard", 100),
    "pruned": ("shard", 100),
}
"""What names a row of a loop in each table, and how many rows go with one commit: some milliseconds' work."""


def sizes(query: Query) -> list[SizeRow]:
    """How many rows and bytes each loop has, by kind."""
    names = dict(query("SELECT number, name FROM loops"))
    found = []
    for kind, (table, rows, size) in _SIZES.items():
        for loop, count, total in query(f"SELECT loop, {rows}, sum({size}) FROM {table} GROUP BY loop"):
            found.append(SizeRow(names.get(loop, f"(unknown loop {loop})"), kind, int(count), int(total)))
    return sorted(found, key=lambda row: (row.loop, list(_SIZES).index(row.kind)))


def has_rows(query: Query, loop: int) -> bool:
    """Whether there is any data of a loop."""
    return any(query(f"SELECT 1 FROM {table} WHERE loop = ? LIMIT 1", loop) for table in _KEYS)


def record(many: Many, rows: Sequence[Sequence[Any]]) -> None:
    """Record removals: loop, shard, name, scope, hash of the scope, who, time."""
    columns = "loop, shard, name, scope, scope_hash, who, time"
    many(f"INSERT INTO removals ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def remove(query: Query, many: Many, batch: Batch) -> None:
    """Remove what a batch says."""
    for swept in batch.swept:
        _sweep(query, swept)
    for forgotten in batch.forgotten:
        _forget(query, forgotten)
    for blotted in batch.blotted:
        _blot(many, blotted)
    for finished in batch.finished:
        _finish(query, finished)
    for pruned in batch.pruned:
        _prune(query, pruned)
    given: list[Blotted | Pruned] = [*batch.blotted, *batch.pruned]
    ids = [(each.loop, decision_id, each.shard) for each in given for decision_id in each.ids]
    many("DELETE FROM closed WHERE loop = ? AND id = ? AND shard = ?", ids)


def _sweep(query: Query, swept: Swept) -> None:
    """Delete some rows of a loop, of the first table that has any; or note that they are all gone."""
    if swept.done is not None:
        query(
            "UPDATE removals SET done = ?, scope = NULL WHERE loop = ? AND done IS NULL RETURNING loop",
            *(swept.done, swept.loop),
        )
        return
    for table, (key, most) in _KEYS.items():
        some = f"SELECT {key} FROM {table} WHERE loop = ? LIMIT {most}"
        delete = f"DELETE FROM {table} WHERE loop = ? AND ({key}) IN ({some}) RETURNING loop"
        if query(delete, swept.loop, swept.loop):
            return


def _forget(query: Query, gone: Forgotten) -> None:
    for role, epoch in enumerate(gone.epochs):
        query(
            "DELETE FROM states WHERE loop = ? AND shard = ? AND role = ? AND epoch = ? AND scope = ? RETURNING loop",
            *(gone.loop, gone.shard, role, epoch, gone.scope),
        )


def _blot(many: Many, blotted: Blotted) -> None:
    rows = [(run.bodies, checksum(run.bodies, *run[:4]), *run[:3]) for run in blotted.runs]
    many("UPDATE events SET bodies = ?, crc = ? WHERE loop = ? AND shard = ? AND first = ?", rows)


def _prune(query: Query, pruned: Pruned) -> None:
    query(
        "DELETE FROM events WHERE loop = ? AND shard = ? AND first <= ? AND last <= ? RETURNING loop",
        *(pruned.loop, pruned.shard, pruned.upto, pruned.upto),
    )
    query(
        "INSERT INTO pruned VALUES (?, ?, ?) ON CONFLICT (loop, shard) DO UPDATE SET upto = excluded.upto "
        "RETURNING loop",
        *(pruned.loop, pruned.shard, pruned.upto),
    )


def _finish(query: Query, finished: Finished) -> None:
    where = "WHERE loop = ? AND shard = ? AND scope = ? RETURNING loop"
    for table in ("states", "changes"):
        query(f"DELETE FROM {table} {where}", finished.loop, finished.shard, finished.scope)
    query("UPDATE removals SET done = ?, scope = NULL WHERE number = ? RETURNING loop", finished.time, finished.number)
