"""The understudy's evidence is a Bayes factor, and false alarms are as rare as it promises."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from driftbandit.detection.understudy import Understudy


def follow(understudy, xs, residuals, variance):
    for t, (x, residual) in enumerate(zip(xs, residuals, strict=True)):
        understudy.follow(x, residual, variance, lump=t % 2 == 0)


def test_the_evidence_is_the_bayes_factor_of_a_shift():
    """Against residuals that are noise stand those with a coefficient from N(0, variance / ridge)."""
    rng = np.random.default_rng(0)
    xs, residuals, variance = rng.standard_normal((40, 3)), rng.standard_normal(40), 0.7
    understudy = Understudy(3)
    understudy.start(length=100, mean_square=2.0)
    follow(understudy, xs, residuals, variance)
    still = variance * np.eye(40)
    shifted = still + xs @ xs.T * variance / (15.0 * 2.0)
    expected = multivariate_normal.logpdf(residuals, cov=shifted) - multivariate_normal.logpdf(residuals, cov=still)
    assert understudy.evidence == pytest.approx(expected)


def test_the_regression_is_the_ridge_estimate():
    rng = np.random.default_rng(1)
    xs, residuals = rng.standard_normal((50, 2)), rng.standard_normal(50)
    understudy = Understudy(2)
    understudy.start(length=100, mean_square=1.0)
    follow(understudy, xs, residuals, 1.0)
    assert understudy.ridge == 15.0
    np.testing.assert_allclose(understudy.change, np.linalg.solve(15.0 * np.eye(2) + xs.T @ xs, xs.T @ residuals))


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_false_alarms_are_rare_on_clicks(rate):
    """300 stretches of 1,000 clicks of a model that is right: at a level of 1 % no more than 3 are expected.

    More than 8 have a probability of 0.4 %, were the level as high as 1 %.
    """
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(300):
        understudy = Understudy(4)
        understudy.start(length=1000, mean_square=2.0)
        xs = np.hstack([rng.standard_normal((1000, 3)) / math.sqrt(3.0), np.ones((1000, 1))])
        for x, click in zip(xs, rng.random(1000) < rate, strict=True):
            understudy.follow(x, click - rate, rate * (1.0 - rate), lump=not click)
            if understudy.evidence >= math.log(100.0):
                alarms += 1
                break
    assert alarms <= 8


def test_a_single_rare_click_is_no_evidence():
    understudy = Understudy(1)
    understudy.start(length=1000, mean_square=1.0)
    for _ in range(500):
        understudy.follow(np.ones(1), -0.001, 1e-3, lump=True)
    for clicks in range(1, 11):
        understudy.follow(np.ones(1), 0.999, 1e-3, lump=False)
        assert (understudy.evidence > 6.9) == (clicks == 10)


def test_it_follows_as_long_as_it_was_told_to():
    understudy = Understudy(1)
    assert not understudy.running
    understudy.start(length=3, mean_square=1.0)
    for left in (True, True, False):
        understudy.follow(np.ones(1), 0.1, 1.0, lump=True)
        assert understudy.running == left
    understudy.start(length=3, mean_square=1.0)
    understudy.stop()
    assert not understudy.running
