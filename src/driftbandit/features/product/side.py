"""One side of the product: all columns of the context, or all columns of an arm, behind a constant."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.features.columns.base import Column, Rows
from driftbandit.features.columns.numbers import Number, block
from driftbandit.features.hashing import key_of
from driftbandit.features.product.quick import Quick

_CACHED = 4096
"""So many encoded records are kept, since the same arms come again and again."""

_PATIENCE, _PROBE = 64, 16
"""After so many pools in a row of which no record was cached, only every so many-th pool is looked up and kept."""


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
        self._quick = Quick(order) if Quick.fits(self.columns) else None
        self.names = tuple(column.name for column in self.columns)
        self._order = tuple(name for name, _ in self._readers)
        self._key: Callable[[Any], Any] = itemgetter(*self._order) if self._order else lambda record: ()
        self._cache: dict[Any, int] = {}
        self._strangers = 0  # pools in a row of which no record was cached
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
        """Rows, of which some are cached, and where among them the records are."""
        quick = self._quick is not None
        try:
            keys = list(map(self._key, records))
            if quick and self._strangers >= _PATIENCE and self._strangers % _PROBE and keys:
                self._strangers += 1
                shape = len(keys), len(self._order) + 1
                index, value = np.empty(shape, dtype=np.int64), np.empty(shape)
                if self._write(keys, index, value):
                    return index, value, np.arange(len(keys))
            found = list(map(self._cache.get, keys))
        except (KeyError, TypeError):  # absent columns; lists, sets and arrays, which cannot be looked up
            quick = False
            keys = [tuple(_frozen(record.get(name)) for name in self._order) for record in map(self._checked, records)]
            found = list(map(self._cache.get, keys))
        if None not in found:
            self._strangers = 0
            return self._index, self._value, np.array(found, dtype=np.int64)
        new = [k for k, place in enumerate(found) if place is None]
        self._strangers = self._strangers + 1 if len(new) == len(keys) else 0
        if len(new) > _CACHED:
            return (*self._rows_of(records), np.arange(len(records)))
        if self._filled + len(new) > _CACHED:
            self._forget()
            return self.places(records)
        start = self._filled
        unknown = keys if len(new) == len(keys) else [keys[k] for k in new]
        if not (quick and self._keep_quickly(unknown)):
            self._keep(*self._rows_of([records[k] for k in new]))
        self._cache.update(zip(unknown, range(start, self._filled), strict=True))
        for place, k in enumerate(new, start):
            found[k] = place
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

    def _keep(self, index: Ints, value: Floats) -> None:
        """Add rows to those that are kept."""
        wide = index.shape[1]
        start, end = self._room(len(index), wide)
        self._index[start:end, :wide] = index
        self._value[start:end, :wide] = value
        self._filled = end

    def _keep_quickly(self, keys: list[Any]) -> bool:
        """Add the rows of records, given by their keys, if `Quick` can; returns whether it could."""
        start, end = self._room(len(keys), len(self._order) + 1)
        written = self._write(keys, self._index[start:end], self._value[start:end])
        if written:
            self._filled = end
        return written

    def _write(self, keys: list[Any], index: Ints, value: Floats) -> bool:
        """Write the rows of records, given by their keys, if `Quick` can; returns whether it could."""
        assert self._quick is not None
        values = list(chain.from_iterable(keys)) if len(self._order) > 1 else keys
        try:
            return self._quick.write(values, index, value)
        except ValueError as error:
            raise ValueError(f"{self.what}: {error}") from error

    def _room(self, count: int, wide: int) -> tuple[int, int]:
        """Make room for so many more rows; returns where they begin and end."""
        rows, slots = self._index.shape
        start, end = self._filled, self._filled + count
        if end > rows or wide > slots:
            shape = (max(rows, min(max(2 * start, end), _CACHED)), max(slots, wide))
            self._index, self._value = _grown(self._index, shape), _grown(self._value, shape)
        return start, end

    def _forget(self) -> None:
        self._cache.clear()
        self._filled = 0
        self._value[:] = 0.0  # rows to come may be shorter than those that were here

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
