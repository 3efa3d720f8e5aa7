"""The matrix of a young model with many features: a diagonal minus one outer product per reward.

A model that was born with A^-1 = diag(units^2) / ridge has, after n rewards, A^-1 = diag(units^2) / ridge - the sum of
n products w w'. With n far below the number d of features, the vectors w are fewer numbers than the triangle that a
`ridge` row ``[n, theta, triangle]`` holds, and a reward appends one vector instead of changing every entry.

So the triangle's place holds ``[-1 / ridge, w_1, w_2, ...]`` from `begin` on, until it is full after about d / 2
rewards; then `unfold` writes the triangle. The first number tells which of the two it is: that of a triangle is not
negative. With fewer than `MANY` features a row holds a triangle from birth.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels import rows
from driftbandit.kernels.compile import jit
from driftbandit.kernels.ridge import COUNT, THETA
from driftbandit.kernels.vectors import dot

MANY = 64
"""Features from which on a young model is kept as vectors."""


@jit
def begin(row: Floats, units: Floats, strength: float) -> None:
    """Start with n = 0, theta = 0, A^-1 = diag(units^2) / strength, and 0 in whatever stands behind them."""
    d = len(units)
    at = THETA + d
    if d >= MANY:
        row[:at] = 0.0
        row[at] = -1.0 / strength  # no vector is read before it is written
        row[at + d * (d + 1) // 2 :] = 0.0
        return
    row[:] = 0.0
    for i in range(d):
        row[at + i] = units[i] * units[i] / strength
        at += i + 1


@jit
def multiply(row: Floats, units: Floats, x: Floats, z: Floats) -> tuple[float, float]:
    """Write A^-1 x into `z`; returns theta'x and x' A^-1 x."""
    if _is_folded(row, len(x)):
        return _multiply_folded(row, units, x, z)
    mean, square = rows.multiply(row, 0, x, z)
    return mean, square


@jit
def _multiply_folded(row: Floats, units: Floats, x: Floats, z: Floats) -> tuple[float, float]:
    d = len(x)
    for i in range(d):
        z[i] = -row[THETA + d] * units[i] * units[i] * x[i]
    vectors = _vectors(row, d)
    n = len(vectors)
    paired = n - n % 2
    for k in range(0, paired, 2):
        v, w = vectors[k], vectors[k + 1]
        along_v, along_w = 0.0, 0.0
        for i in range(d):
            along_v += v[i] * x[i]
            along_w += w[i] * x[i]
        for i in range(d):
            z[i] -= along_v * v[i] + along_w * w[i]
    for k in range(paired, n):
        w = vectors[k]
        along_w = dot(w, 0, x, 0, d)
        for i in range(d):
            z[i] -= along_w * w[i]
    mean, square = 0.0, 0.0
    theta = row[THETA : THETA + d]
    for i in range(d):
        mean += theta[i] * x[i]
        square += z[i] * x[i]
    return mean, square


@jit
def absorb(row: Floats, units: Floats, z: Floats, error: float, variance: float) -> None:
    """As `rows.absorb`."""
    d = len(z)
    if _is_folded(row, d):
        if 1 + (row[COUNT] + 1.0) * d <= d * (d + 1) // 2:
            _append(row, z, error, variance)
            return
        unfold(row, units)
    rows.absorb(row, 0, z, error, variance)


@jit
def _append(row: Floats, z: Floats, error: float, variance: float) -> None:
    d = len(z)
    step, shrink = error / variance, 1.0 / math.sqrt(variance)
    first = THETA + d + 1 + int(row[COUNT]) * d
    theta, w = row[THETA : THETA + d], row[first : first + d]
    for i in range(d):
        theta[i] += step * z[i]
    for i in range(d):
        w[i] = shrink * z[i]
    row[COUNT] += 1.0


@jit
def unfold(row: Floats, units: Floats) -> None:
    """Write the triangle, if the row does not hold it already."""
    d = len(units)
    if not _is_folded(row, d):
        return
    scale = -row[THETA + d]
    vectors = _vectors(row, d).copy()
    at = THETA + d
    for i in range(d):
        line = row[at : at + i + 1]
        line[:] = 0.0
        for k in range(len(vectors)):
            w = vectors[k]
            for j in range(i + 1):
                line[j] -= w[i] * w[j]
        line[i] += scale * units[i] * units[i]
        at += i + 1


@jit
def _is_folded(row: Floats, d: int) -> bool:
    return d >= MANY and row[THETA + d] < 0.0


@jit
def _vectors(row: Floats, d: int) -> Floats:
    """The vectors w, one per line."""
    n, first = int(row[COUNT]), THETA + d + 1
    return row[first : first + n * d].reshape(n, d)
