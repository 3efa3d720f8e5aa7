"""Generalised likelihood ratio: is a stream in [0, 1] better explained by two means than by one?

For a split after s of n rewards the statistic is s kl(m_1:s, m_1:n) + (n - s) kl(m_s+1:n, m_1:n) with the Bernoulli kl,
which equals n h(m_1:n) - s h(m_1:s) - (n - s) h(m_s+1:n) with the entropy h: the part before a split never changes and
is computed once.

A row holds ``[samples, sum, splits kept]`` and then ``[samples, sum, time, s h(m)]`` for every split.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit

SAMPLES, TOTAL, SPLITS, FIRST = range(4)
_SAMPLES, _TOTAL, _TIME, _BEFORE = range(4)
SPLIT = 4


def row_size(splits: int) -> int:
    """Length of a row with room for so many splits."""
    return FIRST + SPLIT * splits


@jit
def entropy(total: float, count: float) -> float:
    """n h(total / n), in natural logarithms."""
    rest = count - total
    if total <= 0.0 or rest <= 0.0:
        return 0.0
    return -total * math.log(total / count) - rest * math.log(rest / count)


@jit
def add(row: Floats, reward: float, now: int) -> None:
    """Add the reward that came at time `now`, and a split after it.

    When there is no room for another split, one is dropped, so that gaps between splits grow with their age.
    """
    row[SAMPLES] += 1.0
    row[TOTAL] += reward
    splits = int(row[SPLITS])
    if FIRST + SPLIT * (splits + 1) > len(row):
        _drop_one(row, splits)
        splits -= 1
    at = FIRST + SPLIT * splits
    row[at + _SAMPLES] = row[SAMPLES]
    row[at + _TOTAL] = row[TOTAL]
    row[at + _TIME] = now
    row[at + _BEFORE] = entropy(row[TOTAL], row[SAMPLES])
    row[SPLITS] = splits + 1


@jit
def _drop_one(row: Floats, splits: int) -> None:
    """Drop the split with the narrowest gap between its neighbours, relative to its age."""
    dropped, narrowest, before = 0, math.inf, 0.0
    for i in range(splits - 1):
        here = row[FIRST + SPLIT * i + _SAMPLES]
        gap = (row[FIRST + SPLIT * (i + 1) + _SAMPLES] - before) / (row[SAMPLES] - here)
        if gap < narrowest:
            dropped, narrowest = i, gap
        before = here
    for at in range(FIRST + SPLIT * dropped, FIRST + SPLIT * (splits - 1)):
        row[at] = row[at + SPLIT]


@jit
def evidence(row: Floats) -> tuple[float, float]:
    """The largest statistic of all splits, and the time of the last reward before that split."""
    whole = entropy(row[TOTAL], row[SAMPLES])
    largest, when = 0.0, 0.0
    for i in range(int(row[SPLITS]) - 1):  # the last one has nothing behind it
        at = FIRST + SPLIT * i
        after = entropy(row[TOTAL] - row[at + _TOTAL], row[SAMPLES] - row[at + _SAMPLES])
        statistic = whole - row[at + _BEFORE] - after
        if statistic > largest:
            largest, when = statistic, row[at + _TIME]
    return largest, when


@jit
def gaussian_evidence(row: Floats) -> float:
    """The largest statistic of all splits for Gaussian rewards of variance 1, whose kl is (p - q)^2 / 2."""
    samples, total = row[SAMPLES], row[TOTAL]
    largest = 0.0
    for i in range(int(row[SPLITS]) - 1):  # the last one has nothing behind it
        at = FIRST + SPLIT * i
        before, part = row[at + _SAMPLES], row[at + _TOTAL]
        after = samples - before
        gap = part / before - (total - part) / after
        largest = max(largest, before * after / samples * gap * gap / 2.0)
    return largest
