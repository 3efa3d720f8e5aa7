"""Estimators against numbers of independent tools, and against their own definitions."""

import json
from pathlib import Path

import numpy as np
import pytest

from driftbandit.evaluation.estimators import Terms, dm, dr, dros, ips, sndr, snips, switch_dr
from driftbandit.evaluation.samples import ESTIMATORS, Sample, choose_limit

FIXTURE = json.loads(Path(__file__).with_name("fixtures").joinpath("ope.json").read_text())


@pytest.fixture(scope="module")
def sample():
    return Sample.of_probabilities(
        FIXTURE["target_probabilities"],
        FIXTURE["reward_model"],
        FIXTURE["action"],
        FIXTURE["logged_propensity"],
        FIXTURE["reward"],
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_point_estimates_equal_those_of_the_open_bandit_pipeline(sample, estimator):
    limit = FIXTURE["lambda_"] if estimator in ("switch_dr", "dros") else None
    assert sample.terms(estimator, limit=limit).value == pytest.approx(FIXTURE["obp"][estimator], abs=1e-12)


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_two_of_them_equal_those_of_vw_estimators(sample, estimator):
    assert sample.terms(estimator).value == pytest.approx(FIXTURE["vw_estimators"][estimator], abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_influences_average_to_the_estimate(sample, estimator):
    terms = sample.terms(estimator, limit=3.0)
    assert terms.influences().mean() == pytest.approx(terms.value, abs=1e-12)
    decaying = terms.decaying(0.99)
    assert np.average(decaying.influences(), weights=decaying.share) == pytest.approx(decaying.value, abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_window_is_the_estimate_on_the_last_events(sample, estimator):
    inside = sample[-70:].terms(estimator, limit=3.0).value
    terms = sample.terms(estimator, limit=3.0)
    assert terms.last(70).value == inside
    ends, values = terms.over_time(window=70, points=5)
    assert ends[0] == 70
    assert ends[-1] == 300
    assert values[-1] == pytest.approx(inside, abs=1e-12)
    assert values[0] == pytest.approx(sample[:70].terms(estimator, limit=3.0).value, abs=1e-12)


def test_decay_weighs_events_as_the_paper_says(sample):
    rate, count = 0.98, len(sample)
    paper = (1 - rate) / (1 - rate**count) * rate ** (count - np.arange(1, count + 1))
    assert paper.sum() == pytest.approx(1.0)
    terms = sample.terms("dr")
    assert terms.decaying(rate).value == pytest.approx(paper @ (terms.base + terms.correction), abs=1e-12)
    assert terms.decaying(1.0).value == pytest.approx(terms.value, abs=1e-12)


def test_the_logger_on_its_own_log_gives_the_mean_reward():
    rewards = np.random.default_rng(0).random(1000)
    assert ips(np.ones(1000), rewards).value == snips(np.ones(1000), rewards).value == rewards.sum() / 1000


def test_limits_bound_the_weights():
    four = ([0.5, 4.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0])
    assert switch_dr(*four, limit=4.0).correction.tolist() == [0.5, 4.0]
    assert switch_dr(*four, limit=3.9).correction.tolist() == [0.5, 0.0]
    assert dros(*four, limit=16.0).correction.tolist() == [16 * 0.5 / 16.25, 2.0]
    assert dros(*four, limit=1e12).value == pytest.approx(dr(*four).value)


def test_the_limit_is_chosen_on_the_first_part_only(sample):
    limit, rest = choose_limit(sample, "switch_dr", share=0.5)
    assert len(rest) == 150
    assert (rest.rewards == sample.rewards[150:]).all()
    changed = Sample(
        np.append(sample.weights[:150], sample.weights[150:] * 7),
        np.append(sample.rewards[:150], 1 - sample.rewards[150:]),
        sample.predicted,
        sample.expected,
    )
    assert choose_limit(changed, "switch_dr", share=0.5)[0] == limit


def test_the_limit_follows_the_weights():
    """With a perfect model and rare huge weights a low limit is best; without huge weights nothing is cut off."""
    rng = np.random.default_rng(0)
    means = rng.random(2000)
    rewards = means + 0.1 * rng.standard_normal(2000)
    heavy = np.where(rng.random(2000) < 0.02, 50.0, 0.0)
    assert choose_limit(Sample(heavy, rewards, means, means), "switch_dr")[0] < 50
    light = rng.random(2000)
    assert choose_limit(Sample(light, rewards, 0 * means, means), "switch_dr")[0] > 1
    with pytest.raises(ValueError, match="share: expected a first part"):
        choose_limit(Sample([1.0], [1.0], [1.0], [1.0]), "dros")


def test_no_weight_at_all_is_not_a_number():
    assert np.isnan(snips([0.0, 0.0], [1.0, 1.0]).value)
    assert np.isnan(sndr([0.0], [1.0], [1.0], [1.0]).value)
    assert ips([0.0, 0.0], [1.0, 1.0]).value == 0.0
    assert np.isnan(ips([], []).value)


@pytest.mark.parametrize(
    ("weights", "rewards", "message"),
    [
        ([1.0, 2.0], [1.0], r"rewards: expected shape \(2,\), got \(1,\)"),
        ([[1.0]], [1.0], r"weights: expected shape \(n,\), got \(1, 1\)"),
        ([1.0, np.nan], [1.0, 1.0], "weights: expected finite numbers, got nan at event 1"),
        ([1.0, -0.5], [1.0, 1.0], "weights: expected numbers of at least 0, got -0.5 at event 1"),
        ([1.0], [np.inf], "rewards: expected finite numbers, got inf at event 0"),
        ([1.0], ["a"], "rewards: expected real numbers"),
    ],
)
def test_bad_arrays_are_refused(weights, rewards, message):
    with pytest.raises(ValueError, match=message):
        ips(weights, rewards)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensities": [0.5, 0.0]}, "propensities: expected numbers above 0 and at most 1, got 0.0 at event 1"),
        ({"propensities": [0.5, np.nan]}, "propensities: .* got nan at event 1"),
        ({"propensities": [1.5, 0.5]}, "propensities: .* got 1.5 at event 0"),
        ({"propensities": [0.5]}, r"propensities: expected shape \(2,\), got \(1,\)"),
        ({"shown": [0, 2]}, "shown: expected whole numbers from 0 to 1"),
        ({"shown": [0, 0.5]}, "shown: expected whole numbers from 0 to 1"),
        ({"target": [[0.5, 0.4], [1.0, 0.0]]}, "target: expected probabilities that add up to 1"),
        ({"target": [[1.5, -0.5], [1.0, 0.0]]}, "target: expected probabilities that add up to 1"),
        ({"model": [[0.1, 0.2]]}, "target, model, shown: expected shapes"),
    ],
)
def test_bad_probabilities_are_refused(change, message):
    given = {
        "target": [[0.5, 0.5], [1.0, 0.0]],
        "model": [[0.1, 0.2], [0.3, 0.4]],
        "shown": [0, 1],
        "propensities": [0.5, 0.5],
        "rewards": [1.0, 0.0],
    }
    assert len(Sample.of_probabilities(**given)) == 2
    with pytest.raises(ValueError, match=message):
        Sample.of_probabilities(**given | change)


def test_unknown_names_and_missing_limits_are_refused(sample):
    with pytest.raises(ValueError, match="estimator: unknown 'drr'"):
        sample.terms("drr")
    with pytest.raises(ValueError, match="limit: dros needs one, got None"):
        sample.terms("dros")
    with pytest.raises(ValueError, match="limit: expected a finite number above 0"):
        sample.terms("dros", limit=0.0)
    with pytest.raises(ValueError, match="window: expected a whole number of at least 1"):
        sample.terms().last(0)
    with pytest.raises(ValueError, match="rate"):
        sample.terms().decaying(1.5)
    assert isinstance(dm([0.1]), Terms)
