"""UCB-GLM: the likeliest logistic regression on all clicks so far, plus a bonus for what is not yet known.

A click is a coin whose log-odds are linear in the features. Theta is fitted to all stored rewards by warm-started
Newton steps whenever enough rewards are new, and the bonus is a multiple of sqrt(x' V^-1 x) with V = ridge * I + sum x
x'. Li, Lu and Zhou, ICML 2017, add it to the log-odds; Filippi, Cappé, Garivier and Szepesvári, NIPS 2010 (GLM-UCB), to
the click probability.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, as_count, as_dim, as_example, as_number, as_pool, not_finite
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import finite, jit
from driftbandit.models.logistic import logistic
from driftbandit.models.ridge import Radius
from driftbandit.policies.base import PolicyBase, finite_scores
from driftbandit.policies.context_free.reward_scale import RewardScale
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.state import new_generator

Rule = Literal["li", "filippi"]

_FIRST_CAPACITY = 64
_NEWTON_STEPS = 100
_HALVINGS = 40
_NEAR = 1e-8  # squared Newton decrement below which a full step helps, even if rounding hides it in the loss
_THERE = 1e-16  # squared Newton decrement below which a step is the last


class UCBGLM(PolicyBase):
    """Generalised linear bandit for clicks.

    The published radii come from worst-case bounds and are far too wide: at d = 10 and 10,000 rounds Li's is 14 and
    Filippi's 286, where the whole reward is 1. `explore` multiplies them, and 1 is as published; the defaults are about
    what works. Unlike in the papers, the fit is regularised, so it exists from the first click on, and there is no
    projection onto a ball (GLM-UCB), which theory asks for and data hardly ever need; public code has the projection's
    condition the wrong way round.

    It stores every reward, d + 1 numbers each; `LogisticUCB` stores none.

    Parameters
    ----------
    dim : int
        Number of features; a constant one is needed to learn a base rate.
    ridge : float
        Regularisation of the fit and of V.
    radius : {'li', 'filippi'}
        Published radius, and where its bonus goes: to the log-odds (UCB-GLM) or to the click probability (GLM-UCB).
    explore : float, optional
        Multiplier of the published radius; by default 0.2 for Li's and 0.001 for Filippi's.
    slope : float
        Least slope of the logistic function where arms are, 1/4 at most (the papers' kappa and c_mu).
    delta : float
        Error probability of the published radius.
    horizon : int
        Number of rounds that Filippi's radius is made for.
    refit : float
        Theta is refitted once more than this share of all rewards is new; 0 refits on every reward.
    warm_up : int
        Number of first rewards during which arms are chosen at random (UCB-GLM asks for about `dim` to 10 `dim`); at 0
        optimism explores from the start.
    reward_range : (float, float), optional
        Lowest and highest reward, scaled to [0, 1]. By default rewards must lie in [0, 1]; others raise ValueError.
    seed : int
        Seed of the generator behind `warm_up`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = UCBGLM(2)
    >>> pool = np.eye(2)
    >>> for click in (0, 1, 0, 0):
    ...     changes = policy.learn(pool[0], click) + policy.learn(pool[1], 1 - click)
    >>> policy.choose(pool)
    1
    >>> policy.theta.round(3).tolist()
    [-0.684, 0.684]
    """

    dim: int
    _parts = (*PolicyBase._parts, "_bank", "_examples", "_fitted", "_scale", "_generator")
    _growing = frozenset({"_examples"})

    def __init__(
        self,
        dim: int,
        *,
        ridge: float = 0.5,
        radius: Rule = "li",
        explore: float | None = None,
        slope: float = 0.25,
        delta: float = 0.01,
        horizon: int = 10_000,
        refit: float = 0.02,
        warm_up: int = 0,
        reward_range: tuple[float, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dim = as_dim(dim)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        if radius not in ("li", "filippi"):
            raise ValueError(f"radius: expected 'li' or 'filippi', got {radius!r}")
        self.radius = radius
        if radius == "li":
            published = li_radius(self.dim, slope=slope, delta=delta)
        else:
            published = filippi_radius(self.dim, slope=slope, delta=delta, horizon=horizon)
        usual = 0.2 if radius == "li" else 0.001
        self.explore = usual if explore is None else as_number("explore", explore, 0.0)
        self.slope, self.delta, self.horizon = slope, delta, horizon
        self.refit = as_number("refit", refit, 0.0, 1.0)
        self.warm_up = as_count("warm_up", warm_up, least=0)
        self._settings = Radius(self.explore * published.scale, published.growth, published.constant).settings(ridge)
        self._bank = np.empty((1, kernel.row_size(self.dim)))  # [n, theta, V^-1]
        kernel.reset(self._settings, self._bank[0], self.dim)
        self._examples = np.zeros((_FIRST_CAPACITY, self.dim + 1))  # features and reward
        self._fitted = 0  # rewards that theta has been fitted to
        self._scale = RewardScale(reward_range)
        self.reward_range = self._scale.range
        self._generator = new_generator(seed)
        self.seed = int(seed)

    @property
    def clipped(self) -> int:
        """Rewards seen outside the range."""
        return self._scale.clipped

    @property
    def theta(self) -> Floats:
        """The latest fit."""
        return self._theta.copy()

    @property
    def _theta(self) -> Floats:
        theta: Floats = self._bank[0, kernel.THETA : kernel.THETA + self.dim]
        return theta

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play among this round's candidates, shape (K, dim)."""
        pool = as_pool(features, self.dim)
        if self.rounds < self.warm_up and kernel.usable(pool, self.ridge):
            return int(self._generator.integers(len(pool)))
        if self.radius == "li":
            best = kernel.optimistic_arm(self._settings, self._bank, 0, pool)
        else:
            best = kernel.first_best(_likely_scores(self._settings, self._bank[0], pool))
        if best < 0:
            raise not_finite(pool)
        return best

    @property
    def ranks_by_scores(self) -> bool:
        """Whether the warm-up is over."""
        return self.rounds >= self.warm_up

    @property
    def is_random(self) -> bool:
        """Whether there is a warm-up, in which arms are chosen at random."""
        return self.warm_up > 0

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> Floats:
        """Upper bound on every candidate's log-odds of a click, or with Filippi's radius on its click probability."""
        pool = as_pool(features, self.dim)
        if self.radius == "filippi":
            return finite_scores(_likely_scores(self._settings, self._bank[0], pool), pool)
        return finite_scores(kernel.predictions(self._settings, self._bank[0], pool).sum(axis=1), pool)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn whether an arm with these features, shape (dim,), was clicked; fractions count too."""
        x = as_example(features, self.dim)
        scaled = self._scale.scaled(reward)
        if not _widen(self._settings, self._bank[0], x):
            raise not_finite(x)
        if self.rounds == len(self._examples):
            self._examples = np.concatenate([self._examples, np.zeros_like(self._examples)])
        self._examples[self.rounds, :-1] = x
        self._examples[self.rounds, -1] = scaled
        self.rounds += 1
        if self.rounds - self._fitted > self.refit * self.rounds:
            fit(self._examples, self.rounds, self.ridge, self._theta)
            self._fitted = self.rounds
        self._scale.note(reward)
        return ()

    def _after_restore(self) -> None:
        if not self._fitted <= self.rounds <= len(self._examples):
            raise ValueError("state: rounds, fitted and examples contradict each other")


def li_radius(dim: int, *, noise: float = 0.5, slope: float = 0.25, delta: float = 0.01) -> Radius:
    """noise / slope * sqrt(d / 2 * ln(1 + 2 n / d) + ln(1 / delta)), for n rewards (Li et al.).

    >>> round(li_radius(10, delta=1e-4).at(10_000, 10), 6)
    13.742977
    """
    slope = as_number("slope", slope, 0.0, 0.25, open_low=True)
    delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
    scale = as_number("noise", noise, 0.0) / (slope * math.sqrt(2.0))
    return Radius(scale, growth=2.0 / dim, constant=2.0 * math.log(1.0 / delta))


def filippi_radius(dim: int, *, slope: float = 0.25, delta: float = 0.01, horizon: int = 10_000) -> Radius:
    """2 k_mu kappa / slope * sqrt(2 d ln(t) ln(2 d T / delta)) in round t = n + 1 of T (Filippi et al.).

    For rewards and features of size 1 at most: k_mu = 1/4, kappa = sqrt(3 + 2 ln 3).

    >>> round(filippi_radius(10, delta=1e-4).at(9_999, 10), 5)
    286.37951
    """
    slope = as_number("slope", slope, 0.0, 0.25, open_low=True)
    delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
    horizon = as_count("horizon", horizon)
    kappa = math.sqrt(3.0 + 2.0 * math.log(3.0))
    return Radius(2.0 * 0.25 * kappa / slope * math.sqrt(2.0 * math.log(2.0 * dim * horizon / delta)), growth=1.0)


@jit
def _likely_scores(settings: Floats, row: Floats, features: Floats) -> Floats:
    """Click probability + width of every arm; NaN where features are not usable."""
    scores = np.empty(len(features))
    for k in range(len(features)):
        odds, width = kernel.predict(settings, row, features[k])
        scores[k] = logistic(odds) + width if finite(odds) else math.nan
    return scores


@jit
def _widen(settings: Floats, row: Floats, x: Floats) -> bool:
    """Update V^-1 with a played arm; False, with nothing changed, if its features are not usable."""
    z, odds, square = kernel.project(settings, row, x)
    if not finite(odds) or not finite(square):
        return False
    kernel.absorb(row, z, 0.0, 1.0 + square)  # a residual of 0 leaves theta as it is
    return True


@jit
def link(value: float) -> tuple[float, float, float]:
    """The cumulant ln(1 + e^value) and its derivatives: the mean reward, and its slope."""
    mean = logistic(value)
    return max(value, 0.0) + math.log1p(math.exp(-abs(value))), mean, mean * (1.0 - mean)


@jit
def loss(examples: Floats, count: int, ridge: float, theta: Floats) -> float:
    """Negative log-likelihood of the first `count` rewards, plus ridge / 2 * |theta|^2."""
    d = len(theta)
    total = 0.0
    for i in range(d):
        total += 0.5 * ridge * theta[i] * theta[i]
    for n in range(count):
        value = 0.0
        for i in range(d):
            value += examples[n, i] * theta[i]
        total += link(value)[0] - examples[n, d] * value
    return total


@jit
def fit(examples: Floats, count: int, ridge: float, theta: Floats) -> None:
    """Move theta to the minimum of `loss`, by Newton's method with steps halved while they do not help."""
    d = len(theta)
    for _ in range(_NEWTON_STEPS):
        gradient = ridge * theta
        hessian = ridge * np.eye(d)
        for n in range(count):
            value = 0.0
            for i in range(d):
                value += examples[n, i] * theta[i]
            _, mean, slope = link(value)
            for i in range(d):
                gradient[i] += (mean - examples[n, d]) * examples[n, i]
                for j in range(i + 1):
                    hessian[i, j] += slope * examples[n, i] * examples[n, j]
        for i in range(d):
            for j in range(i):
                hessian[j, i] = hessian[i, j]
        step = np.linalg.solve(hessian, gradient)
        decrement = 0.0
        for i in range(d):
            decrement += step[i] * gradient[i]
        if decrement > _NEAR:
            before = loss(examples, count, ridge, theta)
            for _ in range(_HALVINGS):
                if loss(examples, count, ridge, theta - step) <= before:
                    break
                step *= 0.5
        theta -= step
        if decrement < _THERE:
            return


ENTRIES = (
    Entry(
        name="ucb-glm",
        title="UCB-GLM",
        summary="logistic regression fitted to all clicks, plus optimism; assumes that nothing changes",
        policy=UCBGLM,
        settings=from_brief("dim", "reward_range", "seed"),
        told=("reward_range",),
        page="ucb-glm",
        place=140,
    ),
)
