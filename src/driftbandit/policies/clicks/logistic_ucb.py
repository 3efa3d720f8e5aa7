"""LogisticUCB: logistic regression plus a bonus for what is not yet known, for clicks.

A click is a coin whose log-odds are linear in the features. Every reward moves theta to the minimiser of its logistic
loss plus the squared distance from the old theta, in the norm of W = ridge * I + sum p(1 - p) x x', which costs O(d^2)
and stores no data; the arm with the highest x'theta + explore * sqrt(x' W^-1 x) is played. This is the online Laplace
form of ECOLog. Faury, Abeille, Jun and Calauzènes, AISTATS 2022.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_dim, as_number
from driftbandit.models.logistic import LogisticModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.context_free.reward_scale import RewardScale
from driftbandit.policies.entry import Entry, from_brief


class LogisticUCB(ModelPolicy):
    """Logistic bandit with one theta shared by all arms, updated online.

    The paper's proximal step is damped by a constant and its radius comes from a theorem; here the step is the plain
    one, and `explore` counts posterior standard deviations. The same model is a member of `DLinUCB` under
    ``model='logistic'``.

    Parameters
    ----------
    dim : int
        Number of features; a constant one is needed to learn a base rate.
    ridge : float
        Regularisation: precision of the prior N(0, I / ridge) on theta.
    explore : float
        Multiplier of the bonus, which is in log-odds.
    reward_range : (float, float), optional
        Lowest and highest reward, scaled to [0, 1]. By default rewards must lie in [0, 1]; others raise ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LogisticUCB(2)
    >>> pool = np.eye(2)
    >>> for click in (0, 1, 0, 0):
    ...     changes = policy.learn(pool[0], click) + policy.learn(pool[1], 1 - click)
    >>> policy.choose(pool)
    1
    """

    _parts = (*ModelPolicy._parts, "_scale")

    def __init__(
        self,
        dim: int,
        *,
        ridge: float = 0.5,
        explore: float = 1.5,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        explore = as_number("explore", explore, 0.0)
        super().__init__(dim, LogisticModel(as_dim(dim), ridge=ridge, explore=explore))
        self._scale = RewardScale(reward_range)
        self.ridge, self.explore, self.reward_range = ridge, explore, self._scale.range

    @property
    def clipped(self) -> int:
        """Rewards seen outside the range."""
        return self._scale.clipped

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn whether an arm with these features, shape (dim,), was clicked; fractions count too."""
        changes = super().learn(features, self._scale.scaled(reward))
        self._scale.note(reward)
        return changes


ENTRIES = (
    Entry(
        name="logistic-ucb",
        title="LogisticUCB",
        summary="online logistic regression plus optimism, for clicks; assumes that nothing changes",
        policy=LogisticUCB,
        settings=from_brief("dim", "reward_range"),
        told=("reward_range",),
        page="logistic-ucb",
        place=130,
    ),
)
