"""Units of DyClu: least squares without a ridge on one user's stretch of rewards, and tests between two of them.

A unit is a row ``[n, rank, explained, b = sum of r x (d), lower triangle of M = sum of x x']``; `rank` is the rank of
M, and `explained` the part of the sum of r^2 that least squares explains, b' M^+ b. Two units with the same theta
explain less together than apart, by a chi-square variable times the noise variance.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit
from driftbandit.kernels.ridge import COUNT as ROW_COUNT
from driftbandit.kernels.ridge import THETA as ROW_THETA

COUNT, RANK, EXPLAINED, MOMENT = range(4)

_FOLLOWS = 1e-10  # share of a feature's sum of squares below which it is a combination of the other features
_OUTSIDE = 1e-6  # share of an arm's features above which they lie outside those seen


def unit_size(dim: int) -> int:
    """Length of a unit's row."""
    return MOMENT + dim + dim * (dim + 1) // 2


@jit
def factorise(unit: Floats, scale: Floats, order: Ints, factor: Floats, solved: Floats) -> tuple[int, float]:
    """Cholesky factor L of M, its features scaled to length 1 and taken in `order`, largest pivot first.

    Returns the rank of M and b' M^+ b; `solved` becomes L^-1 b. Features beyond the rank are combinations of those
    before. Feature i stays in row and column i of `factor`.
    """
    d = len(scale)
    at = MOMENT + d
    for i in range(d):
        order[i] = i
        scale[i] = 1.0 / math.sqrt(unit[at + i]) if unit[at + i] > 0.0 else 0.0
        solved[i] = unit[MOMENT + i] * scale[i]
        for j in range(i + 1):
            factor[i, j] = unit[at + j] * scale[i] * scale[j]
            factor[j, i] = factor[i, j]
        at += i + 1
    explained = 0.0
    for k in range(d):
        largest = k
        for a in range(k + 1, d):
            if factor[order[a], order[a]] > factor[order[largest], order[largest]]:
                largest = a
        order[k], order[largest] = order[largest], order[k]
        p = order[k]
        if not factor[p, p] > _FOLLOWS:
            return k, explained
        factor[p, p] = math.sqrt(factor[p, p])
        solved[p] /= factor[p, p]
        explained += solved[p] * solved[p]
        for a in range(k + 1, d):
            i = order[a]
            factor[i, p] /= factor[p, p]
            solved[i] -= factor[i, p] * solved[p]
            for b in range(k + 1, a + 1):
                j = order[b]
                factor[i, j] -= factor[i, p] * factor[j, p]
                factor[j, i] = factor[i, j]
    return d, explained


@jit
def surprises(unit: Floats, x: Floats, reward: float, bound: float) -> bool:
    """Whether (r - x'theta)^2 > bound * (1 + x' M^+ x); False if x lies outside what the unit has seen (step 2)."""
    d = len(x)
    scale, order, factor, solved = np.empty(d), np.empty(d, dtype=np.int64), np.empty((d, d)), np.empty(d)
    rank, _ = factorise(unit, scale, order, factor, solved)
    rest = np.empty(d)
    longest = 0.0
    for i in range(d):
        if scale[i] == 0.0 and x[i] != 0.0:
            return False
        rest[i] = x[i] * scale[i]
        longest = max(longest, abs(rest[i]))
    mean, leverage = 0.0, 0.0
    for k in range(rank):
        p = order[k]
        rest[p] /= factor[p, p]
        mean += rest[p] * solved[p]
        leverage += rest[p] * rest[p]
        for a in range(k + 1, d):
            rest[order[a]] -= factor[order[a], p] * rest[p]
    for a in range(rank, d):
        if abs(rest[order[a]]) > _OUTSIDE * longest:
            return False
    gap = reward - mean
    return gap * gap > bound * (1.0 + leverage)


@jit
def absorb(unit: Floats, x: Floats, reward: float) -> None:
    """Add a reward to a unit."""
    d = len(x)
    at = MOMENT + d
    for i in range(d):
        unit[MOMENT + i] += reward * x[i]
        for j in range(i + 1):
            unit[at + j] += x[i] * x[j]
        at += i + 1
    unit[COUNT] += 1.0
    unit[RANK], unit[EXPLAINED] = factorise(
        unit, np.empty(d), np.empty(d, dtype=np.int64), np.empty((d, d)), np.empty(d)
    )


@jit
def agree(mine: Floats, others: Floats, count: int, bounds: Floats, alike: Ints) -> None:
    """Mark in `alike` which of the first `count` units may have the theta of `mine` (step 3).

    `bounds[k]` is how much less two units may explain together than apart if both have seen k directions; with none in
    common, they are taken to be alike.
    """
    d = len(bounds) - 1
    both = np.empty(len(mine))
    scale, order, factor, solved = np.empty(d), np.empty(d, dtype=np.int64), np.empty((d, d)), np.empty(d)
    for u in range(count):
        alike[u] = 1
        if mine[COUNT] == 0.0 or others[u, COUNT] == 0.0:
            continue
        for i in range(MOMENT, len(mine)):
            both[i] = mine[i] + others[u, i]
        rank, explained = factorise(both, scale, order, factor, solved)
        shared = int(mine[RANK] + others[u, RANK]) - rank
        if shared > 0 and mine[EXPLAINED] + others[u, EXPLAINED] - explained > bounds[shared]:
            alike[u] = 0


@jit
def add_up(total: Floats, others: Floats, alike: Ints) -> None:
    """Add the units marked in `alike` to `total`, whose rank and explained part become meaningless."""
    for u in range(len(alike)):
        if alike[u]:
            for i in range(len(total)):
                total[i] += others[u, i]


@jit
def regress(total: Floats, ridge: float, row: Floats, d: int) -> None:
    """Fill the row of a ridge regression (see `kernels.ridge`) from sums."""
    gram = ridge * np.eye(d)
    at = MOMENT + d
    for i in range(d):
        for j in range(i):
            gram[i, j] = total[at + j]
            gram[j, i] = total[at + j]
        gram[i, i] += total[at + i]
        at += i + 1
    inverse = np.linalg.inv(gram)
    row[ROW_COUNT] = total[COUNT]
    at = ROW_THETA + d
    for i in range(d):
        row[ROW_THETA + i] = 0.0
        for j in range(d):
            row[ROW_THETA + i] += inverse[i, j] * total[MOMENT + j]
        for j in range(i + 1):
            row[at + j] = inverse[i, j]
        at += i + 1
