"""What a reward model must implement, and what it inherits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from driftbandit.core import LARGEST, Floats, Ints
from driftbandit.kernels.compile import fill_in
from driftbandit.kernels.ridge import first_best, predictions, usable
from driftbandit.kernels.watching import Bytes
from driftbandit.kernels.windows import NOT_FINITE, judge_round


class RewardModel:
    """Base class of reward models; subclass it to bring your own.

    A model object holds settings only. What it has learned lives in a flat float64 row of length `size`, owned by the
    policy, so that any number of members share one model object and saving a policy is saving arrays. Write `reset`,
    `predict` and `update`; `choose`, `scores` and `judge` come from here, in plain Python. The shipped models replace
    `choose` and `judge` with compiled versions. A subclass of a shipped model that overrides `predict`, `update` or
    `score` gets the plain versions back, which call the overridden methods.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean.
    ridge, explore, delta :
        Regularisation, exploration and error probability, as given to `DLinUCB`; use what fits.

    Examples
    --------
    A member that ignores the features and predicts the mean of past rewards:

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
    """Lowest and highest reward that the model takes; others are refused."""
    samples: ClassVar[bool] = False
    """Whether `choose` draws from its generator (from the posterior, say), rather than score by prediction + width."""
    takes_radius: ClassVar[bool] = False
    """Whether the constructor takes `radius`, a `Radius` for the width of predictions.

    Under ``noise='auto'`` it is also given `squared`: whether that radius grows with the square of the noise.
    """
    follows_noise: ClassVar[bool] = True
    """Whether the model can be a member under ``noise='auto'``: it needs no noise, or learns it through `tune`."""
    size: int
    """Length of a row."""

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

    def _compiled_for(self, kind: type[RewardModel]) -> None:
        """Note which methods are not overridden, so that the compiled code of `kind` may replace them."""
        mine = type(self)
        self._keeps_predict = mine.predict is kind.predict
        self._keeps_score = mine.score is kind.score
        self._fast_choose = self._keeps_predict and self._keeps_score
        self._fast_judge = self._keeps_predict and mine.update is kind.update

    @property
    def judges_many(self) -> bool:
        """Whether the model has `judge_many`, and rows whose `weights` are not None."""
        return False

    @property
    def watches(self) -> bool:
        """Whether the model has `watch`."""
        return False

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
        """Predicted reward, and its variance in units of the noise variance (0 if a model does not know it)."""
        return self.predict(row, x)[0], 0.0

    def weights(self, row: Floats) -> Floats | None:
        """One weight per feature, a view into the row; None if a model has no weights."""
        return None

    def tune(self, rows: Floats, noise: float, reach: float) -> None:
        """Write new estimates of the noise (0 if not known yet) and of the bound on |theta| into the rows."""

    def correct(self, row: Floats, change: Floats, ridge: float) -> None:
        """Start anew, in place, after a shift that changed predictions by x'change; by default from nothing.

        A model that starts from its old predictions plus x'change must be as unsure as a fresh model with `ridge`.
        """
        self.reset(row)

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        """Index of the arm that row `member` would play, by default by prediction + width; -1 if not finite."""
        return first_best(self.scores(bank, member, features, generator))

    @property
    def chooses_by_scores(self) -> bool:
        """Whether `choose` plays the highest of `scores`; not in a subclass that overrides `choose` alone."""
        kind = next(kind for kind in type(self).__mro__ if vars(kind).keys() & {"choose", "scores"})
        return "scores" in vars(kind)

    def scores(self, bank: Floats, member: int, features: Floats, generator: Generator) -> Floats:
        """Scores of all arms, of which `choose` plays the highest; not finite where features are not usable."""
        row = bank[member]
        settings = self.scoring(row)
        if settings is None:
            return np.array([self.score(row, x) for x in features], dtype=np.float64)
        scores: Floats = predictions(settings, row, features).sum(axis=1)
        return scores

    def score(self, row: Floats, x: Floats) -> float:
        """How promising an arm is, the higher the better; NaN if its features are not usable."""
        if not usable(x[np.newaxis], self.ridge):
            return float("nan")
        return float(sum(self.predict(row, x)))

    def scoring(self, row: Floats) -> Floats | None:
        """Settings with which `kernels.ridge.predict` gives the two parts of this row's scores, in compiled code.

        None if scores are computed in another way, as in a model of your own.
        """
        return None

    def judge(self, bank: Floats, ledger: Ints, rules: Floats, count: int, x: Floats, reward: float) -> int:
        """Show one reward to the first `count` members of `bank`; see `kernels.windows.judge_round`."""
        if not usable(x[np.newaxis], self.ridge):
            return NOT_FINITE
        kind = type(self)
        judge = fill_in(judge_round, "judge_round_python", predict=kind.predict, update=kind.update)
        return judge(self, bank, ledger, rules, count, x, reward)

    def judge_many(
        self,
        bank: Floats,
        ledger: Ints,
        rules: Floats,
        count: int,
        leader: int,
        xs: Floats,
        rewards: Floats,
        before: Floats,
    ) -> tuple[int, int]:
        """Show many rewards to the members; see `kernels.windows.judge_rounds`. Only if `judges_many`."""
        raise NotImplementedError(f"{type(self).__name__}.judge_many")

    def watch(
        self,
        bank: Floats,
        member: int,
        features: Floats,
        offsets: Ints,
        shown: Ints,
        rewards: Floats,
        lessons: Bytes,
        choices: Ints,
    ) -> tuple[int, bool]:
        """Go through logged events, choosing and learning; see `kernels.watching.watch`. Only if `watches`."""
        raise NotImplementedError(f"{type(self).__name__}.watch")
