"""What policies share: a change log, a round counter, and a policy around a single reward model."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Floats, Ints, as_dim, as_example, as_pool, as_reward, not_finite
from driftbandit.kernels.ridge import COUNT
from driftbandit.models.base import RewardModel
from driftbandit.policies.traits import Once, Traits
from driftbandit.state import ChangeLog, Stateful, new_generator


class PolicyBase(Traits, Stateful):
    """Counts rounds and remembers the latest changes; subclasses add `choose` and `learn`.

    Subclasses also override the traits that do not fit them, keep every argument of the constructor as an attribute of
    the same name (`settings` reads them), and name their memory in ``_parts``, random generators included.
    """

    _parts: ClassVar[tuple[str, ...]] = ("rounds", "_log")

    def __init__(self) -> None:
        self.rounds = 0
        self.warned = Once()
        self._log = ChangeLog(self.evidence)

    @property
    def is_random(self) -> bool:
        """Whether `choose` may answer the same pool differently without having learned in between.

        Unless overridden: whether the policy keeps a random generator.
        """
        return any(isinstance(getattr(self, name), Generator) for name in self._parts)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The latest 1,000 changes, oldest first."""
        return tuple(self._log)

    def _standing(self) -> dict[str, int]:
        return {"rounds": self.rounds, "changes": self._log.total}

    def _report(self, *changes: Change) -> tuple[Change, ...]:
        for change in changes:
            self._log.append(change)
        return changes


def finite_scores(scores: Floats, pool: Floats) -> Floats:
    """Return the scores of a pool, or raise ValueError with what is wrong with its features."""
    if not np.isfinite(scores).all():
        raise not_finite(pool)
    return scores


class MemberPolicy(PolicyBase):
    """A policy that lets one row of a bank of reward models choose; subclasses fill the bank and add `learn`."""

    dim: int
    _parts: ClassVar[tuple[str, ...]] = (*PolicyBase._parts, "_bank", "_leader", "_generator")

    def __init__(self, dim: int, model: RewardModel, seed: int) -> None:
        super().__init__()
        self.dim = as_dim(dim)
        self._model = model
        self._low, self._high = model.reward_range
        self._bank = np.zeros((1, model.size))
        self._leader = 0
        self._generator = new_generator(seed)
        self.seed = int(seed)
        model.reset(self._bank[0])

    @property
    def reward_model(self) -> RewardModel:
        """The model that predicts rewards, which holds settings only."""
        return self._model

    @property
    def is_random(self) -> bool:
        """Whether the model draws from its posterior to choose."""
        return self._model.samples

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """Lowest and highest reward that the model takes."""
        return self._low, self._high

    @property
    def feature_weights(self) -> Floats | None:
        """Weights of the model that chooses next, one per feature; None for a model without weights."""
        return self._model.weights(self.leading_row)

    @property
    def leading_row(self) -> Floats:
        """What the model that chooses next has learned."""
        row: Floats = self._bank[self._leader]
        return row

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play among this round's candidates.

        Parameters
        ----------
        features : array of shape (K, dim)
            The candidates' features.
        arms : ignored
            Accepted so that every policy can be called alike.
        """
        pool = as_pool(features, self.dim)
        best = self._model.choose(self._bank, self._leader, pool, self._generator)
        if best < 0:
            raise not_finite(pool)
        return best

    @property
    def ranks_by_scores(self) -> bool:
        """Whether the model chooses by its scores; not if a model of your own chooses in a way of its own."""
        return self._model.chooses_by_scores

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> Floats:
        """Score of every candidate, the highest of which `choose` plays; `arms` is ignored."""
        pool = as_pool(features, self.dim)
        return finite_scores(self._model.scores(self._bank, self._leader, pool, self._generator), pool)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features, shape (dim,); returns the changes it revealed."""
        raise NotImplementedError


class ModelPolicy(MemberPolicy):
    """A policy that is one reward model and nothing else."""

    _derived = frozenset({"_row"})

    def __init__(self, dim: int, model: RewardModel, seed: int = 0) -> None:
        super().__init__(dim, model, seed)
        self._row = self._bank[0]

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features, shape (dim,); returns the changes it revealed."""
        x = as_example(features, self.dim)
        if type(reward) is not float or not self._low <= reward <= self._high:
            reward = as_reward(reward, self._low, self._high)
        if not self._model.update(self._row, x, reward):
            raise not_finite(x)
        self.rounds += 1
        return ()

    @property
    def watches_many(self) -> bool:
        """Whether the model alone chooses and learns, and has compiled code for both."""
        mine = type(self)
        return mine.choose is ModelPolicy.choose and mine.learn is ModelPolicy.learn and self._model.watches

    def watch_many(
        self, features: Floats, offsets: Ints, shown: Ints, rewards: Floats, lessons: NDArray[np.int8]
    ) -> Ints:
        """Go through logged events, choosing at each and then learning the displayed arm; returns the choices.

        Gives what `choose` and `learn` give event by event; see `Traits.watch_many` for the arguments.
        """
        features = as_pool(features, self.dim)
        low, high = self.reward_bounds
        if not ((rewards >= low) & (rewards <= high)).all():
            raise ValueError(f"rewards: expected numbers from {low:g} to {high:g}")
        choices = np.empty(len(shown), dtype=np.int64)
        before = self._row[COUNT]
        done, usable = self._model.watch(self._bank, self._leader, features, offsets, shown, rewards, lessons, choices)
        self.rounds += int(self._row[COUNT] - before)
        if not usable:
            raise not_finite(features[offsets[done] : offsets[done + 1]])
        return choices

    def _after_restore(self) -> None:
        if self._leader:
            raise ValueError(f"state: leader: expected 0, got {self._leader}")
        self._row = self._bank[0]
