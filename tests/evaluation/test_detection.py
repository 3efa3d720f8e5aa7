"""Detection quality, counted by hand and by an independent count."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.core import Change
from driftbandit.evaluation import Detection
from driftbandit.evaluation.detection import alarm_rounds


def count(alarms, shifts, rounds=1000):
    quality = Detection()
    quality.add(alarms, shifts, rounds)
    return quality.delays, quality.missed, quality.false_alarms


@pytest.mark.parametrize(
    ("alarms", "shifts", "expected"),
    [
        ([], [], ([], 0, 0)),
        ([], [100, 200], ([], 2, 0)),
        ([50], [], ([], 0, 1)),
        ([50, 60], [], ([], 0, 2)),
        # The reward of round 100, the first of the new regime, is the 101st learned: it can reveal the shift, ...
        ([101], [100], ([1], 0, 0)),
        # ... and the 100th, learned in the last round of the old regime, cannot.
        ([100], [100], ([], 1, 1)),
        ([99], [100], ([], 1, 1)),
        ([100, 101], [100], ([1], 0, 1)),
        # The first alarm of a segment detects, the others are false.
        ([110, 120, 130], [100], ([10], 0, 2)),
        ([110, 110], [100], ([10], 0, 1)),
        # A shift that is detected after the next one is missed; the alarm counts for the later one.
        ([210], [100, 200], ([10], 1, 0)),
        ([200], [100, 200], ([100], 1, 0)),
        ([201], [100, 200], ([1], 1, 0)),
        ([20, 120, 130, 205], [100, 200, 300], ([20, 5], 1, 2)),
        ([150, 250, 350], [100, 200, 300], ([50, 50, 50], 0, 0)),
        # Shifts in neighbouring rounds.
        ([11, 12], [10, 11], ([1, 1], 0, 0)),
        ([12], [10, 11], ([1], 1, 0)),
    ],
)
def test_by_hand(alarms, shifts, expected):
    assert count(alarms, shifts) == expected


def test_shifts_may_be_an_array():
    assert count([120], np.array([100, 200])) == ([20], 1, 0)


def test_runs_are_pooled():
    quality = Detection()
    quality.add([110, 150], [100, 200], 300)
    quality.add([130], [100], 200)
    quality.add([], [50], 100)
    assert quality.delays == [10, 30]
    assert quality.missed == 2
    assert quality.false_alarms == 1
    assert quality.rounds == 600
    assert quality.median_delay == 20.0
    assert quality.slow_delay == pytest.approx(28.0), "90 % of the way from 10 to 30"
    assert quality.false_alarms_per_1000 == pytest.approx(1000.0 / 600.0)


def test_one_runs_alarms_do_not_detect_anothers_shifts():
    quality = Detection()
    quality.add([150], [], 1000)
    quality.add([], [100], 1000)
    assert (quality.delays, quality.missed, quality.false_alarms) == ([], 1, 1)


def test_nothing_counted_is_not_a_number():
    quality = Detection()
    assert math.isnan(quality.median_delay)
    assert math.isnan(quality.slow_delay)
    assert math.isnan(quality.false_alarms_per_1000)


def test_spawns_and_restarts_announce_a_shift_and_retirements_do_not():
    changes = [
        Change(30, "spawned", 1, {}),
        Change(32, "retired", 0, {}),
        Change(70, "restarted", 0, {}),
    ]
    assert alarm_rounds(changes) == [30, 70]
    assert alarm_rounds([]) == []


ROUNDS = 60
alarm_lists = st.lists(st.integers(1, ROUNDS), max_size=20).map(sorted)
shift_lists = st.sets(st.integers(1, ROUNDS - 1), max_size=10).map(sorted)


@given(alarms=alarm_lists, shifts=shift_lists)
def test_every_shift_and_every_alarm_is_counted_once(alarms, shifts):
    delays, missed, false_alarms = count(alarms, shifts, ROUNDS)
    assert len(delays) + missed == len(shifts)
    assert false_alarms + len(delays) == len(alarms)
    assert all(1 <= delay <= ROUNDS for delay in delays)


@given(alarms=alarm_lists, shifts=shift_lists)
def test_agrees_with_a_count_by_segments(alarms, shifts):
    delays, detected = [], 0
    for start, end in itertools.pairwise([*shifts, ROUNDS]):
        inside = [alarm for alarm in alarms if start < alarm <= end]
        if inside:
            detected += 1
            delays.append(min(inside) - start)
    assert count(alarms, shifts, ROUNDS) == (delays, len(shifts) - detected, len(alarms) - detected)


@given(runs=st.lists(st.tuples(alarm_lists, shift_lists), max_size=5))
def test_pooling_is_adding(runs):
    pooled = Detection()
    for alarms, shifts in runs:
        pooled.add(alarms, shifts, ROUNDS)
    single = [count(alarms, shifts, ROUNDS) for alarms, shifts in runs]
    assert pooled.delays == [delay for delays, _, _ in single for delay in delays]
    assert pooled.missed == sum(missed for _, missed, _ in single)
    assert pooled.false_alarms == sum(false_alarms for _, _, false_alarms in single)
    assert pooled.rounds == ROUNDS * len(runs)
