"""Weights drawn at random: as the model says, and the same for the same number."""

import numpy as np
import pytest
from tiled import row_of

from driftbandit.kernels.driftucb import draws

MEAN = np.array([1.0, -2.0, 0.5])
SPREAD = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])


def drawn(number, scale=1.0, mean=MEAN, spread=SPREAD):
    numbers, weights = np.concatenate([[9.0] * 3, row_of(mean + 7.0, spread)]), mean.copy()
    before = numbers.copy()
    draws.draw(numbers, 3, weights, scale, number)
    assert np.array_equal(numbers, before), "only the weights that are given change"
    return weights


@pytest.mark.parametrize("first", [0, 12_345, 2**40])
def test_draws_have_the_mean_and_the_covariance_of_the_model(first):
    """20,000 draws of neighbouring numbers, as in a batch; the standard errors are below 0.02."""
    sample = np.array([drawn(first + n) for n in range(20_000)])
    assert sample.mean(axis=0) == pytest.approx(MEAN, abs=0.05)
    assert np.cov(sample.T) == pytest.approx(SPREAD, abs=0.08)
    standard = (sample[:, 0] - MEAN[0]) / SPREAD[0, 0] ** 0.5
    assert np.quantile(standard, [0.025, 0.25, 0.75, 0.975]) == pytest.approx([-1.96, -0.674, 0.674, 1.96], abs=0.06)
    assert abs(np.corrcoef(standard[1:], standard[:-1])[0, 1]) < 0.03, "neighbours have nothing to do with each other"


def test_a_number_is_a_draw():
    assert np.array_equal(drawn(7), drawn(7))
    assert len({drawn(n).tobytes() for n in range(1000)}) == 1000
    assert np.isfinite(drawn(np.iinfo(np.int64).max)).all()


def test_the_scale_multiplies_the_deviation():
    assert drawn(7, 3.0) - MEAN == pytest.approx(3.0 * (drawn(7) - MEAN))
    assert np.array_equal(drawn(7, 0.0), MEAN)


def test_directions_without_variance_stay_where_they_are():
    assert np.array_equal(drawn(7, spread=np.zeros((3, 3))), MEAN)
    along = np.array([1.0, 2.0, 0.0])
    off = np.array([drawn(n, spread=np.outer(along, along)) - MEAN for n in range(50)])
    assert off[:, 1] == pytest.approx(2.0 * off[:, 0])
    assert not off[:, 2].any()
    assert np.ptp(off[:, 0]) > 1.0
