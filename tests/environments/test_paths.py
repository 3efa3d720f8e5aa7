"""How theta moves: shift times, jumps, rotation and Brownian motion, each by its own definition."""

import numpy as np
import pytest

from driftbandit.environments import paths


def rng(seed=0):
    return np.random.default_rng(seed)


def distance(old, new):
    return np.linalg.norm(new - old, axis=1)


def never(best):
    raise AssertionError(f"should have found a theta, best was {best}")


def test_unit_scales_rows_to_length_one_and_keeps_their_direction():
    vectors = np.array([[3.0, 4.0], [0.0, -2.0]])
    np.testing.assert_allclose(paths.unit(vectors), [[0.6, 0.8], [0.0, -1.0]], atol=1e-15)


def test_positive_thetas_are_normalised_uniform_draws():
    thetas = paths.positive_thetas(4)(rng(), 20_000)
    np.testing.assert_allclose(np.linalg.norm(thetas, axis=1), 1.0, atol=1e-12)
    assert thetas.min() >= 0.0
    # A ratio of two U(0, 1) is at most 1/2 with probability 1/4, whatever the length; 5 standard errors are 0.0153.
    assert np.mean(thetas[:, 0] <= 0.5 * thetas[:, 1]) == pytest.approx(0.25, abs=0.0153)


@pytest.mark.parametrize(
    ("horizon", "period", "expected"),
    [(10, 3, [3, 6, 9]), (9, 3, [3, 6]), (3, 3, []), (2, 3, []), (4, 1, [1, 2, 3]), (1, 1, [])],
)
def test_fixed_shifts_by_hand(horizon, period, expected):
    shifts = paths.fixed_shifts(horizon, period)
    assert shifts.tolist() == expected
    assert shifts.dtype == np.int64


def test_coin_flip_shifts_wait_a_period_and_then_for_heads():
    period, horizon = 20, 40_000
    shifts = paths.coin_flip_shifts(horizon, period, rng(3))
    gaps = np.diff(shifts, prepend=0)
    assert gaps.min() >= period
    assert shifts[-1] < horizon
    assert horizon - shifts[-1] < period + 25, "no stretch without a shift at the end: 25 tails have chance 3e-8"
    # Flips until heads: a geometric number, half of which is its smallest value and whose mean is 1 above it.
    # About 1,800 gaps: 5 standard errors are 0.059 for the half and 5 * sqrt(2 / 1800) = 0.167 for the mean.
    flips = gaps - gaps.min()
    assert np.mean(flips == 0) == pytest.approx(0.5, abs=0.059)
    assert flips.mean() == pytest.approx(1.0, abs=0.167)


@pytest.mark.parametrize(("horizon", "period"), [(1, 1), (5, 5), (5, 100), (7, 1), (50, 1)])
def test_coin_flip_shifts_stay_inside_short_horizons(horizon, period):
    for seed in range(20):
        shifts = paths.coin_flip_shifts(horizon, period, rng(seed))
        assert (np.diff(shifts, prepend=0) >= period).all()
        assert (shifts < horizon).all()


def test_jumps_are_far_enough_and_of_unit_length():
    thetas = paths.jumps(rng(1), 40, paths.positive_thetas(10), distance, 0.9, never)
    assert thetas.shape == (40, 10)
    np.testing.assert_allclose(np.linalg.norm(thetas, axis=1), 1.0, atol=1e-12)
    assert np.linalg.norm(np.diff(thetas, axis=0), axis=1).min() >= 0.9


def test_jumps_accept_a_distance_equal_to_the_asked_one():
    ring = np.array([[1.0, 0.0], [0.0, 1.0]])
    draws = iter([ring[:1], np.repeat(ring[1:], 4, axis=0)])
    thetas = paths.jumps(rng(), 2, lambda _rng, _n: next(draws), lambda old, new: np.full(len(new), 0.5), 0.5, never)
    np.testing.assert_array_equal(thetas, ring)


def test_jumps_take_the_first_candidate_that_will_do():
    batch = paths.unit(np.array([[1.0, 0.1], [1.0, 0.2], [0.0, 1.0], [-1.0, 0.0]]))
    draws = iter([np.array([[1.0, 0.0]]), batch])
    thetas = paths.jumps(rng(), 2, lambda _rng, _n: next(draws), distance, 1.0, never)
    np.testing.assert_array_equal(thetas[1], batch[2])


