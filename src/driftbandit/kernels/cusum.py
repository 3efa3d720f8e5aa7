"""Two-sided cumulative sums: has the mean of a stream risen or dropped?

A row holds ``[samples, reference mean, rise, fall, rising since, falling since]``: evidence for a rise and for a fall,
and when each was last zero, which is the best guess of when the change happened.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit

SAMPLES, REFERENCE, RISE, FALL, RISING_SINCE, FALLING_SINCE = range(6)
COLUMNS = 6


@jit
def add(row: Floats, reward: float, calibration: int, slack: float, now: int) -> None:
    """Add the reward that came at time `now`.

    The reference is the mean of the first `calibration` rewards, which are not tested themselves; with `calibration` 0
    it is the running mean of all rewards, this one included (Page-Hinkley).
    """
    row[SAMPLES] += 1.0
    learning = row[SAMPLES] <= calibration
    if learning or calibration == 0:
        row[REFERENCE] += (reward - row[REFERENCE]) / row[SAMPLES]
    gap = 0.0 if learning else reward - row[REFERENCE]
    row[RISE] = max(0.0, row[RISE] + gap - slack)
    row[FALL] = max(0.0, row[FALL] - gap - slack)
    if row[RISE] == 0.0:
        row[RISING_SINCE] = now
    if row[FALL] == 0.0:
        row[FALLING_SINCE] = now


@jit
def evidence(row: Floats) -> tuple[float, float]:
    """The larger of both sums, and the time since which it has grown."""
    if row[RISE] >= row[FALL]:
        return row[RISE], row[RISING_SINCE]
    return row[FALL], row[FALLING_SINCE]
