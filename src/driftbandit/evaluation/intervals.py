"""Confidence intervals for rewards that come in time order: resample blocks, not rounds.

Rounds that follow each other share a user, a pool or a regime, so a bootstrap over single rounds gives intervals that
are too narrow. Whole blocks of consecutive rounds are drawn with replacement instead (Kuensch, Annals of Statistics
1989).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, as_count, as_number

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
        The numbers to sum, one per round.
    block : int, optional
        Rounds per block; by default there are about 200 blocks.
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
    length = block_length(count) if block is None else as_count("block", block)
    sums: Floats = np.add.reduceat(pair, np.arange(0, count, length), axis=1)
    return bootstrap(sums, lambda both: both[0] / both[1], resamples=resamples, level=level, seed=seed)


def block_length(count: int) -> int:
    """Rounds in a block, so that there are about 200 blocks."""
    return max(-(-count // _MOST_BLOCKS), 1)


def bootstrap(
    sums: Floats,
    ratio: Callable[[Floats], Floats],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    reach: int | None = None,
) -> Interval:
    """Interval for a function of sums, by drawing blocks with replacement.

    Parameters
    ----------
    sums : array of shape (m, blocks)
        Block sums of m quantities.
    ratio : callable
        Turns m totals, an array of shape (m, ...), into the quantity of interest; values that are not finite are left
        out.
    resamples, level, seed :
        As in `ratio_interval`.
    reach : int, optional
        Replace a block by one that is at most this many blocks away, instead of by any block. What differs between far
        blocks is then not taken for noise (the local block bootstrap of Paparoditis and Politis, 2002). Resamples from
        m neighbours spread too little by sqrt((m - 1) / m), which is made good.
    """
    tail = as_number("level", level, 0.0, 1.0) / 2.0
    rng = np.random.default_rng(seed)
    shape = as_count("resamples", resamples), sums.shape[1]
    stretch = 1.0
    if reach is None:
        drawn = rng.integers(sums.shape[1], size=shape)
    else:
        width = min(2 * as_count("reach", reach) + 1, sums.shape[1])
        first = np.clip(np.arange(sums.shape[1]) - width // 2, 0, sums.shape[1] - width)
        drawn = first + rng.integers(width, size=shape)
        stretch = (width / max(width - 1, 1)) ** 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = ratio(np.array([row[drawn].sum(axis=1) for row in sums]))
        estimate = float(ratio(sums.sum(axis=1)))
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return Interval(estimate, float("nan"), float("nan"))
    low, high = np.quantile(ratios, [0.5 - tail, 0.5 + tail]).tolist()
    if reach is not None:
        low, high = estimate + stretch * (low - estimate), estimate + stretch * (high - estimate)
    return Interval(estimate, low, high)
