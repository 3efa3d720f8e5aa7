"""How well a policy detects shifts: delays, missed shifts, false alarms, and what the same alarms find by chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Ints, as_count

ALARMS = ("spawned", "restarted")
"""Kinds of change that announce a shift; a retirement follows from one."""


def alarm_rounds(changes: Iterable[Change]) -> list[int]:
    """Rounds, counted in rewards learned, at which a policy announced a shift."""
    return [change.round for change in changes if change.kind in ALARMS]


def shifts_followed(alarms: ArrayLike, shifts: ArrayLike, within: int) -> int:
    """How many shifts have an alarm within so many rewards after them; one alarm may count for several shifts.

    >>> shifts_followed([120, 130, 505], shifts=[100, 110, 200], within=50)
    2
    """
    starts, found = np.asarray(shifts, dtype=np.int64), np.sort(np.asarray(alarms, dtype=np.int64))
    # An alarm after the reward of round s, the first of a regime, has the count s + 1; see `Detection.add`.
    before = np.searchsorted(found, starts, side="right")
    return int((np.searchsorted(found, starts + as_count("within", within), side="right") > before).sum())


def followed_by_chance(
    alarms: Sequence[int], shifts: ArrayLike, rounds: int, within: int, *, rotations: int = 1000, seed: int = 0
) -> Ints:
    """Count `shifts_followed` again with the alarms rotated by random distances along the run.

    A rotation keeps the number of alarms and the gaps between them, and takes away only their relation to the shifts.

    Parameters
    ----------
    alarms, shifts :
        As in `Detection.add`.
    rounds : int
        Length of the run; an alarm that is moved beyond the end goes on at the start.
    within : int
        Rewards after a shift in which an alarm counts.
    rotations : int
        How many random rotations.
    seed : int
        Seed of the rotations.

    Returns
    -------
    array of int, shape (rotations,)
        How many shifts were followed in every rotation.

    Examples
    --------
    >>> counts = followed_by_chance([120, 520], shifts=[100, 500], rounds=1000, within=50)
    >>> counts.shape, set(counts.tolist())
    ((1000,), {0, 1, 2})
    """
    offsets = np.random.default_rng(seed).integers(as_count("rounds", rounds), size=as_count("rotations", rotations))
    starts = np.asarray(shifts, dtype=np.int64)
    # Rotating the shifts back is the same as rotating the alarms: count the alarms up to every round, twice around.
    alarmed = np.bincount(np.asarray(alarms, dtype=np.int64) - 1, minlength=rounds)
    upto = np.append(0, np.cumsum(np.tile(alarmed, 2)))
    back = (starts - offsets[:, np.newaxis]) % rounds
    reach = np.minimum(as_count("within", within), rounds - starts)  # nothing is heard after the end
    followed: Ints = (upto[back + reach] > upto[back]).sum(axis=1)
    return followed


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
