"""Intervals against independent tools, and against what they promise."""

import json
from pathlib import Path

import numpy as np
import pytest

from driftbandit.benchmarks.coverage import drifting_logs
from driftbandit.evaluation.anytime import anytime_interval, confidence_sequence, difference_sequence
from driftbandit.evaluation.estimators import ips, snips
from driftbandit.evaluation.robust_sequences import dr_sequence
from driftbandit.evaluation.samples import Sample
from driftbandit.evaluation.value_intervals import bootstrap_interval, clopper_pearson, cressie_read, normal_interval

FIXTURE = json.loads(Path(__file__).with_name("fixtures").joinpath("ope.json").read_text())


@pytest.fixture(scope="module")
def sample():
    names = ("target_probabilities", "reward_model", "action", "logged_propensity", "reward")
    return Sample.of_probabilities(*(FIXTURE[name] for name in names))


@pytest.mark.parametrize(
    ("name", "interval"),
    [
        ("gaussian", lambda w, r: normal_interval(ips(w, r))),
        ("clopper_pearson", clopper_pearson),
        ("cressie_read", cressie_read),
        ("confidence_sequence", anytime_interval),
    ],
)
def test_intervals_equal_those_of_vw_estimators(sample, name, interval):
    found = interval(sample.weights, sample.rewards)
    assert [found.low, found.high] == pytest.approx(FIXTURE["vw_estimators"]["intervals_95"][name], abs=1e-9)


def test_the_estimate_of_cressie_read_equals_that_of_vw_estimators(sample):
    found = cressie_read(sample.weights, sample.rewards).estimate
    assert found == pytest.approx(FIXTURE["vw_estimators"]["cressie_read"], abs=1e-12)


@pytest.mark.parametrize("interval", [clopper_pearson, cressie_read, anytime_interval])
def test_intervals_move_with_the_units_of_rewards(sample, interval):
    plain = interval(sample.weights, sample.rewards)
    moved = interval(sample.weights, 10 * sample.rewards - 3, low=-3.0, high=7.0)
    assert [moved.low, moved.high] == pytest.approx([10 * plain.low - 3, 10 * plain.high - 3], abs=1e-8)


def test_cressie_read_holds_the_value_whether_weights_came_out_high_or_low():
    """With a mean weight above 1 the unseen event has weight 0, below 1 it has any weight."""
    rng = np.random.default_rng(0)
    for many in (210, 190):
        weights, rewards = np.repeat([2.0, 0.0], [many, 400 - many]), (rng.random(400) < 0.4).astype(float)
        found = cressie_read(weights, rewards)
        assert 0.28 < found.low < 0.4 < found.high < 0.52
        assert found.low < found.estimate < found.high
    same = cressie_read(np.zeros(50), np.zeros(50))
    assert (same.low, same.high) == (0.0, 1.0)


def test_a_difference_is_estimated_on_the_same_events(sample):
    """Two policies that nearly agree differ by little, although each alone is uncertain."""
    ours = ips(sample.weights, sample.rewards)
    nearly = ips(np.append(sample.weights[:-1], 0.0), sample.rewards)
    for interval in (bootstrap_interval, normal_interval):
        alone, paired = interval(ours), interval(ours, nearly)
        assert paired.estimate == pytest.approx(ours.value - nearly.value, abs=1e-12)
        assert paired.high - paired.low < 0.1 * (alone.high - alone.low)
        assert interval(ours, ours).low == interval(ours, ours).high == 0.0
        with pytest.raises(ValueError, match="other: expected terms of the same 300 events"):
            interval(ours, ours.last(200))
        with pytest.raises(ValueError, match="or other shares"):
            interval(ours, ours.decaying(0.9))


def test_bootstrap_and_normal_interval_agree_on_independent_events():
    rng = np.random.default_rng(1)
    terms = snips(rng.random(20_000) * 2, rng.random(20_000))
    a, b = bootstrap_interval(terms), normal_interval(terms)
    assert (a.high - a.low) / (b.high - b.low) == pytest.approx(1.0, abs=0.1)
    decayed = terms.decaying(0.999)
    c, d = bootstrap_interval(decayed), normal_interval(decayed)
    assert (c.high - c.low) / (d.high - d.low) == pytest.approx(1.0, abs=0.2)
    assert c.high - c.low > 2 * (a.high - a.low)  # the latest thousand say less than all


