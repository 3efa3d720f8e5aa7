"""Ridge regression on a flat row of numbers: score a pool, predict one arm, absorb one reward.

A row holds ``[n, theta (d), lower triangle of A^-1 (d * (d + 1) / 2)]``, with A = ridge * I + sum of x x' over the n
rewards absorbed; half the matrix is half the memory and half the work, and cannot become asymmetric. `COUNT` is the
slot of n, `THETA` the first slot of theta, and the triangle starts at ``THETA + d``.

`settings` holds ``[ridge, scale, growth, constant, offset]``; the confidence radius after n rewards is ``scale *
sqrt(d * ln(1 + growth * n) + constant) + offset``, which covers the paper's, the released code's, the Abbasi-Yadkori
and a constant radius (see `driftbandit.models.ridge.Radius`).
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats, Ints
from driftbandit.kernels.cholesky import add_draw
from driftbandit.kernels.compile import borrow, fill_in, finite, jit
from driftbandit.kernels.forms import form, forms

# Slots of a row.
COUNT, THETA = range(2)

# Slots of the settings.
RIDGE, SCALE, GROWTH, CONSTANT, OFFSET = range(5)

# Arms go through the matrix together, not one by one, if there are so many of them, and so many numbers in all.
_TOGETHER, _TOGETHER_NUMBERS = 5, 150

# Relative slack that keeps a bound valid when computed in floating point.
_ROUNDING = 1e-9
_EPSILON = float(np.finfo(np.float64).eps)

# Beyond |x|^2 = this times the ridge, an update cancels more digits of A^-1 than a float has, and the matrix is ruined.
LARGEST_SQUARE = 1e14


def row_size(dim: int) -> int:
    """Length of a row."""
    return THETA + dim + dim * (dim + 1) // 2


@jit
def reset(settings: Floats, row: Floats, dim: int) -> None:
    """Start afresh: no rewards, theta = 0, A^-1 = I / ridge."""
    row[:] = 0.0
    at = THETA + dim
    for i in range(dim):
        row[at + i] = 1.0 / settings[RIDGE]
        at += i + 1


@jit
def radius(settings: Floats, n: float, dim: int) -> float:
    """Multiplier that turns sqrt(x' A^-1 x) into a confidence width."""
    scale: float = settings[SCALE]
    offset: float = settings[OFFSET]
    if scale == 0.0:
        return offset
    return scale * math.sqrt(dim * math.log(1.0 + settings[GROWTH] * n) + settings[CONSTANT]) + offset


@jit
def predict(settings: Floats, row: Floats, x: Floats) -> tuple[float, float]:
    """Predicted reward and confidence width of one arm; NaN if features are not finite or too large."""
    d = len(x)
    mean, size = 0.0, 0.0
    for i in range(d):
        mean += row[THETA + i] * x[i]
        size += x[i] * x[i]
    if not size <= LARGEST_SQUARE * settings[RIDGE]:
        return math.nan, math.nan
    return mean, radius(settings, row[COUNT], d) * math.sqrt(_square(row, x))


@jit
def predictions(settings: Floats, row: Floats, features: Floats) -> Floats:
    """Predicted reward and confidence width of every arm, shape (K, 2); NaN where features are not usable."""
    result = np.empty((len(features), 2))
    for k in range(len(features)):
        result[k] = predict(settings, row, features[k])
    return result


@jit
def update(settings: Floats, row: Floats, x: Floats, reward: float) -> bool:
    """Absorb one reward: rank-one update of A^-1, and of theta along A^-1 x; False, and no update, if not usable."""
    row, x = borrow(row), borrow(x)
    z, mean, square = project(settings, row, x)
    if not finite(mean) or not finite(square):
        return False
    absorb(row, z, reward - mean, 1.0 + square)
    return True


@jit
def project(settings: Floats, row: Floats, x: Floats) -> tuple[Floats, float, float]:
    """A^-1 x, theta'x and x' A^-1 x; the last is NaN if features are not finite or too large."""
    z = np.empty(len(x))
    mean, square, size = multiply(row, x, z)
    if not size <= LARGEST_SQUARE * settings[RIDGE]:
        square = math.nan
    return z, mean, square


@jit
def multiply(row: Floats, x: Floats, z: Floats) -> tuple[float, float, float]:
    """Write M x into `z`, where M is the row's matrix; returns theta'x, x' M x and |x|^2."""
    d = len(x)
    at = THETA + d
    for i in range(d):
        line = row[at : at + i + 1]
        total = line[i] * x[i]
        for j in range(i):
            total += line[j] * x[j]
            z[j] += line[j] * x[i]
        z[i] = total  # rows below add their share
        at += i + 1
    mean, square, size = 0.0, 0.0, 0.0
    for i in range(d):
        mean += row[THETA + i] * x[i]
        square += z[i] * x[i]
        size += x[i] * x[i]
    return mean, square, size


@jit
def absorb(row: Floats, z: Floats, error: float, variance: float) -> None:
    """Absorb one reward: `z` is M x, `error` the reward minus its prediction, `variance` the variance of the error.

    With M = A^-1 the variance is 1 + x' M x; with M a covariance it is the noise variance + x' M x. Overwrites `z`.
    """
    step = error / variance
    shrink = 1.0 / math.sqrt(variance)
    for i in range(len(z)):
        row[THETA + i] += step * z[i]
        z[i] *= shrink
    subtract_outer(row, z)
    row[COUNT] += 1.0


@jit
def _together(count: int, d: int) -> bool:
    return count >= _TOGETHER and count * d >= _TOGETHER_NUMBERS


@jit
def subtract_outer(row: Floats, w: Floats) -> None:
    """A^-1 -= w w'."""
    at = THETA + len(w)
    for i in range(len(w)):
        line = row[at : at + i + 1]
        for j in range(i + 1):
            line[j] -= w[i] * w[j]
        at += i + 1


@jit
def optimistic_arm(settings: Floats, bank: Floats, member: int, features: Floats) -> int:
    """Index of the arm with the highest mean + radius * sqrt(x' A^-1 x), ties to the lowest; -1 if not usable."""
    bank, features = borrow(bank), borrow(features)
    count, d = features.shape
    row = bank[member]
    explore = radius(settings, row[COUNT], d)
    largest = LARGEST_SQUARE * settings[RIDGE]
    reach = explore * math.sqrt(largest_eigenvalue_bound(row, d))
    means = np.empty(count)
    scores = np.empty(count)
    for k in range(count):
        mean, square = 0.0, 0.0
        for i in range(d):
            mean += features[k, i] * row[THETA + i]
            square += features[k, i] * features[k, i]
        means[k] = mean
        scores[k] = mean + reach * math.sqrt(square)
        if not finite(scores[k]) or not square <= largest:
            return -1
    best = score_best(row, features, means, scores, explore, TIE, 0.0)
    for k in range(count):
        if scores[k] >= best - TIE:
            return k
    return -1  # the model itself is not finite


@jit
def largest_eigenvalue_bound(row: Floats, d: int) -> float:
    """Upper bound on the largest eigenvalue of A^-1."""
    trace, diagonal, norm = 0.0, 0.0, 0.0
    at = THETA + d
    for i in range(d):
        trace += row[at + i]
        diagonal += row[at + i] * row[at + i]
        at += i + 1
    triangle = row[THETA + d : at]  # a row may continue with other numbers of its model
    for i in range(len(triangle)):
        norm += triangle[i] * triangle[i]
    return bound_by_norm(trace, 2.0 * norm - diagonal, d)


@jit
def bound_by_norm(trace: float, squares: float, d: int) -> float:
    """Upper bound on a matrix's largest eigenvalue from its trace and the sum of all squared entries (Wolkowicz and
    Styan, 1980).
    """
    mean = trace / d
    # If all eigenvalues are nearly equal, the difference of two nearly equal numbers is lost in rounding.
    spread = max(squares / d - mean * mean, 0.0) + 4.0 * d * _EPSILON * mean * mean
    return (mean + math.sqrt((d - 1) * spread)) * (1.0 + _ROUNDING)


@jit
def sampled_arm(bank: Floats, member: int, features: Floats, noise: Floats, explore: float) -> int:
    """Index of the arm with the highest mean + explore * noise[k] * sqrt(x' A^-1 x); -1 if not finite.

    With independent standard normal noise this is Thompson sampling with a fresh theta for every arm.
    """
    count, d = features.shape
    row = bank[member]
    scores = np.empty(count)
    for k in range(count):
        mean = 0.0
        for i in range(d):
            mean += features[k, i] * row[THETA + i]
        scores[k] = mean + explore * noise[k] * math.sqrt(_square(row, features[k]))
    return first_best(scores)


@jit
def sampled_theta(row: Floats, noise: Floats, scale: float) -> Floats:
    """theta + scale * L noise, where L L' is the row's matrix; a direction without variance gets none."""
    sample = row[THETA : THETA + len(noise)].copy()
    add_draw(sample, row, THETA + len(noise), noise, scale)
    return sample


@jit
def sampled_theta_arm(bank: Floats, member: int, features: Floats, noise: Floats, explore: float) -> int:
    """Index of the best arm under one theta drawn from N(theta, explore^2 A^-1); -1 if not finite."""
    bank, features = borrow(bank), borrow(features)
    count, d = features.shape
    sample = sampled_theta(bank[member], noise, explore)
    scores = np.empty(count)
    for k in range(count):
        scores[k] = 0.0
        for i in range(d):
            scores[k] += features[k, i] * sample[i]
    return first_best(scores)


@jit
def usable(features: Floats, ridge: float) -> bool:
    """Whether all features are finite and not too large."""
    for k in range(features.shape[0]):
        square = 0.0
        for i in range(features.shape[1]):
            square += features[k, i] * features[k, i]
        if not square <= LARGEST_SQUARE * ridge:
            return False
    return True


@jit
def first_best(scores: Floats) -> int:
    """Lowest index whose score is within TIE of the highest; -1 if any score is not finite."""
    best = -math.inf
    for score in scores:
        if not finite(score):
            return -1
        best = max(best, score)
    for k in range(len(scores)):
        if scores[k] >= best - TIE:
            return k
    return -1


@jit
def _square(row: Floats, x: Floats) -> float:
    """x' A^-1 x, never below zero."""
    return form(row[THETA + len(x) :], x)


@jit
def _squares(row: Floats, features: Floats, picks: Ints) -> Floats:
    """x' A^-1 x of the arms x = features[pick]."""
    return forms(row, THETA + features.shape[1], features, picks)


def score_best_by(
    row: Floats, features: Floats, means: Floats, scores: Floats, explore: float, tie: float, relative: float
) -> float:
    """Replace bounds in `scores` by the scores, mean + `explore` * sqrt(x' M x), of all arms that can be best.

    Returns the best score; a template for all kinds of rows, with `_square` and `_squares` to fill in. With `top` a
    bound on the largest eigenvalue of the matrix M, mean + explore * |x| * sqrt(top) bounds an arm's score from above
    at the cost of two dot products. Only arms whose bound reaches the best score need the full quadratic form; on a
    trained model these are few. The others keep a bound below the best score, or get minus infinity. Arms whose scores
    differ by `tie` + `relative` * best tie.
    """
    count, d = features.shape
    first = np.argmax(scores)
    best: float = means[first] + explore * math.sqrt(_square(row, features[first]))
    scores[first] = best
    least = best - tie - relative * abs(best)
    contenders = np.empty(count, np.int64)
    left = 0
    for k in range(count):
        if k == first:
            continue
        if scores[k] >= least:
            contenders[left] = k
            left += 1
        else:
            scores[k] = -math.inf
    if _together(left, d):
        contenders[left] = first  # again, so that equal arms tie: sums of many arms round differently
        together = _squares(row, features, contenders[: left + 1])
        for c in range(left + 1):
            k = contenders[c]
            scores[k] = means[k] + explore * math.sqrt(together[c])
            best = max(best, scores[k])
        return best
    for k in contenders[:left]:
        if scores[k] >= best - tie - relative * abs(best):
            scores[k] = means[k] + explore * math.sqrt(_square(row, features[k]))
            best = max(best, scores[k])
    return best


score_best = jit(fill_in(score_best_by, "score_best"))
"""`score_best_by` for the rows of this file."""
