"""Every ridge kernel on rows small enough to compute by hand or with NumPy, quick without the compiler too."""

import math

import numpy as np
import pytest

from driftbandit.core import TIE
from driftbandit.kernels import ridge

SETTINGS = np.array([0.5, 2.0, 0.25, 3.0, 0.125])  # ridge, scale, growth, constant, offset
THETA = np.array([0.5, -1.0, 2.0])
MATRIX = np.array([[2.0, 0.5, -0.25], [0.5, 3.0, 0.75], [-0.25, 0.75, 1.0]])


def row_of(count, theta, matrix, *rest):
    lower = [matrix[i, j] for i in range(len(theta)) for j in range(i + 1)]
    return np.array([count, *theta, *lower, *rest], dtype=float)


def row():
    return row_of(4.0, THETA, MATRIX)


def test_sizes_and_a_fresh_row():
    assert [ridge.row_size(dim) for dim in (1, 2, 3, 10)] == [3, 6, 10, 66]
    fresh = np.full(10, 7.0)
    ridge.reset(SETTINGS, fresh, 3)
    assert fresh.tolist() == [0, 0, 0, 0, 2, 0, 2, 0, 0, 2]


def test_the_radius_by_hand():
    """2 sqrt(3 ln(1 + 4 / 4) + 3) + 1/8; without a scale the offset alone."""
    assert ridge.radius(SETTINGS, 4.0, 3) == pytest.approx(2.0 * math.sqrt(3.0 * math.log(2.0) + 3.0) + 0.125)
    assert ridge.radius(np.array([0.5, 0.0, 0.25, np.nan, 0.125]), 4.0, 3) == 0.125


X = np.array([1.0, 2.0, -0.5])


def test_a_prediction_by_hand():
    mean, width = ridge.predict(SETTINGS, row(), X)
    assert mean == pytest.approx(THETA @ X)
    assert width == pytest.approx(ridge.radius(SETTINGS, 4.0, 3) * math.sqrt(X @ MATRIX @ X))


def test_products_by_hand():
    z = np.full(3, 9.0)
    assert ridge.multiply(row(), X, z) == pytest.approx((THETA @ X, X @ MATRIX @ X, X @ X))
    np.testing.assert_allclose(z, MATRIX @ X)
    projected, mean, square = ridge.project(SETTINGS, row(), X)
    np.testing.assert_allclose(projected, MATRIX @ X)
    assert (mean, square) == pytest.approx((THETA @ X, X @ MATRIX @ X))


def test_absorbing_by_hand():
    taken = row()
    ridge.absorb(taken, MATRIX @ X, 0.75, 1.5)
    expected = row_of(5.0, THETA + 0.75 / 1.5 * MATRIX @ X, MATRIX - np.outer(MATRIX @ X, MATRIX @ X) / 1.5)
    np.testing.assert_allclose(taken, expected, rtol=1e-14)
    updated = row()
    assert ridge.update(SETTINGS, updated, X, 1.25)
    again = row()
    ridge.absorb(again, MATRIX @ X, 1.25 - THETA @ X, 1.0 + X @ MATRIX @ X)
    np.testing.assert_allclose(updated, again, rtol=1e-13)


def test_subtracting_a_product_by_hand():
    taken = row()
    ridge.subtract_outer(taken, X)
    np.testing.assert_allclose(taken, row_of(4.0, THETA, MATRIX - np.outer(X, X)))


def plain(kernel):
    """A kernel on the reference path, where its constants can be changed."""
    return getattr(kernel, "py_func", kernel)


@pytest.mark.parametrize(
    ("count", "d", "together"), [(5, 30, True), (150, 1, True), (4, 40, False), (149, 1, False), (5, 29, False)]
)
def test_five_arms_with_150_numbers_go_together(count, d, together):
    assert ridge._together(count, d) == together


def best_of(bounds, means, tie, relative):
    """The best score of arms without variance, and what became of the bounds."""
    scores = np.array(bounds)
    row = row_of(0.0, np.zeros(1), np.zeros((1, 1)))
    best = plain(ridge.score_best)(row, np.ones((len(bounds), 1)), np.array(means), scores, 0.5, tie, relative)
    return best, scores.tolist()


@pytest.mark.parametrize("together", [True, False])
def test_arms_whose_bound_ties_with_the_best_are_scored(monkeypatch, together):
    monkeypatch.setattr(ridge, "_together", lambda count, d: together)
    assert best_of([1.25, 1.5, 1.0], [1.0, 1.5, 0.9], 0.25, 0.0) == (1.5, [1.0, 1.5, -np.inf])
    assert best_of([-2.25, -2.0, -2.5], [-3.0, -2.0, -3.0], 0.0, 0.125) == (-2.0, [-3.0, -2.0, -np.inf])
    assert best_of([3.0, 2.9], [1.0, 2.8], 0.0, 0.0) == (2.8, [1.0, 2.8]), "the highest bound need not be the best arm"


