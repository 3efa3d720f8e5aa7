"""Mean shift: do the newer and the older half of the latest rewards differ?

The window test of M-UCB: an alarm is a distance between the sums of both halves that exceeds the threshold. Cao, Wen,
Kveton and Xie, AISTATS 2019. SMPyBandits' version returns a tuple, which is always true, and so raises an alarm as soon
as the window is full.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.kernels import mean_shift as kernel
from driftbandit.state import Stateful


def as_even(name: str, value: int) -> int:
    """Return `value` if it is a positive even number, or raise ValueError."""
    if as_count(name, value, least=2) % 2:
        raise ValueError(f"{name}: expected an even number, got {value}")
    return int(value)


class MeanShift(Stateful):
    """Test for a shift between two neighbouring windows.

    Parameters
    ----------
    window : int
        Length of both windows together (w), an even number.
    threshold : float
        Distance of both sums above which there is an alarm (b).

    Examples
    --------
    >>> test = MeanShift(window=20, threshold=6.0)
    >>> stream = [0.0] * 15 + [1.0] * 10
    >>> next(n for n, reward in enumerate(stream, 1) if test.add(reward))
    22
    """

    _parts = ("statistic", "_row")

    def __init__(self, *, window: int = 200, threshold: float = 45.0) -> None:
        self.window = as_even("window", window)
        self.threshold = as_number("threshold", threshold, 0.0, open_low=True)
        self.statistic = 0.0
        self._row = np.zeros(kernel.RING + self.window)

    def clear(self) -> None:
        """Start afresh."""
        self.statistic = 0.0
        self._row[:] = 0.0

    def add(self, reward: float) -> bool:
        """Add one reward; True if both windows are full and differ by more than the threshold."""
        self.statistic = float(kernel.add(self._row, reward))
        return self.statistic > self.threshold
