"""CUSUM: has the mean of a stream risen or dropped?

Gaps between rewards and a reference mean, less a slack, are summed up in both directions; a sum never falls below zero,
and a sum above the threshold is an alarm. The reference is the mean of the first rewards (Liu, Lee and Shroff, AAAI
2018), or the running mean, which makes it a two-sided Page-Hinkley test. SMPyBandits also judges the rewards of the
reference, and tests only every tenth reward; here, as in the paper, the rewards of the reference are only averaged, and
every later reward is tested.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.kernels import cusum as kernel
from driftbandit.state import Stateful


class Cusum(Stateful):
    """Two-sided CUSUM test for a change of the mean.

    Parameters
    ----------
    calibration : int
        Rewards whose mean is the reference (M); 0 compares with the running mean instead.
    slack : float
        Changes smaller than this are tolerated (epsilon); half the smallest change of interest is a good choice.
    threshold : float
        How much evidence is needed (h).

    Examples
    --------
    >>> test = Cusum(calibration=10, slack=0.1, threshold=5.0)
    >>> stream = [0.0] * 20 + [1.0] * 10
    >>> next(n for n, reward in enumerate(stream, 1) if test.add(reward))
    26
    >>> round(test.statistic, 8), test.changed_at
    (5.4, 20)
    """

    _parts = ("_row",)

    def __init__(self, *, calibration: int = 100, slack: float = 0.1, threshold: float = 10.0) -> None:
        self.calibration = as_count("calibration", calibration, least=0)
        self.slack = as_number("slack", slack, 0.0)
        self.threshold = as_number("threshold", threshold, 0.0, open_low=True)
        self._row = np.zeros(kernel.COLUMNS)

    def clear(self) -> None:
        """Start afresh."""
        self._row[:] = 0.0

    def add(self, reward: float) -> bool:
        """Add one reward; True if the evidence for a change exceeds the threshold."""
        kernel.add(self._row, reward, self.calibration, self.slack, int(self._row[kernel.SAMPLES]) + 1)
        return self.statistic > self.threshold

    @property
    def statistic(self) -> float:
        """Evidence for a change in the likelier direction."""
        return float(kernel.evidence(self._row)[0])

    @property
    def changed_at(self) -> int:
        """How many rewards came before the change, if there was one."""
        return int(kernel.evidence(self._row)[1])
