"""Young models kept as vectors agree with plain linear algebra, and with matrices."""

import numpy as np
import pytest
from tiled import matrix_of, weights_of, whole

from driftbandit import DriftUCB
from driftbandit.kernels.driftucb import drift, rows, scales
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young


def learned(dim, rewards, strength=0.5, seed=0):
    """A young row, the inverse that it stands for, and its weights; it learns three rewards at a time."""
    rng = np.random.default_rng(seed)
    units, mean = rng.uniform(0.5, 2.0, dim), rng.standard_normal(dim)
    rungs = np.full((1, rows.row_size(dim)), np.nan)
    births.give_birth(rungs[0], mean, units, 1.0, strength, 1.0, 1.0)
    prior = np.diag(strength / units**2)
    xs, ys = rng.standard_normal((rewards, dim)), rng.standard_normal(rewards)
    waiting = np.zeros(backlog.backlog_size(dim))
    for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
        evidence.show(waiting, 0, whole(x), y, 0.0, 0.0, 1.0, 0.0, 5.0, 1e9)
        if t % 3 == 2 or t == rewards - 1:
            evidence.settle(np.zeros(scales.MEMO), rungs, waiting, 0, units, 10.0)
    inverse = np.linalg.inv(prior + xs.T @ xs)
    return rungs[0], units, inverse, inverse @ (prior @ mean + xs.T @ ys)


@pytest.mark.parametrize(
    ("dim", "rewards"), [(1, 1), (1, 5), (5, 2), (5, 7), (25, 12), (64, 0), (64, 1), (64, 32), (64, 33), (256, 9)]
)
def test_predictions_and_weights_agree_with_a_fresh_solve(dim, rewards):
    row, units, inverse, theta = learned(dim, rewards)
    arms = np.random.default_rng(1).standard_normal((dim, 8))
    lines = -(-dim // 8) * 8
    side_by_side, products = np.zeros((lines, 8)), np.zeros(lines * 8)
    side_by_side[:dim] = arms
    lifted = side_by_side.copy()
    lifted[:dim] *= units[:, np.newaxis] ** 2
    young.multiply(row, 0, side_by_side.ravel(), lifted.ravel(), dim, products)
    np.testing.assert_allclose(products.reshape(lines, 8)[:dim], inverse @ arms, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(weights_of(row, dim), theta, rtol=1e-7, atol=1e-9)
    assert row[rows.COUNT] == rewards


@pytest.mark.parametrize(("dim", "rewards"), [(1, 3), (5, 3), (25, 10), (64, 0), (64, 6), (64, 50)])
def test_unfolding_writes_the_matrix_and_happens_once(dim, rewards):
    row, units, inverse, _ = learned(dim, rewards)
    young.unfold(row, units)
    np.testing.assert_allclose(matrix_of(row, dim), inverse, rtol=1e-7, atol=1e-9)
    before = row.copy()
    young.unfold(row, units)
    np.testing.assert_array_equal(row, before)


def test_vectors_give_way_to_the_matrix_when_they_are_as_many_numbers():
    assert learned(64, 32)[0][young.SCALE] == 1.0 / 0.5
    assert learned(64, 33)[0][young.SCALE] == 0.0
    assert learned(5, 3)[0][young.SCALE] == 2.0
    assert learned(5, 4)[0][young.SCALE] == 0.0


def test_an_alarm_with_many_features_makes_a_young_model_the_incumbent_with_a_matrix():
    rng, dim = np.random.default_rng(3), 64
    policy = DriftUCB(dim)
    taste = rng.standard_normal(dim)
    for t in range(420):
        x = rng.standard_normal(dim)
        policy.learn(x, float(x @ (taste if t < 400 else -taste) + 0.1 * rng.standard_normal()))
    assert [change.kind for change in policy.changes] == ["restarted"]
    row = policy._bank[drift.INCUMBENT]
    assert row[rows.COUNT] < 31
    assert row[young.SCALE] == 0.0
    assert (np.linalg.eigvalsh(matrix_of(row, dim)) > 0.0).all()
    assert policy.choose(rng.standard_normal((5, dim))) in range(5)


def test_young_models_whose_matrices_were_written_early_go_on_alike():
    rng, dim = np.random.default_rng(4), 64
    new = DriftUCB(dim)
    xs = rng.standard_normal((300, dim))
    rewards = xs @ rng.standard_normal(dim) + 0.1 * rng.standard_normal(300)
    for x, reward in zip(xs[:200], rewards[:200].tolist(), strict=True):
        new.learn(x, reward)
    old = DriftUCB(dim).restore(new.state())
    rungs = [row for row in drift.rungs_of(old._bank, 4) if row[rows.COUNT] >= 0.0]
    assert any(row[young.SCALE] > 0.0 for row in rungs)
    for row in rungs:
        young.unfold(row, np.ones(dim))
    for x, reward in zip(xs[200:], rewards[200:].tolist(), strict=True):
        assert old.learn(x, reward) == new.learn(x, reward)
    pool = rng.standard_normal((20, dim))
    np.testing.assert_allclose(old.scores(pool), new.scores(pool), rtol=1e-9)
