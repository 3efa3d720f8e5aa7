"""Ridge regression under a prior that changes, against the textbook's posterior."""

import numpy as np
import pytest

from driftbandit import LinUCB
from driftbandit.models import PriorRidge, Radius

DIM = 3
MEAN = np.array([0.5, -1.0, 2.0])
SPREAD = np.array([[1.0, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 2.0]])


def rewards(count, seed=0):
    rng = np.random.default_rng(seed)
    xs = rng.standard_normal((count, DIM))
    return xs, xs @ [1.0, 0.0, -1.0] + 0.3 * rng.standard_normal(count)


def posterior(xs, ys, mean, spread, noise):
    precision = np.linalg.inv(spread) + xs.T @ xs / noise
    covariance = np.linalg.inv(precision)
    return covariance @ (np.linalg.solve(spread, mean) + xs.T @ ys / noise), covariance


@pytest.mark.parametrize("before", [0, 7])
@pytest.mark.parametrize("between", [0, 7])
def test_a_belief_gives_the_posterior_whenever_it_comes(before, between):
    xs, ys = rewards(before + between + 5)
    policy = LinUCB(DIM, ridge=0.3, explore=0.7)
    for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if t == before:
            policy.believe(np.ones(DIM), 9.0 * np.eye(DIM), 4.0)
        if t == before + between:
            policy.believe(MEAN, SPREAD, 0.09)
        policy.learn(x, y)
    mean, covariance = posterior(xs, ys, MEAN, SPREAD, 0.09)
    np.testing.assert_allclose(policy.feature_weights, mean, rtol=1e-9)
    predicted, width = policy.reward_model.predict(policy.leading_row, xs[0])
    assert predicted == pytest.approx(xs[0] @ mean)
    assert width == pytest.approx(0.7 * np.sqrt(xs[0] @ covariance @ xs[0]))
    pool = rewards(50, seed=1)[0]
    scores = pool @ mean + 0.7 * np.sqrt(np.einsum("ij,jk,ik->i", pool, covariance, pool))
    assert policy.choose(pool) == int(np.argmax(scores))


def test_earlier_beliefs_leave_no_trace():
    xs, ys = rewards(20)
    straight, detour = LinUCB(DIM), LinUCB(DIM)
    for policy in (straight, detour):
        policy.believe(MEAN, SPREAD, 1.0)
    for x, y in zip(xs, ys, strict=True):
        straight.learn(x, y)
        detour.believe(x, np.diag(1.0 + x**2), 1.0 + y**2)
        detour.learn(x, y)
    for policy in (straight, detour):
        policy.believe(MEAN, SPREAD, 0.09)
    for name, array in straight.state().items():
        np.testing.assert_array_equal(array, detour.state()[name])


def test_until_it_is_told_something_a_row_is_that_of_linucb():
    plain = LinUCB(DIM, ridge=0.3)
    told = LinUCB(DIM, ridge=0.3)
    told.believe(np.zeros(DIM), np.eye(DIM) / 0.3, 1.0)
    pools = np.random.default_rng(3).standard_normal((50, 10, DIM))
    for pool, (x, y) in zip(pools, zip(*rewards(50), strict=True), strict=True):
        assert told.choose(pool) == plain.choose(pool)
        plain.learn(x, y)
        told.learn(x, y)


def test_a_growing_radius_is_in_units_of_the_noise():
    radius = Radius(scale=2.0, growth=1.0, constant=0.5, offset=0.1)
    model = PriorRidge(DIM, ridge=0.3, explore=radius)
    row = np.empty(model.size)
    model.reset(row)
    x = np.array([1.0, 0.0, 0.0])
    assert model.update(row, x, 1.0)
    assert model.believe(row, MEAN, SPREAD, 0.09)
    _, covariance = posterior(x[None], np.array([1.0]), MEAN, SPREAD, 0.09)
    assert model.predict(row, x)[1] == pytest.approx(radius.at(1, DIM) * np.sqrt(covariance[0, 0]))


@pytest.mark.parametrize(
    ("mean", "spread", "noise", "message"),
    [
        (np.ones(2), SPREAD, 1.0, r"^mean: expected finite numbers of shape \(3,\)"),
        ([0.0, np.nan, 0.0], SPREAD, 1.0, r"^mean: expected finite numbers"),
        ("abc", SPREAD, 1.0, r"^mean: expected real numbers"),
        (None, SPREAD, 1.0, r"^mean: expected"),
        (MEAN, np.ones(3), 1.0, r"^spread: expected finite numbers of shape \(3, 3\)"),
        (MEAN, np.full((3, 3), np.inf), 1.0, r"^spread: expected finite numbers"),
        (MEAN, [[1.0], [2.0, 3.0]], 1.0, r"^spread: expected real numbers"),
        (MEAN, -np.eye(3), 1.0, r"^spread: expected a positive definite matrix"),
        (MEAN, np.zeros((3, 3)), 1.0, r"^spread: expected a positive definite matrix"),
        (MEAN, SPREAD, 0.0, r"^noise: expected a finite number above 0"),
        (MEAN, SPREAD, np.nan, r"^noise: expected a finite number above 0"),
        (MEAN, SPREAD, "loud", r"^noise: expected a finite number above 0"),
    ],
)
@pytest.mark.parametrize("told", [False, True])
def test_bad_beliefs_are_named_and_change_nothing(mean, spread, noise, message, told):
    policy = LinUCB(DIM)
    policy.learn(np.ones(DIM), 1.0)
    if told:
        policy.believe(MEAN, SPREAD, 0.5)
    before = policy.state()
    with pytest.raises(ValueError, match=message):
        policy.believe(mean, spread, noise)
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_policy_that_takes_no_belief_says_so():
    from driftbandit import UCB1

    with pytest.raises(NotImplementedError, match="UCB1 takes no belief"):
        UCB1().believe(MEAN, SPREAD, 1.0)


def test_huge_sums_leave_the_policy_usable():
    policy = LinUCB(DIM)
    policy.believe(MEAN, SPREAD, 1.0)
    policy.learn([1e6, 0.0, 0.0], 1e90)
    policy.learn([1.0, 1e6, 1e6], 1.0)
    policy.believe(MEAN, 1e-9 * SPREAD, 1e-9)
    assert policy.choose(np.eye(DIM)) in range(DIM)
