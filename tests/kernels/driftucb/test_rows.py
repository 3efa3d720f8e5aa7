"""Rows of DriftUCB's models against plain linear algebra."""

import numpy as np
import pytest
from tiled import matrix_of, row_of, tiled, weights_of, whole

from driftbandit.kernels.driftucb import rows
from driftbandit.kernels.vector_units.vectors import padded

DIMS = [1, 3, 8, 11, 25]


def a_model(d, seed=0):
    rng = np.random.default_rng([d, seed])
    root = rng.standard_normal((d, d + 2))
    return rng.standard_normal(d), root @ root.T


@pytest.mark.parametrize("d", DIMS)
def test_a_row_has_a_head_weights_and_a_matrix(d):
    theta, matrix = a_model(d)
    row = row_of(theta, matrix)
    assert len(row) == rows.row_size(d)
    assert rows.matrix_at(d) == len(row) - len(tiled(matrix))
    assert [row[rows.variance_at(d, i)] for i in range(d)] == np.diagonal(matrix).tolist()


@pytest.mark.parametrize("d", DIMS)
def test_rewards_make_the_ridge_regression(d):
    """Two rows one behind the other, of which the second learns five rewards."""
    rng = np.random.default_rng(d)
    theta, matrix = a_model(d)
    other = row_of(*a_model(d, 1))
    numbers = np.concatenate([other, row_of(theta, matrix, count=2.0)])
    xs, rewards, z = rng.standard_normal((5, d)), rng.standard_normal(5), np.empty(padded(d))
    precision = np.linalg.inv(matrix)
    total = precision @ theta
    for x, reward in zip(xs, rewards, strict=True):
        mean, variance = x @ np.linalg.solve(precision, total), x @ np.linalg.solve(precision, x)
        error, width = rows.learn(numbers, len(other), d, whole(x), reward, z)
        assert (error, width) == pytest.approx((reward - mean, 1.0 + variance))
        precision, total = precision + np.outer(x, x), total + reward * x
    row = numbers[len(other) :]
    np.testing.assert_allclose(weights_of(row, d), np.linalg.solve(precision, total), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(matrix_of(row, d), np.linalg.inv(precision), rtol=1e-7, atol=1e-9)
    assert row[rows.COUNT] == 7.0
    assert (numbers[: len(other)] == other).all()


@pytest.mark.parametrize("d", [*DIMS, 2500])
def test_the_square_of_one_arm(d):
    """With 2,500 features a vector no longer fits on the stack."""
    x = np.random.default_rng(1).standard_normal(d)
    diagonal = np.random.default_rng(2).random(d)
    row = row_of(np.zeros(d), np.diag(diagonal))
    before = row.copy()
    assert rows.square(row, x) == pytest.approx(x**2 @ diagonal)
    assert (row == before).all()


def test_a_square_is_never_below_zero():
    assert rows.square(row_of(np.zeros(2), -np.eye(2)), np.ones(2)) == 0.0


@pytest.mark.parametrize(("d", "count"), [(3, 6), (25, 40)])
def test_arms_that_can_be_best_are_scored_one_by_one_or_together(d, count):
    theta, matrix = a_model(d)
    row, pool = row_of(theta, matrix), np.random.default_rng(3).standard_normal((count, d))
    means = pool @ theta
    expected = means + 0.5 * np.sqrt(np.einsum("ki,ij,kj->k", pool, matrix, pool))
    scores = means + 0.5 * np.sqrt(np.linalg.eigvalsh(matrix).max() * np.sum(pool**2, axis=1))
    best = rows.score_best(row, pool, means, scores, 0.5, 0.0, 1e-12)
    assert best == pytest.approx(expected.max())
    assert scores.argmax() == expected.argmax()
    scored = np.isclose(scores, expected)
    assert scored[expected.argmax()]
    assert ((scores < best) | scored).all()
