"""Loops for vector units do what NumPy does, with every number of columns, and touch nothing else."""

import numpy as np
import pytest

from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units import vectors

OUTSIDE = 7.0  # stands before and behind whatever a loop may touch
AT = 3


@jit
def dot(a, at, b, first, count):
    return vectors.dot(a, at, b, first, count)


@jit
def combine(total, at, keep, factor, part, first, count):
    vectors.combine(total, at, keep, factor, part, first, count)


@jit
def assign(total, at, factor, part, first, count):
    vectors.assign(total, at, factor, part, first, count)


@jit
def clear(numbers, at, count):
    vectors.clear(numbers, at, count)


@jit
def fetch(numbers, at, count):
    vectors.fetch(numbers, at, count)


@jit
def weigh_squares(numbers, at, weights, first, count):
    return vectors.weigh_squares(numbers, at, weights, first, count)


@jit
def weigh_arm(features, at, theta, first, units):
    return vectors.weigh_arm(features, at, theta, first, units)


@jit
def mix(total, at, weights, least, lead, rows, first, width, count):
    vectors.mix(total, at, weights, least, lead, rows, first, width, count)


def framed(numbers):
    return np.concatenate([np.full(AT, OUTSIDE), numbers, np.full(AT, OUTSIDE)])


@pytest.mark.parametrize("count", range(10))
def test_dots_and_sums(count):
    rng = np.random.default_rng(count)
    a, b = rng.standard_normal(count), rng.standard_normal(count)
    assert dot(framed(a), AT, b, 0, count) == pytest.approx(a @ b)
    total = framed(a)
    combine(total, AT, 0.75, -0.5, framed(b), AT, count)
    np.testing.assert_allclose(total, framed(0.75 * a - 0.5 * b))
    assign(total, AT, 3.0, framed(b), AT, count)
    np.testing.assert_allclose(total, framed(3.0 * b))


@pytest.mark.parametrize("at", [0, -(10**12), 10**12])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_to_fetch_reads_and_changes_nothing(at, count):
    numbers = np.arange(16.0)
    fetch(numbers, at, count)
    assert numbers.tolist() == list(range(16))


@pytest.mark.parametrize("count", [0, 8, 24])
def test_whole_vectors(count):
    rng = np.random.default_rng(count)
    numbers, weights = rng.standard_normal(count), rng.random(count)
    outside = np.concatenate([[np.nan], numbers, np.full(8, np.inf)])
    weighted = weigh_squares(outside, 1, np.concatenate([[np.nan] * 2, weights, [np.nan]]), 2, count)
    assert weighted == pytest.approx(np.sum(numbers**2 * weights))
    numbers = framed(numbers)
    clear(numbers, AT, count)
    assert (numbers == framed(np.zeros(count))).all()


@pytest.mark.parametrize("count", [0, 8, 24, 64, 72, 200])
@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.3, 0.2], [0.01, 0.9, 0.05, 0.04], [0.0, 0.0]])
def test_rows_are_mixed_but_those_of_little_weight(count, weights):
    rng = np.random.default_rng(count)
    weights, width = np.array(weights), count + 5
    rows = rng.standard_normal((len(weights), width))
    rows[weights < 0.05] = np.nan  # not read
    total = framed(np.full(count, np.nan))
    mix(total, AT, weights, 0.05, 3.0, framed(rows.ravel()), AT + 2, width, count)
    acting = np.where(weights < 0.05, 0.0, weights) * np.where(np.arange(len(weights)) == 0, 3.0, 1.0)
    np.testing.assert_allclose(total, framed(acting @ np.nan_to_num(rows[:, 2 : 2 + count])), atol=1e-15)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 4)])
def test_arrays_that_begin_where_a_cache_line_does(shape):
    for _ in range(20):
        zeros = vectors.aligned_zeros(shape)
        assert zeros.shape == shape
        assert zeros.ctypes.data % 64 == 0
        assert zeros.flags.c_contiguous
        assert not zeros.any()


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
