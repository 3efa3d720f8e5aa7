"""The models of a loop, one per scope: as policy objects, packed in memory, or in the store.

A policy's state is a handful of arrays. Packed, it is a header (names, types, shapes) and the arrays' bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.policies.scoped.per_scope import SavedPolicy

EVERYONE = ""
"""The scope of a loop's only model."""

MAIN, SHADOW = 0, 1
"""Roles of models: those that decide, and those of the shadow policy."""

HOT = 1024
"""How many scopes are kept as policy objects."""

_CHUNK_BYTES = 1 << 20
_ROW_BITS = 40


def pack(state: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a state as bytes.

    >>> unpack(pack({"a": np.arange(2), "b": np.array(0.5)}))
    {'a': array([0, 1]), 'b': array(0.5)}
    """
    header = json.dumps([[name, array.dtype.str, array.shape] for name, array in state.items()]).encode()
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

    def __len__(self) -> int:
        return len(self._places)

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


class _Rows:
    """Rows of equal length in chunks of about a megabyte."""

    def __init__(self, header: bytes, width: int) -> None:
        self.header = header
        self.width = width
        self.free: list[int] = []
        self.used = 0
        self._rows = max(1, _CHUNK_BYTES // max(width, 1))
        self._chunks: list[NDArray[np.uint8]] = []

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


class Models:
    """One policy per scope, made when the scope is first met.

    The scopes used last are policy objects, others are packed in memory, and the rest is in the store. A policy moves
    between these without changing a bit.

    Parameters
    ----------
    build : callable
        Makes a fresh policy.
    load : callable
        Reads the packed state of a scope from the store; returns None if the store has none.
    limit : int
        How many scopes to keep in memory; `trim` leaves the scopes used longest ago to the store.
    hot : int
        How many scopes to keep as policy objects.
    begin : bytes, optional
        The packed state with which every scope begins; by default, that of a fresh policy.

    Attributes
    ----------
    example : SavedPolicy
        A fresh policy that is never used; all policies here have its traits.
    fresh : bytes
        The packed state with which every scope begins.
    """

    def __init__(
        self,
        build: Callable[[], SavedPolicy],
        load: Callable[[str], bytes | None],
        limit: int,
        hot: int = HOT,
        *,
        begin: bytes | None = None,
    ) -> None:
        self._build = build
        self._load = load
        self._limit = limit
        self._hot_limit = hot
        self.example = build()
        self._begin = begin
        self.fresh = begin or pack(self.example.state())
        self._hot: dict[str, SavedPolicy] = {}
        self._slab = Slab()
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._hot) + len(self._slab)

    def get(self, scope: str) -> SavedPolicy:
        """The policy of a scope, which becomes the one used last."""
        policy = self._hot.get(scope)
        if policy is None:
            return self._bring(scope)
        if len(self._hot) > 1:
            self._hot[scope] = self._hot.pop(scope)
        return policy

    def peek(self, scope: str) -> SavedPolicy | None:
        """The policy of a scope, for reading only; None if the scope was never met and does not begin with a model."""
        policy = self._hot.get(scope)
        begin = self._begin if scope == EVERYONE else None
        if policy is None and (data := self._slab.get(scope) or self._load(scope) or begin) is not None:
            policy = self._build().restore(unpack(data))
        return policy

    def mark(self, scope: str) -> None:
        """Note that the policy of a scope changed, so that the next snapshot includes it."""
        self._changed.add(scope)

    def _bring(self, scope: str) -> SavedPolicy:
        data = self._slab.get(scope) or self._load(scope) or self.fresh
        if len(self._hot) >= self._hot_limit:
            oldest = next(iter(self._hot))
            policy = self._hot.pop(oldest)
            self._slab.put(oldest, pack(policy.state()))
        else:
            policy = self._build()
        self._slab.drop(scope)
        policy.restore(unpack(data))
        self._hot[scope] = policy
        return policy

    def packed(self, scope: str) -> bytes | None:
        """The state of a scope as bytes, wherever it is; None if it was never met."""
        if scope in self._hot:
            return pack(self._hot[scope].state())
        return self._slab.get(scope) or self._load(scope)

    def scopes(self) -> Iterator[str]:
        """The scopes in memory."""
        yield from self._hot
        yield from self._slab

    def changed(self) -> list[tuple[str, bytes]]:
        """Packed states of all scopes that changed since the last `saved`."""
        return [(scope, self.packed(scope) or b"") for scope in sorted(self._changed)]

    def saved(self) -> None:
        """Note that the store has what `changed` returned."""
        self._changed.clear()

    def trim(self) -> bool:
        """Forget saved scopes down to the limit, the one used longest ago first; False if too few are saved."""
        excess = len(self) - self._limit
        if excess <= 0:
            return True
        # Some more than needed, so that not every batch has to trim.
        excess += self._limit // 10
        clean: list[str] = []
        for scope in self._slab:
            if len(clean) == excess:
                break
            if scope not in self._changed:
                clean.append(scope)
        for scope in clean:
            self._slab.drop(scope)
        return len(self) <= max(self._limit, self._hot_limit)
