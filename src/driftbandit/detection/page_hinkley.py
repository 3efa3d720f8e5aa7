"""Page-Hinkley: has the mean of a stream dropped?

With mbar the running mean, m_n = m_{n-1} + (r_n - mbar_n + slack) climbs while the mean holds and falls after a drop;
there is an alarm when m is more than `threshold` below its maximum. Page, Biometrika 1954; Hinkley, Biometrika 1971.
"""

from __future__ import annotations

from driftbandit.core import as_number
from driftbandit.state import Stateful


class PageHinkley(Stateful):
    """Page-Hinkley test for a drop of the mean.

    Parameters
    ----------
    slack : float
        Drops smaller than this are tolerated (delta).
    threshold : float
        How much evidence is needed (lambda).

    Examples
    --------
    >>> test = PageHinkley(slack=0.005, threshold=5.0)
    >>> stream = [1.0] * 50 + [0.0] * 10
    >>> next(n for n, reward in enumerate(stream, 1) if test.add(reward))
    56
    >>> round(test.statistic, 8)
    5.58320082
    """

    _parts = ("count", "mean", "statistic")

    def __init__(self, *, slack: float = 0.005, threshold: float = 50.0) -> None:
        self.slack = as_number("slack", slack, 0.0)
        self.threshold = as_number("threshold", threshold, 0.0, open_low=True)
        self.clear()

    def clear(self) -> None:
        """Start afresh."""
        self.count = 0
        self.mean = 0.0
        self.statistic = 0.0

    def add(self, reward: float) -> bool:
        """Add one reward; True if the evidence for a drop exceeds the threshold."""
        self.count += 1
        self.mean += (reward - self.mean) / self.count
        # max m - m, kept directly: it shrinks by each step of m and never falls below zero.
        self.statistic = max(0.0, self.statistic - (reward - self.mean + self.slack))
        return self.statistic > self.threshold