def test_a_drifting_value_is_not_taken_for_noise():
    """The value climbs from 0.1 to 0.9; what is uncertain is the coin at each event, not the climb."""
    rng = np.random.default_rng(2)
    chance = np.linspace(0.1, 0.9, 50_000)
    found = bootstrap_interval(ips(np.ones(50_000), (rng.random(50_000) < chance).astype(float)))
    honest = 2 * 1.96 * np.sqrt((chance * (1 - chance)).mean() / 50_000)
    assert (found.high - found.low) / honest == pytest.approx(1.0, abs=0.1)


def test_one_event_and_none():
    assert np.isnan(normal_interval(ips([1.0], [1.0])).low)
    assert np.isnan(bootstrap_interval(ips([], [])).estimate)
    assert np.isnan(clopper_pearson([], []).estimate)
    assert np.isnan(cressie_read([], []).estimate)
    with pytest.raises(ValueError, match="expected at least one event"):
        confidence_sequence([], [])


@pytest.mark.parametrize("interval", [clopper_pearson, cressie_read, anytime_interval])
def test_rewards_outside_the_range_are_refused(interval):
    with pytest.raises(ValueError, match="low, high: expected a range that holds all rewards, 0 to 2, got 0 to 1"):
        interval([1.0, 1.0], [0.0, 2.0])
    with pytest.raises(ValueError, match="level: expected"):
        interval([1.0], [1.0], level=2.0)


def test_options_of_the_sequences_are_checked():
    with pytest.raises(ValueError, match="at: expected whole numbers from 1 to 2"):
        confidence_sequence([1.0, 1.0], [0.0, 1.0], at=[0])
    with pytest.raises(ValueError, match="largest_weight: expected a number that no weight exceeds, got 2 beside 3"):
        confidence_sequence([3.0], [1.0], largest_weight=2.0)
    with pytest.raises(ValueError, match="other_largest"):
        difference_sequence([1.0], [3.0], [1.0], largest_weight=3.0, other_largest=1.0)


def drifting(rng, count, arms=4):
    """A log whose click rates drift and whose logger follows the clicks; the policy plays yesterday's best arm."""
    phase = rng.random(arms) * 6
    rates = 0.3 + 0.25 * np.sin(phase + np.arange(count)[:, None] * 6 / count)
    lucky = rng.random(count)
    clicks = rng.random((count, arms)) < rates
    shares = np.full((count, arms), 1 / arms)
    seen = np.ones(arms)
    best = np.zeros(count, dtype=int)
    weights, rewards = np.empty(count), np.empty(count)
    for t in range(count):
        shares[t] = 0.2 / arms + 0.8 * seen / seen.sum()
        best[t] = seen.argmax()
        arm = min(int(np.searchsorted(np.cumsum(shares[t]), lucky[t])), arms - 1)
        rewards[t] = clicks[t, arm]
        weights[t] = (arm == best[t]) / shares[t, arm]
        seen *= 0.99
        seen[arm] += rewards[t] / 10
    return weights, rewards, rates[np.arange(count), best], (shares * rates).sum(axis=1)


@pytest.mark.parametrize("largest", [None, 20.0])
def test_sequences_hold_at_every_look_under_drift_and_an_adaptive_logger(largest):
    """Of 60 logs at most 5 % should ever miss; binomially, 8 misses or more have a chance below 1 %."""
    rng = np.random.default_rng(5)
    looks = np.arange(10, 1001, 10)
    missed = different = 0
    for _ in range(60):
        weights, rewards, values, logger = drifting(rng, 1000)
        truth = (np.cumsum(values) / np.arange(1, 1001))[looks - 1]
        found = confidence_sequence(weights, rewards, largest_weight=largest, at=looks)
        missed += bool(((truth < found.low) | (truth > found.high)).any())
        gap = (np.cumsum(values - logger) / np.arange(1, 1001))[looks - 1]
        paired = difference_sequence(weights, np.ones(1000), rewards, largest_weight=20.0, other_largest=1.0, at=looks)
        different += bool(((gap < paired.low) | (gap > paired.high)).any())
    assert missed < 8
    assert different < 8


