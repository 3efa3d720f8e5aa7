"""The estimate of the noise: by hand on a few residuals, and its behaviour where a plain variance would fail."""

import math

import numpy as np
import pytest
from scipy.stats import truncnorm

from driftbandit.detection.noise import SUPPORT, NoiseEstimate

ONE = np.ones(1)


def gaussian_estimate():
    """An estimate that has seen enough different rewards to take them for Gaussian."""
    estimate = NoiseEstimate()
    for reward in range(1, 12):  # the weight of eleven that fade is above ten
        assert estimate.lumpy
        estimate.observe(ONE, float(reward))
    assert not estimate.lumpy
    return estimate


def feed(estimate, residuals, *, fresh=True):
    for residual in residuals:
        estimate.add_residual(residual, 0.0, fresh=fresh)


def test_by_hand():
    estimate = gaussian_estimate()
    residuals = [0.1, -0.3, 0.2] * 10 + [0.1]
    for residual in residuals[:-1]:
        estimate.add_residual(residual, 0.25, fresh=True)
        assert estimate.deviation == 0.0  # not enough yet
    estimate.add_residual(residuals[-1], 0.25, fresh=True)
    weights = 0.998 ** np.arange(30, -1, -1)
    assert weights[1:].sum() < SUPPORT <= weights.sum()
    variance = np.average(np.square(residuals) / 1.25, weights=weights)
    assert estimate.deviation == pytest.approx(math.sqrt(variance))
    # Two standard deviations are 0.38 * sqrt(1.25) here: one residual inside and one outside.
    estimate.add_residual(5.0, 0.25, fresh=True)
    assert estimate.deviation == pytest.approx(math.sqrt(variance))
    estimate.add_residual(0.4, 0.25, fresh=True)
    weight = weights.sum()
    inside = 0.4**2 / 1.25 / truncnorm(-2.0, 2.0).var()
    assert estimate.deviation**2 == pytest.approx((0.998 * weight * variance + inside) / (0.998 * weight + 1.0))


@pytest.mark.parametrize("noise", [1e-3, 0.1, 50.0])
def test_gaussian_noise_is_found_within_a_tenth(noise):
    """The weight is 500 residuals, cut at two standard deviations: a standard error of about 5 %."""
    estimate = gaussian_estimate()
    feed(estimate, noise * np.random.default_rng(0).standard_normal(5000))
    assert estimate.deviation == pytest.approx(noise, rel=0.1)


def test_a_shift_does_not_inflate_it():
    rng = np.random.default_rng(1)
    estimate = gaussian_estimate()
    feed(estimate, 0.1 * rng.standard_normal(500))
    before = estimate.deviation
    feed(estimate, 0.6 + 0.1 * rng.standard_normal(100))
    assert estimate.deviation == pytest.approx(before, rel=0.02)


def test_it_finds_its_way_back_up_and_down():
    rng = np.random.default_rng(2)
    estimate = gaussian_estimate()
    feed(estimate, 0.05 * rng.standard_normal(200))
    feed(estimate, 0.1 * rng.standard_normal(10_000))
    assert estimate.deviation == pytest.approx(0.1, rel=0.1)
    feed(estimate, 0.02 * rng.standard_normal(10_000))
    assert estimate.deviation == pytest.approx(0.02, rel=0.1)


def test_a_model_that_goes_stale_is_not_taken_for_noise():
    rng = np.random.default_rng(3)
    estimate = gaussian_estimate()
    feed(estimate, 0.1 * rng.standard_normal(300))
    feed(estimate, 0.15 * rng.standard_normal(10_000), fresh=False)
    assert estimate.deviation == pytest.approx(0.1, rel=0.1)
    feed(estimate, 0.02 * rng.standard_normal(10_000), fresh=False)  # but less noise is less noise
    assert estimate.deviation == pytest.approx(0.02, rel=0.1)


def test_forgetting_asks_for_support_again():
    estimate = gaussian_estimate()
    feed(estimate, [0.1] * 40)
    assert estimate.deviation > 0.0
    estimate.forget()
    assert estimate.deviation == 0.0
    assert not estimate.lumpy


def test_the_variance_of_clicks_is_that_of_their_rate():
    estimate = NoiseEstimate()
    assert estimate.deviation == 0.0
    rewards = [0.0, 0.0, 3.0, 0.0] * 3
    for reward in rewards[:-2]:
        estimate.observe(ONE, reward)
        assert estimate.deviation == 0.0  # not enough yet
    for reward in rewards[-2:]:
        estimate.observe(ONE, reward)
    weights = 0.998 ** np.arange(11, -1, -1)
    rounds = weights.sum()
    spread = rounds * np.cov(rewards, aweights=weights, ddof=0)
    assert estimate.deviation**2 == pytest.approx((spread + 3.0**2) / (rounds + 1.0))
    for click in np.random.default_rng(0).random(5000) < 0.2:
        estimate.observe(ONE, 3.0 * click)
    assert estimate.deviation == pytest.approx(3.0 * 0.4, rel=0.1)
    assert estimate.lumpy


@pytest.mark.parametrize(
    ("rewards", "lumpy"),
    [
        ([0.0, 1.0] * 20, True),
        ([-1.0, 1.0] * 20, True),
        ([0.5] * 40, True),
        ([0.0, 0.0, 12.5, 0.0, 7.0, 3.0] * 10, True),  # purchases
        ([5.0, 7.0, 9.0, 0.0, 0.0, 0.0] * 10, True),
        ([0.1, 0.2, 0.3] * 10, False),
        ([1.0, 2.0, 3.0, 4.0] * 5 + [0.0] * 50, False),  # no way back
    ],
)
def test_lumpy_rewards_are_told_from_others(rewards, lumpy):
    estimate = NoiseEstimate()
    for reward in rewards:
        estimate.observe(ONE, reward)
    assert estimate.lumpy == lumpy


@pytest.mark.parametrize(
    ("rewards", "lump"),
    [([0.0, 1.0], 0.0), ([1.0, 0.0], 0.0), ([-1.0, 1.0], -1.0), ([5.0, 7.0, 0.0, 9.0, 0.0], 0.0)],
)
def test_the_lump_is_zero_where_there_are_zeros(rewards, lump):
    estimate = NoiseEstimate()
    for reward in rewards:
        estimate.observe(ONE, reward)
    assert estimate.lump == lump


def test_the_reach_is_the_largest_reward_in_units_of_the_features():
    estimate = NoiseEstimate()
    assert estimate.deviation_and_reach()[1] == 1.0
    estimate.observe(np.array([3.0, 4.0]), -10.0)
    assert estimate.deviation_and_reach()[1] == pytest.approx(2.0)
    estimate.observe(np.array([3.0, 4.0]), 1.0)
    assert estimate.deviation_and_reach()[1] == pytest.approx(2.0 * 0.9998)
