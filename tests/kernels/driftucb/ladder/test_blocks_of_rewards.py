"""Blocks of rewards agree with learning the rewards one after the other."""

import numpy as np
import pytest
from tiled import dense, tiled, whole

from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.ladder import blocks
from driftbandit.kernels.driftucb.ladder.blocks import LANES
from driftbandit.kernels.vector_units.vectors import padded

DIMS = [1, 2, 3, 4, 5, 7, 8, 25, 26, 33, 70]


def table(columns, d):
    """Numbers side by side, as `blocks` takes them."""
    result = np.zeros((padded(d), LANES))
    result[:d, : columns.shape[1]] = columns
    return result.ravel()


def a_matrix(d, rng):
    root = rng.standard_normal((d, d + 3))
    return root @ root.T / d


def between(matrix, before=0):
    """Its tiles, between numbers that are not its own."""
    return np.concatenate([np.full(before, 7.0), tiled(matrix), [7.0]])


@pytest.mark.parametrize("d", DIMS)
def test_products_of_a_matrix_with_eight_arms(d):
    rng = np.random.default_rng(d)
    matrix, arms = a_matrix(d, rng), rng.standard_normal((d, LANES))
    products = np.zeros(padded(d) * LANES)
    blocks.multiply(between(matrix, 5), 5, d, table(arms, d), products)
    np.testing.assert_allclose(products, table(matrix @ arms, d), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", DIMS)
def test_outer_products_are_subtracted_from_the_matrix_alone(d):
    rng = np.random.default_rng(d)
    matrix, vectors = a_matrix(d, rng), rng.standard_normal((LANES, d))
    numbers = between(matrix, 2)
    blocks.subtract(numbers, 2, d, np.concatenate([[9.0] * 3, whole(vectors).ravel(), [9.0] * 4]), 3)
    np.testing.assert_allclose(numbers, between(matrix - vectors.T @ vectors, 2), rtol=1e-12, atol=1e-12)
    dense(numbers[2:-1], d)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_vectors_are_projected_out(count):
    d, rng = 7, np.random.default_rng(count)
    vectors, arms, start = rng.standard_normal((count, d)), rng.standard_normal((d, LANES)), rng.standard_normal((d, 8))
    products = table(start, d)
    blocks.project(np.concatenate([[7.0], whole(vectors).ravel(), [7.0]]), 1, count, d, table(arms, d), products)
    np.testing.assert_allclose(products, table(start - vectors.T @ (vectors @ arms), d), rtol=1e-12, atol=1e-12)


@jit
def meet(arms, products, theta, first, d, gram, means):
    blocks.meet(arms, products, theta, first, d, gram, means)


@jit
def whiten(products, inverse, errors, lines, vectors, step):
    blocks.whiten(products, inverse, errors, lines, vectors, step)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize(("first", "count"), [(0, 8), (0, 1), (0, 5), (3, 8), (2, 6), (7, 8)])
def test_a_block_is_its_rewards_one_after_the_other(d, first, count):
    rng = np.random.default_rng([d, first, count])
    matrix, theta = a_matrix(d, rng), rng.standard_normal(d)
    arms, rewards = rng.standard_normal((d, count)), rng.standard_normal(count)
    numbers, weights, lines = between(matrix), np.concatenate([[7.0], theta]), padded(d)
    side_by_side, products, vectors, step = table(arms, d), np.zeros(lines * 8), np.zeros(lines * 8), np.zeros(lines)
    gram, inverse, means, widths = np.zeros(64), np.zeros(64), np.zeros(LANES), np.zeros(LANES)
    blocks.multiply(numbers, 0, d, side_by_side, products)
    meet(side_by_side, products, weights, 1, d, gram, means)
    np.testing.assert_allclose(means[:count], theta @ arms, rtol=1e-10, atol=1e-12)
    errors = np.append(rewards, np.full(LANES - count, 99.0)) - means
    blocks.factor(gram, errors, first, count, widths, inverse)
    whiten(products, inverse, errors, lines, vectors, step)
    blocks.subtract(numbers, 0, d, vectors, 0)
    for p in range(first, count):
        x = arms[:, p]
        z = matrix @ x
        width, error = 1.0 + x @ z, rewards[p] - theta @ x
        assert widths[p] == pytest.approx(width)
        assert errors[p] == pytest.approx(error / width**0.5)
        theta, matrix = theta + z * error / width, matrix - np.outer(z, z) / width
    np.testing.assert_allclose(numbers, between(matrix), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(weights[1:] + step[:d], theta, rtol=1e-9, atol=1e-11)
    assert not errors[:first].any()
    assert not errors[count:].any()
    assert not vectors.reshape(LANES, lines)[:first].any()
    assert not vectors.reshape(LANES, lines)[count:].any()


def test_rounding_makes_no_width_below_one():
    """Eight times the same arm, of which everything is known after the first time."""
    gram = np.full(LANES * LANES, 1e18)
    widths = np.zeros(LANES)
    blocks.factor(gram, np.zeros(LANES), 0, LANES, widths, np.zeros(LANES * LANES))
    assert widths[0] == 1.0 + 1e18
    assert (widths >= 1.0).all()
