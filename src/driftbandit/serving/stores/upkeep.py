"""Looking after a store: how much is in it, and what takes the room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftbandit.serving.stores.base import SizeRow

Query = Callable[..., list[Any]]
"""Runs a statement with its values and returns the rows."""

_SIZES = {
    "events": ("events", "sum(last - first + 1)", "length(bodies)"),
    "models": ("states", "count(*)", "length(state) + length(scope)"),
    "snapshots": ("snapshots", "count(*)", "length(core)"),
    "closed": ("closed", "count(*)", "length(id) + 16"),
    "changes": ("changes", "count(*)", "length(body) + length(scope)"),
}
"""Table, number of rows and bytes of a row for each kind of data; numbers beside it are not counted."""


def sizes(query: Query) -> list[SizeRow]:
    """How many rows and bytes each loop has, by kind."""
    names = dict(query("SELECT number, name FROM loops"))
    found = []
    for kind, (table, rows, size) in _SIZES.items():
        for loop, count, total in query(f"SELECT loop, {rows}, sum({size}) FROM {table} GROUP BY loop"):
            found.append(SizeRow(names.get(loop, f"(unknown loop {loop})"), kind, int(count), int(total)))
    return sorted(found, key=lambda row: (row.loop, list(_SIZES).index(row.kind)))
