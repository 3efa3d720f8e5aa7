"""What a reward model must be able to do, and what it gets for free."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from driftbandit.core import LARGEST, Floats, Ints
from driftbandit.kernels.compile import fill_in
from driftbandit.kernels.ridge import first_best, usable
from driftbandit.kernels.windows import NOT_FINITE, judge_round


class RewardModel:
    """Base class of reward models; subclass it to bring your own.

    A model object holds settings only. What it has learned lives in a flat float64 row of length `size`, owned by the
    policy, so that any number of members share one model object and saving a policy is saving arrays. Write `reset`,
    `predict` and `update`; `choose` and `judge` come from here, in plain Python. The shipped models replace
    those two with compiled ones.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean.
    ridge, explore, delta :
        Regularisation, exploration and error probability, as `DLinUCB` got them; use what fits.

    Examples
    --------
    A member that ignores the features and trusts the mean of what it has seen:

    >>> from driftbandit import DLinUCB, RewardModel
    >>> class RunningMean(RewardModel):
    ...     size = 2  # how many rewards, and their mean
    ...     def reset(self, row):
    ...         row[:] = 0.0
    ...     def predict(self, row, x):
    ...         return row[1], 1.0 / (1.0 + row[0]) ** 0.5
    ...     def update(self, row, x, reward):
    ...         row[0] += 1.0
    ...         row[1] += (reward - row[1]) / row[0]
    >>> policy = DLinUCB(dim=1, noise=0.1, model=RunningMean)
    >>> for reward in [0.5] * 200 + [-0.4] * 20:
    ...     changes = policy.learn([1.0], reward)
    >>> [change.kind for change in policy.changes][:1]
    ['spawned']
    """

    reward_range: ClassVar[tuple[float, float]] = (-LARGEST, LARGEST)
    samples: ClassVar[bool] = False
    """Whether `choose` draws from its generator (from the posterior, say), rather than score by prediction + width."""
    size: int

    def __init__(
        self,
        dim: int,
        *,
        noise: float = 1.0,
        ridge: float = 0.1,
        explore: object = None,
        delta: float = 0.01,
    ) -> None:
        self.dim = dim
        self.noise = noise
        self.ridge = ridge
        self.explore = explore
        self.delta = delta

    def _keeps(self, kind: type[RewardModel]) -> bool:
        """Whether predictions and updates are those of `kind`, so that its compiled `judge` may be used."""
        mine = type(self)
        return mine.predict is kind.predict and mine.update is kind.update

    def reset(self, row: Floats) -> None:
        """Forget everything, in place."""
        raise NotImplementedError(f"{type(self).__name__}.reset")

    def predict(self, row: Floats, x: Floats) -> tuple[float, float]:
        """Predicted reward of an arm with features `x`, and how far off the mean reward may be."""
        raise NotImplementedError(f"{type(self).__name__}.predict")

    def update(self, row: Floats, x: Floats, reward: float) -> object:
        """Absorb one reward, in place."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def measure(self, row: Floats, x: Floats) -> tuple[float, float]:
        """Predicted reward, and its variance in units of the noise's (0 where a model does not know it)."""
        return self.predict(row, x)[0], 0.0

    def weights(self, row: Floats) -> Floats | None:
        """One weight per feature, a view into the row; None where a model has no such weights."""
        return None

    def tune(self, rows: Floats, noise: float, reach: float) -> None:
        """Take note, in place, of new estimates of the noise (0 if not known yet) and of what |theta| may be."""

    def correct(self, row: Floats, change: Floats, ridge: float) -> None:
        """Start anew, in place, from predictions changed by x'change and with `ridge` for data; here from nothing."""
        self.reset(row)

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        """Index of the arm that row `member` would play, here the highest prediction + width; -1 if not finite."""
        scores = np.array([self.score(bank[member], x) for x in features], dtype=np.float64)
        return first_best(scores)

    def score(self, row: Floats, x: Floats) -> float:
        """How promising an arm is, the higher the better; NaN if its features are not usable."""
        if not usable(x[np.newaxis], self.ridge):
            return float("nan")
        return float(sum(self.predict(row, x)))

    def scoring(self, row: Floats) -> Floats | None:
        """Settings with which `kernels.ridge.predict` gives the two parts of this row's scores, to do without Python.

        None where it does not, as in a model of your own.
        """
        return None

    def judge(self, bank: Floats, ledger: Ints, rules: Floats, count: int, x: Floats, reward: float) -> int:
        """Show one reward to the first `count` members of `bank`; see `kernels.windows.judge_round`."""
        if not usable(x[np.newaxis], self.ridge):
            return NOT_FINITE
        kind = type(self)
        judge = fill_in(judge_round, "judge_round_python", predict=kind.predict, update=kind.update)
        return judge(self, bank, ledger, rules, count, x, reward)
