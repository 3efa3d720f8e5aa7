"""What would another policy have earned? Seven answers from a log with propensities.

An event of the log is turned into four numbers: w = pi(a|x) / p, how much more often the policy shows the displayed arm
than the logger did; r, its reward; q, the reward that a model predicts for it; and q(pi) = sum of pi(a|x) q(x, a), the
reward that the model predicts for the policy. Every estimate is a sum of two parts, each a mean over the events::

    sum of share * base / sum of share  +  sum of share * correction / sum of share * scale

================  ========  ===============================  =====
estimator         base      correction                       scale
================  ========  ===============================  =====
``ips``           0         w r                              1
``snips``         0         w r                              w
``dm``            q(pi)     0                                1
``dr``            q(pi)     w (r - q)                        1
``sndr``          q(pi)     w (r - q)                        w
``switch_dr``     q(pi)     w 1[w <= limit] (r - q)          1
``dros``          q(pi)     limit w / (w^2 + limit) (r - q)  1
================  ========  ===============================  =====

`Terms` keeps these columns event by event. Windows, decay, value over time, intervals and paired differences are all
computed from them.

Dudik, Erhan, Langford and Li, Statistical Science 2014 (DR); Wang, Agarwal and Dudik, ICML 2017 (Switch); Su and
others, ICML 2020 (DRos); Jagerman, Markov and de Rijke, WSDM 2019 (windows and decay).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints, as_count, as_number


@dataclass(frozen=True, eq=False, slots=True)
class Terms:
    """What each event adds to an estimate.

    Attributes
    ----------
    base, correction, scale : arrays of shape (n,)
        The columns of the table above.
    share : array of shape (n,)
        How much each event counts; all 1 unless the estimate decays.

    Examples
    --------
    >>> terms = snips(weights=[2.0, 0.0, 1.0], rewards=[1.0, 1.0, 0.5])
    >>> round(terms.value, 6), round(terms.last(2).value, 6)
    (0.833333, 0.5)
    """

    base: Floats
    correction: Floats
    scale: Floats
    share: Floats

    def __len__(self) -> int:
        return len(self.share)

    @property
    def value(self) -> float:
        """The estimate; NaN without events, and where all weights of a self-normalised estimator are 0."""
        return float(ratio(self.columns().sum(axis=1)))

    def columns(self) -> Floats:
        """Base, correction, scale and 1, each times share: shape (4, n). Sums of these are what `ratio` takes."""
        return np.array([self.share * self.base, self.share * self.correction, self.share * self.scale, self.share])

    def influences(self) -> Floats:
        """One number per event; their mean, weighted by `share`, is the estimate and their spread is its noise.

        For a self-normalised estimator this is the linear approximation, which the normal interval uses.
        """
        _, correction, scale, share = self.columns().sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = correction / scale
            found: Floats = self.base + level + (self.correction - level * self.scale) * (share / scale)
        return found

    def last(self, window: int) -> Terms:
        """The same estimate over the latest `window` events: the value now, not on average."""
        return self[-as_count("window", window) :]

    def decaying(self, rate: float) -> Terms:
        """The same estimate with weights that fall by the factor `rate` per event into the past.

        Event i of n weighs ``(1 - rate) / (1 - rate**n) * rate**(n - i)``; an average over about 1 / (1 - rate) events.
        """
        rate = as_number("rate", rate, 0.0, 1.0, open_low=True)
        return Terms(self.base, self.correction, self.scale, self.share * rate ** np.arange(len(self) - 1.0, -1.0, -1))

    def over_time(self, window: int, points: int = 100) -> tuple[Ints, Floats]:
        """Value over time: event numbers at which windows end, and the estimate over each window."""
        window = min(as_count("window", window), len(self))
        ends = np.unique(np.linspace(window, len(self), as_count("points", points)).astype(np.int64))
        sums = np.concatenate([np.zeros((4, 1)), np.cumsum(self.columns(), axis=1)], axis=1)
        return ends, ratio(sums[:, ends] - sums[:, ends - window])

    def __getitem__(self, part: slice) -> Terms:
        return Terms(self.base[part], self.correction[part], self.scale[part], self.share[part])


def ratio(sums: Floats) -> Floats:
    """The estimate from sums of the four columns, shape (4, ...)."""
    base, correction, scale, share = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        value: Floats = base / share + correction / scale
    return value


def ips(weights: ArrayLike, rewards: ArrayLike) -> Terms:
    """Inverse propensity scores: mean(w r). Unbiased, and noisy where weights are large.

    >>> ips(weights=[2.0, 0.0], rewards=[1.0, 1.0]).value
    1.0
    """
    w, r = as_columns(weights=weights, rewards=rewards)
    return Terms(np.zeros(len(w)), w * r, np.ones(len(w)), np.ones(len(w)))


def snips(weights: ArrayLike, rewards: ArrayLike) -> Terms:
    """Self-normalised IPS: sum(w r) / sum(w). Inside the range of rewards, with a small bias that fades.

    >>> snips(weights=[2.0, 0.0], rewards=[1.0, 1.0]).value
    1.0
    """
    w, r = as_columns(weights=weights, rewards=rewards)
    return Terms(np.zeros(len(w)), w * r, w, np.ones(len(w)))


def dm(expected: ArrayLike) -> Terms:
    """Direct method: mean(q(pi)). As good as the reward model; its intervals do not include the model's error.

    >>> dm(expected=[0.5, 0.7]).value
    0.6
    """
    (q,) = as_columns(expected=expected)
    return Terms(q, np.zeros(len(q)), np.ones(len(q)), np.ones(len(q)))


def dr(weights: ArrayLike, rewards: ArrayLike, predicted: ArrayLike, expected: ArrayLike) -> Terms:
    """Doubly robust: mean(q(pi) + w (r - q)). Unbiased, and less noisy than IPS if the model is any good.

    >>> dr(weights=[2.0, 0.0], rewards=[1.0, 1.0], predicted=[0.5, 0.5], expected=[0.5, 0.5]).value
    1.0
    """
    return _doubly_robust(lambda w: w, weights, rewards, predicted, expected)


def sndr(weights: ArrayLike, rewards: ArrayLike, predicted: ArrayLike, expected: ArrayLike) -> Terms:
    """Self-normalised DR: `dr` with w / mean(w) in place of w.

    >>> sndr(weights=[2.0, 2.0], rewards=[1.0, 1.0], predicted=[0.5, 0.5], expected=[0.5, 0.5]).value
    1.0
    """
    terms = dr(weights, rewards, predicted, expected)
    return Terms(terms.base, terms.correction, as_columns(weights=weights)[0], terms.share)


def switch_dr(weights: ArrayLike, rewards: ArrayLike, predicted: ArrayLike, expected: ArrayLike, limit: float) -> Terms:
    """Switch-DR: `dr` where w is at most `limit`, and the model alone elsewhere.

    >>> switch_dr([2.0, 9.0], [1.0, 1.0], predicted=[0.5, 0.5], expected=[0.5, 0.5], limit=3.0).value
    1.0
    """
    limit = as_number("limit", limit, 0.0)
    return _doubly_robust(lambda w: np.where(w <= limit, w, 0.0), weights, rewards, predicted, expected)


def dros(weights: ArrayLike, rewards: ArrayLike, predicted: ArrayLike, expected: ArrayLike, limit: float) -> Terms:
    """DR with optimistic shrinkage: `dr` with limit w / (w^2 + limit) in place of w, which is at most sqrt(limit) / 2.

    >>> dros([1.0, 1.0], [1.0, 1.0], predicted=[0.5, 0.5], expected=[0.5, 0.5], limit=1.0).value
    0.75
    """
    limit = as_number("limit", limit, 0.0, open_low=True)
    return _doubly_robust(lambda w: limit * w / (w * w + limit), weights, rewards, predicted, expected)


def _doubly_robust(
    tame: Callable[[Floats], Floats],
    weights: ArrayLike,
    rewards: ArrayLike,
    predicted: ArrayLike,
    expected: ArrayLike,
) -> Terms:
    w, r, q, base = as_columns(weights=weights, rewards=rewards, predicted=predicted, expected=expected)
    return Terms(base, tame(w) * (r - q), np.ones(len(w)), np.ones(len(w)))


def as_columns(**given: ArrayLike) -> list[Floats]:
    """Check arrays of one length, with a finite number per event and no weight below 0."""
    columns: list[Floats] = []
    for name, values in given.items():
        try:
            column = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected real numbers, one per event ({error})") from error
        if column.ndim != 1 or (columns and len(column) != len(columns[0])):
            shape = f"({len(columns[0])},)" if columns else "(n,)"
            raise ValueError(f"{name}: expected shape {shape}, got {column.shape}")
        if not np.isfinite(column).all():
            where = int(np.argmin(np.isfinite(column)))
            raise ValueError(f"{name}: expected finite numbers, got {column[where]} at event {where}")
        if "weights" in name and (column < 0.0).any():
            where = int(np.argmax(column < 0.0))
            raise ValueError(f"{name}: expected numbers of at least 0, got {column[where]} at event {where}")
        columns.append(column)
    return columns


def as_propensities(given: ArrayLike, count: int) -> Floats:
    """Check the logger's probabilities: one for each of `count` events, above 0 and at most 1."""
    chances = np.asarray(given, dtype=np.float64)
    if chances.shape != (count,):
        raise ValueError(f"propensities: expected shape ({count},), got {chances.shape}")
    wrong = ~((chances > 0.0) & (chances <= 1.0))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(f"propensities: expected numbers above 0 and at most 1, got {chances[where]} at event {where}")
    return chances
