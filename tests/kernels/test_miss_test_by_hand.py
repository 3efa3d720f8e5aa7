"""Rounds of the miss test by hand."""

import numpy as np
import pytest

from driftbandit.kernels import windows
from driftbandit.kernels.compile import fill_in


def after(bits, window=200):
    ledger = np.zeros(windows.RING + window, dtype=np.int64)
    for bit in bits:
        windows.record(ledger, bit)
    return ledger


def rules(**changed):
    """Rules by hand: no width, so that the bounds of the miss rate are the deltas."""
    slots = ("epsilon", "delta", "spawn_delta", "spread", "extra", "first_width", "optimism", "strict")
    values = dict.fromkeys(slots, 0.0) | {"epsilon": 0.25, "delta": 0.5, "spawn_delta": 0.5} | changed
    return np.array([values[slot] for slot in slots])


def judges():
    """`judge_round` and `judge_rounds` over models that predict what stands in their row, ± 0.25, and count updates."""

    def predict(settings, row, x):
        return row[0] * x[0], 0.25

    def update(settings, row, x, reward):
        row[1] += settings * reward
        return True

    one = fill_in(windows.judge_round, "by_hand", predict=predict, update=update)
    return one, fill_in(windows.judge_rounds, "many_by_hand", judge_round=one)


def members(*means, window=4):
    bank = np.zeros((len(means) + 1, 2))  # one row and one entry more than members
    bank[:-1, 0] = means
    ledger = np.zeros((len(means) + 1, windows.RING + window), dtype=np.int64)
    ledger[:, windows.ID] = 10 + np.arange(len(means) + 1)
    return bank, ledger


ONE = np.ones(1)


def test_a_round_by_hand():
    """Rewards within .25 + .25 of a prediction are no miss, exactly that far included; who missed learns nothing."""
    bank, ledger = members(1.0, 0.5, 1.5, 2.0, 0.25)
    ledger[1, windows.AGE] = 9  # a full window without a miss
    told = rules(delta=2.0, spawn_delta=2.0)
    assert judges()[0](3.0, bank, ledger, told, 5, ONE, 1.0) == 0
    assert bank[:, 1].tolist() == [3.0, 3.0, 3.0, 0.0, 0.0, 0.0]
    assert ledger[:, windows.UPDATES].tolist() == [1, 1, 1, 0, 0, 0]
    assert ledger[:, windows.MISSES].tolist() == [0, 0, 0, 1, 1, 0]
    assert ledger[:, windows.AGE].tolist() == [1, 10, 1, 1, 1, 0]
    assert ledger[:, windows.ID].tolist() == [10, 11, 12, 13, 14, 15]


def test_the_next_leader_has_the_lowest_bound():
    bank, ledger = members(9.0, 1.0, 1.0)
    one, _ = judges()
    assert one(1.0, bank, ledger, rules(delta=2.0, spawn_delta=2.0), 3, ONE, 1.0) == 1
    ledger[2, windows.AGE] = 1  # judged more often than the other, whose interval is wider
    assert one(1.0, bank, ledger, rules(delta=9.0, spawn_delta=9.0, spread=0.5, optimism=1.0), 3, ONE, 1.0) == 1
    ledger[1, windows.AGE] = 3
    assert one(1.0, bank, ledger, rules(delta=9.0, spawn_delta=9.0, spread=0.5, optimism=1.0), 3, ONE, 1.0) == 2


@pytest.mark.parametrize(
    ("means", "delta", "spawn_delta", "answer"),
    [
        ((1.0, 1.0), 0.5, 0.5, 0),  # both are fine
        ((1.0, 9.0), 0.5, 0.5, windows.REVIEW),  # one is lost, the other fine
        ((9.0, 1.0), 0.5, 0.5, windows.REVIEW),
        ((9.0, 9.0), 2.0, 0.5, windows.REVIEW),  # none is lost, and none is fine
        ((9.0, 1.0), 2.0, 0.5, 1),  # one is suspect, the other fine
        ((1.0, 9.0), 2.0, 0.5, 0),
    ],
)
def test_when_members_are_reviewed(means, delta, spawn_delta, answer):
    bank, ledger = members(*means)
    assert judges()[0](1.0, bank, ledger, rules(delta=delta, spawn_delta=spawn_delta), 2, ONE, 1.0) == answer


