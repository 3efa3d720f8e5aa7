"""Policy states as bytes, many of them side by side in flat arrays.

A state is a handful of arrays; packed, it is a header (names, types, shapes) and the arrays' bytes. States of equal
shape have equal headers, so the arena keeps the header once and the rest as rows of one array: a scope costs its
numbers and a dictionary entry, not a dozen objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK_BYTES = 1 << 20
_ROW_BITS = 40


def header_of(state: Mapping[str, NDArray[Any]]) -> bytes:
    """Names, types and shapes of a state's arrays, as JSON."""
    return json.dumps([[name, array.dtype.str, array.shape] for name, array in state.items()]).encode()


def pack(state: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a state as bytes.

    >>> unpack(pack({"a": np.arange(2), "b": np.array(0.5)}))
    {'a': array([0, 1]), 'b': array(0.5)}
    """
    header = header_of(state)
    return b"".join([len(header).to_bytes(4, "little"), header, *(array.tobytes() for array in state.values())])


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Read what `pack` wrote."""
    end = 4 + int.from_bytes(data[:4], "little")
    state: dict[str, NDArray[Any]] = {}
    for name, kind, shape in json.loads(data[4:end]):
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        state[name] = np.frombuffer(data, dtype, count, end).reshape(shape)
        end += count * dtype.itemsize
    return state


class Arena:
    """Packed states by scope, in order of arrival.

    >>> arena = Arena()
    >>> arena.put("ann", pack({"a": np.arange(3)}))
    >>> unpack(arena.take("ann"))["a"].tolist(), "ann" in arena
    ([0, 1, 2], False)
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._kinds: list[_Rows] = []
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, scope: str) -> bool:
        return scope in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, unused rows included; the dictionary of scopes comes on top."""
        return sum(kind.nbytes for kind in self._kinds)

    def put(self, scope: str, data: bytes) -> None:
        """Keep a packed state."""
        self.drop(scope)
        end = 4 + int.from_bytes(data[:4], "little")
        header = data[:end]
        number = self._numbers.setdefault(header, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(_Rows(header, len(data) - end))
        self._places[scope] = number << _ROW_BITS | self._kinds[number].add(data[end:])

    def get(self, scope: str) -> bytes | None:
        """The packed state of a scope, or None."""
        place = self._places.get(scope)
        if place is None:
            return None
        return self._kinds[place >> _ROW_BITS].read(place & ((1 << _ROW_BITS) - 1))

    def drop(self, scope: str) -> None:
        """Forget a scope, if it is there."""
        place = self._places.pop(scope, None)
        if place is not None:
            self._kinds[place >> _ROW_BITS].free.append(place & ((1 << _ROW_BITS) - 1))

    def take(self, scope: str) -> bytes:
        """Remove a scope and return its packed state."""
        data = self.get(scope)
        if data is None:
            raise KeyError(scope)
        self.drop(scope)
        return data


class _Rows:
    """Rows of equal length in chunks of about a megabyte."""

    def __init__(self, header: bytes, width: int) -> None:
        self.header = header
        self.width = width
        self.free: list[int] = []
        self.used = 0
        self._rows = max(1, _CHUNK_BYTES // max(width, 1))
        self._chunks: list[NDArray[np.uint8]] = []

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    def add(self, data: bytes) -> int:
        if self.free:
            row = self.free.pop()
        else:
            row = self.used
            self.used += 1
            if row == len(self._chunks) * self._rows:
                self._chunks.append(np.empty((self._rows, self.width), dtype=np.uint8))
        self._chunks[row // self._rows][row % self._rows] = np.frombuffer(data, dtype=np.uint8)
        return row

    def read(self, row: int) -> bytes:
        data: bytes = self._chunks[row // self._rows][row % self._rows].tobytes()
        return self.header + data
