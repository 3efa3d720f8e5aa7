"""The ridge kernels against plain linear algebra."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbandit.core import TIE
from driftbandit.kernels import ridge
from driftbandit.models import Radius

FIXED = Radius.fixed(0.6).settings(0.1)


def fresh(dim, strength=0.1):
    row = np.empty(ridge.row_size(dim))
    ridge.reset(np.array([strength, 0.0, 0.0, 0.0, 1.0]), row, dim)
    return row


def whole(row, dim):
    """Theta and the whole inverse of a row."""
    inverse = np.zeros((dim, dim))
    inverse[np.tril_indices(dim)] = row[1 + dim :]
    return row[1 : 1 + dim], inverse + np.tril(inverse, -1).T


def test_three_rewards_by_hand():
    row = fresh(2)
    for x, reward in (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.5), ([1.0, 1.0], 1.0)):
        assert ridge.update(FIXED, row, np.array(x), reward)
    theta, _ = whole(row, 2)
    np.testing.assert_allclose(theta, [0.79178886, 0.33724340], atol=5e-9)
    mean, width = ridge.predict(Radius.fixed(1.0).settings(0.1), row, np.array([1.0, 0.0]))
    assert mean == pytest.approx(0.79178886, abs=5e-9)
    assert width == pytest.approx(0.78475205, abs=5e-9)
    assert row[0] == 3.0


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 10**6))
def test_updates_equal_a_fresh_solve(dim, count, seed):
    rng = np.random.default_rng(seed)
    row = fresh(dim)
    data, rewards = rng.standard_normal((count, dim)), rng.standard_normal(count)
    for x, reward in zip(data, rewards, strict=True):
        ridge.update(FIXED, row, x, reward)
    inverse = np.linalg.inv(0.1 * np.eye(dim) + data.T @ data)
    theta, kept = whole(row, dim)
    np.testing.assert_allclose(kept, inverse, atol=1e-9)
    np.testing.assert_allclose(theta, inverse @ data.T @ rewards, atol=1e-8)


def test_the_order_of_rewards_does_not_matter():
    rng = np.random.default_rng(1)
    data, rewards = rng.standard_normal((30, 4)), rng.standard_normal(30)
    rows = []
    for order in (np.arange(30), rng.permutation(30)):
        row = fresh(4)
        for i in order:
            ridge.update(FIXED, row, data[i], rewards[i])
        rows.append(row)
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-10)


def test_a_million_updates_on_nearly_collinear_features_stay_exact():
    """Bonuses within 1e-8 of a fresh inverse at d = 25; theta is watched too."""
    dim, count = 25, 1_000_000
    rng = np.random.default_rng(2)
    base = rng.standard_normal(dim)
    row = fresh(dim)
    gram, moment = 0.1 * np.eye(dim), np.zeros(dim)
    for _ in range(count // 10_000):
        block = base + 1e-3 * rng.standard_normal((10_000, dim))
        rewards = block.sum(axis=1) + 0.1 * rng.standard_normal(10_000)
        for x, reward in zip(block, rewards, strict=True):
            ridge.update(FIXED, row, x, reward)
        gram += block.T @ block
        moment += rewards @ block
    theta, inverse = whole(row, dim)
    exact = np.linalg.inv(gram)
    probes = np.vstack([rng.standard_normal((50, dim)), base, block[:50]])
    bonus = np.sqrt(np.einsum("kd,de,ke->k", probes, inverse, probes))
    truth = np.sqrt(np.einsum("kd,de,ke->k", probes, exact, probes))
    np.testing.assert_allclose(bonus, truth, atol=1e-8, rtol=0)
    np.testing.assert_allclose(theta, np.linalg.solve(gram, moment), atol=1e-5)


def brute_force(row, features, explore):
    theta, inverse = whole(row, features.shape[1])
    squares = np.einsum("kd,de,ke->k", features, inverse, features)
    scores = features @ theta + explore * np.sqrt(np.maximum(squares, 0.0))
    return int(np.argmax(scores >= scores.max() - TIE)), scores


@settings(max_examples=80)
@given(
    st.integers(1, 30),
    st.integers(1, 60),
    st.integers(0, 200),
    st.floats(0.0, 5.0),
    st.sampled_from([1e-6, 1.0, 1e5]),
    st.integers(0, 10**6),
)
def test_skipping_hopeless_arms_never_changes_the_choice(dim, arms, trained, explore, scale, seed):
    rng = np.random.default_rng(seed)
    row = fresh(dim)
    taste = rng.standard_normal(dim)
    for _ in range(trained):
        x = rng.standard_normal(dim) * rng.random(dim)  # some directions stay little known
        ridge.update(FIXED, row, x, float(x @ taste))
    features = scale * rng.standard_normal((arms, dim))
    best, scores = brute_force(row, features, explore)
    chosen = ridge.optimistic_arm(Radius.fixed(explore).settings(0.1), row[np.newaxis], 0, features)
    # Rounding may separate scores that tie in exact arithmetic, no more.
    assert chosen == best or abs(scores[chosen] - scores[best]) <= 1e-9 * max(1.0, abs(scores[best]))


@pytest.mark.parametrize(("dim", "arms"), [(3, 7), (40, 80)])
def test_both_ways_of_scoring_agree(dim, arms, monkeypatch):
    """Arms one by one and all together, on the reference path where the switch can be turned."""
    rng = np.random.default_rng(3)
    row, features = fresh(dim), rng.standard_normal((arms, dim))
    for x in rng.standard_normal((20, dim)):
        ridge.update(FIXED, row, x, float(x.sum()))
    expected = brute_force(row, features, 0.6)[0]
    for together in (lambda count, d: True, lambda count, d: False):
        monkeypatch.setattr(ridge, "_together", together)
        score = getattr(ridge.optimistic_arm, "py_func", ridge.optimistic_arm)
        assert score(FIXED, row[np.newaxis], 0, features) == expected


def test_ties_go_to_the_lowest_index_despite_rounding():
    features = np.array([[0.1, 0.2], [0.3, 0.0], [0.0, 0.3], [0.3, 0.0]])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    assert ridge.optimistic_arm(FIXED, fresh(2)[np.newaxis], 0, features) == 0
    assert ridge.first_best(np.array([0.5, 1.0 - 5e-13, 1.0])) == 1
    assert ridge.first_best(np.array([0.5, 1.0 - 5e-12, 1.0])) == 2


@settings(max_examples=60)
@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 10**6))
def test_the_eigenvalue_bound_is_a_bound_and_never_loose_by_more_than_the_root_of_d(dim, count, seed):
    rng = np.random.default_rng(seed)
    row = fresh(dim)
    for x in rng.standard_normal((count, dim)) * rng.random(dim) ** 3:
        ridge.update(FIXED, row, x, 0.0)
    largest = np.linalg.eigvalsh(whole(row, dim)[1])[-1]
    bound = ridge.largest_eigenvalue_bound(row, dim)
    assert largest <= bound * (1 + 1e-12)
    assert bound <= largest * (1.0 + np.sqrt(dim))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize(("dim", "arms"), [(1, 1), (1, 5), (10, 3), (40, 60)])
def test_what_is_not_finite_is_reported_and_changes_nothing(dim, arms, value):
    row = fresh(dim)
    ridge.update(FIXED, row, np.ones(dim), 1.0)
    before = row.copy()
    features = np.ones((arms, dim))
    features[-1, -1] = value
    assert ridge.optimistic_arm(FIXED, row[np.newaxis], 0, features) == -1
    assert not ridge.usable(features, 0.1)
    assert not ridge.update(FIXED, row, features[-1], 1.0)
    np.testing.assert_array_equal(row, before)


def test_one_sample_of_theta_is_the_mean_plus_a_cholesky_factor_of_the_covariance_times_the_noise():
    """Arm 0 pays a coordinate of the sample, arm 1 pays nothing: the choice reveals the sign of that coordinate."""
    rng = np.random.default_rng(4)
    dim, explore = 3, 2.0
    row = fresh(dim)
    for x in rng.standard_normal((6, dim)):
        ridge.update(FIXED, row, x, float(x.sum()) / 20)
    theta, inverse = whole(row, dim)
    factor = np.linalg.cholesky(inverse)
    chosen, expected = [], []
    for noise in rng.standard_normal((500, dim)):
        sample = theta + explore * factor @ noise
        for direction in np.vstack([np.eye(dim), rng.standard_normal((2, dim))]):
            pool = np.vstack([direction, np.zeros(dim)])
            chosen.append(ridge.sampled_theta_arm(row[np.newaxis], 0, pool, noise, explore))
            expected.append(int(sample @ direction < 0.0))
    assert chosen == expected
    assert 0.2 < np.mean(chosen) < 0.8


def test_a_sample_per_arm_uses_that_arms_own_noise():
    row = fresh(2, 1.0)
    features = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    assert ridge.sampled_arm(row[np.newaxis], 0, features, np.array([0.5, 0.2, 0.6]), 1.0) == 2
    assert ridge.sampled_arm(row[np.newaxis], 0, features, np.array([0.5, 0.4, 0.6]), 1.0) == 1
    assert ridge.sampled_arm(row[np.newaxis], 0, features, np.array([0.5, -9.0, 0.4]), 1.0) == 0


@pytest.mark.parametrize("gap", [0.0, 1e-9, 2.4745762711864404e-05, 1e-4])
def test_the_eigenvalue_bound_holds_where_all_eigenvalues_are_nearly_alike(gap):
    """There the variance of the eigenvalues is a difference of nearly equal numbers."""
    for dim in (2, 5, 25):
        row = fresh(dim)
        ridge.update(FIXED, row, np.append(np.zeros(dim - 1), gap), 0.0)
        largest = np.linalg.eigvalsh(whole(row, dim)[1])[-1]
        assert ridge.largest_eigenvalue_bound(row, dim) >= largest


def test_the_radius_has_five_settings():
    """scale * sqrt(d ln(1 + growth n) + constant) + offset = 2 * sqrt(3 ln(1 + 0.5 * 4) + 1.5) + 0.25."""
    settings = np.zeros(5)
    settings[[ridge.RIDGE, ridge.SCALE, ridge.GROWTH, ridge.CONSTANT, ridge.OFFSET]] = 0.1, 2.0, 0.5, 1.5, 0.25
    assert ridge.radius(settings, 4.0, 3) == pytest.approx(2.0 * np.sqrt(3.0 * np.log(3.0) + 1.5) + 0.25)
    settings[ridge.SCALE] = 0.0
    assert ridge.radius(settings, 4.0, 3) == 0.25


def test_the_radius_grows_with_the_rewards_of_the_row():
    """A row with one reward at x: the width of x is radius(1) * sqrt(x' A^-1 x) = radius(1) * sqrt(1 / 1.1)."""
    settings, row, x = np.array([0.1, 1.0, 1.0, 0.0, 0.0]), fresh(2), np.array([1.0, 0.0])
    assert ridge.predict(settings, row, x)[1] == 0.0
    ridge.update(settings, row, x, 1.0)
    assert row[ridge.COUNT] == 1.0
    assert ridge.predict(settings, row, x) == pytest.approx(
        (1.0 / 1.1, np.sqrt(2.0 * np.log(2.0)) * np.sqrt(1.0 / 1.1))
    )


def test_features_are_refused_from_the_size_on_that_ruins_the_matrix():
    """|x|^2 may be LARGEST_SQUARE times the ridge, here 1e14, and no more."""
    settings = np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    for length, fits in ((1e7, True), (1.0000001e7, False)):
        row, x = fresh(1, 1.0), np.array([length])
        assert np.isfinite(ridge.predict(settings, row, x)).all() == fits
        assert np.isfinite(ridge.project(settings, row, x)[2]) == fits
        assert ridge.usable(x[np.newaxis], 1.0) == fits
        assert (ridge.optimistic_arm(settings, row[np.newaxis], 0, x[np.newaxis]) == 0) == fits
        assert ridge.update(settings, row, x, 1.0) == fits


def test_the_member_that_is_asked_answers():
    bank = np.array([fresh(2), fresh(2)])
    ridge.update(FIXED, bank[0], np.array([1.0, 0.0]), 5.0)
    ridge.update(FIXED, bank[1], np.array([0.0, 1.0]), 5.0)
    greedy, none = Radius.fixed(0.0).settings(0.1), np.zeros(2)
    for member in (0, 1):
        assert ridge.optimistic_arm(greedy, bank, member, np.eye(2)) == member
        assert ridge.sampled_arm(bank, member, np.eye(2), none, 1.0) == member
        assert ridge.sampled_theta_arm(bank, member, np.eye(2), none, 1.0) == member