def test_one_regime_needs_no_jump():
    thetas = paths.jumps(rng(), 1, paths.positive_thetas(3), distance, 100.0, never)
    assert thetas.shape == (1, 3)


def test_impossible_jumps_end_in_an_error_that_reports_the_best():
    seen = []

    def explain(best):
        seen.append(best)
        return f"the farthest was {best:.3f}"

    # Unit vectors of the positive orthant are never more than sqrt(2) apart.
    with pytest.raises(ValueError, match=r"the farthest was [01]\.\d{3}"):
        paths.jumps(rng(), 2, paths.positive_thetas(2), distance, 1.5, explain)
    assert 0.7 < seen[0] <= np.sqrt(2.0), "from anywhere on the quarter circle an end is at least 0.765 away"


def test_the_number_of_candidates_is_bounded():
    drawn = []

    def draw(generator, n):
        drawn.append(n)
        return np.tile([[1.0, 0.0]], (n, 1))

    with pytest.raises(ValueError, match="no"):
        paths.jumps(rng(), 2, draw, distance, 1.0, lambda best: "no")
    assert sum(drawn) == 1 + paths.MOST_CANDIDATES


def test_rotation_returns_after_each_full_turn():
    path = paths.rotation(rng(5), 600, paths.positive_thetas(6), turns=3.0)
    np.testing.assert_allclose(np.linalg.norm(path, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(path[200], path[0], atol=1e-12)
    np.testing.assert_allclose(path[400], path[0], atol=1e-12)
    np.testing.assert_allclose(path[100], -path[0], atol=1e-12)
    assert np.linalg.matrix_rank(path, tol=1e-9) == 2, "it stays in one plane"


def test_rotation_turns_at_constant_speed_every_round():
    path = paths.rotation(rng(5), 500, paths.positive_thetas(6), turns=2.0)
    cosines = np.sum(path[1:] * path[:-1], axis=1)
    np.testing.assert_allclose(cosines, np.cos(2.0 * np.pi * 2.0 / 500), atol=1e-12)


def test_rotation_of_no_turns_stands_still():
    path = paths.rotation(rng(5), 50, paths.positive_thetas(3), turns=0.0)
    np.testing.assert_array_equal(path, np.tile(path[0], (50, 1)))


def test_brownian_stays_on_the_unit_sphere_and_moves_every_round():
    path = paths.brownian(rng(2), 3000, paths.positive_thetas(8), step=0.01)
    np.testing.assert_allclose(np.linalg.norm(path, axis=1), 1.0, atol=1e-12)
    squares = np.sum(np.diff(path, axis=0) ** 2, axis=1)
    assert squares.min() > 0.0
    # The step along theta is scaled away, so d - 1 = 7 coordinates remain: 7 * 0.01^2 on average. The standard error
    # is 7e-4 * sqrt(2 / 7 / 3000) = 6.8e-6; 5 of them and 1 % for the curvature of the sphere.
    assert squares.mean() == pytest.approx(7e-4, abs=3.4e-5 + 7e-6)


def test_brownian_steps_are_independent():
    path = paths.brownian(rng(2), 3000, paths.positive_thetas(8), step=0.01)
    steps = np.diff(path, axis=0)
    correlation = np.mean(np.sum(steps[1:] * steps[:-1], axis=1)) / np.mean(np.sum(steps**2, axis=1))
    # Standard error 1 / sqrt(7 * 3000) = 0.007.
    assert correlation == pytest.approx(0.0, abs=0.035)


def test_brownian_without_steps_stands_still():
    path = paths.brownian(rng(2), 40, paths.positive_thetas(3), step=0.0)
    np.testing.assert_allclose(path, np.tile(path[0], (40, 1)), atol=1e-15)


@pytest.mark.parametrize("move", [paths.rotation, paths.brownian])
def test_paths_repeat_with_the_generator(move):
    draw = paths.positive_thetas(4)
    np.testing.assert_array_equal(move(rng(7), 30, draw, 0.5), move(rng(7), 30, draw, 0.5))
    assert not np.array_equal(move(rng(7), 30, draw, 0.5), move(rng(8), 30, draw, 0.5))
