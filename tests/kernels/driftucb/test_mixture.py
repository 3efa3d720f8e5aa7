"""DriftUCB's mixture: who acts, with what weight, and how eagerly."""

import numpy as np
import pytest
from scipy import stats
from tiled import matrix_of, row_of, weights_of, whole

from driftbandit.kernels.driftucb import mixture, rows, scales


def world(*, clicks=False):
    memo = np.zeros(scales.MEMO)
    memo[[scales.REWARD_SQUARES, scales.NOISE]] = 1.0
    memo[scales.HITS] = float(clicks)
    return memo


def test_the_mixture_is_a_weighted_mean_of_models():
    memo, weights = world(), np.array([0.6, 0.3995, 0.0005])
    memo[scales.NOISE] = 0.5
    bank = np.stack([model(1.0, 4.0), model(2.0, 3.0), model(1e6, 1e6)])  # the last is too light
    expected = 0.6 * 1.0 + 0.3995 * 2.0, 0.6 * 0.5 * 4.0 + 0.3995 * 3.0
    assert blended(memo, weights, bank) == pytest.approx((*expected, 2.0 * expected[1]))
    assert blended(memo, mixture.heaviest(weights), bank) == pytest.approx((1.0, 2.0, 4.0))
    weights[1:] = 0.3990, 0.0010
    assert blended(memo, weights, bank)[0] > 1000.0


def model(weight, variance):
    """A model with one feature, in a frame in which the trace counts twice."""
    return row_of([weight], [[variance]], count=7.0, trace=2.0 * variance)


def blended(memo, weights, bank):
    """Weight, variance and trace of the mixture of such models."""
    row = np.full(bank.shape[1], 7.0)
    mixture.blend(memo, weights, bank, 1, row)
    assert row[rows.COUNT] == 0.0, "a mixture has learned nothing itself"
    return *weights_of(row, 1), *matrix_of(row, 1)[0], row[rows.TRACE]


def test_a_mixture_of_many_features_is_blended():
    dim, rng = 90, np.random.default_rng(0)
    memo, weights = world(), np.array([0.5, 0.0, 0.3, 0.2])
    memo[scales.NOISE] = 0.5
    roots, thetas = rng.standard_normal((4, dim, dim)), rng.standard_normal((4, dim))
    bank = np.stack([row_of(theta, root @ root.T) for theta, root in zip(thetas, roots, strict=True)])
    row = np.full(bank.shape[1], np.nan)
    mixture.blend(memo, weights, bank, dim, row)
    shares = weights * np.array([0.5, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(weights_of(row, dim), weights @ thetas, rtol=1e-12)
    np.testing.assert_allclose(
        matrix_of(row, dim), np.einsum("k,kij,klj->il", shares, roots, roots), rtol=1e-9, atol=1e-9
    )


def test_the_heaviest_model_and_the_incumbent_alone():
    assert mixture.heaviest(np.array([0.2, 0.5, 0.3])).tolist() == [0.0, 1.0, 0.0]
    assert mixture.heaviest(np.array([0.4, 0.2, 0.4])).tolist() == [1.0, 0.0, 0.0], "ties go to the incumbent"
    assert mixture.acts_alone(np.array([1.0]))
    assert mixture.acts_alone(np.array([0.9985, 0.0009, 0.0006]))
    assert not mixture.acts_alone(np.array([0.9985, 0.0005, 0.0010]))
    assert not mixture.acts_alone(np.array([0.0, 1.0]))


def test_total_variance_is_the_trace():
    memo, weights = world(), np.array([0.75, 0.25])
    memo[scales.NOISE] = 0.5
    bank = np.stack([row_of([9.0], [[9.0]], trace=trace) for trace in (4.0, 12.0)])
    assert mixture.total_variance(memo, weights, bank) == 0.75 * 0.5 * 4.0 + 0.25 * 12.0


@pytest.mark.parametrize("dim", [1, 2, 8, 11, 30])
def test_the_trace_is_in_the_units_of_the_frame(dim):
    rng = np.random.default_rng(dim)
    units, root = rng.uniform(0.5, 2.0, dim), rng.standard_normal((dim, dim))
    matrix = root @ root.T
    numbers = np.concatenate([[9.0] * 3, row_of(np.zeros(dim), matrix), whole(1.0 / units**2)])
    rows.note_trace(numbers, 3, dim, len(numbers) - len(whole(units)))
    assert numbers[3 + rows.TRACE] == pytest.approx(np.trace(matrix / np.outer(units, units)))


def test_exploration_compares_the_pool_with_the_arms_played():
    memo, total, pool = world(), 4.0, 4.0  # the mixture's trace, and the mean variance of the arms shown
    assert mixture.exploration(memo, 0.5, 3.0, total, pool) == 0.5, "nothing played yet"
    mixture.remember_pick(memo, np.array([0.5, 0.5]), np.array([1.0, 5.0]), 4.0)  # variance 2, half of the total
    assert mixture.exploration(memo, 0.5, 3.0, total, pool) == pytest.approx(0.5 * (4.0 / 2.0) / 1.25)
    assert mixture.exploration(memo, 0.5, 0.6, total, pool) == 0.6
    assert mixture.exploration(memo, 0.5, 3.0, total, pool / 4.0) == 0.5, "never less than told"
    mixture.remember_pick(memo, np.array([1.0]), np.array([2.0]), 4.0)  # a quarter of the total, and the latest
    known = (0.98 * 0.5 + 0.25) / 1.98
    assert mixture.exploration(memo, 0.5, 3.0, total, pool) == pytest.approx(0.5 * (4.0 / 4.0) / known / 1.25)


def test_on_clicks_it_explores_less():
    assert mixture.exploration(world(clicks=True), 0.5, 3.0, 1.0, 1.0) == pytest.approx(0.4)


def test_picks_are_not_remembered_while_the_noise_is_unknown():
    memo = world()
    memo[scales.REWARD_SQUARES] = 0.0
    mixture.remember_pick(memo, np.ones(1), np.array([2.0]), 4.0)
    assert not memo[[scales.PICK_COUNT, scales.PICK_SHARES]].any()


@pytest.mark.parametrize(("clicks", "most", "dealt"), [(False, 5.0, 0.1), (True, 50.0, 0.03)])
def test_weights_follow_the_likelihood_and_a_share_is_dealt_out_anew(clicks, most, dealt):
    memo = world(clicks=clicks)
    memo[scales.RECENT_COUNT] = 1000.0
    nu = mixture.freedom(memo)
    assert nu == most
    weights, errors, variances = np.array([0.5, 0.3, 0.2]), np.array([1.0, 0.0, -2.0]), np.array([1.0, 4.0, 2.0])
    earned = weights * stats.t.pdf(errors, nu, scale=np.sqrt(variances))
    logs = np.array([mixture.log_likelihood(e, v, np.log(v), nu) for e, v in zip(errors, variances, strict=True)])
    found = mixture.weigh(memo, 0.1, weights, logs)
    assert found == pytest.approx(np.log(earned.sum()) - stats.t.logpdf(0.0, nu))
    expected = (1.0 - dealt) * earned / earned.sum() + dealt * np.array([0.5, 0.25, 0.25])
    assert weights == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e90])
