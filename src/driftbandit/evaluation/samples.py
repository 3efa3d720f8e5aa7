"""A log as four numbers per event, and every estimator by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, as_number, unknown_name
from driftbandit.evaluation.estimators import (
    Terms,
    as_columns,
    as_propensities,
    dm,
    dr,
    dros,
    ips,
    sndr,
    snips,
    switch_dr,
)

_LIMITS = (1000.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5)
_ROUNDED = 1e-3
_ALL = ("weights", "rewards", "predicted", "expected")

ESTIMATORS: dict[str, tuple[Callable[..., Terms], tuple[str, ...]]] = {
    "ips": (ips, _ALL[:2]),
    "snips": (snips, _ALL[:2]),
    "dm": (dm, _ALL[3:]),
    "dr": (dr, _ALL),
    "sndr": (sndr, _ALL),
    "switch_dr": (switch_dr, (*_ALL, "limit")),
    "dros": (dros, (*_ALL, "limit")),
}
"""Every estimator by name, with what it takes."""


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """The four numbers of every event, from which every estimator is computed.

    Attributes
    ----------
    weights : array of shape (n,)
        pi(a|x) / p of the displayed arm.
    rewards : array of shape (n,)
        What it earned.
    predicted : array of shape (n,)
        What the reward model predicts for it.
    expected : array of shape (n,)
        What the reward model predicts for the policy.

    Examples
    --------
    >>> sample = Sample(weights=[2.0, 0.0], rewards=[1.0, 0.0], predicted=[0.5, 0.5], expected=[0.5, 0.4])
    >>> sample.terms("ips").value, sample.terms("dr").value
    (1.0, 0.95)
    """

    weights: Floats
    rewards: Floats
    predicted: Floats
    expected: Floats

    def __post_init__(self) -> None:
        for name, column in zip(_ALL, as_columns(**{name: getattr(self, name) for name in _ALL}), strict=True):
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, part: slice) -> Sample:
        return Sample(self.weights[part], self.rewards[part], self.predicted[part], self.expected[part])

    @classmethod
    def of_probabilities(
        cls, target: ArrayLike, model: ArrayLike, shown: ArrayLike, propensities: ArrayLike, rewards: ArrayLike
    ) -> Sample:
        """Make the sample from the policy's probabilities and the model's predictions for all arms.

        Parameters
        ----------
        target, model : arrays of shape (n, K)
            The policy's probability of every arm, and the predicted reward of every arm. `expected` is the mean of
            the predictions weighted by these probabilities, so rounded ones that do not quite add up to 1 are fine.
        shown : array of shape (n,)
            Which arm was displayed, from 0.
        propensities, rewards : arrays of shape (n,)
            The logger's probability of that arm, and what it earned.
        """
        chances, predictions, arms = np.asarray(target, float), np.asarray(model, float), np.asarray(shown)
        if chances.ndim != 2 or chances.shape != predictions.shape or arms.shape != chances.shape[:1]:
            raise ValueError(
                "target, model, shown: expected shapes (n, K), (n, K) and (n,), "
                f"got {chances.shape}, {predictions.shape} and {arms.shape}"
            )
        if not np.isin(arms, np.arange(chances.shape[1])).all():
            raise ValueError(f"shown: expected whole numbers from 0 to {chances.shape[1] - 1}")
        totals = chances.sum(axis=1)
        if (chances < 0.0).any() or not (np.abs(totals - 1.0) < _ROUNDED).all():
            raise ValueError(f"target: expected probabilities that add up to 1 in every row, within {_ROUNDED}")
        events = np.arange(len(arms)), arms.astype(np.int64)
        weights = chances[events] / as_propensities(propensities, len(arms))
        return cls(
            weights, np.asarray(rewards, float), predictions[events], (chances * predictions).sum(axis=1) / totals
        )

    def terms(self, estimator: str = "dr", *, limit: float | None = None) -> Terms:
        """The terms of an estimator by its name; the table in `evaluation.estimators` lists them.

        Parameters
        ----------
        estimator : str
            One of `ESTIMATORS`.
        limit : float, optional
            For ``switch_dr`` and ``dros``, which need it; see `choose_limit`.
        """
        if estimator not in ESTIMATORS:
            raise ValueError(unknown_name("estimator", estimator, ESTIMATORS))
        function, names = ESTIMATORS[estimator]
        known = {**{name: getattr(self, name) for name in _ALL}, "limit": limit}
        if "limit" in names and limit is None:
            raise ValueError(f"limit: {estimator} needs one, got None; give a number, or one from choose_limit")
        return function(**{name: known[name] for name in names})


def choose_limit(sample: Sample, estimator: str, *, share: float = 0.2) -> tuple[float, Sample]:
    """Choose `limit` on the first part of a log, and return it with the rest of the log to use it on.

    For each limit of a fixed grid (0.5 to 1,000) the error is put at ``(estimate - DR)^2 + variance of the mean``, as
    seen in the first part: DR has no bias, so the difference to it shows the bias that the limit brings. The limit with
    the smallest error wins, the larger one on a tie. The rows that chose it are not in the returned sample.

    Parameters
    ----------
    sample : Sample
        All events, in order.
    estimator : {'switch_dr', 'dros'}
        What the limit is for.
    share : float
        Size of the first part.
    """
    count = int(as_number("share", share, 0.0, 1.0, open_low=True) * len(sample))
    if not 2 <= count < len(sample):
        raise ValueError(f"share: expected a first part of at least 2 of {len(sample)} events and not all, got {count}")
    first = sample[:count]
    unbiased = first.terms("dr").value
    errors = []
    for limit in _LIMITS:
        terms = first.terms(estimator, limit=limit)
        errors.append((terms.value - unbiased) ** 2 + terms.influences().var(ddof=1) / count)
    return _LIMITS[int(np.argmin(errors))], sample[count:]
