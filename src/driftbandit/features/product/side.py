"""One side of the product: all columns of the context, or all columns of an arm, behind a constant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.features.columns.base import Column, Rows
from driftbandit.features.columns.numbers import Number, block
from driftbandit.features.hashing import key_of

_CACHED = 4096
"""So many encoded records are kept, since the same arms come again and again."""


_FEW = 30
"""Up to so many records are faster one by one than column by column."""


class Side:
    """Turns records into rows of slots; see `kernel` for the layout.

    Attributes
    ----------
    what : str
        'context' or 'arms', for messages and hashes.
    columns : tuple of Column
        The user's columns, all ready for use.
    labels : tuple of str
        Names of all columns; that of the first, the constant, is empty.
    names : tuple of str
        Names of the user's columns.
    table : array of shape (width, 4)
        Group, place, key and width of the group of every column.
    """

    def __init__(self, what: str, columns: Sequence[Column], shared: frozenset[str] = frozenset()) -> None:
        self.what = what
        self.columns = tuple(columns)
        prefix = "context." if what == "context" else "arm."
        labels, table = [""], [[0, 0, key_of(f"{what}:"), 1]]
        offsets = []
        for group, column in enumerate(self.columns, 1):
            offsets.append(len(labels))
            own = column.labels
            table += [[group, place, key_of(f"{what}:{label}"), len(own)] for place, label in enumerate(own)]
            labels += [prefix + label if column.name in shared else label for label in own]
        self.labels = tuple(labels)
        self.table: Ints = np.array(table, dtype=np.int64)
        # Numbers come first in a row, because they are encoded together.
        order = sorted(zip(self.columns, offsets, strict=True), key=lambda one: not isinstance(one[0], Number))
        self._readers = [(column.name, column.reader(offset)) for column, offset in order]
        numbers = [(column, offset) for column, offset in order if isinstance(column, Number)]
        self._numbers = [column.name for column, _ in numbers]
        self._block = block([column for column, _ in numbers], [offset for _, offset in numbers])
        self._batches = [(column.name, column.batch(offset)) for column, offset in order[len(numbers) :]]
        self.names = tuple(column.name for column in self.columns)
        self._key: Callable[[Any], Any] = itemgetter(*self.names) if self.names else lambda record: ()
        self._cache: dict[Any, int] = {}
        self._filled = 0  # rows below, one for every record in the cache
        self._index: Ints = np.zeros((0, 1), dtype=np.int64)
        self._value: Floats = np.zeros((0, 1))

    def __len__(self) -> int:
        return len(self.labels)

    def row(self, record: Mapping[str, Any]) -> Rows:
        """One record, as arrays of shape (1, slots)."""
        index, value = self._slots(record if type(record) is dict else self._checked(record))
        return np.array([index], dtype=np.int64), np.array([value], dtype=np.float64)

    def rows(self, columns: Mapping[str, Sequence[Any]], count: int) -> Rows:
        """Many records, given as columns; a column that is absent is missing throughout."""
        absent = [None] * count
        given = {name: columns.get(name, absent) for name in self.names}
        for name, values in given.items():
            if len(values) != count:
                raise ValueError(f"{self.what}: {name}: expected {count} values, got {len(values)}")
        rows = [(np.zeros((count, 1), dtype=np.int64), np.ones((count, 1)))]
        try:
            if self._numbers:
                rows.append(self._block([given[name] for name in self._numbers]))
            rows += [encode(given[name]) for name, encode in self._batches]
        except ValueError as error:
            raise ValueError(f"{self.what}: {error}") from error
        return np.concatenate([index for index, _ in rows], axis=1), np.concatenate(
            [value for _, value in rows], axis=1
        )

    def places(self, records: Sequence[Mapping[str, Any]]) -> tuple[Ints, Floats, Ints]:
        """Cached rows, and where among them the records are."""
        try:
            keys = list(map(self._key, records))
            found = list(map(self._cache.get, keys))
        except (KeyError, TypeError):  # absent columns; lists, sets and arrays, which cannot be looked up
            keys = [tuple(_frozen(record.get(name)) for name in self.names) for record in map(self._checked, records)]
            found = list(map(self._cache.get, keys))
        if None in found:
            new = [k for k, place in enumerate(found) if place is None]
            if len(new) > _CACHED:
                return (*self._rows_of(records), np.arange(len(records)))
            if self._filled + len(new) > _CACHED:
                self._forget()
                return self.places(records)
            start = self._keep([records[k] for k in new])
            for place, k in enumerate(new, start):
                self._cache[keys[k]] = found[k] = place
        return self._index, self._value, np.array(found, dtype=np.int64)

    def _slots(self, record: Mapping[str, Any]) -> tuple[list[int], list[float]]:
        index, value = [0], [1.0]
        try:
            for name, read in self._readers:
                columns, numbers = read(record.get(name))
                index += columns
                value += numbers
        except ValueError as error:
            raise ValueError(f"{self.what}: {error}") from error
        return index, value

    def _rows_of(self, records: Sequence[Mapping[str, Any]]) -> Rows:
        """Rows of records, by whichever way is faster; both give the same numbers."""
        if len(records) > _FEW:
            return self.rows({name: [record.get(name) for record in records] for name in self.names}, len(records))
        found = [self._slots(record) for record in records]
        slots = max(len(index) for index, _ in found)
        indices: list[int] = []  # flat, because nested lists take longer to become arrays
        values: list[float] = []
        for index, value in found:
            pad = slots - len(index)
            indices += index + [0] * pad if pad else index
            values += value + [0.0] * pad if pad else value
        return np.array(indices).reshape(-1, slots), np.array(values).reshape(-1, slots)

    def _keep(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Add the rows of records to those that are kept; returns where the first of them is."""
        index, value = self._rows_of(records)
        (rows, slots), wide = self._index.shape, index.shape[1]
        start, end = self._filled, self._filled + len(records)
        if end > rows or wide > slots:
            shape = (max(rows, min(max(2 * start, end), _CACHED)), max(slots, wide))
            self._index, self._value = _grown(self._index, shape), _grown(self._value, shape)
        self._index[start:end, :wide] = index
        self._value[start:end, :wide] = value
        self._filled = end
        return start

    def _forget(self) -> None:
        self._cache.clear()
        self._filled = 0
        self._index, self._value = np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1))

    def _checked(self, record: Any) -> Mapping[str, Any]:
        if not isinstance(record, Mapping):
            raise ValueError(f"{self.what}: expected a dictionary of columns, got {record!r:.60}")
        return record


def _grown(array: Any, shape: tuple[int, int]) -> Any:
    larger = np.zeros(shape, dtype=array.dtype)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger


def _frozen(part: Any) -> Any:
    """A value that can be looked up, unlike a list."""
    if isinstance(part, np.ndarray):
        return part.shape, part.dtype.str, part.tobytes() if part.dtype != object else repr(part)
    if isinstance(part, list | tuple):
        return tuple(map(_frozen, part))
    if isinstance(part, set):
        return frozenset(part)
    return part if isinstance(part, Hashable) else repr(part)
