"""Which decisions came twice, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbandit.kernels.compile import jit
from driftbandit.logs.arrow import Mask

Hashes = NDArray[np.uint64]

_FIRST_SLOTS = 1 << 16
REMEMBERED = 1 << 23
"""Ids that are surely remembered; beyond twice as many, the oldest half is forgotten."""


class Seen:
    """Remembers ids by a 64-bit hash: at least the last 8 million, in at most 256 MB.

    Two different ids share a hash with a chance of about 1 in 100,000 for a log of 16 million.

    Examples
    --------
    >>> seen = Seen()
    >>> seen.again(pa.array(["a", "b", "a"])).tolist(), seen.again(pa.array(["c", "b"])).tolist()
    ([False, False, True], [False, True])
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._most = remembered
        self._slots: Hashes = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        self._older: Hashes = np.zeros(2, dtype=np.uint64)
        self._count = 0

    def again(self, ids: Any) -> Mask:
        """Which of these ids came before, among them or among all earlier ones; `ids` is an Arrow array of strings."""
        ids = ids.cast(pa.large_string())
        _, offsets, data = ids.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
        text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(1, dtype=np.uint8)
        hashes = np.empty(len(ids), dtype=np.uint64)
        _hash(text, ends, hashes)
        again = np.zeros(len(ids), dtype=np.bool_)
        self._make_room(len(ids))
        _find(self._older, hashes, again)
        self._count += _add(self._slots, hashes, again)
        return again

    def _make_room(self, more: int) -> None:
        if self._count >= self._most:
            self._older, self._slots, self._count = self._slots, np.zeros(_FIRST_SLOTS, dtype=np.uint64), 0
        size = len(self._slots)
        while size < 2 * (self._count + more):
            size *= 2
        if size > len(self._slots):
            larger = np.zeros(size, dtype=np.uint64)
            _add(larger, self._slots[self._slots > 0], np.zeros(len(self._slots), dtype=np.bool_))
            self._slots = larger


@jit
def _hash(text: NDArray[np.uint8], ends: NDArray[np.int64], hashes: Hashes) -> None:
    """FNV-1a, 64 bits, with a last mix so that the low bits depend on all of the text; never 0."""
    for row in range(len(hashes)):
        value = np.uint64(14695981039346656037)
        for at in range(ends[row], ends[row + 1]):
            value = (value ^ np.uint64(text[at])) * np.uint64(1099511628211)
        value = (value ^ (value >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        value = value ^ (value >> np.uint64(29))
        hashes[row] = value if value != np.uint64(0) else np.uint64(1)


@jit
def _find(slots: Hashes, hashes: Hashes, again: Mask) -> None:
    """Mark the hashes that are in an open table, whose length is a power of two."""
    last = np.uint64(len(slots) - 1)
    for row in range(len(hashes)):
        at = hashes[row] & last
        while slots[at] != np.uint64(0):
            if slots[at] == hashes[row]:
                again[row] = True
                break
            at = (at + np.uint64(1)) & last


@jit
def _add(slots: Hashes, hashes: Hashes, again: Mask) -> int:
    """Put hashes into an open table with room for them, mark those that are there already, return how many are new."""
    last = np.uint64(len(slots) - 1)
    new = 0
    for row in range(len(hashes)):
        at = hashes[row] & last
        while slots[at] != np.uint64(0) and slots[at] != hashes[row]:
            at = (at + np.uint64(1)) & last
        if slots[at] == np.uint64(0):
            slots[at] = hashes[row]
            new += 1
        else:
            again[row] = True
    return new
