"""The miss-rate ledger by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit import DLinUCB
from driftbandit.kernels import windows
from driftbandit.kernels.compile import fill_in

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
    assert PAPER[windows.OPTIMISM] == pytest.approx(2.30180741, abs=5e-9)


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
    rules[[windows.DELTA, windows.SPAWN_DELTA, windows.SPREAD]] = 0.5, 0.5, 0.0  # no width: the bounds are the deltas
    ledger = after([0, 1], window=2)
    assert standing(ledger, rules) == windows.LOST
    rules[windows.STRICT] = 1.0
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


def test_a_window_that_is_not_full_is_judged_by_what_it_holds():
    ledger = after([1, 0, 0, 0])
    assert windows.miss_rate(ledger, PAPER) == pytest.approx((1 / 4, np.sqrt(np.log(10) / 8)))
    assert windows.miss_rate(ledger, RELEASED) == pytest.approx((1 / 5, np.sqrt(np.log(10) / 8)))


def test_the_lower_bound_is_optimism_widths_below_the_rate():
    assert windows.lowest_rate(0.5, 0.1, PAPER) == pytest.approx(0.5 - 0.1 * np.sqrt(np.log(200)))


def predict(settings, row, x):
    """A member whose row is [prediction, width, rewards absorbed]."""
    return row[0], row[1]


def update(settings, row, x, reward):
    row[2] += 1.0


judge_round = fill_in(windows.judge_round, "judge_round_here", predict=predict, update=update)
judge_rounds = fill_in(windows.judge_rounds, "judge_rounds_here", judge_round=judge_round)
X = np.ones(1)


def rules(epsilon):
    found = PAPER.copy()
    found[windows.EPSILON] = epsilon
    return found


def members(*predictions, window=200, past=()):
    bank = np.array([[mean, width, 0.0] for mean, width in predictions])
    return bank, np.array([after(past, window) for _ in predictions])


@pytest.mark.parametrize(
    ("reward", "missed"), [(0.75, 0), (0.7501, 1), (-0.75, 0), (-0.7501, 1)], ids=["edge", "above", "edge-", "below"]
)
def test_a_miss_is_beyond_width_and_epsilon(reward, missed):
    bank, ledger = members((0.0, 0.5), past=[0] * 100)
    assert judge_round(None, bank, ledger, rules(0.25), 1, X, reward) == 0
    assert ledger[0, [windows.AGE, windows.MISSES, windows.UPDATES]].tolist() == [101, missed, 1 - missed]
    assert bank[0, 2] == 1 - missed


def test_members_beyond_the_count_are_left_alone():
    bank, ledger = members((0.0, 0.5), (0.0, 0.5), past=[0] * 100)
    judge_round(None, bank, ledger, rules(0.0), 1, X, 0.1)
    assert (ledger[1, windows.AGE], bank[1, 2]) == (100, 0.0)


def test_the_next_leader_has_the_lowest_bound():
    bank, ledger = members((9.0, 0.1), (0.0, 0.1), (0.0, 0.1), past=[0] * 100)
    assert judge_round(None, bank, ledger, rules(0.1), 3, X, 0.0) == 1


def test_a_review_is_due_when_one_is_lost_or_none_is_fine():
    """At 100 judged rounds the width is .107: 11 misses make a member suspect, 12 lose it."""
    for misses, fine_one_too, answer in [(10, False, 0), (11, False, windows.REVIEW), (11, True, 1)]:
        bank, ledger = members((9.0, 0.1), (0.0, 0.1))
        ledger[0], ledger[1] = after([0] * (100 - misses) + [1] * (misses - 1)), after([0] * 99)
        assert judge_round(None, bank, ledger, rules(0.1), 1 + fine_one_too, X, 0.0) == answer
    ledger[0] = after([0] * 88 + [1] * 11)  # the twelfth miss comes now
    assert judge_round(None, bank, ledger, rules(0.1), 2, X, 0.0) == windows.REVIEW


@pytest.mark.parametrize("bad", [(np.nan, 0.1), (0.0, np.nan), (np.inf, 0.1), (0.0, np.inf)])
def test_nothing_is_learned_where_a_prediction_is_not_finite(bad):
    bank, ledger = members((0.0, 0.1), bad)
    before = bank.copy(), ledger.copy()
    assert judge_round(None, bank, ledger, rules(0.1), 2, X, 0.0) == windows.NOT_FINITE
    np.testing.assert_array_equal(bank, before[0])
    np.testing.assert_array_equal(ledger, before[1])


def test_many_rewards_stop_at_the_first_that_needs_a_review():
    bank, ledger = members((0.0, 0.1), window=5)
    before = np.empty(3)
    rewards = np.array([0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0])
    shown, answer = judge_rounds(None, bank, ledger, rules(0.1), 1, 0, np.ones((7, 1)), rewards, before)
    # Rates of 1/3, 2/4, 3/5 against .002 + sqrt(ln 10 / (2 n)) = .62, .54, .48: the fifth is the first beyond it.
    assert (shown, answer) == (5, windows.REVIEW)
    assert before.tolist() == [0.0, 0.1, 2.0]
    assert judge_rounds(None, *members((0.0, 0.1)), rules(0.1), 1, 0, np.ones((2, 1)), rewards[:2], before) == (2, 0)
    assert before.tolist() == [0.0, 0.1, 1.0]
