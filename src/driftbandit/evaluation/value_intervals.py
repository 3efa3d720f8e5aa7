"""Intervals for the value of a policy, and for the difference between two policies on the same events.

========================  ===================================================================================
interval                  when
========================  ===================================================================================
`bootstrap_interval`      any estimator, looked at once, at the end: the default
`normal_interval`         the same, faster, for thousands of events or more that do not depend on each other
`clopper_pearson`         rewards of 0 and 1 and few events: wide, and never too short if all weights are equal
`cressie_read`            IPS with a few large weights: not symmetric, and inside the range of rewards
`anytime.anytime_interval`  IPS, looked at again and again while the log grows
`robust_sequences.dr_sequence`  the same for DR
========================  ===================================================================================
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints, as_number
from driftbandit.evaluation.estimators import Terms, as_columns, ratio
from driftbandit.evaluation.intervals import _MOST_BLOCKS, Interval, bootstrap

_REACH = 3
"""Blocks on either side from which the bootstrap of values draws."""


def bootstrap_interval(
    terms: Terms, other: Terms | None = None, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Interval of an estimate, or of its difference to another on the same events, by the local block bootstrap.

    Events are cut into at most 200 blocks that count alike. A resample replaces each block by one of the 7 around it,
    itself included, so that a value that drifts is not taken for noise.

    Parameters
    ----------
    terms, other : Terms
        The estimate, and one to subtract.
    level : float
        Confidence level.
    resamples, seed :
        As in `intervals.bootstrap`.

    Examples
    --------
    >>> from driftbandit.evaluation.estimators import ips
    >>> rng = np.random.default_rng(0)
    >>> clicks = (rng.random(4000) < 0.1).astype(float)
    >>> interval = bootstrap_interval(ips(np.ones(4000), clicks))
    >>> interval.low < 0.1 < interval.high
    True
    """
    both = [terms] if other is None else [terms, _paired(terms, other)]
    if len(terms):  # one after the other, because the columns of a long log are large
        starts = _starts(terms.share)
        sums = np.vstack([np.add.reduceat(one.columns(), starts, axis=1) for one in both])
    else:
        sums = np.zeros((4 * len(both), 1))

    def difference(totals: Floats) -> Floats:
        return ratio(totals[:4]) - (ratio(totals[4:]) if other is not None else 0.0)

    return bootstrap(sums, difference, resamples=resamples, level=level, seed=seed, reach=_REACH)


def _starts(share: Floats) -> Ints:
    """Where blocks start, so that each holds about the same share."""
    before = np.cumsum(share) - share
    blocks = min(_MOST_BLOCKS, len(share))
    return np.unique(np.searchsorted(before, np.arange(blocks) * (share.sum() / blocks)).clip(0, len(share) - 1))


def normal_interval(terms: Terms, other: Terms | None = None, *, level: float = 0.95) -> Interval:
    """Interval of an estimate, or of its difference to another on the same events, by the central limit theorem.

    Examples
    --------
    >>> from driftbandit.evaluation.estimators import ips
    >>> print(normal_interval(ips(weights=[1.0] * 4, rewards=[0.0, 1.0, 1.0, 0.0])))
    0.5 [-0.0658, 1.07]
    """
    from scipy.special import ndtri  # noqa: PLC0415 - SciPy is slow to import

    values, share = terms.influences(), terms.share
    if other is not None:
        values = values - _paired(terms, other).influences()
    z = float(ndtri(0.5 + as_number("level", level, 0.0, 1.0) / 2.0))
    if len(values) < 2:
        return Interval(float(values[0]) if len(values) else math.nan, math.nan, math.nan)
    share = share / share.sum()
    centre = float(share @ values)
    spread = math.sqrt(float(share**2 @ (values - centre) ** 2) * len(values) / (len(values) - 1))
    return Interval(centre, centre - z * spread, centre + z * spread)


def _paired(terms: Terms, other: Terms) -> Terms:
    if len(terms) != len(other) or not np.array_equal(terms.share, other.share):
        raise ValueError(f"other: expected terms of the same {len(terms)} events, got {len(other)} or other shares")
    return other


