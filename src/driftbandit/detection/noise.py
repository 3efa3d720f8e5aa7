"""An estimate of the noise from the rewards themselves, for policies that are not told it.

The noise of linear rewards shows in a model's residuals: with q = x' A^-1 x the residual before the update has variance
sigma^2 (1 + q), so e^2 / (1 + q) averages to sigma^2. A shift must not count as noise, so residuals beyond two of
the estimate's own standard deviations are left out and the average is divided by what that takes from a Gaussian. Such
an estimate still finds its way back up when it is too small, because residuals that fill the interval evenly average
to more than a Gaussian's inside it. Nor must a model that goes stale count as noise: beside the average over all
residuals stands one over those of fresh models, and the lower of the two is the estimate.

Lumpy rewards, clicks above all, are no Gaussian around anything. Their variance is taken as it is.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.state import Stateful

SUPPORT = 30.0
"""Residuals that an estimate needs before anything is judged by it."""

_MEMORY = 0.998  # a weight of 500 residuals, enough for 3 %
_LONG_MEMORY = 0.9998  # for the largest reward: one outlier must not widen everything for ever
_CUT = 2.0
_KEPT = 1.0 - 2.0 * _CUT * math.exp(-_CUT * _CUT / 2.0) / math.sqrt(2.0 * math.pi) / math.erf(_CUT / math.sqrt(2.0))
"""Variance of a standard Gaussian inside the cut, 0.774."""

_LEAST_SQUARE = 1e-200  # of features: what is divided by it, and its square, must still be numbers

_FIRST_LOOK = 10.0  # rewards before they may be taken for Gaussian or for lumpy
_LUMP = 0.1  # share of zeros from which they are not

# What is remembered. The pairs (squares, weight) are of all residuals and of fresh ones; first and second are the first
# two values that rewards took, gaps and squared gaps are from the first.
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
        """The value that lumpy rewards take most: 0 if that was among them, else the one that came first."""
        return 0.0 if self._numbers[_ZEROS] > 0.0 else float(self._numbers[_FIRST])

    @property
    def deviation(self) -> float:
        """The estimate; 0 while there is too little data to judge anything by it."""
        return self.deviation_and_reach()[0]

    def deviation_and_reach(self) -> tuple[float, float]:
        """The estimate, and what |theta| may be.

        The second is the largest reward lately, divided by the typical length of the features; 1 before any reward.
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
        """Count a residual of a model that has learned enough, taken before its update; `fresh` if it is young."""
        square = residual * residual / (1.0 + leverage)
        _add_square(self._numbers, _SQUARES, square)
        if fresh:
            _add_square(self._numbers, _FRESH_SQUARES, square)

    def forget(self) -> None:
        """Start the estimate anew, but remember what kind of rewards these are."""
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
        # One more of the rarer kind than were seen, so that it is never 0.
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
    """Add to the squares at this place and to the weight behind them, unless it stands out."""
    if numbers[at + 1] >= SUPPORT:
        if square * numbers[at + 1] > _CUT * _CUT * numbers[at]:
            return
        square /= _KEPT
    numbers[at] = _MEMORY * numbers[at] + square
    numbers[at + 1] = _MEMORY * numbers[at + 1] + 1.0
