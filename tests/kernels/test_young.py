"""Young models kept as vectors agree with plain linear algebra, and with triangles."""

import numpy as np
import pytest

from driftbandit import DriftUCB
from driftbandit.kernels import evidence, ridge, young
from driftbandit.kernels.drift import INCUMBENT


def learned(dim, rewards, strength=0.5, seed=0):
    """A young row, the inverse that it stands for, and its weights."""
    rng = np.random.default_rng(seed)
    units, mean = rng.uniform(0.5, 2.0, dim), rng.standard_normal(dim)
    row = np.full(evidence.rung_size(dim), np.nan)
    young.begin(row, units, strength)
    row[ridge.THETA : ridge.THETA + dim] = mean
    prior = np.diag(strength / units**2)
    xs, ys = rng.standard_normal((rewards, dim)), rng.standard_normal(rewards)
    for x, y in zip(xs, ys, strict=True):
        z = np.empty(dim)
        predicted, square = young.multiply(row, units, x, z)
        young.absorb(row, units, z, y - predicted, 1.0 + square)
    inverse = np.linalg.inv(prior + xs.T @ xs)
    return row, units, inverse, inverse @ (prior @ mean + xs.T @ ys)


@pytest.mark.parametrize(("dim", "rewards"), [(5, 7), (64, 0), (64, 1), (64, 32), (64, 33), (64, 40), (256, 9)])
def test_predictions_and_weights_agree_with_a_fresh_solve(dim, rewards):
    row, units, inverse, theta = learned(dim, rewards)
    x, z = np.random.default_rng(1).standard_normal(dim), np.empty(dim)
    mean, square = young.multiply(row, units, x, z)
    np.testing.assert_allclose(z, inverse @ x, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(row[1 : 1 + dim], theta, rtol=1e-7, atol=1e-9)
    assert mean == pytest.approx(x @ theta)
    assert square == pytest.approx(x @ inverse @ x)
    assert row[ridge.COUNT] == rewards
    assert not row[ridge.row_size(dim) :].any()  # the sums behind the model stay 0


@pytest.mark.parametrize(("dim", "rewards"), [(5, 3), (64, 0), (64, 6), (64, 50)])
def test_unfolding_writes_the_triangle_and_happens_once(dim, rewards):
    row, units, inverse, _ = learned(dim, rewards)
    young.unfold(row, units)
    np.testing.assert_allclose(row[1 + dim : ridge.row_size(dim)], inverse[np.tril_indices(dim)], rtol=1e-7, atol=1e-9)
    before = row.copy()
    young.unfold(row, units)
    np.testing.assert_array_equal(row, before)


def test_vectors_give_way_to_the_triangle_when_its_place_is_full():
    first = ridge.THETA + 64
    assert learned(64, 32)[0][first] < 0.0
    assert learned(64, 33)[0][first] > 0.0


def test_an_alarm_with_many_features_makes_a_young_model_the_incumbent_with_a_triangle():
    rng, dim = np.random.default_rng(3), 64
    policy = DriftUCB(dim)
    taste = rng.standard_normal(dim)
    for t in range(420):
        x = rng.standard_normal(dim)
        policy.learn(x, float(x @ (taste if t < 400 else -taste) + 0.1 * rng.standard_normal()))
    assert [change.kind for change in policy.changes] == ["restarted"]
    row = policy._bank[INCUMBENT]
    assert row[ridge.COUNT] < 31
    assert row[ridge.THETA + dim] > 0.0
    assert policy.choose(rng.standard_normal((5, dim))) in range(5)


def test_a_saved_state_whose_young_models_are_triangles_goes_on_alike():
    """As states were before young models were kept as vectors."""
    rng, dim = np.random.default_rng(4), 64
    new = DriftUCB(dim)
    xs = rng.standard_normal((300, dim))
    rewards = xs @ rng.standard_normal(dim) + 0.1 * rng.standard_normal(300)
    for x, reward in zip(xs[:200], rewards[:200].tolist(), strict=True):
        new.learn(x, reward)
    state = new.state()
    rungs = [row for row in state["bank"][6:] if row[ridge.COUNT] >= 0.0]
    assert any(row[ridge.THETA + dim] < 0.0 for row in rungs)
    for row in rungs:
        young.unfold(row, np.ones(dim))
    old = DriftUCB(dim).restore(state)
    for x, reward in zip(xs[200:], rewards[200:].tolist(), strict=True):
        assert old.learn(x, reward) == new.learn(x, reward)
    pool = rng.standard_normal((20, dim))
    np.testing.assert_allclose(old.scores(pool), new.scores(pool), rtol=1e-9)
