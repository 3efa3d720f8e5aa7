"""The matrix of a young model: at first a diagonal minus one outer product per reward.

A model that was born with A^-1 = diag(units^2) / ridge has, after n rewards, A^-1 = diag(units^2) / ridge - the sum of
n products w w'. While n is at most half the number d of features, the vectors w are fewer numbers than the triangle
that a `ridge` row ``[n, theta, triangle]`` holds, and a reward appends one vector instead of changing every entry.

So the triangle's place holds the vectors w from `begin` on, and the number behind it, the scale, is 1 / ridge; when
there is no room for more, `unfold` writes the triangle, and the scale becomes 0. Rows are given by the array that holds
them and the place at which they begin. Young models learn in `blocks` of rewards.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.ladder import blocks
from driftbandit.kernels.ridge import COUNT, THETA
from driftbandit.kernels.vector_units.instructions import WIDTH
from driftbandit.kernels.vector_units.vectors import assign


@jit
def scale_at(d: int) -> int:
    """Where the scale stands in a row: behind the triangle."""
    return THETA + d + d * (d + 1) // 2


@jit
def begin(row: Floats, units: Floats, ridge: float) -> None:
    """Start with n = 0, theta = 0, A^-1 = diag(units^2) / ridge, and 0 in whatever stands behind them.

    No vector is read before it is written.
    """
    d = len(units)
    row[: THETA + d] = 0.0
    row[scale_at(d) :] = 0.0
    row[scale_at(d)] = 1.0 / ridge


@jit
def multiply(rows: Floats, at: int, arms: Floats, lifted: Floats, d: int, products: Floats) -> None:
    """Write A^-1 X into the table `products`, where X is the table `arms` and `lifted` is diag(units^2) X."""
    scale, matrix = rows[at + scale_at(d)], at + THETA + d
    if scale == 0.0:
        blocks.multiply(rows, matrix, d, arms, products)
    else:
        assign(products, 0, scale, lifted, 0, d * blocks.LANES)
        blocks.project(rows, matrix, int(rows[at + COUNT]), d, arms, products)


@jit
def absorb(rows: Floats, at: int, units: Floats, vectors: Floats, lines: int, first: int, count: int) -> None:
    """A^-1 <- A^-1 - W W' for rewards `first` to `count` - 1 of a block; the other columns of W are 0 in `vectors`."""
    d = len(units)
    n, matrix = int(rows[at + COUNT]), at + THETA + d
    rows[at + COUNT] += count - first
    if rows[at + scale_at(d)] > 0.0:
        if 2 * (n + count - first) <= d + 1:
            for p in range(first, count):
                assign(rows, matrix + (n + p - first) * d, 1.0, vectors, p * lines, d)
            return
        _unfold(rows, at, units, n)
    blocks.subtract(rows, matrix, d, vectors, 0, lines)


@jit
def unfold(row: Floats, units: Floats) -> None:
    """Write the triangle, if the row does not hold it already."""
    if row[scale_at(len(units))] > 0.0:
        _unfold(row, 0, units, int(row[COUNT]))


@jit
def _unfold(rows: Floats, at: int, units: Floats, n: int) -> None:
    d = len(units)
    scale, matrix = rows[at + scale_at(d)], at + THETA + d
    whole = (n + blocks.LANES - 1) // blocks.LANES * blocks.LANES
    vectors = np.zeros(whole * d + WIDTH)  # the last group is filled up with zeros
    assign(vectors, 0, 1.0, rows, matrix, n * d)
    rows[at + scale_at(d)] = 0.0
    rows[matrix : matrix + d * (d + 1) // 2] = 0.0
    place = matrix
    for i in range(d):
        rows[place + i] = scale * units[i] * units[i]
        place += i + 1
    for k in range(0, whole, blocks.LANES):
        blocks.subtract(rows, matrix, d, vectors, k * d, d)
