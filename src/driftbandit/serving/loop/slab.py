"""Packed states of policies, side by side in a few large arrays.

A policy's state is a handful of arrays. Packed, it is a header (names, types, shapes) and the arrays' bytes. The zeros
that end a long line of a table are left out: a young policy has lines for models that do not live yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK_BYTES = 1 << 20
_ROW_BITS = 40
_LONG = 64  # numbers of a line from which on zeros at its end are left out


def pack(state: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a state as bytes.

    >>> unpack(pack({"a": np.arange(2), "b": np.array(0.5)}))
    {'a': array([0, 1]), 'b': array(0.5)}
    """
    header, parts = [], []
    for name, array in state.items():
        if array.ndim == 2 and array.shape[1] >= _LONG and array.dtype == np.float64:
            lengths = _lengths(array)
            header.append([name, array.dtype.str, array.shape, lengths])
            parts += [line[:length].tobytes() for line, length in zip(array, lengths, strict=True)]
        else:
            header.append([name, array.dtype.str, array.shape])
            parts.append(array.tobytes())
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def _lengths(table: NDArray[Any]) -> list[int]:
    """How long each line is without the zeros that end it; -0.0 is no zero."""
    filled = np.ascontiguousarray(table).view(np.int64)[:, ::-1] != 0
    lengths: list[int] = np.where(filled.any(axis=1), table.shape[1] - filled.argmax(axis=1), 0).tolist()
    return lengths


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Read what `pack` wrote, also before zeros were left out."""
    end = 4 + int.from_bytes(data[:4], "little")
    state: dict[str, NDArray[Any]] = {}
    for name, kind, shape, *lengths in json.loads(data[4:end]):
        dtype = np.dtype(kind)
        count = sum(lengths[0]) if lengths else int(np.prod(shape, dtype=np.int64))
        numbers = np.frombuffer(data, dtype, count, end)
        end += count * dtype.itemsize
        state[name] = _filled_up(numbers, shape, lengths[0]) if lengths else numbers.reshape(shape)
    return state


def _filled_up(numbers: NDArray[Any], shape: list[int], lengths: list[int]) -> NDArray[Any]:
    """A table whose lines begin with so many of the numbers and end with zeros."""
    table = np.zeros(shape, numbers.dtype)
    first = 0
    for line, length in zip(table, lengths, strict=True):
        line[:length] = numbers[first : first + length]
        first += length
    return table


class Slab:
    """Packed states by scope, in order of arrival, side by side in a few large arrays.

    States of equal shape have equal headers: the slab keeps the header once, and the rest as rows of one array. So a
    scope costs its numbers and an entry of a dictionary, not a dozen objects.

    >>> slab = Slab()
    >>> slab.put("ann", pack({"a": np.arange(3)}))
    >>> unpack(slab.get("ann"))["a"].tolist(), len(slab)
    ([0, 1, 2], 1)
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._kinds: list[_Rows] = []
        self._numbers: dict[bytes, int] = {}
        self.nbytes = 0
        """Bytes of the states that are kept."""

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, scope: str) -> bool:
        return scope in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def put(self, scope: str, data: bytes) -> None:
        """Keep a packed state."""
        self.drop(scope)
        end = 4 + int.from_bytes(data[:4], "little")
        header = data[:end]
        number = self._numbers.setdefault(header, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(_Rows(header, len(data) - end))
        self._places[scope] = number << _ROW_BITS | self._kinds[number].add(data[end:])
        self.nbytes += len(data) - end

    def get(self, scope: str) -> bytes | None:
        """The packed state of a scope, or None."""
        place = self._places.get(scope)
        if place is None:
            return None
        return self._kinds[place >> _ROW_BITS].read(place & ((1 << _ROW_BITS) - 1))

    def size(self, scope: str) -> int:
        """Bytes of the state of a scope; 0 if it is not there."""
        place = self._places.get(scope)
        return 0 if place is None else self._kinds[place >> _ROW_BITS].width

    def drop(self, scope: str) -> None:
        """Forget a scope, if it is there."""
        place = self._places.pop(scope, None)
        if place is not None:
            rows = self._kinds[place >> _ROW_BITS]
            rows.drop(place & ((1 << _ROW_BITS) - 1))
            self.nbytes -= rows.width


class _Rows:
    """Rows of equal length in chunks of about a megabyte."""

    def __init__(self, header: bytes, width: int) -> None:
        self.header = header
        self.width = width
        self._free: list[int] = []
        self._used = 0
        self._rows = max(1, _CHUNK_BYTES // max(width, 1))
        self._chunks: list[NDArray[np.uint8]] = []

    def add(self, data: bytes) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self._used
            self._used += 1
            if row == len(self._chunks) * self._rows:
                self._chunks.append(np.empty((self._rows, self.width), dtype=np.uint8))
        self._chunks[row // self._rows][row % self._rows] = np.frombuffer(data, dtype=np.uint8)
        return row

    def drop(self, row: int) -> None:
        self._free.append(row)
        if len(self._free) == self._used:  # policies grow, and all have come to another kind
            self._chunks, self._free, self._used = [], [], 0

    def read(self, row: int) -> bytes:
        data: bytes = self._chunks[row // self._rows][row % self._rows].tobytes()
        return self.header + data
