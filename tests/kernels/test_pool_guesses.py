"""The pool's guesses against one dense computation over all rewards at once."""

import numpy as np
import pytest

from driftbandit.kernels import pooling, ridge

DIM = 3


def learned(users, xs, rewards, square=1.0):
    bank = np.zeros((pooling.GUESSES, pooling.guess_size(DIM)))
    sums = {user: np.zeros(pooling.sums_size(DIM)) for user in users}
    pooling.start(bank, square, DIM)
    for user, x, reward in zip(users, xs, rewards, strict=True):
        assert pooling.learn(bank, sums[user], square, x, reward)
    return bank, sums


def world(count, spread, noise, users=8, seed=0):
    rng = np.random.default_rng(seed)
    common = np.array([1.0, 0.0, -0.5])
    tastes = common + spread * rng.standard_normal((users, DIM))
    who = rng.integers(users, size=count)
    xs = rng.standard_normal((count, DIM)) / DIM**0.5
    rewards = (xs * tastes[who]).sum(axis=1) + noise * rng.standard_normal(count)
    return who.tolist(), xs, rewards


def test_every_guess_is_the_posterior_given_its_ratio():
    """g | rewards in the model where they are jointly normal, by one dense solve; forgetting moves it by a few 1e-4."""
    users, xs, rewards = world(60, 0.3, 0.1)
    bank, sums = learned(users, xs, rewards)
    same = np.equal.outer(users, users)
    products = xs @ xs.T
    for k in range(pooling.GUESSES):
        own = 4.0 ** (5 - k) * products * same if k < pooling.GUESSES - 1 else 0.0
        joint = np.eye(60) + own + 1e4 * products
        expected = 1e4 * xs.T @ np.linalg.solve(joint, rewards)
        found = bank[k, ridge.THETA : ridge.THETA + DIM]
        np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=f"guess {k}")
        whole = np.zeros((DIM, DIM))
        whole[np.tril_indices(DIM)] = bank[k, ridge.THETA + DIM : -3]
        covariance = 1e4 * np.eye(DIM) - 1e8 * xs.T @ np.linalg.solve(joint, xs)
        np.testing.assert_allclose(np.diag(whole), np.diag(covariance), rtol=0.01, err_msg=f"guess {k}")
    mine = np.array(users) == users[0]
    np.testing.assert_allclose(sums[users[0]][:DIM], xs[mine].T @ rewards[mine])
    np.testing.assert_allclose(sums[users[0]][DIM:], (xs[mine].T @ xs[mine])[np.tril_indices(DIM)])


@pytest.mark.parametrize(("spread", "noise"), [(0.8, 0.1), (0.1, 0.1), (0.3, 0.5)])
@pytest.mark.parametrize("unit", [1.0, 1024.0])
def test_spread_and_noise_are_found(spread, noise, unit):
    """Guesses are a factor of 4 apart in tau^2, so that the nearest is off by at most 2, and chance adds some."""
    users, xs, rewards = world(4000, spread, noise, users=400)
    bank, _ = learned(users, unit * xs, rewards, square=unit**2)
    mean, packed = np.empty(DIM), np.empty(DIM * (DIM + 1) // 2)
    found = pooling.belief(bank, unit**2, 1.0 / unit**2, mean, packed)
    np.testing.assert_allclose(found**0.5, noise, rtol=0.1)
    np.testing.assert_allclose(unit * packed[0] ** 0.5, spread, rtol=0.6)
    np.testing.assert_allclose(unit * mean, [1.0, 0.0, -0.5], atol=4.0 * spread / 20.0 + 0.05)


def test_scopes_that_are_alike_get_no_spread():
    users, xs, rewards = world(4000, 0.0, 0.1, users=400)
    bank, _ = learned(users, xs, rewards)
    mean, packed = np.empty(DIM), np.empty(DIM * (DIM + 1) // 2)
    pooling.belief(bank, 1.0, 1.0, mean, packed)
    assert packed[0] < 0.02**2


def test_a_scope_with_many_rewards_does_not_decide_alone():
    """2,000 rewards of one user who likes 5, five rewards each of 50 users who like 1: the next one likes about 1."""
    rng = np.random.default_rng(0)
    who = [0] * 2000 + [user for user in range(1, 51) for _ in range(5)]
    tastes = np.where(np.array(who)[:, None] == 0, 5.0, 1.0) * np.ones((1, DIM))
    order = rng.permutation(len(who))
    xs = rng.standard_normal((len(who), DIM))
    rewards = (xs * tastes).sum(axis=1) + 0.1 * rng.standard_normal(len(who))
    bank, _ = learned([who[i] for i in order], xs[order], rewards[order], square=3.0)
    mean, packed = np.empty(DIM), np.empty(DIM * (DIM + 1) // 2)
    pooling.belief(bank, 3.0, 25.0, mean, packed)
    np.testing.assert_allclose(mean, 1.0, atol=0.3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
def test_what_cannot_be_used_changes_nothing(bad):
    users, xs, rewards = world(20, 0.3, 0.1)
    bank, sums = learned(users, xs, rewards)
    before, own = bank.copy(), sums[users[0]].copy()
    x = np.array([0.1, bad, 0.1])
    assert not pooling.learn(bank, sums[users[0]], 1.0, x, 1.0)
    np.testing.assert_array_equal(bank, before)
    np.testing.assert_array_equal(sums[users[0]], own)


def test_a_column_that_is_always_0_stays_vague_and_finite():
    rng = np.random.default_rng(0)
    bank, sums = np.zeros((pooling.GUESSES, pooling.guess_size(2))), np.zeros(pooling.sums_size(2))
    pooling.start(bank, 1.0, 2)
    for _ in range(3000):
        sums[:] = 0.0  # always a new scope, which tells most
        x = np.array([1.0, 0.0])
        pooling.learn(bank, sums, 1.0, x, 0.5 + 0.1 * rng.standard_normal())
    assert np.isfinite(bank).all()
    assert (bank[:, ridge.THETA + 2 + 2] == 1e4).all()
