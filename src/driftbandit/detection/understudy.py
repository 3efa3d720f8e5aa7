"""An understudy of a model: does a regression on its residuals see anything but noise?

One click says next to nothing about a shift, many clicks do. The understudy is a ridge regression of a model's
residuals on the features, started afresh for every stretch of rounds. As long as the model is right, 0 predicts its
residuals best; once the model is out of date, the understudy predicts them better. The log-likelihood ratio of the two
adds up over the stretch. While nothing changes, the sum exceeds ln(1 / alpha) with a probability of about alpha at most
(Ville's inequality; the same argument gives the confidence sets of Abbasi-Yadkori, Pal and Szepesvari, NIPS 2011).
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import finite, jit
from driftbandit.state import Stateful

_PRIOR = 15.0
"""Ridge in units of the features' mean square, which suits shifts of about a quarter of the noise."""

_LEAST = 10.0
"""Least number of rounds with each of the two outcomes before sums of clicks are taken to be Gaussian."""

# Slots of the memory beside the regression: the ridge, in the slot where `kernels.ridge` looks for it in settings, the
# log-likelihood ratio, how many rounds are left, and how many rounds had each of the two outcomes.
_RIDGE = ridge.RIDGE
_EVIDENCE, _LEFT, _LUMPS, _OTHERS = range(1, 5)
_LENGTH = 5


class Understudy(Stateful):
    """Regression of a model's residuals on a stretch of clicks.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> understudy = Understudy(dim=1)
    >>> understudy.start(length=1000, mean_square=1.0)
    >>> for rate in (0.2, 0.5):  # the model believes in 0.2
    ...     for click in rng.random(200) < rate:
    ...         understudy.follow(np.ones(1), click - 0.2, variance=0.16, lump=not click)
    ...     print(understudy.evidence > 6.9)
    False
    True
    """

    _parts = ("_row", "_numbers")

    def __init__(self, dim: int) -> None:
        self._row = np.zeros(ridge.row_size(dim))
        self._dim = dim
        self._numbers = np.zeros(_LENGTH)

    @property
    def running(self) -> bool:
        """Whether a stretch is under way."""
        return bool(self._numbers[_LEFT] > 0.0)

    @property
    def evidence(self) -> float:
        """Log-likelihood ratio of the understudy against 0; 0 while one of the outcomes is too rare to tell."""
        rarer = min(self._numbers[_LUMPS], self._numbers[_OTHERS])
        return float(self._numbers[_EVIDENCE]) if rarer >= _LEAST else 0.0

    @property
    def change(self) -> Floats:
        """The correction of the model's theta that the understudy has learned."""
        change: Floats = self._row[ridge.THETA : ridge.THETA + self._dim]
        return change

    @property
    def ridge(self) -> float:
        """Regularisation of the regression."""
        return float(self._numbers[_RIDGE])

    def start(self, length: int, mean_square: float) -> None:
        """Forget everything and follow the next `length` rounds."""
        self._numbers[:] = _PRIOR * mean_square, 0.0, length, 0.0, 0.0
        ridge.reset(self._numbers, self._row, self._dim)

    def stop(self) -> None:
        """Follow nothing until the next start."""
        self._numbers[_LEFT] = 0.0

    def follow(self, x: Floats, residual: float, variance: float, lump: bool) -> None:
        """Learn a residual of a model's prediction for features `x`; `lump` says which of the two outcomes it was."""
        _follow(self._numbers, self._row, x, residual, variance)
        self._numbers[_LUMPS if lump else _OTHERS] += 1.0
        self._numbers[_LEFT] -= 1.0


@jit
def _follow(numbers: Floats, row: Floats, x: Floats, residual: float, variance: float) -> None:
    _, mean, square = ridge.project(numbers, row, x)
    if not finite(square):  # features far larger than those at the start are ignored
        return
    gap = residual - mean
    gain = (residual * residual - gap * gap / (1.0 + square)) / variance - math.log1p(square)
    numbers[_EVIDENCE] += 0.5 * gain
    ridge.update(numbers, row, x, residual)
