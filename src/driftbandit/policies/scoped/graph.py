"""The graph of CLUB: which users have not been told apart yet.

Row u of `edges` holds user u's neighbours, one bit per user in words of 64 bits; an edge is set at both ends.
A cluster is a connected component, named by its first user.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit

BITS = 64
"""Users in one word of the graph."""


@jit
def confidence(count: float) -> float:
    """How far a user's estimate may be off after `count` rewards, in units of `separation`: c(T)."""
    return math.sqrt((1.0 + math.log(1.0 + count)) / (1.0 + count))


@jit
def _bit(row: int) -> int:
    """The bit of a row in its word of the graph, as int64, also in plain Python, whose ints have no sign bit."""
    return np.int64(1) << np.int64(row & 63)  # type: ignore[return-value]


@jit
def connect(edges: Ints, row: int, joined: Ints) -> None:
    """Set the bits of the edges between `row` and the rows in `joined`."""
    for other in joined:
        edges[row, other >> 6] |= _bit(other)
        edges[other, row >> 6] |= _bit(row)


@jit
def part(edges: Ints, own: Floats, row: int, count: int, dim: int, separation: float) -> int:
    """Delete the edges to users whose estimates are too far from this one's; returns how many."""
    reach = confidence(own[row, 0])
    parted = 0
    for other in range(count):
        if not edges[row, other >> 6] & _bit(other):
            continue
        square = 0.0
        for i in range(1, 1 + dim):
            square += (own[row, i] - own[other, i]) ** 2
        distance = math.sqrt(square)
        # c(T) is positive: most neighbours are cleared by the first half of the bound.
        if distance > separation * reach and distance > separation * (reach + confidence(own[other, 0])):
            edges[row, other >> 6] ^= _bit(other)
            edges[other, row >> 6] ^= _bit(row)
            parted += 1
    return parted


@jit
def label(edges: Ints, cluster: Ints, rows: Ints) -> int:
    """Label the connected components among `rows` (ascending) by their first row; returns how many there are."""
    unseen = np.zeros(edges.shape[1], dtype=np.int64)
    for row in rows:
        unseen[row >> 6] |= _bit(row)
    queue = np.empty(len(rows), dtype=np.int64)
    head, tail, found = 0, 0, 0
    for first in rows:
        if not unseen[first >> 6] & _bit(first):
            continue
        unseen[first >> 6] ^= _bit(first)
        found += 1
        queue[tail] = first
        tail += 1
        while head < tail:
            row = queue[head]
            head += 1
            cluster[row] = first
            if tail == len(rows):
                continue  # every row has been found, which in a dense graph happens soon
            for word in range((rows[-1] >> 6) + 1):
                fresh = edges[row, word] & unseen[word]
                if not fresh:
                    continue
                unseen[word] ^= fresh
                for other in range(word << 6, (word + 1) << 6):
                    if fresh & _bit(other):
                        queue[tail] = other
                        tail += 1
    return found
