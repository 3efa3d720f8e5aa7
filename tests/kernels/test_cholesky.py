"""Draws are scale * L noise with NumPy's L, in every number of dimensions, and touch nothing else."""

import numpy as np
import pytest

from driftbandit.kernels.cholesky import add_draw

AT = 3


def draw(matrix, noise, scale=0.5):
    """What is added to a sample of ones; the triangle stands between numbers that are none."""
    dim = len(matrix)
    triangle = np.concatenate([np.full(AT, np.nan), matrix[np.tril_indices(dim)], np.full(AT, np.nan)])
    before, sample = triangle.copy(), np.concatenate([np.ones(dim), np.full(AT, 7.0)])
    add_draw(sample[:dim], triangle, AT, noise, scale)
    assert (sample[dim:] == 7.0).all()
    np.testing.assert_array_equal(triangle, before)
    return sample[:dim] - 1.0


@pytest.mark.parametrize("dim", [*range(1, 18), 25, 40])
def test_a_draw_is_cholesky_times_noise(dim):
    rng = np.random.default_rng(dim)
    root, noise = rng.standard_normal((dim, dim + 2)), rng.standard_normal(dim)
    matrix = root @ root.T
    np.testing.assert_allclose(draw(matrix, noise), 0.5 * np.linalg.cholesky(matrix) @ noise, rtol=1e-9, atol=1e-9)


def test_a_draw_by_hand():
    """L is [[2, 0], [3, 1]]."""
    assert draw(np.array([[4.0, 6.0], [6.0, 10.0]]), np.array([1.0, 10.0]), 1.0).tolist() == [2.0, 13.0]


@pytest.mark.parametrize("known", [0, 1, 4, 6])
def test_a_direction_without_variance_gets_none(known):
    """The others are drawn as if it were not there."""
    root = np.random.default_rng(0).standard_normal((7, 7))
    root[known] = 0.0
    matrix, noise = root @ root.T, np.random.default_rng(1).standard_normal(7)
    found, others = draw(matrix, noise), np.arange(7) != known
    assert found[known] == 0.0
    expected = 0.5 * np.linalg.cholesky(matrix[np.ix_(others, others)]) @ noise[others]
    np.testing.assert_allclose(found[others], expected, rtol=1e-9, atol=1e-9)
    assert draw(np.zeros((7, 7)), noise).tolist() == [0.0] * 7


def test_many_draws_have_the_covariance():
    """With 20,000 draws an entry's standard error is at most sqrt(2 / 20,000) times the largest variance: 1 %."""
    matrix = np.array([[1.0, 0.5, -0.2], [0.5, 0.8, 0.1], [-0.2, 0.1, 0.6]])
    noise = np.random.default_rng(0).standard_normal((20_000, 3))
    draws = np.array([draw(matrix, each, 1.0) for each in noise])
    np.testing.assert_allclose(np.cov(draws.T), matrix, atol=0.05)
