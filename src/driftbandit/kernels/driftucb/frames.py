"""The frame in which DriftUCB takes features: raw or standardised columns, with or without an intercept.

A model's prior says how large a weight may be. One number does for all columns if they have one unit; a price in cents
beside flags needs one for each, and rewards around 20 need an intercept. A frame is, for each column, the `units` of
its weight and an `anchor`: the weight lies around the anchor, as far as its unit times one number for all columns. A
standardised column has the unit 1 / (root mean square of its values that are not 0), a raw one 1; both have the anchor
0. An intercept is one more column, of ones, or a constant column that is there already; its anchor is fitted.

The first rewards are remembered. Now and then every frame is put to the test on them: a ridge regression predicts each
reward from those before. The first frame is raw if the columns are of similar size, else standardised; another one
replaces it if its errors are clearly smaller.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import finite, jit
from driftbandit.kernels.driftucb.rows import THETA, learn, matrix_at, variance_at
from driftbandit.kernels.vector_units.tiles import matrix_size
from driftbandit.kernels.vector_units.vectors import padded

TRIAL = 256
"""How many of the first rewards are remembered; after that the frame stays."""

SINGLE = 99
"""How many of the first rewards come with features in single precision: a young policy is kept as these rewards."""

HALF_LOST, KEPT = 1 << 28, -1 << 29
"""Of the 64 binary digits of a number, single precision keeps all but the last 29, after half of these was added."""

_FIRST = 2  # rewards before the first test
_ALIKE = 3.2  # columns whose sizes differ from the median by less than this factor are alike,
_ALIKE_MORE = 3.0  # more while they are known from few arms
_BETTER = 0.9  # share of another frame's errors below which a frame is better,
_BETTER_COUNT = 7.0  # less while they are few
_DECAY = 0.98  # decay of the errors, so that early ones, when no frame knows anything, count for less
_ODD = 1000.0  # a first |x|^2 of more than this many times the median was a mistake
_EXTREME = 1e100  # a column whose size, or whose size's inverse, is above this stays raw: squares would overflow
_LARGEST = 1e140  # features above this tell nothing: sums of their squares would overflow
_RIDGE = 0.1  # ridge of the regressions, in units of a typical arm's |x|^2


@jit
def is_due(count: int) -> bool:
    """Whether frames are tested after `count` rewards: after 2, 3, 4, 6, 8, 12, 16, 24, ... of them."""
    due = count >= _FIRST
    while count % 2 == 0:
        count //= 2
    return due and count <= 3


@jit
def can_tell(x: Floats) -> bool:
    """Whether features have sizes, and are not all 0, so that a reward tells something about a frame."""
    total = 0.0
    for i in range(len(x)):
        if not abs(x[i]) <= _LARGEST:
            return False
        total += abs(x[i])
    return total > 0.0


@jit
def in_single(x: Floats) -> Floats:
    """Features rounded to the 24 binary digits of single precision, though not to its range."""
    rounded = x.copy()
    bits = rounded.view(np.int64)
    for i in range(len(x)):
        if finite(x[i]):
            bits[i] = (bits[i] + HALF_LOST) & KEPT
    return rounded


@jit
def without_odd_first(seen: Floats) -> Floats:
    """The lines of `seen`, but for the first one if its features are far larger than the others'."""
    sizes = np.zeros(len(seen))
    for t in range(len(seen)):
        for i in range(seen.shape[1] - 1):
            sizes[t] += seen[t, i] * seen[t, i]
    return seen[1:] if len(seen) > _FIRST and sizes[0] > _ODD * np.median(sizes) else seen


@jit
def best_frame(seen: Floats, units: Floats, anchor: Floats) -> tuple[int, float]:
    """Fill in units and anchor of the best frame; returns how many columns it has and a typical |x|^2 in its units.

    Parameters
    ----------
    seen :
        One line per reward: the arm's features, then the reward.
    units, anchor :
        Room for one number per feature and one for the intercept.
    """
    sizes, constant = _sizes(seen)
    first = _unlike(sizes, constant, len(seen))
    better = _BETTER * ((len(seen) - 1.0) / (len(seen) + _BETTER_COUNT)) ** 2
    standardised, centred, errors = first, False, math.inf
    for other in (False, True):
        for intercept in (False, True):
            columns, typical = _fill(seen, sizes, constant, first != other, intercept, units, anchor)
            if intercept and not 1.0 / _EXTREME < typical < _EXTREME:
                continue
            found, _ = _predict(seen, units[:columns], anchor[:columns], typical, intercept)
            if found < better * errors:
                standardised, centred, errors = first != other, intercept, found
    columns, typical = _fill(seen, sizes, constant, standardised, centred, units, anchor)
    if centred:  # rewards of the arms played are better than those of others; what all have in common is the intercept
        at = constant if constant >= 0 else columns - 1
        _, weights = _predict(seen, units[:columns], anchor[:columns], typical, False)
        anchor[at] += weights[at] * units[at]
    return columns, typical