def test_weights_by_errors_are_those_by_logarithms(scale):
    errors, variances = scale * np.array([1.0, 0.0, -30.0]), scale**2 * np.array([1.0, 4.0, 2.0])
    weights, same, room = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.3, 0.2]), np.empty(7)
    logs = [mixture.log_likelihood(e, v, np.log(v), mixture.FREEDOM) for e, v in zip(errors, variances, strict=True)]
    expected = mixture.weigh(world(), 0.1, same, np.array(logs))
    assert mixture.weigh_by_errors(0.1, weights, errors, variances, room) == pytest.approx(expected)
    assert weights == pytest.approx(same, rel=1e-12)
    assert weights.sum() == pytest.approx(1.0)


def test_what_no_model_expected_is_left_to_logarithms():
    weights, errors, variances = np.array([0.5, 0.5]), np.array([1e50, 2e50]), np.full(2, 1e-10)
    assert mixture.weigh_by_errors(0.1, weights, errors, variances, np.empty(2)) == -np.inf
    assert weights.tolist() == [0.5, 0.5]


def test_the_likelihood_has_as_much_freedom_as_noise_is_known():
    memo = world()
    for count, expected in ((0.0, 1.0), (3.0, 3.0), (9.0, 5.0)):
        memo[scales.RECENT_COUNT] = count
        assert mixture.freedom(memo) == expected


@pytest.mark.parametrize(("mean", "chance"), [(1.0, 0.25), (-3.0, 0.04), (0.1, 0.04), (7.0, 0.96)])
def test_a_click_has_the_probability_of_its_mean_kept_from_0_and_1(mean, chance):
    """Clicks of value 4, of which 20 % were made: no outcome is less likely than 4 %."""
    memo = world()
    memo[[scales.HITS, scales.ROUNDS, scales.HIT_VALUE]] = 19.0, 98.0, 4.0
    assert mixture.click_log_likelihood(memo, 4.0, mean) == pytest.approx(np.log(chance))
    assert mixture.click_log_likelihood(memo, 0.0, mean) == pytest.approx(np.log(1.0 - chance))
    memo[scales.HITS] = 79.0
    assert mixture.click_log_likelihood(memo, 4.0, mean) == pytest.approx(np.log(chance)), "the rarer outcome"


def test_a_share_fades_as_the_incumbent_ages():
    assert [mixture.faded(0.001, age) for age in (0.0, 100.0, 1999.0)] == [0.001] * 3
    assert mixture.faded(0.001, 2000.0) < 0.001
    assert mixture.faded(0.001, 199_999.0) == pytest.approx(0.00001)


def test_half_of_the_weight_is_the_incumbents_at_first():
    weights = np.array([1.0, 0.0, 0.0])
    mixture.share_out(weights)
    assert weights.tolist() == [0.5, 0.25, 0.25]


def test_an_heir_inherits_what_it_earned():
    """At an alarm the young model gets the incumbent's weight times its likelihood against the mixture's."""
    for lead in (-800.0, -2.0, 0.0, 2.0, 800.0):
        weights = np.array([0.2, 0.5, 0.3])
        mixture.inherit(weights, lead)
        earned = 0.2 / (0.2 + 0.8 * np.exp(np.minimum(-lead, 700.0)))
        assert weights == pytest.approx([earned, 0.625 * (1.0 - earned), 0.375 * (1.0 - earned)])
    weights = np.array([0.0, 0.5, 0.5])
    mixture.inherit(weights, 800.0)
    assert weights.tolist() == [0.0, 0.5, 0.5]  # nothing to inherit, however good
    alone = np.array([1.0])
    mixture.inherit(alone, -800.0)
    assert alone.tolist() == [1.0]
