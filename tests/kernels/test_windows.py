"""The miss-rate ledger by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit import DLinUCB
from driftbandit.kernels import windows

PAPER = DLinUCB(2, 0.1)._rules
RELEASED = DLinUCB.preset("table1", 2, 0.1)._rules


def entry(window=200):
    return np.zeros(windows.RING + window, dtype=np.int64)


def standing(ledger, rules):
    return windows.standing(*windows.miss_rate(ledger, rules), rules)


def after(bits, window=200):
    ledger = entry(window)
    for bit in bits:
        windows.record(ledger, bit)
    return ledger


@given(st.lists(st.integers(0, 1), max_size=60), st.integers(1, 12))
def test_the_ring_counts_the_last_window(bits, window):
    ledger = after(bits, window)
    assert ledger[windows.AGE] == len(bits)
    assert ledger[windows.MISSES] == sum(bits[-window:])


def test_miss_rate_and_width_of_a_full_window():
    ledger = after([0] * 184 + [1] * 16)
    assert windows.miss_rate(ledger, PAPER) == pytest.approx((16 / 200, 0.07587136), abs=5e-9)
    assert windows.miss_rate(ledger, RELEASED) == pytest.approx((16 / 201, 0.07587136), abs=5e-9)
    assert PAPER[6] == pytest.approx(2.30180741, abs=5e-9)


def test_a_newborn_has_the_first_width():
    assert windows.miss_rate(entry(), PAPER) == (0.0, 0.0)
    assert windows.miss_rate(entry(), RELEASED) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("misses", "paper", "released"),
    [
        (15, windows.FINE, windows.FINE),
        (16, windows.SUSPECT, windows.SUSPECT),
        (17, windows.SUSPECT, windows.SUSPECT),
        (18, windows.LOST, windows.LOST),
    ],
)
def test_standing_in_a_full_window(misses, paper, released):
    """Spawning needs a rate of .002 + .0759 = .0779, retirement .01 + .0759 = .0859: 16 and 18 misses of 200."""
    ledger = after([0] * (200 - misses) + [1] * misses)
    assert standing(ledger, PAPER) == paper
    assert standing(ledger, RELEASED) == released


def test_thresholds_are_strict_as_the_rule_says():
    """A rate exactly on a bound: Algorithm 1 prints < and >=, the released code has <= and >."""
    rules = PAPER.copy()
    rules[1], rules[2], rules[3] = 0.5, 0.5, 0.0  # no width: the bounds are the deltas
    ledger = after([0, 1], window=2)
    assert standing(ledger, rules) == windows.LOST
    rules[7] = 1.0
    assert standing(ledger, rules) == windows.FINE


def test_the_leader_has_the_lowest_lower_bound_and_the_oldest_wins_a_tie():
    calm, calm_too, worried = after([0] * 50), after([0] * 50), after([0, 1] * 25)
    assert windows.leader(np.array([worried, calm, calm_too]), PAPER, 3) == 1
    young = after([0] * 3)  # less data, wider interval, lower bound
    assert windows.leader(np.array([worried, calm, young]), PAPER, 3) == 2
    assert windows.leader(np.array([worried, calm, young]), PAPER, 2) == 1


def test_early_detection_is_as_rare_as_lemma_3_4_says():
    """A healthy member at the limit misses with probability delta = .01 in every round.

    The lemma bounds the chance that its miss rate exceeds delta plus the width at any given round by
    window_delta = .1. Over 400 independent members and 500 rounds each the share must stay below it; the margin is
    that the bound itself is not tight, so a share above .05, half of it, already fails.
    """
    rng = np.random.default_rng(0)
    lost = 0
    for bits in (rng.random((400, 500)) < 0.01).astype(np.int64):
        ledger = entry()
        for bit in bits:
            windows.record(ledger, bit)
            lost += standing(ledger, PAPER) == windows.LOST
    assert lost / (400 * 500) <= 0.05


def test_a_member_that_misses_too_often_is_lost():
    """The counterpart: at a miss probability of .3 the member is lost in nearly every full window."""
    rng = np.random.default_rng(1)
    verdicts = [standing(after(bits), PAPER) for bits in (rng.random((50, 200)) < 0.3).astype(np.int64)]
    assert verdicts == [windows.LOST] * 50
