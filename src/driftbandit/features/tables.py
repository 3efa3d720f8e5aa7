"""Records in any of the forms in which people keep them, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Columns = dict[str, Sequence[Any]]


def columns_of(table: Any, what: str, names: Sequence[str] | None = None) -> tuple[Columns, int]:
    """The columns of a table, and its number of rows.

    Parameters
    ----------
    table : records, mapping, DataFrame or Arrow table
        A list of dictionaries, a dictionary of lists or arrays, or a table of pandas, Polars or Arrow.
    what : str
        What the table is called in messages.
    names : sequence of str, optional
        The columns to take, all by default. A column that is absent is left out.

    Examples
    --------
    >>> columns_of([{"a": 1}, {"a": 2, "b": "x"}], "sample")
    ({'a': [1, 2], 'b': [None, 'x']}, 2)
    """
    if isinstance(table, Mapping):
        found = {name: table[name] for name in table if names is None or name in names}
        for name, column in table.items():
            if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
                raise ValueError(f"{what}: {name}: expected a list or an array, got {column!r:.60}")
        counts = {len(column) for column in table.values()} if table else {0}
        if len(counts) > 1:
            raise ValueError(f"{what}: expected columns of one length, got lengths {sorted(counts)}")
        return {name: _as_sequence(column) for name, column in found.items()}, counts.pop()
    header = getattr(table, "column_names", None)  # Arrow
    if header is None:
        header = getattr(table, "columns", None)  # pandas, Polars
    if header is not None:
        present = [name for name in header if names is None or name in names]
        return {name: _as_sequence(table[name]) for name in present}, len(table)
    records = _records(table, what)
    present = list(dict.fromkeys(name for record in records for name in record)) if names is None else list(names)
    return {name: [record.get(name) for record in records] for name in present}, len(records)


def _records(table: Any, what: str) -> list[Mapping[str, Any]]:
    if isinstance(table, str | bytes) or not hasattr(table, "__iter__"):
        raise ValueError(f"{what}: expected records, columns or a table, got {table!r:.60}")
    records = list(table)
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise ValueError(f"{what}: expected dictionaries, got {record!r:.60} at row {row}")
    return records


def _as_sequence(column: Any) -> Sequence[Any]:
    if isinstance(column, list | tuple | np.ndarray):
        return column  # type: ignore[return-value]
    for method in ("to_pylist", "to_list", "tolist"):  # Arrow, Polars and pandas, the rest
        if hasattr(column, method):
            values: Sequence[Any] = getattr(column, method)()
            return values
    return list(column)