def clopper_pearson(
    weights: ArrayLike, rewards: ArrayLike, *, low: float = 0.0, high: float = 1.0, level: float = 0.95
) -> Interval:
    """Interval of the IPS estimate as if it counted successes: sum(w r) / max(w) of n / max(w).

    Exact for rewards of `low` and `high` if every weight is 0 or the same number; with other weights it is a cautious
    rule of thumb.

    Examples
    --------
    >>> print(clopper_pearson(weights=[1.0] * 10, rewards=[1.0] * 3 + [0.0] * 7))
    0.3 [0.0667, 0.652]
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - as above

    w, r, span = bounded(weights, rewards, low, high)
    tail = 0.5 - as_number("level", level, 0.0, 1.0) / 2.0
    if not w.any():
        return Interval(math.nan, low, high)
    successes, trials = float(w @ (r - low)) / span / float(w.max()), len(w) / float(w.max())
    bottom = float(betaincinv(successes, trials - successes + 1.0, tail)) if successes > 0.0 else 0.0
    top = float(betaincinv(successes + 1.0, trials - successes, 1.0 - tail)) if successes < trials else 1.0
    return Interval(low + span * successes / trials, low + span * bottom, low + span * top)


def cressie_read(
    weights: ArrayLike, rewards: ArrayLike, *, low: float = 0.0, high: float = 1.0, level: float = 0.95
) -> Interval:
    """Interval of a value by empirical likelihood with the Cressie-Read power divergence of order -2.

    Candidates are distributions q over the events and one event that was not seen, with a reward of `low` or `high` and
    a weight of 0 or without bound. Those with a mean weight of 1 that are not too unlike the data, by the mean of
    (n q - 1)^2, stay. The interval holds the values sum(q w r) of all that stay. Karampatziakis, Langford and Mineiro,
    'Empirical likelihood for contextual bandits', NeurIPS 2020.

    Examples
    --------
    >>> print(cressie_read(weights=[0.0, 2.0] * 20, rewards=[0.0, 1.0, 1.0, 0.0] * 10))
    0.5 [0.265, 0.735]
    """
    from scipy.stats import f  # noqa: PLC0415 - as above

    w, r, _ = bounded(weights, rewards, low, high)
    alpha = 1.0 - as_number("level", level, 0.0, 1.0)
    count = len(w)
    if not count:
        return Interval(math.nan, low, high)
    unseen = math.inf if w.sum() < count else 0.0  # which moves the mean weight towards 1
    closest = _tilt(w, np.zeros(count), unseen, 0.0)[2]
    budget = closest + float(f.isf(alpha, 1, count)) / (1 + count)
    ends = []
    for reward, sign in ((low, 1.0), (high, -1.0)):
        found = [sign * reward]
        for weight in (0.0, math.inf):
            centre, spread, cost = _tilt(w, sign * r, weight, sign * reward)
            if cost <= budget:
                found.append(centre - math.sqrt(spread * (budget - cost)))
        ends.append(sign * min(found[1:] or found))
    return Interval(_likely(w, r, unseen), min(max(ends[0], low), high), min(max(ends[1], low), high))


def _tilt(w: Floats, r: Floats, weight: float, reward: float) -> tuple[float, float, float]:
    """Distributions over the events and an unseen one (`weight`, `reward`) with a mean weight of 1.

    Returns the value of the one closest to the data, the variance of w r that the weights do not explain, and how far
    the closest one is from the data. A budget b beyond that distance buys a change of the value by sqrt(variance * b).
    """
    count = len(w)
    # With respect to `reward`: w r = w reward + rest, and the unseen event has no rest.
    rest = w * (r - reward)
    if math.isinf(weight):  # the limit: the unseen event has no mass, and supplies all weight that is missing
        return reward + float(rest.mean()), float(rest @ rest - rest.sum() ** 2 / count) / (1 + count), 1.0 / count
    w, rest = np.append(w, weight), np.append(rest, 0.0)
    away, variance = 1.0 - float(w.mean()), float(w.var())
    if variance == 0.0:
        return reward + float(rest.mean()), float(rest.var()), 0.0 if away == 0.0 else math.inf
    covariance = float((w - w.mean()) @ (rest - rest.mean())) / (1 + count)
    centre = reward + float(rest.mean()) + away * covariance / variance
    return centre, max(float(rest.var()) - covariance**2 / variance, 0.0), away**2 / variance


def _likely(w: Floats, r: Floats, unseen: float) -> float:
    """Value of the distribution closest to the data; the mass it gives to the unseen event earns the mean reward."""
    count = len(w)
    mass = np.full(count, 1.0 / count)
    if not math.isinf(unseen):
        both = np.append(w, unseen)
        if both.var() > 0.0:
            mass = (1.0 + (1.0 - both.mean()) * (w - both.mean()) / both.var()) / (1 + count)
    return float(mass @ (w * r)) + max(0.0, 1.0 - float(mass @ w)) * float(r.mean())


def bounded(weights: ArrayLike, rewards: ArrayLike, low: float, high: float) -> tuple[Floats, Floats, float]:
    """Weights, rewards, and the size of the range that the rewards must be in."""
    w, r = as_columns(weights=weights, rewards=rewards)
    low, high = as_number("low", low), as_number("high", high)
    if low >= high or (len(r) and (r.min() < low or r.max() > high)):
        ends = f"{r.min():g} to {r.max():g}" if len(r) else "none"
        raise ValueError(f"low, high: expected a range that holds all rewards, {ends}, got {low:g} to {high:g}")
    return w, r, high - low
