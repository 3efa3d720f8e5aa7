"""Loops for vector units do what NumPy does, with every number of columns, and touch nothing else."""

import numpy as np
import pytest

from driftbandit.kernels import rows
from driftbandit.kernels.compile import jit
from driftbandit.kernels.forms import forms
from driftbandit.kernels.vector_units import vectors

OUTSIDE = 7.0  # stands before and behind whatever a loop may touch
AT = 3


@jit
def product(numbers, at, d, x, out):
    rows.product(numbers, at, d, x, out)


@jit
def fade_outer(numbers, at, d, w, fade):
    rows.fade_outer(numbers, at, d, w, fade)


@jit
def dot(a, at, b, first, count):
    return vectors.dot(a, at, b, first, count)


@jit
def combine(total, at, keep, factor, part, first, count):
    vectors.combine(total, at, keep, factor, part, first, count)


@jit
def weigh_squares(numbers, at, weights, count):
    return vectors.weigh_squares(numbers, at, weights, count)


@jit
def weigh_arm(features, at, theta, first, units):
    return vectors.weigh_arm(features, at, theta, first, units)


def framed(numbers):
    return np.concatenate([np.full(AT, OUTSIDE), numbers, np.full(AT, OUTSIDE)])


def symmetric(dim):
    root = np.random.default_rng(dim).standard_normal((dim, dim))
    return root + root.T


def lower(matrix):
    return matrix[np.tril_indices(len(matrix))]


@pytest.mark.parametrize("dim", range(1, 18))
def test_products_and_updates(dim):
    matrix, x = symmetric(dim), np.zeros(vectors.padded(dim))
    x[:dim] = np.random.default_rng(0).standard_normal(dim)
    numbers, out = framed(lower(matrix)), np.full(len(x) + 4, OUTSIDE)
    product(numbers, AT, dim, x, out[: len(x)])
    np.testing.assert_allclose(out[:dim], matrix @ x[:dim], atol=1e-12)
    assert (out[len(x) :] == OUTSIDE).all()
    assert (numbers == framed(lower(matrix))).all()
    fade_outer(numbers, AT, dim, x, 0.75)
    x = x[:dim]
    np.testing.assert_allclose(numbers, framed(lower(0.75 * matrix - np.outer(x, x))), atol=1e-12)


@pytest.mark.parametrize("count", range(10))
def test_dots_and_sums(count):
    rng = np.random.default_rng(count)
    a, b = rng.standard_normal(count), rng.standard_normal(count)
    assert dot(framed(a), AT, b, 0, count) == pytest.approx(a @ b)
    total = framed(a)
    combine(total, AT, 0.75, -0.5, framed(b), AT, count)
    np.testing.assert_allclose(total, framed(0.75 * a - 0.5 * b))


@pytest.mark.parametrize("count", range(20))
def test_weighted_squares(count):
    rng = np.random.default_rng(count)
    numbers, weights = rng.standard_normal(count), rng.random(count)
    outside = np.concatenate([[np.nan], numbers, np.full(8, np.inf)])
    assert weigh_squares(outside, 1, np.append(weights, np.nan), count) == pytest.approx(np.sum(numbers**2 * weights))


@pytest.mark.parametrize("dim", range(1, 20))
def test_means_and_sizes_of_arms(dim):
    rng = np.random.default_rng(dim)
    arm, theta, units = rng.standard_normal(dim), rng.standard_normal(dim), rng.random(dim)
    found = weigh_arm(framed(arm), AT, framed(theta), AT, units)
    assert found == pytest.approx((arm @ theta, np.sum((arm * units) ** 2)))


def test_numbers_outside_do_not_matter():
    """What stands behind a vector may be anything: 0 times infinity would not be 0."""
    a = np.array([np.nan, 1.0, 2.0, 3.0, np.inf, np.nan, np.nan, np.nan])
    assert dot(a, 1, np.array([np.nan, 1.0, 1.0, 2.0, np.nan]), 1, 3) == 9.0


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 25])
def test_forms_of_arms_side_by_side(dim, count):
    """Groups of eight, two at a time, and a last one that is not full; equal arms are equal wherever they stand."""
    root, arms = (
        np.random.default_rng(dim).standard_normal((dim, dim)),
        np.random.default_rng(1).standard_normal((9, dim)),
    )
    matrix, picks = root @ root.T, np.arange(count) % 9
    found = forms(lower(matrix), arms, picks)
    np.testing.assert_allclose(found, np.einsum("ki,ij,kj->k", arms[picks], matrix, arms[picks]), atol=1e-12)
    for k in range(9, count):
        assert found[k] == found[k - 9]
