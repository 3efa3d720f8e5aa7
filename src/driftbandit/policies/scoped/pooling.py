"""What scopes have in common, learned from the rewards of all of them.

The weights of scope u are taken to be N(g, tau^2 I), and its rewards x'w_u plus noise; g, tau^2 and the noise are
estimated. Partial pooling: where scopes are alike, tau^2 is small and a new scope starts with the weights of all; where
they are not, it is large and every scope learns by itself. Lindley and Smith, Bayes estimates for the linear model,
1972.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Scope
from driftbandit.kernels import pooling as kernel
from driftbandit.kernels.packed import invert, packed_size
from driftbandit.kernels.ridge import COUNT
from driftbandit.state import Stateful

# The belief is renewed when this share of all rewards is new.
_NEWS = 1.0 / 256.0

# Slots of the memo: |x|^2 of the first features; sums of |x|^2 and of squared rewards; variance of the noise, number of
# the belief, and at how many rewards it is renewed.
_SQUARE, _SIZES, _REWARDS, _NOISE, _EDITION, _NEXT = range(6)


class Belief(NamedTuple):
    """What is known of a scope before its first reward, as `believe` of a policy takes it."""

    mean: Floats
    spread: Floats
    noise: float


class Pool(Stateful):
    """Estimates the prior of a scope's weights, and keeps the sums that this takes for every scope.

    Parameters
    ----------
    dim : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> pool = Pool(dim=3)
    >>> for user in range(500):
    ...     taste = np.array([1.0, 0.0, -1.0]) + 0.5 * rng.standard_normal(3)
    ...     for _ in range(10):
    ...         x = rng.standard_normal(3)
    ...         pool.learn(user, x, x @ taste + 0.1 * rng.standard_normal())
    >>> mean, spread, noise = pool.belief
    >>> mean.round(1).tolist(), round(noise**0.5, 1)
    ([1.0, 0.0, -1.0], 0.1)
    >>> np.sqrt(np.diag(spread)).round(1).tolist()  # guesses of the spread are a factor of 2 apart
    [0.6, 0.6, 0.6]
    """

    _parts: ClassVar[tuple[str, ...]] = ("_bank", "_memo", "_mean", "_spread")
    _derived = frozenset({"_belief"})

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._bank = np.zeros((kernel.GUESSES, kernel.guess_size(dim)))
        self._memo = np.zeros(_NEXT + 1)
        self._mean = np.zeros(dim)
        self._spread = np.zeros(packed_size(dim))
        self._sums: dict[Scope, Floats] = {}
        self._after_restore()

    @property
    def edition(self) -> int:
        """Number of the belief, which grows whenever it changes; 0 as long as too little is known."""
        return int(self._memo[_EDITION])

    @property
    def belief(self) -> Belief:
        """Mean and covariance of a scope's weights, and the variance of the noise; only if `edition` is not 0."""
        return self._belief

    def learn(self, scope: Scope, x: Floats, reward: float) -> None:
        """Learn a reward of a scope; one that cannot be used is ignored."""
        if not self._memo[_SQUARE]:
            square = float(x @ x)
            if not square:
                return
            self._memo[_SQUARE] = square
            kernel.start(self._bank, square, self.dim)
        sums = self._sums.get(scope)
        if sums is None:
            sums = np.zeros(kernel.sums_size(self.dim))
        if kernel.learn(self._bank, sums, self._memo[_SQUARE], x, reward):
            self._sums[scope] = sums
            self._memo[_SIZES] += x @ x
            self._memo[_REWARDS] += reward * reward
            if self._bank[0, COUNT] >= self._memo[_NEXT]:
                self._renew()

    def _renew(self) -> None:
        mean, spread = np.empty(self.dim), np.empty(len(self._spread))
        taste = self._memo[_REWARDS] / self._memo[_SIZES]
        noise = kernel.belief(self._bank, self._memo[_SQUARE], taste, mean, spread)
        if noise > 0.0 and np.isfinite(mean).all() and invert(spread, self.dim, np.empty(len(spread))):
            self._mean, self._spread = mean, spread
            self._memo[_NOISE] = noise
            self._memo[_EDITION] += 1.0
            self._memo[_NEXT] = self._bank[0, COUNT] * (1.0 + _NEWS)
            self._after_restore()

    def restart(self, scope: Scope) -> None:
        """The taste of a scope is new: what it has in common with others is known as before, its own rewards go."""
        self._sums.pop(scope, None)

    def sums_of(self, scope: Scope) -> Floats:
        """Sums of a scope's rewards, for `take_sums`."""
        sums = self._sums.get(scope)
        return np.zeros(kernel.sums_size(self.dim)) if sums is None else sums.copy()

    def take_sums(self, given: Mapping[Scope, NDArray[Any]]) -> None:
        """Take back what `sums_of` returned for every scope, or raise ValueError."""
        shape = (kernel.sums_size(self.dim),)
        for sums in given.values():
            if sums.dtype != np.float64 or sums.shape != shape or not np.isfinite(sums).all():
                raise ValueError(f"state: sums of a scope: expected finite float64 of shape {shape}")
        self._sums = {scope: np.array(sums) for scope, sums in given.items()}

    def _after_restore(self) -> None:
        whole = np.zeros((self.dim, self.dim))
        whole[np.tril_indices(self.dim)] = self._spread
        self._belief = Belief(self._mean, whole + np.tril(whole, -1).T, float(self._memo[_NOISE]))
        if (self._memo < 0.0).any() or (self.edition and not self._is_sound()):
            raise ValueError("state: pool: the belief is not a normal law, or its counters are negative")

    def _is_sound(self) -> bool:
        positive = invert(self._spread, self.dim, np.empty(len(self._spread)))
        return positive and bool(self._memo[_NOISE] > 0.0 and self._memo[_SQUARE] > 0.0)
