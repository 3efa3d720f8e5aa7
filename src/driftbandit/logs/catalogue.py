"""The arms of a log: ids, what is known about each, and when each could be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from driftbandit.core import Floats, Ints
from driftbandit.logs import arrow
from driftbandit.logs.columns import INDEX, ITEM_ROLES, find


class Names:
    """Names in the order in which they first appeared.

    >>> import pyarrow as pa
    >>> seen = Names()
    >>> seen.rows_of(pa.array(["b", "a", None, "b"])).tolist(), seen.ids
    ([0, 1, -1, 0], ['b', 'a'])
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def row_of(self, name: str) -> int:
        """Number of a name; an unknown one gets the next number."""
        row = self._rows.setdefault(name, len(self.ids))
        if row == len(self.ids):
            self.ids.append(name)
        return row

    def rows_of(self, names: Any) -> Ints:
        """Number of each name of an Arrow array of strings, -1 where it is null; unknown ones get the next numbers."""
        coded = names.dictionary_encode()
        found = [self.row_of(name) for name in coded.dictionary.to_pylist()]
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        answer: Ints = np.array([*found, -1], dtype=np.int64)[codes]
        return answer


class Catalogue(Names):
    """Arms by row number. It begins with the item table; arms that are not in the table are added as they appear.

    Ids are compared as text: 7 and '7' are one arm.

    Attributes
    ----------
    ids : list of str
        Id of each row.
    known : int
        How many rows came from the item table; these come first.

    Examples
    --------
    >>> import pyarrow as pa
    >>> items = Catalogue.of(pa.table({"id": ["tea", "cup"], "price": [3.0, 8.0], "from": [0, 5]}), {}, "items")
    >>> items.rows_of(pa.array(["cup", "pot"])).tolist(), items.ids
    ([1, 2], ['tea', 'cup', 'pot'])
    >>> {name: list(map(float, values)) for name, values in items.columns().items()}
    {'price': [3.0, 8.0, nan]}
    >>> members, sizes = items.alive(np.array([1.0, 6.0]))
    >>> members.tolist(), sizes.tolist()
    ([0, 0, 1], [1, 2])
    """

    def __init__(self) -> None:
        super().__init__()
        self.known = 0
        self._table: dict[str, Any] = {}
        self._facts: dict[int, Mapping[str, Any]] = {}
        self._from: Floats = np.empty(0)
        self._until: Floats = np.empty(0)
        self._columns: tuple[tuple[int, int], dict[str, Any]] | None = None

    @classmethod
    def of(cls, table: Any, given: Mapping[str, str], where: str) -> Catalogue:
        """Make the catalogue of an item table (Arrow).

        Raises
        ------
        ValueError
            If an id is missing or comes twice, or an end of life is no time.
        """
        names = [name for name in table.column_names if not name.startswith(INDEX)]
        roles = find(given, names, ITEM_ROLES, where)
        if "id" not in roles:
            raise ValueError(f"{where}: no column for the id of an item; the columns are {', '.join(names)}")
        ids = arrow.texts(arrow.whole(table[roles["id"]]))[0].to_pylist()
        if not ids or None in ids:
            raise ValueError(f"{where}: no items" if not ids else f"{where}: no id in row {ids.index(None) + 1}")
        self = cls()
        self._rows = {name: row for row, name in enumerate(ids)}
        if len(self._rows) < len(ids):
            twice = next(name for row, name in enumerate(ids) if self._rows[name] != row)
            raise ValueError(f"{where}: expected different ids, got {twice!r} twice")
        self.ids, self.known = ids, len(ids)
        self._table = {
            name: arrow.values(arrow.guessed(arrow.whole(table[name]))) for name in names if name not in roles.values()
        }
        self._from = _ends(table, roles.get("from"), -np.inf, where)
        self._until = _ends(table, roles.get("until"), np.inf, where)
        return self

    def describe(self, arm: str, facts: Mapping[str, Any]) -> bool:
        """Remember what a log says about an arm; False if it said something else before, which stays."""
        return self._facts.setdefault(self.row_of(arm), facts) == facts

    def alive(self, times: Floats) -> tuple[Ints, Ints]:
        """Rows of all items alive at each time, one pool after the other, and the sizes of the pools.

        An item lives from its `from` to before its `until`. Arms that are not in the item table are never alive.
        """
        breaks = np.unique(np.concatenate([self._from, self._until]))  # between two of them no pool changes
        part, which = np.unique(np.searchsorted(breaks, times, side="right"), return_inverse=True)
        began = np.append(-np.inf, breaks)[part]
        pools = [np.flatnonzero((self._from <= time) & (time < self._until)) for time in began.tolist()]
        sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        members = np.concatenate([*pools, np.empty(0, dtype=np.int64)])
        return members[spans(starts[which], sizes[which])], sizes[which]

    def columns(self) -> dict[str, Any]:
        """What is known about the arms, by column, one value per row; the id itself if nothing else is known."""
        size = len(self.ids), len(self._facts)
        if self._columns is None or self._columns[0] != size:
            self._columns = size, self._make_columns()
        return self._columns[1]

    def _make_columns(self) -> dict[str, Any]:
        more = len(self.ids) - self.known
        made: dict[str, Any] = {}
        for name, values in self._table.items():
            if isinstance(values, np.ndarray) and values.dtype == np.float64:
                made[name] = np.append(values, np.full(more, np.nan))
            else:
                made[name] = [*values, *[None] * more]
        names = list(dict.fromkeys(name for facts in self._facts.values() for name in facts))
        for name in names:
            column = list(made.get(name, [None] * len(self.ids)))
            for row, facts in self._facts.items():
                if row >= self.known or name not in self._table:
                    column[row] = facts.get(name)
            made[name] = column
        return made or {"id": list(self.ids)}


def spans(starts: Ints, sizes: Ints) -> Ints:
    """Numbers from each start on, as many as its size says.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(sizes) - sizes
    numbers: Ints = np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
    return numbers


def _ends(table: Any, name: str | None, otherwise: float, where: str) -> Floats:
    """Times at which items come or go; items without a time are there from the start, or stay."""
    if name is None:
        return np.full(table.num_rows, otherwise)
    times, bad = arrow.seconds(arrow.whole(table[name]))
    if bad.any():
        raise ValueError(f"{where}: expected a time in column {name!r}, got something else in row {bad.argmax() + 1}")
    return np.where(np.isnan(times), otherwise, times)