def test_arms_are_ruled_out_by_the_best_score_so_far(monkeypatch):
    monkeypatch.setattr(ridge, "_together", lambda count, d: False)
    bounds, means = [4.0, 3.5, 2.5, 2.25, 2.0], [1.0, 2.5, 0.0, 0.0, 0.0]
    assert best_of(bounds, means, 0.25, 0.0) == (2.5, [1.0, 2.5, 0.0, 0.0, 2.0])
    assert best_of([-1.0, -1.5, -2.25, -2.5], [-4.0, -2.0, -9.0, -9.0], 0.0, 0.125) == (-2.0, [-4.0, -2.0, -9.0, -2.5])


def test_predictions_of_a_pool_by_hand():
    found = plain(ridge.predictions)(SETTINGS, row(), np.array([X, 2.0 * X]))
    expected = [ridge.predict(SETTINGS, row(), X), ridge.predict(SETTINGS, row(), 2.0 * X)]
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("rest", "usable"), [(0.0, True), (0.3, False)])
def test_features_may_be_as_large_as_rounding_allows(rest, usable):
    """|x|^2 of 1e14 times the ridge, which is 1/4 here."""
    settings = np.array([0.25, 0.0, 0.0, 0.0, 1.0])
    x = np.array([5e6, rest])
    known = row_of(0.0, np.zeros(2), np.eye(2))
    before = known.copy()
    assert ridge.usable(np.array([[1.0, 1.0], x]), 0.25) == usable
    assert np.isfinite(ridge.predict(settings, known, x)).all() == usable
    assert math.isfinite(ridge.project(settings, known, x)[2]) == usable
    assert ridge.optimistic_arm(settings, known[np.newaxis], 0, x[np.newaxis]) == (0 if usable else -1)
    assert ridge.update(settings, known, x, 1.0) == usable
    assert (known == before).all() != usable


def test_rewards_must_be_numbers_for_a_row_that_is_one():
    broken = row_of(1.0, np.array([np.nan, 0.0]), np.eye(2))
    before = broken.copy()
    assert not ridge.update(SETTINGS, broken, np.ones(2), 1.0)
    np.testing.assert_array_equal(broken, before)
    assert ridge.optimistic_arm(SETTINGS, broken[np.newaxis], 0, np.ones((2, 2))) == -1
    assert ridge.sampled_arm(broken[np.newaxis], 0, np.ones((2, 2)), np.zeros(2), 1.0) == -1
    assert ridge.sampled_theta_arm(broken[np.newaxis], 0, np.ones((2, 2)), np.zeros(2), 1.0) == -1


def pools():
    """Models and pools of all small sizes, the model in the second row of a bank."""
    rng = np.random.default_rng(0)
    for dim in (1, 2, 3, 4):
        for arms in (1, 2, 3, 7):
            for seed in range(4):
                half = rng.standard_normal((dim, dim + 1)) / (1 + seed)
                theta, matrix = rng.standard_normal(dim), half @ half.T
                bank = np.array([np.full(ridge.row_size(dim), np.nan), row_of(4.0, theta, matrix)])
                yield bank, theta, matrix, rng.standard_normal((arms, dim))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("explore", [0.0, 0.5, 4.0])
def test_the_optimistic_arm_has_the_highest_bound(monkeypatch, together, explore):
    monkeypatch.setattr(ridge, "_together", lambda count, d: together)
    settings = np.array([1.0, 0.0, 0.0, 0.0, explore])
    chosen = set()
    for bank, theta, matrix, pool in pools():
        scores = pool @ theta + explore * np.sqrt(np.einsum("kd,de,ke->k", pool, matrix, pool))
        best = int(np.argmax(scores >= scores.max() - TIE))
        assert plain(ridge.optimistic_arm)(settings, bank, 1, pool) == best
        repeated = np.vstack([pool, pool])
        assert plain(ridge.optimistic_arm)(settings, bank, 1, repeated) == best, "the first of equal arms"
        chosen.add(best)
    assert len(chosen) > 4


@pytest.mark.parametrize("together", [True, False])
def test_nearly_equal_arms_tie(monkeypatch, together):
    monkeypatch.setattr(ridge, "_together", lambda count, d: together)
    known = row_of(0.0, np.array([1.0]), np.eye(1))[np.newaxis]
    settings = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for gap, best in ((0.5 * TIE, 0), (2.0 * TIE, 1)):
        assert plain(ridge.optimistic_arm)(settings, known, 0, np.array([[1.0 - gap], [1.0]])) == best


