"""Quadratic forms x' A x of many arms with one symmetric matrix A, kept as a packed lower triangle or in tiles.

Of line i the entries (i, 0) to (i, i) are there, so that

    x' A x = 2 * sum over i of x_i * (A_i0 x_0 + ... + A_i,i-1 x_i-1 + A_ii x_i / 2),

which is half the work of a product with the whole matrix.

Eight arms stand side by side, so that one entry of the matrix meets all of them in a few instructions. Four lines go
at a time, so that what is loaded is used several times, and two groups of arms where the processor has registers for so
many sums. A block of lines stays in the fastest cache while all arms pass by, so that the matrix is read from slower
memory once.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import borrow, fill_in, flat, jit, jit_inside
from driftbandit.kernels.vector_units import tiles
from driftbandit.kernels.vector_units.groups import (
    ARMS,
    turn,
    weigh_line,
    weigh_lines,
    weigh_lines_twice,
    weigh_tile_line,
    weigh_tile_line_twice,
    weigh_tile_lines,
    weigh_tile_lines_twice,
)
from driftbandit.kernels.vector_units.instructions import LINES, MANY_REGISTERS

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


@jit_inside
def entry_at(d: int, i: int, j: int) -> int:
    """Where entry (i, j) of a packed triangle stands."""
    return i * (i + 1) // 2 + j


@jit_inside
def weigh_line_twice(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_line`, for a group and the next."""
    weigh_line(triangle, at, i, arms, d, group, halves)
    weigh_line(triangle, at, i, arms, d, group + 1, halves)


def _weigh(matrix: Floats, base: int, arms: Floats, d: int, squares: Floats) -> None:
    """Write x' A x, never below zero, of arms side by side in groups into `squares`; equal arms get equal numbers.

    A begins at the place `base` of `matrix`; a template for packed triangles and for tiles.
    """
    groups = len(squares) // ARMS
    paired = groups - groups % 2 if MANY_REGISTERS else 0
    for k in range(len(squares)):
        squares[k] = 0.0
    tiled = d - d % LINES
    first = 0
    while first < tiled:
        last = first + LINES
        while last < tiled and entry_at(d, last, 0) - entry_at(d, first, 0) < _BLOCK:
            last += LINES
        for g in range(0, paired, 2):
            for i in range(first, last, LINES):
                weigh_lines_twice(matrix, base + entry_at(d, i, 0), i, arms, d, g, squares)
        for g in range(paired, groups):
            for i in range(first, last, LINES):
                weigh_lines(matrix, base + entry_at(d, i, 0), i, arms, d, g, squares)
        first = last
    for g in range(0, paired, 2):
        for i in range(tiled, d):
            weigh_line_twice(matrix, base + entry_at(d, i, 0), i, arms, d, g, squares)
    for g in range(paired, groups):
        for i in range(tiled, d):
            weigh_line(matrix, base + entry_at(d, i, 0), i, arms, d, g, squares)
    for k in range(len(squares)):
        squares[k] = max(2.0 * squares[k], 0.0)


weigh = jit(fill_in(_weigh, "weigh"))
"""x' A x of arms side by side, from the triangle of A."""

weigh_with_tiles = jit(
    fill_in(
        _weigh,
        "weigh_with_tiles",
        entry_at=tiles.entry_at,
        weigh_line=weigh_tile_line,
        weigh_line_twice=weigh_tile_line_twice,
        weigh_lines=weigh_tile_lines,
        weigh_lines_twice=weigh_tile_lines_twice,
    )
)
"""x' A x of arms side by side, from A in tiles."""


def _forms(matrix: Floats, base: int, features: Floats, picks: Ints) -> Floats:
    """x' A x, never below zero, of the arms x = features[pick]; equal arms get equal numbers.

    A begins at the place `base` of `matrix`; a template.
    """
    d, count = features.shape[1], in_groups(len(picks))
    room = np.empty(count * (1 + d))  # one array, because to make one takes as long as a few arms
    squares, arms = borrow(room)[:count], borrow(room)[count:]
    numbers, last = flat(features), len(picks) - 1
    for k in range(0, count, LINES):
        p, q, r, s = picks[min(k, last)], picks[min(k + 1, last)], picks[min(k + 2, last)], picks[min(k + 3, last)]
        _turn_four(numbers, p * d, q * d, r * d, s * d, d, arms, k)
    weigh(matrix, base, arms, d, squares)
    return room[: len(picks)]


@jit_inside
def in_groups(count: int) -> int:
    """Room for so many arms in whole groups."""
    return (count + ARMS - 1) // ARMS * ARMS


@jit
def side_by_side(features: Floats, step: int, count: int, arms: Floats) -> None:
    """Write `count` arms, every `step`-th one, into `arms` in groups of `ARMS`, each arm a column of its group.

    The last arm fills up the last group.
    """
    d, numbers, last = features.shape[1], flat(features), count - 1
    for k in range(0, in_groups(count), LINES):
        p, q, r, s = min(k, last), min(k + 1, last), min(k + 2, last), min(k + 3, last)
        width = step * d
        _turn_four(numbers, p * width, q * width, r * width, s * width, d, arms, k)


@jit_inside
def _turn_four(numbers: Floats, p: int, q: int, r: int, s: int, d: int, arms: Floats, k: int) -> None:
    """Make the arms that begin at four places columns k to k + 3 in groups."""
    at, tiled = k // ARMS * d * ARMS + k % ARMS, d - d % LINES
    turn(numbers, p, q, r, s, tiled, arms, at)
    for j in range(tiled, d):
        place = at + j * ARMS
        arms[place], arms[place + 1] = numbers[p + j], numbers[q + j]
        arms[place + 2], arms[place + 3] = numbers[r + j], numbers[s + j]


forms = jit(fill_in(_forms, "forms"))
"""x' A x of arms, from the triangle of A."""

forms_with_tiles = jit(fill_in(_forms, "forms_with_tiles", weigh=weigh_with_tiles))
"""x' A x of arms, from A in tiles."""
