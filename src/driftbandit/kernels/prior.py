"""Ridge regression under a prior that may change later: weights ~ N(mean, spread), rewards with variance `noise`.

A row is ``[row of kernels.ridge, its settings (5), b (d), lower triangle of S]`` with S = sum of x x' and b = sum of
reward * x. With the precision Q = noise * spread^-1, the matrix of the ridge row is (Q + S)^-1 and theta = (Q + S)^-1
(b + Q mean): the posterior's mean, and its covariance in units of the noise.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import jit
from driftbandit.kernels.packed import add_outer, invert, product

SETTINGS = ridge.OFFSET + 1
"""How many settings a row holds."""


@jit
def believe(row: Floats, mean: Floats, spread: Floats, noise: float, act: Floats) -> bool:
    """Put the row under another prior; False, and no change, if `spread` (packed) is not positive definite.

    The radius `act` is in units of the posterior's standard deviation, and is stored in those of the reward. The old
    prior remains if the sums are so large that rounding leaves no posterior.
    """
    d = len(mean)
    size = len(spread)
    precision, inverse = np.empty(size), np.empty(size)
    if not invert(spread, d, precision):
        return False
    own = ridge.THETA + d + size
    sums = own + SETTINGS
    total, weighted = np.empty(size), np.empty(d)
    precision *= noise
    product(precision, mean, weighted)
    for i in range(d):
        weighted[i] += row[sums + i]
    for i in range(size):
        total[i] = precision[i] + row[sums + d + i]
    if not invert(total, d, inverse):
        return True
    row[ridge.THETA + d : own] = inverse
    product(inverse, weighted, row[ridge.THETA : ridge.THETA + d])
    least = math.inf
    at = 0
    for i in range(d):
        least = min(least, precision[at + i])
        at += i + 1
    deviation = math.sqrt(noise)
    row[own + ridge.RIDGE] = least
    row[own + ridge.SCALE] = deviation * act[ridge.SCALE]
    row[own + ridge.GROWTH] = act[ridge.GROWTH]
    row[own + ridge.CONSTANT] = act[ridge.CONSTANT]
    row[own + ridge.OFFSET] = deviation * act[ridge.OFFSET]
    return True


@jit
def update(row: Floats, x: Floats, reward: float) -> bool:
    """Absorb one reward into the regression and the sums; False, and no update, if not usable."""
    d = len(x)
    own = ridge.THETA + d + d * (d + 1) // 2
    sums = own + SETTINGS
    if not ridge.update(row[own:sums], row, x, reward):
        return False
    for i in range(d):
        row[sums + i] += reward * x[i]
    add_outer(row[sums + d :], x)
    return True
