"""The delay on clicks: the equation that it solves, how it moves with what it depends on, and what it refuses."""

import math
import re

import pytest

from driftbandit.evaluation.delays import click_delay, click_information
from driftbandit.policies.choosing_memory.driftucb import DriftUCB

RATES = (0.003, 0.01, 0.02, 0.05, 0.15)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("lift", [1.01, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("dim", [1, 10, 100])
def test_it_solves_its_equation(rate, lift, dim):
    delay = click_delay(rate, lift, dim=dim, period=20_000, delta=0.02)
    before = rate * lift
    information = rate * math.log(rate / before) + (1.0 - rate) * math.log((1.0 - rate) / (1.0 - before))
    births = 20_000 * before / 4.0  # ages and rates are counted with one click and one decision more
    needed = math.log((min(births, 5_000 - births) + 100.0) / 0.02) + dim / 2.0 * math.log(1.0 + rate * delay / dim)
    assert delay == pytest.approx(needed / information, rel=1e-3)


def test_information_is_the_divergence_also_of_rates_that_differ_by_little():
    assert click_information(0.02, 0.04) == pytest.approx(0.02 * math.log(0.5) + 0.98 * math.log(0.98 / 0.96))
    assert click_information(0.3, 0.3) == 0.0
    assert click_information(0.5, 0.5 + 1e-6) == pytest.approx(2e-12, rel=1e-3)


def test_it_falls_with_rate_and_lift_and_rises_with_dim_period_and_rarer_false_alarms():
    assert sorted(RATES, key=lambda rate: -click_delay(rate, 2.0)) == list(RATES)
    assert click_delay(0.02, 1.5) > click_delay(0.02, 2.0) > click_delay(0.02, 4.0)
    usual = click_delay(0.02, 2.0)
    assert click_delay(0.02, 2.0, dim=20) > usual
    assert click_delay(0.02, 2.0, period=200_000) > usual
    assert click_delay(0.02, 2.0, delta=0.001) > usual


def test_the_default_delta_is_the_policys():
    assert click_delay(0.02, 2.0) == click_delay(0.02, 2.0, delta=DriftUCB(10).delta)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"rate": 0.0}, "rate: expected a number in"),
        ({"rate": -0.1}, "rate: "),
        ({"rate": 2.0}, "rate: "),
        ({"rate": math.nan}, "rate: "),
        ({"rate": 1e-300}, "rate: "),
        ({"rate": "2 %"}, "rate: "),
        ({"rate": None}, "rate: "),
        ({"lift": 1.0}, "lift: expected a finite number of at least 1.01"),
        ({"lift": 0.5}, "lift: "),
        ({"lift": math.inf}, "lift: "),
        ({"lift": math.nan}, "lift: "),
        ({"lift": 50.0}, "lift: 50 times a rate of 0.02 is not below 1; expected a lift below 50"),
        ({"rate": 1.0}, "lift: 2 times a rate of 1 is not below 1"),
        ({"dim": 0}, "dim: "),
        ({"dim": 1.5}, "dim: "),
        ({"period": 0}, "period: "),
        ({"delta": 0.0}, "delta: "),
        ({"delta": 1.1}, "delta: "),
    ],
)
def test_bad_input_is_refused_in_words(bad, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        click_delay(**({"rate": 0.02, "lift": 2.0} | bad))
