"""How well a policy detects shifts: delays, missed shifts and false alarms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change

ALARMS = ("spawned", "restarted")
"""Kinds of change that announce a shift; a retirement follows from one."""


def alarm_rounds(changes: Iterable[Change]) -> list[int]:
    """Rounds, counted in rewards learned, at which a policy announced a shift."""
    return [change.round for change in changes if change.kind in ALARMS]


@dataclass
class Detection:
    """Detections counted against true shifts, over any number of runs.

    The first alarm between a shift and the next one detects the shift; the delay is the number of rewards in between.
    Any other alarm is false.

    Examples
    --------
    >>> quality = Detection()
    >>> quality.add(alarms=[120, 130, 205], shifts=[100, 200, 300], rounds=400)
    >>> quality.delays, quality.missed, quality.false_alarms
    ([20, 5], 1, 1)
    """

    delays: list[int] = field(default_factory=list)
    missed: int = 0
    false_alarms: int = 0
    rounds: int = 0

    def add(self, alarms: Sequence[int], shifts: ArrayLike, rounds: int) -> None:
        """Count one run: alarms and shifts in rounds, and the number of rounds."""
        starts = np.asarray(shifts, dtype=np.int64)
        # A reward learned in round s, the first of a regime, makes the count s + 1: alarm > shift.
        segment = np.searchsorted(starts, np.asarray(alarms, dtype=np.int64), side="left")
        first: dict[int, int] = {}
        for alarm, index in zip(alarms, segment.tolist(), strict=True):
            if index and index not in first:
                first[index] = alarm - int(starts[index - 1])
            else:
                self.false_alarms += 1
        self.delays.extend(first[index] for index in sorted(first))
        self.missed += len(starts) - len(first)
        self.rounds += rounds

    @property
    def median_delay(self) -> float:
        """Median delay in rounds; NaN without a detection."""
        return float(np.median(self.delays)) if self.delays else float("nan")

    @property
    def slow_delay(self) -> float:
        """90th percentile of the delays; NaN without a detection."""
        return float(np.percentile(self.delays, 90)) if self.delays else float("nan")

    @property
    def false_alarms_per_1000(self) -> float:
        """False alarms per 1,000 rounds."""
        return 1000.0 * self.false_alarms / self.rounds if self.rounds else float("nan")
