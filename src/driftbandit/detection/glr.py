"""GLR: is a stream of rewards in [0, 1] better explained by two means than by one?

The generalised likelihood ratio test for Bernoulli rewards, which is valid for any rewards in [0, 1]: an alarm is a
split of the stream whose statistic exceeds ln(n^1.5 / delta) after n rewards. Maillard, ALT 2019; Besson, Kaufmann,
Maillard and Seznec, JMLR 2022. SMPyBandits adds ln 3 to the threshold and tests every tenth reward only; here, as in
the paper's experiments, every reward is tested.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats, as_count, as_number
from driftbandit.kernels import glr as kernel
from driftbandit.state import Stateful


def glr_threshold(samples: float, delta: float) -> float:
    """Evidence that an alarm needs after so many rewards, ln(n^1.5 / delta).

    >>> round(glr_threshold(24, 0.01), 3)
    9.372
    """
    return 1.5 * math.log(samples) - math.log(delta)


def check_splits(rows: Floats, splits: int) -> None:
    """Raise ValueError if a row of a restored state claims more splits than there is room for."""
    kept = rows[..., kernel.SPLITS]
    if not ((kept >= 0) & (kept <= splits)).all():
        raise ValueError(f"state: expected at most {splits} splits of an arm's rewards")


class GLR(Stateful):
    """Generalised likelihood ratio test for a change of the mean.

    Parameters
    ----------
    delta : float
        Probability of a false alarm, ever.
    splits : int
        Splits of the stream that are kept, 32 bytes each. Streams no longer than this are tested at every split; in
        longer ones the older splits are thinned out, which makes the test slightly slower to fire.

    Examples
    --------
    >>> test = GLR(delta=0.01)
    >>> stream = [0.0] * 20 + [1.0] * 10
    >>> next(n for n, reward in enumerate(stream, 1) if test.add(reward))
    24
    >>> round(test.statistic, 3), test.changed_at
    (10.813, 20)
    """

    _parts = ("_row",)

    def __init__(self, *, delta: float = 0.01, splits: int = 200) -> None:
        self.delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
        self.splits = as_count("splits", splits, least=4)
        self._row = np.zeros(kernel.row_size(self.splits))

    def clear(self) -> None:
        """Start afresh."""
        self._row[:] = 0.0

    def add(self, reward: float) -> bool:
        """Add one reward; True if the evidence for a change exceeds the threshold."""
        kernel.add(self._row, reward, int(self._row[kernel.SAMPLES]) + 1)
        return self.statistic > self.threshold

    def _after_restore(self) -> None:
        check_splits(self._row, self.splits)

    @property
    def threshold(self) -> float:
        """Evidence that an alarm needs now."""
        return glr_threshold(max(float(self._row[kernel.SAMPLES]), 1.0), self.delta)

    @property
    def statistic(self) -> float:
        """Evidence for a change at the likeliest split."""
        return float(kernel.evidence(self._row)[0])

    @property
    def changed_at(self) -> int:
        """How many rewards came before the change, if there was one."""
        return int(kernel.evidence(self._row)[1])