@jit
def _unlike(sizes: Floats, constant: int, count: int) -> bool:
    """Whether a column is much larger or smaller than the others; a constant does not count."""
    alike = _ALIKE * (1.0 + _ALIKE_MORE / math.sqrt(count))
    middle = np.median(sizes)
    unlike = False
    for i in range(len(sizes)):
        if i != constant and (sizes[i] > alike * middle or sizes[i] * alike < middle):
            unlike = True
    return unlike


@jit
def _sizes(seen: Floats) -> tuple[Floats, int]:
    """Root mean square of each column's values that are not 0, and the column that is constant, -1 if none is."""
    count, d = seen.shape[0], seen.shape[1] - 1
    sizes = np.zeros(d)
    constant = -1
    every, values = 0.0, 0
    for i in range(d):
        total, hits, same = 0.0, 0, True
        for t in range(count):
            total += seen[t, i] * seen[t, i]
            hits += seen[t, i] != 0.0
            same = same and seen[t, i] == seen[0, i]
        if hits:
            sizes[i] = math.sqrt(total / hits)
            every, values = every + total, values + hits
            if same and constant < 0:
                constant = i
    for i in range(d):
        if sizes[i] == 0.0 and values:
            sizes[i] = math.sqrt(every / values)
        if not 1.0 / _EXTREME < sizes[i] < _EXTREME:
            sizes[i] = 1.0
    return sizes, constant


@jit
def _fill(
    seen: Floats, sizes: Floats, constant: int, standardised: bool, centred: bool, units: Floats, anchor: Floats
) -> tuple[int, float]:
    """Fill in one frame; returns how many columns it has and a typical |x|^2, without the intercept's."""
    count, d = seen.shape[0], seen.shape[1] - 1
    intercept = d if constant < 0 else constant
    units[d], anchor[:] = 1.0, 0.0
    for i in range(d):
        units[i] = 1.0 / sizes[i] if standardised else 1.0
    typical, mean = 0.0, 0.0
    for t in range(count):
        mean += seen[t, d] / count
        for i in range(d):
            if not (centred and i == constant):
                typical += (seen[t, i] * units[i]) ** 2 / count
    if centred:
        value = 1.0 if constant < 0 else seen[0, constant]
        anchor[intercept] = mean / value
        units[intercept] = math.sqrt(typical) / abs(value) if typical > 0.0 else 1.0
    return d + 1 if centred and constant < 0 else d, typical if typical > 0.0 else 1.0


@jit
def _predict(seen: Floats, units: Floats, anchor: Floats, typical: float, blind: bool) -> tuple[float, Floats]:
    """Predict each reward from the earlier ones by a regression; the sum of squared errors, the late ones counted most,
    and the weights in the end.

    If `blind`, the anchor, which was found from all rewards, is replaced by the mean of the earlier rewards.
    """
    count, d, columns = seen.shape[0], seen.shape[1] - 1, len(units)
    row = np.zeros(matrix_at(columns) + matrix_size(columns))
    for i in range(columns):
        row[variance_at(columns, i)] = 1.0 / (_RIDGE * typical)
    x, z = np.zeros(padded(columns)), np.zeros(padded(columns))
    total, earlier = 0.0, 0.0
    for t in range(count):
        base = 0.0
        for i in range(columns):
            value = seen[t, i] if i < d else 1.0
            x[i] = units[i] * value
            base += anchor[i] * value
        if blind:
            base = earlier / t if t else seen[0, d]
        earlier += seen[t, d]
        error, _ = learn(row, 0, columns, x, seen[t, d] - base, z)
        if t > 0:  # nobody can predict the first one
            total = _DECAY * total + error * error
    return total, row[THETA : THETA + columns]
