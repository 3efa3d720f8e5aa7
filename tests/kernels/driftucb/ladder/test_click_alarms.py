"""The steps of the proof in docs/detection.md, on the kernels themselves."""

import math

import numpy as np
import pytest
from tiled import whole

from driftbandit.kernels.driftucb import scales
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence
from driftbandit.kernels.driftucb.mixture import click_log_likelihood
from driftbandit.kernels.driftucb.rows import COUNT, THETA, row_size

DELTA = 0.02


def memo_of(rounds, hits, value=1.0):
    memo = np.zeros(scales.MEMO)
    memo[[scales.ROUNDS, scales.HITS, scales.HIT_VALUE]] = rounds, hits, value
    memo[[scales.PRIOR, scales.NOISE, scales.FIRST_SQUARE]] = 1.0
    return memo


def counted(memo, age):
    """What the threshold counts as births, without the 100 that count as having gone before."""
    return DELTA * math.exp(evidence.threshold(memo, age, DELTA)) - 100.0


@pytest.mark.parametrize("value", [1.0, -2.5])
@pytest.mark.parametrize("own", [-0.3, 0.0, 0.001, 0.2, 0.9, 1.4])
@pytest.mark.parametrize("theirs", [-0.1, 0.02, 0.5, 2.0])
def test_a_right_incumbent_makes_the_likelihood_ratio_a_fair_game(own, theirs, value):
    memo = memo_of(1000, 100, value)

    def probability(reward, mean):
        return math.exp(click_log_likelihood(memo, reward, mean * value))

    chance = probability(value, theirs)
    ratios = [probability(reward, own) / probability(reward, theirs) for reward in (value, 0.0)]
    assert chance * ratios[0] + (1.0 - chance) * ratios[1] == pytest.approx(1.0, abs=1e-12)
    least = 0.2 * 101.0 / 1002.0
    assert least <= chance <= 1.0 - least


def test_births_are_counted_as_a_quarter_of_the_rarer_outcomes():
    assert counted(memo_of(998, 19), 1000.0) == pytest.approx(1000.0 * 0.02 / 4.0)
    assert counted(memo_of(998, 979), 1000.0) == pytest.approx(1000.0 * 0.02 / 4.0)
    assert counted(memo_of(998, 19), 0.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("older", [0, 5000])
def test_the_threshold_never_falls_while_an_incumbent_stays(rate, older):
    rng = np.random.default_rng(0)
    hits, rounds, last = 1 + int(0.5 * older), 1 + older, 0.0
    for age in range(2, 4000):
        now = evidence.threshold(memo_of(rounds, hits), float(age), DELTA)
        assert now >= last - 1e-12
        last = now
        rounds += 1
        hits += rng.random() < rate


@pytest.mark.parametrize("rate", [0.003, 0.02, 0.0781, 0.15, 0.5])
def test_births_are_at_least_one_apart(rate):
    rungs = np.zeros((births.RUNGS, row_size(2)))
    born = []
    for rounds in range(1, 20_000):
        memo = memo_of(rounds, rate * (rounds + 2.0) - 1.0)
        rungs[:] = 0.0
        rungs[:, COUNT] = 7.0
        births.renew(memo, rungs, np.zeros(2), np.ones(2), np.zeros(20), 0, 1.0, DELTA)
        if (rungs[:, COUNT] == 0.0).any() and memo[scales.HITS] > 0.0:
            born.append(counted(memo, float(rounds)))
    assert len(born) >= 9, "else nothing is tested"
    assert np.diff(born).min() >= 1.0 - 1e-6
    assert born[0] >= 1.0 - 1e-6, "so the j-th birth has at least j"


def test_an_alarm_needs_twice_as_many_of_the_rarer_outcome_as_there_are_weights():
    memo = memo_of(1000, 11)
    memo[scales.ALL_COUNT] = 1000.0
    assert not evidence.ready(memo, 6)
    memo[scales.HITS] = 12.0
    assert evidence.ready(memo, 6)
    memo[scales.HITS] = 989.0
    assert not evidence.ready(memo, 6)


def test_evidence_without_the_most_telling_click_must_hold_too():
    rungs = np.zeros((1, row_size(1)))
    births.give_birth(rungs[0], np.array([0.5]), np.ones(1), 1.0, 1.0, 1.0, 1.0)
    memo, x = memo_of(1000, 10), whole(np.ones(1))
    for theirs, found in ((math.log(1e-9), False), (math.log(1e-9), True)):
        rows = np.zeros(backlog.backlog_size(1))
        assert evidence.show_click(rows, 0, memo, x, 1.0, 0.0, theirs, 0.0), "there was no allowance yet"
        best, strongest = evidence.settle(memo, rungs, rows, 0, np.ones(1), 10.0)
        assert (best == 0) is found, "one click alone never makes an alarm"
    assert strongest > 2.0 * math.log(1e8)
    assert rungs[0, THETA] > 0.5
