"""The matrix of a young model: at first a diagonal minus one outer product per reward.

A model that was born with A^-1 = diag(units^2) / ridge has, after n rewards, A^-1 = diag(units^2) / ridge - the sum of
n products w w'. While n is at most half the number d of features, the vectors w are fewer numbers than the matrix of a
row, and a reward appends one vector instead of changing every entry.

So the matrix's place holds the vectors w from `begin` on, and a number in the row's head, the scale, is 1 / ridge; when
there is no room for more, `unfold` writes the matrix, and the scale becomes 0. Rows are given by the array that holds
them and the place at which they begin. Young models learn in `blocks` of rewards.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.ladder import blocks
from driftbandit.kernels.driftucb.rows import COUNT, OTHERS, matrix_at, variance_at
from driftbandit.kernels.vector_units.tiles import matrix_size
from driftbandit.kernels.vector_units.vectors import assign, padded

SCALE = OTHERS
"""Slot of the scale in a row's head."""


@jit
def begin(row: Floats, units: Floats, ridge: float) -> None:
    """Start with n = 0, theta = 0, A^-1 = diag(units^2) / ridge, and 0 in the rest of the head.

    No vector is read before it is written.
    """
    row[: matrix_at(len(units))] = 0.0
    row[SCALE] = 1.0 / ridge


@jit
def multiply(rows: Floats, at: int, arms: Floats, lifted: Floats, d: int, products: Floats) -> None:
    """Write A^-1 X into the table `products`, where X is the table `arms` and `lifted` is diag(units^2) X."""
    scale, matrix = rows[at + SCALE], at + matrix_at(d)
    if scale == 0.0:
        blocks.multiply(rows, matrix, d, arms, products)
    else:
        assign(products, 0, scale, lifted, 0, d * blocks.LANES)
        blocks.project(rows, matrix, int(rows[at + COUNT]), d, arms, products)


@jit
def absorb(rows: Floats, at: int, units: Floats, vectors: Floats, first: int, count: int) -> None:
    """A^-1 <- A^-1 - W W' for rewards `first` to `count` - 1 of a block; the other columns of W are 0 in `vectors`."""
    d, length = len(units), padded(len(units))
    n, matrix = int(rows[at + COUNT]), at + matrix_at(d)
    rows[at + COUNT] += count - first
    if rows[at + SCALE] > 0.0:
        if 2 * (n + count - first) <= d + 1:
            assign(rows, matrix + n * length, 1.0, vectors, first * length, (count - first) * length)
            return
        _unfold(rows, at, units, n)
    blocks.subtract(rows, matrix, d, vectors, 0)


@jit
def unfold(row: Floats, units: Floats) -> None:
    """Write the matrix, if the row does not hold it already."""
    if row[SCALE] > 0.0:
        _unfold(row, 0, units, int(row[COUNT]))


@jit
def _unfold(rows: Floats, at: int, units: Floats, n: int) -> None:
    d, length = len(units), padded(len(units))
    scale, matrix = rows[at + SCALE], at + matrix_at(d)
    whole = (n + blocks.LANES - 1) // blocks.LANES * blocks.LANES
    vectors = np.zeros(whole * length)  # the last group is filled up with zeros
    assign(vectors, 0, 1.0, rows, matrix, n * length)
    rows[at + SCALE] = 0.0
    rows[matrix : matrix + matrix_size(d)] = 0.0
    for i in range(d):
        rows[at + variance_at(d, i)] = scale * units[i] * units[i]
    for k in range(0, whole, blocks.LANES):
        blocks.subtract(rows, matrix, d, vectors, k * length)
