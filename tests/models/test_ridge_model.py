"""Radii and the ridge model."""

import math

import numpy as np
import pytest

from driftbandit import LinUCB, Radius, RidgeModel


def test_published_radii():
    given = {"noise": 0.05, "ridge": 0.1, "delta": 0.01}
    assert Radius.paper(10, **given).at(100, 10) == pytest.approx(0.34305235, abs=5e-9)
    assert Radius.released(10, **given).at(100, 10) == pytest.approx(0.85274256, abs=5e-9)
    assert Radius.abbasi_yadkori(10, **given).at(100, 10) == pytest.approx(0.68825446, abs=5e-9)
    assert Radius.fixed(0.6).at(10**6, 10) == 0.6


def test_radii_before_the_first_reward():
    given = {"noise": 0.05, "ridge": 0.1, "delta": 0.01}
    assert Radius.paper(10, **given).at(0, 10) == pytest.approx(math.sqrt(0.1))


def test_exploration_and_test_may_use_different_radii():
    model = RidgeModel(2, noise=0.1, ridge=0.1, explore=0.0)
    row = np.empty((1, model.size))
    model.reset(row[0])
    model.update(row[0], np.array([1.0, 0.0]), 0.1)
    pool = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert model.choose(row, 0, pool, np.random.default_rng(0)) == 0  # greedy
    assert model.predict(row[0], pool[1])[1] > 0.9  # the test's width is that of an unknown direction
    optimistic = RidgeModel(2, noise=0.1, ridge=0.1)
    assert optimistic.choose(row, 0, pool, np.random.default_rng(0)) == 1


def test_linucb_takes_a_radius():
    policy = LinUCB(2, explore=Radius.abbasi_yadkori(2, noise=0.1, ridge=0.1, delta=0.01))
    policy.learn([1.0, 0.0], 1.0)
    assert policy.choose(np.eye(2)) in (0, 1)


@pytest.mark.parametrize(
    "settings",
    [{"ridge": 0.0}, {"ridge": -1.0}, {"ridge": math.nan}, {"explore": -0.1}, {"explore": "much"}, {"ridge": None}],
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        LinUCB(3, **settings)


@pytest.mark.parametrize("dim", [0, -1, 2.5, "3", None, True])
def test_bad_dimension(dim):
    with pytest.raises(ValueError, match="dim: expected a whole number"):
        LinUCB(dim)