@pytest.mark.parametrize("mean", [np.nan, np.inf])
def test_a_prediction_that_is_no_number_touches_nobody(mean):
    bank, ledger = members(1.0, mean)
    before = bank.copy(), ledger.copy()
    assert judges()[0](1.0, bank, ledger, rules(), 2, ONE, 1.0) == windows.NOT_FINITE
    np.testing.assert_array_equal(bank, before[0])
    np.testing.assert_array_equal(ledger, before[1])


def test_a_width_that_is_no_number_touches_nobody():
    bank, ledger = members(1.0)
    wide = fill_in(windows.judge_round, "wide", predict=lambda *_: (1.0, np.nan), update=lambda *_: None)
    assert wide(1.0, bank, ledger, rules(), 1, ONE, 1.0) == windows.NOT_FINITE
    assert ledger[0, windows.AGE] == 0


def test_many_rounds_stop_at_the_first_that_needs_a_review():
    _, many = judges()
    bank, ledger = members(1.0, 2.0)
    before = np.empty(2)
    told = rules(delta=0.6, spawn_delta=0.6)
    xs, rewards = np.ones((7, 1)), np.array([1.5, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0])
    # The second member misses the third and fourth: 1 of 3, then 2 of 4; the fifth pushes a hit out: 3 of 4.
    assert many(1.0, bank, ledger, told, 2, 1, xs, rewards, before) == (5, windows.REVIEW)
    assert before.tolist() == [1.0, 5.0]  # the first has led since the third, and absorbed four rewards by then
    assert ledger[:2, windows.AGE].tolist() == [5, 5]
    bank, ledger = members(1.0, 2.0)
    assert many(1.0, bank, ledger, told, 2, 1, xs[:4], rewards[:4], before) == (4, 0)
    bank, ledger = members(1.0)
    assert many(1.0, bank, ledger, told, 1, 0, xs, np.ones(7), before) == (7, 0)
    bank, ledger = members(np.nan)
    assert many(1.0, bank, ledger, told, 1, 0, xs, rewards, before) == (1, windows.NOT_FINITE)


@pytest.mark.parametrize("model", ["predict", "update"])
def test_the_templates_stand_for_nothing(model):
    with pytest.raises(NotImplementedError):
        getattr(windows, model)(None, ONE, ONE, *([1.0] if model == "update" else []))


def test_widths_by_hand():
    """sqrt(spread / rounds), over a window of four; the rate is over as many, and one more where rules say so."""
    ledger = after([1, 0], window=4)
    assert windows.miss_rate(ledger, rules(spread=0.08)) == pytest.approx((1 / 2, 0.2))
    assert windows.miss_rate(ledger, rules(spread=0.08, extra=1.0)) == pytest.approx((1 / 3, 0.2))
    ledger = after([1, 0, 1, 1, 0, 0], window=4)
    assert windows.miss_rate(ledger, rules(spread=0.16)) == pytest.approx((2 / 4, 0.2))
    assert windows.lowest_rate(0.5, 0.2, rules(optimism=3.0)) == pytest.approx(-0.1)
    assert windows.miss_rate(after([]), rules(first_width=0.7)) == (0.0, 0.7)


@pytest.mark.parametrize(("strict", "verdicts"), [(0.0, (1, 2, 0)), (1.0, (0, 1, 0))])
def test_bounds_of_standing(strict, verdicts):
    """On the bound of doubt, on the bound of loss, and below both; widths count on top of the deltas."""
    told = rules(delta=0.5, spawn_delta=0.25, strict=strict)
    assert tuple(windows.standing(rate, 0.25, told) for rate in (0.5, 0.75, 0.25)) == verdicts
    assert windows.standing(0.8, 0.25, told) == windows.LOST
    assert windows.standing(0.6, 0.25, told) == windows.SUSPECT


def test_answers_are_told_from_leaders_and_from_each_other():
    assert windows.REVIEW != windows.NOT_FINITE
    assert max(windows.REVIEW, windows.NOT_FINITE) < 0
