"""An estimate of the noise from the rewards themselves, for policies that are not told the noise.

The noise of linear rewards shows in a model's residuals: with q = x' A^-1 x the residual before the update has variance
sigma^2 (1 + q), so e^2 / (1 + q) averages to sigma^2. A shift must not count as noise, so residuals beyond two of the
estimate's own standard deviations are left out and the average is divided by the share of a Gaussian's variance that
remains. An estimate that is too small still rises, because residuals that fill the interval evenly average to more than
a Gaussian's inside it. Nor must a stale model count as noise: a second average covers residuals of fresh models only,
and the lower of the two averages is the estimate.

Lumpy rewards, such as clicks, are not Gaussian around a prediction. For them the estimate is the variance of the
rewards.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.state import Stateful

SUPPORT = 30.0
"""Residuals that an estimate needs before it is used."""

_MEMORY = 0.998  # a weight of 500 residuals, enough for 3 %
_LONG_MEMORY = 0.9998  # for the largest reward, so that one outlier does not widen everything for ever
_CUT = 2.0
_KEPT = 1.0 - 2.0 * _CUT * math.exp(-_CUT * _CUT / 2.0) / math.sqrt(2.0 * math.pi) / math.erf(_CUT / math.sqrt(2.0))
"""Variance of a standard Gaussian inside the cut, 0.774."""

_LEAST_SQUARE = 1e-200  # least mean square of features: quotients by it, and their squares, must stay finite

_FIRST_LOOK = 10.0  # rewards needed to decide whether they are Gaussian or lumpy
_LUMP = 0.1  # share of zeros from which they are lumpy

# Slots of the memory. There is a pair (squares, weight) for all residuals and one for fresh ones; first and second are
# the first two values that rewards took; gaps and squared gaps are distances from the first.
_SQUARES, _WEIGHT, _FRESH_SQUARES, _FRESH_WEIGHT, _LARGEST, _SIZES, _ROUNDS, _ZEROS = range(8)
_VALUES, _FIRST, _SECOND, _GAPS, _GAP_SQUARES, _GAUSSIAN, _LENGTH = range(8, 15)


class NoiseEstimate(Stateful):
    """Standard deviation of rewards around their mean, from a model's residuals; forgets within about 500 rounds.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> estimate = NoiseEstimate()
    >>> for _ in range(1000):
    ...     residual = 0.1 * rng.standard_normal()
    ...     estimate.observe(np.ones(1), 0.5 + residual)
    ...     estimate.add_residual(residual, leverage=0.0, fresh=True)
    >>> round(estimate.deviation, 2)
    0.1
    """

    _parts = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = np.zeros(_LENGTH)

    @property
    def lumpy(self) -> bool:
        """Whether rewards took at most two values so far, or a tenth of them are 0; once False, stays False."""
        return bool(self._numbers[_GAUSSIAN] == 0.0)

    @property
    def lump(self) -> float:
        """The usual value of lumpy rewards: 0 if it occurred, else the value that came first."""
        return 0.0 if self._numbers[_ZEROS] > 0.0 else float(self._numbers[_FIRST])

    @property
    def deviation(self) -> float:
        """The estimate; 0 while there is too little data."""
        return self.deviation_and_reach()[0]

    def deviation_and_reach(self) -> tuple[float, float]:
        """The estimate, and a bound on |theta|.

        The bound is the largest recent reward, divided by the typical length of the features; 1 before any reward.
        """
        return _deviation(self._numbers), _reach(self._numbers)

    @property
    def mean_square(self) -> float:
        """Mean squared length of the features; 1 before any were seen."""
        return _mean_square(self._numbers)

    def observe(self, x: Floats, reward: float) -> None:
        """Note a reward and the features it came with."""
        _observe(self._numbers, x, reward)

    def add_residual(self, residual: float, leverage: float, *, fresh: bool) -> None:
        """Count a residual, taken before the update, of a model that has learned enough; `fresh` if it is young."""
        square = residual * residual / (1.0 + leverage)
        _add_square(self._numbers, _SQUARES, square)
        if fresh:
            _add_square(self._numbers, _FRESH_SQUARES, square)

    def forget(self) -> None:
        """Start the estimate anew, but remember whether rewards are lumpy."""
        self._numbers[: _FRESH_WEIGHT + 1] = 0.0


@jit
def _observe(numbers: Floats, x: Floats, reward: float) -> None:
    size = 0.0
    for i in range(len(x)):
        size += x[i] * x[i]
    numbers[_LARGEST] = max(abs(reward), _LONG_MEMORY * numbers[_LARGEST])
    numbers[_SIZES] = _MEMORY * numbers[_SIZES] + size
    numbers[_ROUNDS] = _MEMORY * numbers[_ROUNDS] + 1.0
    numbers[_ZEROS] *= _MEMORY
    if reward == 0.0:
        numbers[_ZEROS] += 1.0
    if numbers[_VALUES] == 0.0:
        numbers[_FIRST] = reward
        numbers[_VALUES] = 1.0
    gap = reward - numbers[_FIRST]
    if numbers[_VALUES] == 1.0 and gap != 0.0:
        numbers[_SECOND] = reward
        numbers[_VALUES] = 2.0
    elif gap != 0.0 and reward != numbers[_SECOND]:
        numbers[_VALUES] = 3.0
    numbers[_GAPS] = _MEMORY * numbers[_GAPS] + gap
    numbers[_GAP_SQUARES] = _MEMORY * numbers[_GAP_SQUARES] + gap * gap
    if numbers[_VALUES] == 3.0 and numbers[_ROUNDS] >= _FIRST_LOOK and numbers[_ZEROS] < _LUMP * numbers[_ROUNDS]:
        numbers[_GAUSSIAN] = 1.0


@jit
def _deviation(numbers: Floats) -> float:
    if numbers[_GAUSSIAN] == 0.0:
        if numbers[_VALUES] < 2.0 or numbers[_ROUNDS] < _FIRST_LOOK:
            return 0.0
        gap, rounds = numbers[_SECOND] - numbers[_FIRST], numbers[_ROUNDS]
        # Count one more of the rarer kind than was seen, so that the variance is never 0.
        squares = numbers[_GAP_SQUARES] - numbers[_GAPS] * numbers[_GAPS] / rounds + gap * gap
        return math.sqrt(squares / (rounds + 1.0))
    if numbers[_WEIGHT] < SUPPORT:
        return 0.0
    variance = numbers[_SQUARES] / numbers[_WEIGHT]
    if numbers[_FRESH_WEIGHT] >= SUPPORT:
        variance = min(variance, numbers[_FRESH_SQUARES] / numbers[_FRESH_WEIGHT])
    return math.sqrt(variance)


@jit
def _mean_square(numbers: Floats) -> float:
    if numbers[_SIZES] == 0.0:
        return 1.0
    mean: float = max(numbers[_SIZES] / numbers[_ROUNDS], _LEAST_SQUARE)
    return mean


@jit
def _reach(numbers: Floats) -> float:
    if numbers[_LARGEST] == 0.0 or numbers[_SIZES] == 0.0:
        return 1.0
    reach: float = numbers[_LARGEST] / math.sqrt(_mean_square(numbers))
    return reach


@jit
def _add_square(numbers: Floats, at: int, square: float) -> None:
    """Add a squared residual to the sum in this slot and to the weight in the next, unless it is too large."""
    if numbers[at + 1] >= SUPPORT:
        if square * numbers[at + 1] > _CUT * _CUT * numbers[at]:
            return
        square /= _KEPT
    numbers[at] = _MEMORY * numbers[at] + square
    numbers[at + 1] = _MEMORY * numbers[at + 1] + 1.0
