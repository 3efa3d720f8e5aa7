"""One model per arm: the article side, where x describes the user and every article has its own theta.

With `LinUCB` this is the disjoint LinUCB of Li, Chu, Langford and Schapire, WWW 2010; with `DLinUCB` every article
notices by itself when its popularity shifts, as in Figure 3 (b) of Wu, Iyer and Wang, SIGIR 2018; with `LinTS` or
`AdTS` every article's score is drawn from its own posterior.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Floats, as_arm, as_arms, as_count, as_pool
from driftbandit.kernels import ridge as kernel
from driftbandit.models import RewardModel
from driftbandit.policies.base import MemberPolicy, finite_scores
from driftbandit.policies.scoped.per_scope import PerScope
from driftbandit.policies.traits import Traits
from driftbandit.state import generator_words, new_generator, set_generator


class PerArm(Traits):
    """One model per arm, all shown the same user: the arm whose model scores highest is played.

    A policy like any other: `arms` are the ids of this round's pool, row k of `features` is what the model of arm k
    is shown, usually the user's features in every row.

    Parameters
    ----------
    policy : LinUCB, DLinUCB, LinTS or AdTS
        A fresh policy to copy for every arm; in a `DLinUCB` the leading member predicts. An arm's score is prediction +
        width, or a draw from its posterior if the model samples.
    max_arms : int
        At this many arms, the half that learned longest ago is forgotten.
    seed : int
        Seed of the generator of these draws; the arms' own generators are not used, because copies of a policy would
        all draw the same numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit import LinUCB
    >>> policy = PerArm(LinUCB(dim=2))
    >>> young, old = np.eye(2)
    >>> for user, article, click in ((young, 7, 1.0), (young, 8, 0.0), (old, 7, 0.0), (old, 8, 1.0)):
    ...     changes = policy.learn(user, click, arm=article)
    >>> [policy.choose(np.tile(user, (2, 1)), arms=[7, 8]) for user in (young, old)]
    [0, 1]
    """

    scores_each_arm: ClassVar[bool] = True

    def __init__(self, policy: MemberPolicy, *, max_arms: int = 100_000, seed: int = 0) -> None:
        model: RewardModel | None = None if isinstance(policy, type) else getattr(policy, "reward_model", None)
        if model is None or (model.samples and model.scoring(policy.leading_row) is None):
            raise ValueError(
                f"policy: expected one with a reward model, such as LinUCB, DLinUCB or AdTS, got {policy!r}"
            )
        self.dim: int = policy.dim
        self.max_arms = as_count("max_arms", max_arms)
        self.policy = copy.deepcopy(policy)
        self._policies = PerScope(policy, max_scopes=max_arms)
        self.warned = self._policies.warned
        self._model = model  # shared by all arms, since a model holds settings only
        self._generator = new_generator(seed)
        self.seed = int(seed)

    @property
    def rounds(self) -> int:
        """How many rewards were learned."""
        return self._policies.rounds

    @property
    def is_random(self) -> bool:
        """Whether scores are drawn at random."""
        return self._model.samples

    @property
    def detects(self) -> bool:
        """Whether the policy that is copied looks for changes."""
        return self.policy.detects

    @property
    def arms(self) -> tuple[int, ...]:
        """Ids of the arms that have a model, the one that learned longest ago first."""
        return tuple(int(arm) for arm in self._policies.scopes)

    @property
    def reward_model(self) -> RewardModel:
        """The reward model of all arms, which holds settings only."""
        return self._model

    def row_of(self, arm: int) -> Floats:
        """What the model of an arm has learned, for reading only; an arm without rewards has a fresh model."""
        policy: Any = self._policies.policy_of(arm) or self.policy
        row: Floats = policy.leading_row
        return row

    def draws(self, count: int) -> Floats:
        """Draw the random numbers from which the scores of `count` arms are sampled."""
        return self._generator.standard_normal(count)

    def changes_of(self, arm: int) -> tuple[Change, ...]:
        """The latest changes that the model of an arm revealed, oldest first; rounds are the arm's own."""
        return self._policies.changes_of(as_arm(arm))

    def _standing(self) -> dict[str, int]:
        return {"rounds": self.rounds, "arms": len(self.arms)}

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm with the highest score; an arm without rewards has the width of a fresh model."""
        return kernel.first_best(self._scored(features, arms))

    ranks_by_scores = True

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> Floats:
        """Score of every arm, given by the model of the arm."""
        return self._scored(features, arms)

    def _scored(self, features: ArrayLike | None, arms: ArrayLike | None) -> Floats:
        pool = as_pool(features, self.dim)
        rows = [self.row_of(arm) for arm in as_arms(arms, pool).tolist()]
        if self._model.samples:
            scores = self._sampled(rows, pool)
        else:
            scores = np.array([self._model.score(row, x) for row, x in zip(rows, pool, strict=True)])
        return finite_scores(scores, pool)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` for a user with these features; returns the changes that its model detected."""
        return self._policies.learn(features, reward, arm, scope=as_arm(arm))

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far, as `PerScope.state` does with arms as scopes, and the generator if used."""
        drawn = {"generator": generator_words(self._generator)} if self._model.samples else {}
        return {**self._policies.state(), **drawn}

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same settings; all or nothing."""
        generator = new_generator(0)
        try:
            given = {name: np.asarray(state[name]) for name in state}
        except (TypeError, ValueError) as error:
            raise ValueError(f"state: expected a mapping of names to arrays ({error})") from error
        if self._model.samples:
            words = given.pop("generator", None)
            if words is None or words.dtype != np.int64 or words.shape != (6,):
                raise ValueError("state: generator: expected int64 of shape (6,)")
            set_generator(generator, words)
        restored = PerScope(self.policy, max_scopes=self.max_arms).restore(given)
        if not all(isinstance(arm, int) for arm in restored.scopes):
            raise ValueError("state: scopes: expected arms, which are whole numbers")
        self._policies = restored
        if self._model.samples:
            self._generator = generator
        return self

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def _sampled(self, rows: list[Floats], pool: Floats) -> Floats:
        """Scores drawn from the arms' posteriors; NaN, with nothing drawn, if features are not usable."""
        parts = np.empty((len(rows), 2))
        for k, row in enumerate(rows):
            settings = self._model.scoring(row)
            assert settings is not None  # checked by the constructor
            parts[k] = kernel.predict(settings, row, pool[k])
        if not np.isfinite(parts).all():
            return np.full(len(rows), np.nan)
        scores: Floats = parts[:, 0] + parts[:, 1] * self.draws(len(rows))
        return scores
