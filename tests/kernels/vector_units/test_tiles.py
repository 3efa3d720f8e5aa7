"""What vector units do with matrices in tiles is what NumPy does with tables, and touches nothing else."""

import numpy as np
import pytest
from tiled import dense, tiled, whole

from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units import tiles
from driftbandit.kernels.vector_units.instructions import WIDTH

DIMS = [*range(1, 19), 25, 40]
OUTSIDE, AT, FIRST = 7.0, 3, 2  # numbers that are no part of anything, and places where matrices and vectors begin


@jit
def product(numbers, at, d, x, z, first, ahead):
    tiles.product(numbers, at, d, x, z, first, ahead)


@jit
def fade_outer(numbers, at, d, w, first, fade, lift, sizes, place, ahead=0):
    tiles.fade_outer(numbers, at, d, w, first, fade, lift, sizes, place, ahead)


@jit
def weigh_line(numbers, at, i, lines, weights, share, totals):
    tiles.weigh_line(numbers, at, i, lines, weights, share, totals)


@jit
def weigh_diagonal(numbers, at, d, weights, first):
    return tiles.weigh_diagonal(numbers, at, d, weights, first)


@jit
def expect(rows, theta, towards, drift, z, first, lifted, x):
    return tiles.expect(rows, theta, towards, drift, z, first, lifted, x)


@jit
def correct(rows, theta, towards, drift, z, first, count, gain, shrink):
    tiles.correct(rows, theta, towards, drift, z, first, count, gain, shrink)


def framed(numbers, before=AT):
    return np.concatenate([np.full(before, OUTSIDE), numbers, np.full(AT, OUTSIDE)])


def symmetric(d):
    root = np.random.default_rng(d).standard_normal((d, d))
    return root + root.T


@pytest.mark.parametrize("d", DIMS)
def test_where_entries_stand(d):
    matrix = symmetric(d)
    numbers = tiled(matrix)
    assert tiles.matrix_size(d) == len(numbers)
    for i in range(d):
        assert tiles.group_at(i) == tiles.entry_at(d, i - i % WIDTH, 0)
        for j in range(min(i - i % WIDTH + WIDTH, d)):
            assert numbers[tiles.entry_at(d, i, j)] == matrix[i, j]


@pytest.mark.parametrize("ahead", [0, 1000])  # what is fetched changes nothing; only benchmarks see it
@pytest.mark.parametrize("d", DIMS)
def test_products(d, ahead):
    matrix, x = symmetric(d), np.random.default_rng(0).standard_normal(d)
    numbers, z = framed(tiled(matrix)), framed(np.full(len(whole(x)), 9.0), FIRST)
    product(numbers, AT, d, whole(x), z, FIRST, ahead)
    np.testing.assert_allclose(z, framed(whole(matrix @ x), FIRST), atol=1e-12)
    assert (numbers == framed(tiled(matrix))).all()


@pytest.mark.parametrize("ahead", [0, 1000])
@pytest.mark.parametrize("d", DIMS)
def test_updates_keep_both_halves_equal(d, ahead):
    matrix, rng = symmetric(d), np.random.default_rng(0)
    w, sizes = rng.standard_normal(d), rng.random(d)
    numbers = framed(tiled(matrix))
    fade_outer(numbers, AT, d, framed(whole(w), FIRST), FIRST, 0.75, 0.5, framed(whole(sizes)), AT, ahead)
    np.testing.assert_allclose(
        numbers, framed(tiled(0.75 * matrix + 0.5 * np.diag(sizes) - np.outer(w, w))), atol=1e-12
    )
    dense(numbers[AT:-AT], d)


@pytest.mark.parametrize("d", DIMS)
def test_weighted_squares_and_diagonals(d):
    matrix, weights = symmetric(d), np.random.default_rng(0).random(d)
    numbers, totals = framed(tiled(matrix)), np.zeros(WIDTH)
    for i in range(d):
        lines = min(d - i // WIDTH * WIDTH, WIDTH)
        weigh_line(numbers, AT + tiles.entry_at(d, i, 0), i, lines, whole(weights), weights[i], totals)
    assert totals.sum() == pytest.approx(np.sum(matrix**2 * np.outer(weights, weights)))
    found = weigh_diagonal(numbers, AT, d, framed(whole(weights), FIRST), FIRST)
    assert found == pytest.approx(np.diagonal(matrix) @ weights)


@pytest.mark.parametrize("d", [1, 8, 11, 17])
@pytest.mark.parametrize("drift", [(1.0, 0.0, 1.0, 0.0), (0.9, 0.2, 0.8, 0.3)])
def test_weights_that_drift_expect_and_are_corrected(d, drift):
    rng = np.random.default_rng(d)
    theta, towards, z, lifted, x = (whole(rng.standard_normal(d)) for _ in range(5))
    keep, pull, fade, lift = drift
    rows, room = framed(np.concatenate([theta, towards])), framed(z, FIRST)
    weights, moved = keep * theta + pull * towards, fade * z + lift * lifted
    found = expect(rows, AT, AT + len(theta), drift, room, FIRST, lifted, x)
    assert found == pytest.approx((weights @ x, moved @ x))
    np.testing.assert_allclose(room, framed(moved, FIRST))
    assert (rows == framed(np.concatenate([theta, towards]))).all(), "not yet"
    correct(rows, AT, AT + len(theta), drift, room, FIRST, len(theta), 0.25, 0.5)
    np.testing.assert_allclose(rows, framed(np.concatenate([weights + 0.25 * moved, towards])))
    np.testing.assert_allclose(room, framed(0.5 * moved, FIRST))


def test_numbers_that_overflow_do_so_alone():
    """Squares of w may overflow, and what is then infinite is no other entry's matter."""
    numbers, w = tiled(np.zeros((9, 9))), np.zeros(16)
    w[0] = 1e200
    with np.errstate(over="ignore"):
        fade_outer(numbers, 0, 9, w, 0, 1.0, 0.0, np.zeros(16), 0)
    assert numbers[0] == -np.inf
    assert not numbers[1:].any()
