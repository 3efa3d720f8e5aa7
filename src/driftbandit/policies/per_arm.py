"""One model per arm: the article side, where x describes the user and every article has its own theta.

With `LinUCB` this is the disjoint LinUCB of Li, Chu, Langford and Schapire, WWW 2010; with `DLinUCB` every article
notices by itself when its popularity shifts, as in Figure 3 (b) of Wu, Iyer and Wang, SIGIR 2018.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Floats, as_arm, as_arms, as_count, as_pool, not_finite
from driftbandit.kernels import ridge as kernel
from driftbandit.models import ThompsonModel, TunedThompson
from driftbandit.policies.base import MemberPolicy
from driftbandit.policies.per_scope import PerScope


class PerArm:
    """A model for every arm, all shown the same user: the arm whose model is most optimistic is played.

    A policy like any other: `arms` are the ids of this round's pool, row k of `features` is what the model of arm k
    is shown, usually the user's features in every row.

    Parameters
    ----------
    policy : LinUCB or DLinUCB
        A fresh policy to copy for every arm; of a `DLinUCB` the leading member speaks. Models that sample
        (`LinTS`, ``model='thompson'``) have no optimistic score and are refused.
    max_arms : int
        At this many arms the half that learned longest ago is forgotten.

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

    def __init__(self, policy: MemberPolicy, *, max_arms: int = 100_000) -> None:
        model = policy.model if isinstance(policy, MemberPolicy) else None
        if model is None or isinstance(model, ThompsonModel | TunedThompson):
            raise ValueError(f"policy: expected a LinUCB or a DLinUCB with optimistic members, got {policy!r}")
        self.dim = policy.dim
        self.max_arms = as_count("max_arms", max_arms)
        self._fresh = copy.deepcopy(policy)
        self._policies = PerScope(policy, max_scopes=max_arms)
        self._model = model  # of all arms alike, since a model holds settings only

    @property
    def rounds(self) -> int:
        """Rewards learned."""
        return self._policies.rounds

    @property
    def arms(self) -> tuple[int, ...]:
        """Ids of the arms that have a model, the one that learned longest ago first."""
        return tuple(int(arm) for arm in self._policies.scopes)

    def changes_of(self, arm: int) -> tuple[Change, ...]:
        """The latest changes that the model of an arm revealed, oldest first; rounds are the arm's own."""
        return self._policies.changes_of(as_arm(arm))

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm with the highest prediction + width; an arm without rewards has the width of ignorance."""
        pool = as_pool(features, self.dim)
        ids = as_arms(arms, pool).tolist()
        best = kernel.first_best(np.array([self._score(arm, x) for arm, x in zip(ids, pool, strict=True)]))
        if best < 0:
            raise not_finite(pool)
        return best

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` for a user with these features; returns the changes revealed to its model."""
        return self._policies.learn(features, reward, arm, scope=as_arm(arm))

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far, as `PerScope.state` does with arms as scopes."""
        return self._policies.state()

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same settings; all or nothing."""
        restored = PerScope(self._fresh, max_scopes=self.max_arms).restore(state)
        if not all(isinstance(arm, int) for arm in restored.scopes):
            raise ValueError("state: scopes: expected arms, which are whole numbers")
        self._policies = restored
        return self

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def _score(self, arm: int, x: Floats) -> float:
        policy = self._policies.policy_of(arm) or self._fresh
        assert isinstance(policy, MemberPolicy)  # a copy of the one given
        return self._model.score(policy.leading_row, x)
