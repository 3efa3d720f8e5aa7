"""Exponential weights over discounts: D-LinUCB that finds its discount as it learns.

Models with different discounts learn from every reward side by side. Each is weighed by how well it has predicted
lately, in a way that lets weight come back (fixed share), and the heaviest one chooses the arm. Fixed share: Herbster
and Warmuth, Machine Learning 1998; the models: Russac, Vernade and Cappe, NeurIPS 2019; the combination is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    Floats,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.kernels import discounted
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit
from driftbandit.models.discounted import DiscountedModel
from driftbandit.models.ridge import Radius
from driftbandit.policies.base import MemberPolicy
from driftbandit.policies.entry import Entry, noise_as_width

DISCOUNTS = (1.0, 0.9995, 0.999, 0.995, 0.99, 0.98, 0.95)

_LEAST_NOISE = 1e-3
"""Noise below this share of the reward range counts as this share in the default `rate`."""

_LOW, _HIGH, _RATE, _SHARE = range(4)
"""Slots of the rules: the range of rewards, eta, and the share of weight that moves in a round."""


class ExpDiscounts(MemberPolicy):
    """D-LinUCB with exponential weights over its discount.

    It reports no changes, because it detects none; `weights` show how fast the world seems to move.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the default rate and radius only.
    discounts : sequence of float
        The discounts to choose from; the first one starts.
    rate : float, optional
        Weights are multiplied by exp(-rate * loss), the loss being the squared error of the prediction in units of the
        reward range, at most 1. By default (high - low)^2 / (2 noise^2), at which the factor is the likelihood of
        Gaussian noise; 1/2 is safe against any rewards in the range, but slow.
    share : float
        Share of the weight that is spread evenly over all discounts every round.
    forced : float
        Probability of a uniformly random arm. Predictions are judged on played arms only, so a model can look good by
        being right about few arms; occasional random arms reveal that. In the simulated worlds here they cost more than
        they reveal.
    reward_range : (float, float)
        Rewards and predictions are clipped to it in the loss, not in the models.
    ridge, explore, delta :
        As in `DiscountedLinUCB`.
    seed : int
        Seed of the generator that draws the forced arms.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = ExpDiscounts(dim=2, noise=0.1, discounts=(1.0, 0.9), reward_range=(-2.0, 2.0))
    >>> for t in range(300):
    ...     x = rng.random(2)
    ...     changes = policy.learn(x, x.sum() * (1.0 if t // 50 % 2 else -1.0))
    >>> policy.discount  # shifts come fast here
    0.9
    """

    _parts = (*MemberPolicy._parts, "_weights")

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        discounts: Sequence[float] = DISCOUNTS,
        rate: float | None = None,
        share: float = 0.001,
        forced: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        seed: int = 0,
    ) -> None:
        dim = as_dim(dim)
        noise = as_number("noise", noise, 0.0)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        radius = Radius.abbasi_yadkori(dim, noise=noise, ridge=ridge, delta=delta)
        super().__init__(dim, DiscountedModel(dim, ridge=ridge, explore=explore, radius=radius), seed)
        self.discounts = tuple(as_number("discounts", one, 0.0, 1.0, open_low=True) for one in discounts)
        if not self.discounts:
            raise ValueError("discounts: expected at least one, got none")
        low = as_number("reward_range", reward_range[0])
        high = as_number("reward_range", reward_range[1], low, open_low=True)
        self.reward_range = (low, high)
        self.noise, self.ridge, self.explore, self.delta = noise, ridge, explore, delta
        if rate is None:
            rate = (high - low) ** 2 / (2.0 * max(noise, _LEAST_NOISE * (high - low)) ** 2)
        self.rate = as_number("rate", rate, 0.0)
        self.share = as_number("share", share, 0.0, 1.0)
        self.forced = as_number("forced", forced, 0.0, 1.0)
        count = len(self.discounts)
        self._rules = np.array([low, high, self.rate, self.share])
        self._settings = Radius().settings(ridge)
        self._table = np.array(self.discounts)
        self._bank = np.tile(self._bank, (count, 1))
        self._weights = np.full(count, 1.0 / count)

    @property
    def is_random(self) -> bool:
        """Whether random arms are forced now and then."""
        return self.forced > 0.0

    @property
    def weights(self) -> dict[float, float]:
        """Weight of each discount; they sum to 1."""
        return dict(zip(self.discounts, self._weights.tolist(), strict=True))

    @property
    def discount(self) -> float:
        """The discount that chooses the next arm, the one with the highest weight."""
        return self.discounts[self._leader]

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm that the heaviest model would play, or rarely a random one."""
        if self.forced:
            pool = as_pool(features, self.dim)
            if not kernel.usable(pool, float(self._settings[kernel.RIDGE])):  # before anything is drawn
                raise not_finite(pool)
            if self._generator.random() < self.forced:
                return int(self._generator.integers(len(pool)))
        return super().choose(features, arms)

    scores = MemberPolicy.scores

    @property
    def ranks_by_scores(self) -> bool:
        """Whether no random arms are forced."""
        return self.forced == 0.0

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Weigh every model by its prediction of this reward, then let all of them learn it."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        leader = _round(self._settings, self._bank, self._table, self._weights, self._rules, x, reward)
        if leader < 0:
            raise not_finite(x)
        self._leader = leader
        self.rounds += 1
        return ()

    def _after_restore(self) -> None:
        if not self._leader < len(self.discounts):
            raise ValueError(f"state: leader: expected less than {len(self.discounts)}, got {self._leader}")
        if self._weights.min() < 0.0 or not math.isclose(self._weights.sum(), 1.0, rel_tol=1e-6):
            raise ValueError("state: weights: expected shares that sum to 1")


@jit
def _round(
    settings: Floats, bank: Floats, discounts: Floats, weights: Floats, rules: Floats, x: Floats, reward: float
) -> int:
    """Losses, fixed-share weights, updates; the heaviest model, or -1, with nothing touched, where not usable."""
    low, high, rate, share = rules[_LOW], rules[_HIGH], rules[_RATE], rules[_SHARE]
    if not kernel.usable(x.reshape(1, len(x)), settings[kernel.RIDGE]):
        return -1
    count = len(weights)
    losses = np.empty(count)
    clipped = min(max(reward, low), high)
    for m in range(count):
        mean = 0.0
        for i in range(len(x)):
            mean += bank[m, kernel.THETA + i] * x[i]
        losses[m] = ((clipped - min(max(mean, low), high)) / (high - low)) ** 2
    least = losses.min()  # subtracted from all losses, so that not every weight can vanish
    total = 0.0
    for m in range(count):
        weights[m] *= math.exp(-rate * (losses[m] - least))
        total += weights[m]
    leader = 0
    for m in range(count):
        weights[m] = (1.0 - share) * weights[m] / total + share / count
        if weights[m] > weights[leader]:
            leader = m
        discounted.absorb(settings, bank[m], x, reward, discounts[m])
    for m in range(count):  # only the model that chooses next needs widths
        if m == leader:
            discounted.solve(settings, bank[m], len(x))
        else:
            discounted.estimate(settings, bank[m], len(x))
    return leader


ENTRIES = (
    Entry(
        name="exp-discounts",
        title="ExpDiscounts",
        summary="D-LinUCB that finds its discount by exponential weights",
        policy=ExpDiscounts,
        settings=noise_as_width("reward_range", "seed"),
        told=("noise", "reward_range"),
        page="exp-discounts",
        place=160,
    ),
)