def test_a_known_largest_weight_helps_where_rewards_are_rare():
    rng = np.random.default_rng(0)
    weights, rewards = 10.0 * (rng.random(20_000) < 0.1), (rng.random(20_000) < 0.03).astype(float)
    blind = anytime_interval(weights, rewards)
    told = anytime_interval(weights, rewards, largest_weight=10.0)
    assert told.low == blind.low
    assert told.high - told.estimate < 0.5 * (blind.high - blind.estimate)
    assert told.high > 0.03


def test_a_doubly_robust_sequence_by_its_parts():
    """With predictions of `low` everywhere the terms are those of IPS, counted from `low`."""
    rng = np.random.default_rng(2)
    weights, rewards = 2.0 * rng.integers(2, size=500), rng.random(500)
    blank = Sample(weights, rewards, np.zeros(500), np.zeros(500))
    assert dr_sequence(blank, largest_weight=2.0).latest.estimate == pytest.approx(ips(weights, rewards).value)
    perfect = Sample(weights, rewards, rewards, np.full(500, 0.5))
    exact = dr_sequence(perfect, largest_weight=2.0).latest
    assert exact.estimate == pytest.approx(0.5)
    rough = dr_sequence(blank, largest_weight=2.0).latest
    assert exact.high - exact.low < 0.5 * (rough.high - rough.low)
    # other units, the same answer
    moved = Sample(weights, 10.0 * rewards - 3.0, 10.0 * rewards - 3.0, np.full(500, 2.0))
    there = dr_sequence(moved, largest_weight=2.0, low=-3.0, high=7.0).latest
    assert (there.low, there.high) == pytest.approx((10.0 * exact.low - 3.0, 10.0 * exact.high - 3.0))
    # a policy minus itself is nothing, and the ends are those of its range of terms
    same = dr_sequence(perfect, perfect, largest_weight=2.0).latest
    assert same.low < same.estimate == 0.0 < same.high == pytest.approx(-same.low)


def test_doubly_robust_sequences_refuse_what_the_proof_does_not_cover():
    sample = Sample([1.0, 2.0], [0.0, 1.0], [0.5, 1.5], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"predicted, expected: .* from 0 to 1, .* got 0.5 to 1.5; .*bounded=True"):
        dr_sequence(sample, largest_weight=2.0)
    fine = Sample([1.0, 2.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="largest_weight: expected a number that no weight exceeds, got 1 beside 2"):
        dr_sequence(fine, largest_weight=1.0)
    with pytest.raises(ValueError, match="low, high: expected a range that holds all rewards"):
        dr_sequence(fine, largest_weight=2.0, high=0.9)
    with pytest.raises(ValueError, match="other: expected a sample of the same 2 events"):
        dr_sequence(fine, Sample([1.0], [0.0], [0.5], [0.5]), largest_weight=2.0)


def test_doubly_robust_sequences_hold_at_every_look_under_drift():
    """Of 200 logs 5 % may ever miss; binomially, 20 misses or more have a chance below 1 %."""
    made, looks = drifting_logs(200, 500, seed=11), np.arange(10, 501, 10)
    counts = np.arange(1, 501)
    missed = different = 0
    for log in range(200):
        sample = Sample(made.weights[log], made.rewards[log], made.predicted[log], made.expected[log])
        logger = Sample(np.ones(500), *[made.rewards[log]] * 3)
        truth = (np.cumsum(made.values[log]) / counts)[looks - 1]
        found = dr_sequence(sample, largest_weight=20.0, at=looks)
        missed += bool(((truth < found.low) | (truth > found.high)).any())
        gap = (np.cumsum(made.values[log] - made.logged[log]) / counts)[looks - 1]
        paired = dr_sequence(sample, logger, largest_weight=20.0, other_largest=1.0, at=looks)
        different += bool(((gap < paired.low) | (gap > paired.high)).any())
    assert missed < 20
    assert different < 20
