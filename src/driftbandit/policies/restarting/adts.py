"""adTS: Thompson sampling that compares its recent past with its less recent past.

Every `check_every` rounds ridge models of the last two windows are compared by a Mahalanobis distance; when the
series of these distances changes its level (Taylor's CUSUM range against random permutations), everything is
forgotten. Hariri, Mobasher and Burke, IJCAI 2015, in the form that the dLinUCB authors released.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, as_count, as_dim, as_example, as_number
from driftbandit.detection.taylor import change_confidence, cusum_range
from driftbandit.models.thompson import ThompsonModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, from_brief


class AdTS(ModelPolicy):
    """Adaptive Thompson sampling.

    Parameters
    ----------
    dim : int
        Number of features.
    ridge : float
        Precision of the prior, for the policy's model and each window's.
    explore : float
        Scale of the posterior's standard deviation (v).
    per_arm : bool
        Draw a fresh theta for every arm, as the released code does, instead of one per round, as the paper says.
    window : int
        Rounds in each of the two windows.
    check_every : int
        Rounds between two distances.
    least_checks, most_checks : int
        Distances needed for a test, and how many of the latest ones it looks at.
    resamples : int
        Random permutations per test.
    level : float
        Confidence above which a change is reported.
    seed : int
        Seed of the policy's own generator.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = AdTS(dim=2, window=50, check_every=10)
    >>> for t in range(400):
    ...     x = rng.standard_normal(2)
    ...     changes = policy.learn(x, x.sum() if t < 200 else -x.sum())
    >>> [change.kind for change in policy.changes]
    ['restarted']
    """

    evidence = ("range", "confidence", "level")
    _parts = (*ModelPolicy._parts, "_recent", "_since", "_distances", "_checks")

    def __init__(
        self,
        dim: int,
        *,
        ridge: float = 1.0,
        explore: float = 0.1,
        per_arm: bool = True,
        window: int = 200,
        check_every: int = 50,
        least_checks: int = 5,
        most_checks: int = 200,
        resamples: int = 1000,
        level: float = 0.95,
        seed: int = 0,
    ) -> None:
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.explore = as_number("explore", explore, 0.0)
        self.per_arm = bool(per_arm)
        model = ThompsonModel(as_dim(dim), ridge=self.ridge, explore=self.explore, per_arm=self.per_arm)
        super().__init__(dim, model, seed)
        self.window = as_count("window", window)
        self.check_every = as_count("check_every", check_every)
        self.least_checks = as_count("least_checks", least_checks, least=2)
        self.resamples = as_count("resamples", resamples)
        self.level = as_number("level", level, 0.0, 1.0)
        self._recent = np.zeros((2 * self.window, self.dim + 1))  # a ring of features and reward
        self._since = 0  # rounds since the last change
        self.most_checks = as_count("most_checks", most_checks, least=least_checks)
        self._distances = np.zeros(self.most_checks)
        self._checks = 0

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features; every `check_every` rounds test for a change."""
        x = as_example(features, self.dim)
        super().learn(x, reward, arm)
        slot = self._since % len(self._recent)
        self._recent[slot, :-1] = x
        self._recent[slot, -1] = reward
        self._since += 1
        if self._since < len(self._recent) or self._since % self.check_every:
            return ()
        return self._check()

    def _check(self) -> tuple[Change, ...]:
        ordered = np.roll(self._recent, -(self._since % len(self._recent)), axis=0)
        distance = _distance(ordered[: self.window], ordered[self.window :], self.ridge)
        self._distances[self._checks % len(self._distances)] = distance
        self._checks += 1
        if self._checks < self.least_checks:
            return ()
        length = min(self._checks, len(self._distances))
        series = np.roll(self._distances[:length], -(self._checks % length))
        confidence = change_confidence(series, self.resamples, self._generator)
        if confidence <= self.level:
            return ()
        self._model.reset(self._row)
        self._since = self._checks = 0
        evidence = {
            "range": float(cusum_range(series)),
            "confidence": confidence,
            "level": self.level,
        }
        return self._report(Change(self.rounds, "restarted", 0, evidence))


def _distance(older: Floats, newer: Floats, ridge: float) -> float:
    """(mu1 - mu2)' ((B1 + B2) / 2) (mu1 - mu2) of ridge models of two windows."""
    prior = ridge * np.eye(older.shape[1] - 1)
    first, second = (prior + part[:, :-1].T @ part[:, :-1] for part in (older, newer))
    gap = np.linalg.solve(first, older[:, :-1].T @ older[:, -1]) - np.linalg.solve(
        second, newer[:, :-1].T @ newer[:, -1]
    )
    return float(gap @ (first + second) @ gap / 2.0)


ENTRIES = (
    Entry(
        name="adts",
        title="adTS",
        summary="Thompson sampling that restarts when two windows drift apart",
        policy=AdTS,
        settings=from_brief("dim", "seed"),
        page="adts",
        place=70,
    ),
)
