"""Quadratic forms x' A x of many arms with one symmetric matrix A, kept as a packed lower triangle.

Line i of the triangle holds the entries (i, 0) to (i, i), so that

    x' A x = 2 * sum over i of x_i * (A_i0 x_0 + ... + A_i,i-1 x_i-1 + A_ii x_i / 2),

which is half the work of a product with the whole matrix.

Eight arms stand side by side, so that one entry of the triangle meets all of them in a few instructions. Four lines go
at a time, so that what is loaded is used several times, and two groups of arms where the processor has registers for so
many sums. A block of lines stays in the fastest cache while all arms pass by, so that the triangle is read from slower
memory once.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import borrow, flat, jit
from driftbandit.kernels.vector_units.groups import ARMS, turn, weigh_line, weigh_lines, weigh_lines_twice
from driftbandit.kernels.vector_units.instructions import MANY_REGISTERS, WIDTH

_BLOCK = 2048  # entries of a block of lines: 16 KB, a third of a common first cache


@jit
def form(triangle: Floats, x: Floats) -> float:
    """x' A x, never below zero."""
    total = 0.0
    at = 0
    for i in range(len(x)):
        line = triangle[at : at + i + 1]
        half = 0.5 * line[i] * x[i]
        for j in range(i):
            half += line[j] * x[j]
        total += half * x[i]
        at += i + 1
    return max(2.0 * total, 0.0)


@jit
def forms(triangle: Floats, features: Floats, picks: Ints) -> Floats:
    """x' A x, never below zero, of the arms x = features[pick]; equal arms get equal numbers."""
    d, groups = features.shape[1], (len(picks) - 1) // ARMS + 1
    room = np.empty(groups * ARMS * (1 + d))  # one array, because to make one takes as long as a few arms
    result, numbers = room[: len(picks)], borrow(room)
    halves, arms = numbers[: groups * ARMS], numbers[groups * ARMS :]
    _side_by_side(features, picks, arms)
    for k in range(len(halves)):
        halves[k] = 0.0
    tiled = d - d % WIDTH
    first = 0
    while first < tiled:
        last = first + WIDTH
        while last < tiled and (last * (last + 1) - first * (first + 1)) // 2 < _BLOCK:
            last += WIDTH
        paired = groups - groups % 2 if MANY_REGISTERS else 0
        for g in range(0, paired, 2):
            for i in range(first, last, WIDTH):
                weigh_lines_twice(triangle, i * (i + 1) // 2, i, arms, d, g, halves)
        for g in range(paired, groups):
            for i in range(first, last, WIDTH):
                weigh_lines(triangle, i * (i + 1) // 2, i, arms, d, g, halves)
        first = last
    for g in range(groups):
        for i in range(tiled, d):
            weigh_line(triangle, i * (i + 1) // 2, i, arms, d, g, halves)
    for k in range(len(picks)):
        halves[k] = max(2.0 * halves[k], 0.0)
    return result


@jit
def _side_by_side(features: Floats, picks: Ints, arms: Floats) -> None:
    """Write the picked arms into `arms` in groups of `ARMS`, each arm a column of its group.

    The last arm fills up the last group.
    """
    d, last = features.shape[1], len(picks) - 1
    numbers = flat(features)
    tiled = d - d % WIDTH
    for k in range(0, (last // ARMS + 1) * ARMS, WIDTH):
        p, q = picks[min(k, last)] * d, picks[min(k + 1, last)] * d
        r, s = picks[min(k + 2, last)] * d, picks[min(k + 3, last)] * d
        at = k // ARMS * d * ARMS + k % ARMS
        turn(numbers, p, q, r, s, tiled, arms, at)
        for j in range(tiled, d):
            place = at + j * ARMS
            arms[place], arms[place + 1] = numbers[p + j], numbers[q + j]
            arms[place + 2], arms[place + 3] = numbers[r + j], numbers[s + j]
