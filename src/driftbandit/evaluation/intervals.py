"""Confidence intervals for rewards that come in time order: resample blocks, not rounds.

Rounds that follow each other share a user, a pool or a regime, so a bootstrap over single rounds is too sure of
itself. Whole blocks of consecutive rounds are drawn with replacement instead (Kuensch, Annals of Statistics 1989).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import as_count, as_number

_MOST_BLOCKS = 200


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3g} [{self.low:.3g}, {self.high:.3g}]"


def ratio_interval(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    block: int | None = None,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Ratio of two sums over the same rounds, such as clicks to views or a policy's reward to a random one's.

    Parameters
    ----------
    numerator, denominator : arrays of shape (n,)
        What is summed above and below, round by round.
    block : int, optional
        Rounds in a block, by default so many that there are about 200 blocks.
    resamples : int
        Bootstrap resamples.
    level : float
        Confidence level.
    seed : int
        Seed of the resampling.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> clicks = (rng.random(10_000) < 0.05).astype(float)
    >>> interval = ratio_interval(clicks, np.ones(10_000))
    >>> interval.low < 0.05 < interval.high
    True
    """
    pair = np.array([np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)])
    if pair.ndim != 2 or not pair.shape[1]:
        raise ValueError(f"numerator, denominator: expected two arrays of the same length, got shape {pair.shape}")
    if not np.isfinite(pair).all():
        raise ValueError("numerator, denominator: expected finite values")
    count = pair.shape[1]
    length = -(-count // _MOST_BLOCKS) if block is None else as_count("block", block)
    tail = as_number("level", level, 0.0, 1.0) / 2.0
    sums = np.add.reduceat(pair, np.arange(0, count, length), axis=1)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(sums.shape[1], size=(as_count("resamples", resamples), sums.shape[1]))
    top, bottom = sums[0][drawn].sum(axis=1), sums[1][drawn].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = top / bottom
        estimate = float(pair[0].sum() / pair[1].sum())
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return Interval(estimate, float("nan"), float("nan"))
    low, high = np.quantile(ratios, [0.5 - tail, 0.5 + tail]).tolist()
    return Interval(estimate, low, high)