def test_arms_that_only_look_good_do_not_win():
    """Long in a direction that is well known: its first bound is the highest, its score is not."""
    known = row_of(9.0, np.array([0.0, 0.1]), np.diag([0.01, 4.0]))[np.newaxis]
    settings = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    assert ridge.optimistic_arm(settings, known, 0, np.array([[3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])) == 1
    assert ridge.optimistic_arm(settings, known, 0, np.array([[0.0, -1.0], [3.0, 0.0], [0.0, 1.0]])) == 2


@pytest.mark.parametrize("together", [True, False])
def test_small_bonuses_count_as_much_as_large_ones(monkeypatch, together):
    """Scores .1 + .1, and 0 + .5 twice."""
    monkeypatch.setattr(ridge, "_together", lambda count, d: together)
    known = row_of(0.0, np.array([1.0, 0.0]), np.eye(2))[np.newaxis]
    settings = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    assert plain(ridge.optimistic_arm)(settings, known, 0, np.array([[0.1, 0.0], [0.0, 0.5], [0.0, 0.5]])) == 1


def test_the_eigenvalue_bound_by_hand():
    """Eigenvalues 1 and 3: mean 2, variance 1, so at most 2 + sqrt((d - 1) 1) = 3. What follows is ignored."""
    for matrix in (np.diag([1.0, 3.0]), np.array([[2.0, 1.0], [1.0, 2.0]])):
        bound = ridge.largest_eigenvalue_bound(row_of(0.0, np.zeros(2), matrix, 99.0, 99.0), 2)
        assert bound == pytest.approx(3.0, rel=2e-9)
        assert bound > 3.0
    small = ridge.largest_eigenvalue_bound(row_of(0.0, np.zeros(2), np.diag([0.01, 0.03])), 2)
    assert small == pytest.approx(0.03, rel=2e-9)
    alone = ridge.largest_eigenvalue_bound(row_of(0.0, np.zeros(1), np.array([[5.0]])), 1)
    assert alone == pytest.approx(5.0, rel=2e-9)
    three = ridge.largest_eigenvalue_bound(row_of(0.0, np.zeros(3), np.diag([1.0, 2.0, 6.0])), 3)
    assert three == pytest.approx(3.0 + math.sqrt(2.0 * (1 + 4 + 36 - 27) / 3), rel=2e-9)


def test_a_sampled_theta_by_hand():
    """theta + 2 L noise, L L' = A^-1 = [[4, 2], [2, 5]]: L = [[2, 0], [1, 2]]."""
    bank = np.array([np.full(6, np.nan), row_of(3.0, np.array([1.0, -1.0]), np.array([[4.0, 2.0], [2.0, 5.0]]))])
    noise = np.array([0.25, -0.5])
    sample = np.array([1.0 + 2.0 * 0.5, -1.0 + 2.0 * (0.25 - 1.0)])  # [2, -2.5]
    for pool in (np.eye(2), np.array([[1.0, 1.0], [-0.5, -0.6]]), np.array([[0.0, -1.0], [1.0, -0.21], [1.0, -0.19]])):
        expected = int(np.argmax(pool @ sample))
        assert ridge.sampled_theta_arm(bank, 1, pool, noise, 2.0) == expected
    flat = row_of(3.0, np.array([1.0, -1.0]), np.zeros((2, 2)))[np.newaxis]  # nothing left to draw
    assert ridge.sampled_theta_arm(flat, 0, np.eye(2)[::-1].copy(), np.array([-99.0, 99.0]), 2.0) == 1


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_samples_of_theta_follow_the_covariance(scale):
    """An arm against nothing: the choice is the sign of the arm's reward under the sample."""
    rng = np.random.default_rng(1)
    bank, factor = row_of(4.0, 0.1 * THETA, scale * MATRIX)[np.newaxis], np.linalg.cholesky(scale * MATRIX)
    chosen, expected = [], []
    for noise in rng.standard_normal((40, 3)):
        sample = 0.1 * THETA + 1.5 * factor @ noise
        for direction in rng.standard_normal((4, 3)):
            chosen.append(ridge.sampled_theta_arm(bank, 0, np.array([direction, np.zeros(3)]), noise, 1.5))
            expected.append(int(sample @ direction < 0.0))
    assert chosen == expected
    assert 0.2 < np.mean(chosen) < 0.8


def test_rounding_below_zero_is_no_variance():
    """[[1, 1], [1, 1 - 1e-16]] has no root; the second weight is as good as known by the first."""
    bank = row_of(1.0, np.zeros(2), np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 0.0)]]))[np.newaxis]
    assert ridge.sampled_theta_arm(bank, 0, np.array([[0.0, -1.0], [0.0, 1.0]]), np.array([1.0, -9.0]), 1.0) == 1


def test_a_sample_per_arm_by_hand():
    bank = np.array([np.full(10, np.nan), row()])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pool, noise = rng.standard_normal((5, 3)), rng.standard_normal(5)
        scores = pool @ THETA + 1.5 * noise * np.sqrt(np.einsum("kd,de,ke->k", pool, MATRIX, pool))
        assert ridge.sampled_arm(bank, 1, pool, noise, 1.5) == int(np.argmax(scores))


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([1.0], 0),
        ([1.0, 2.0], 1),
        ([2.0, 1.0, 2.0], 0),
        ([-3.0, -2.0], 1),
        ([1.0, np.nan], -1),
        ([np.inf, 1.0], -1),
        ([], -1),
        ([1.0 - TIE, 1.0], 0),
    ],
)
def test_the_first_of_the_best(scores, best):
    assert ridge.first_best(np.array(scores)) == best
    assert ridge.first_best(np.array([1.0, -np.inf])) == -1
