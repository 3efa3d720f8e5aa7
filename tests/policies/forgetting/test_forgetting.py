"""D-LinUCB, SW-LinUCB and RestartLinUCB: policies that forget by the clock."""

import math

import numpy as np
import pytest

from driftbandit import DiscountedLinUCB, DLinUCB, LinUCB, PerArm, Radius, RestartLinUCB, SWLinUCB, simulate, synthetic
from driftbandit.kernels import ridge as kernel
from driftbandit.models.discounted import DiscountedModel
from driftbandit.models.windowed import WindowedModel, window_radius

EXAMPLES = (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.5), ([1.0, 1.0], 1.0))


def symmetric(triangle):
    dim = int((math.sqrt(8 * len(triangle) + 1) - 1) / 2)
    whole = np.zeros((dim, dim))
    whole[np.tril_indices(dim)] = triangle
    return whole + np.tril(whole, -1).T


def parts_of(row, dim):
    """Theta, V^-1 W V^-1, b, V and W of a discounted row."""
    half = dim * (dim + 1) // 2
    theta, spread, moment, gram, noise_gram = np.split(row[1:], np.cumsum([dim, half, dim, half]))
    return theta, symmetric(spread), moment, symmetric(gram), symmetric(noise_gram)


def test_d_linucb_by_hand():
    policy = DiscountedLinUCB(2, noise=0.1, discount=0.9, ridge=1.0, delta=0.01)
    for x, reward in EXAMPLES:
        policy.learn(x, reward)
    theta, spread, _, gram, noise_gram = parts_of(policy.leading_row, 2)
    np.testing.assert_allclose(gram, [[2.81, 1.0], [1.0, 2.9]], rtol=1e-14)
    np.testing.assert_allclose(noise_gram, [[2.6561, 1.0], [1.0, 2.81]], rtol=1e-14)
    np.testing.assert_allclose(theta, [0.53140299, 0.31675759], atol=5e-9)
    # With W made from V, as in the authors' code, it would be 0.65893439; with V^-1 alone 0.63690748.
    assert math.sqrt(spread[0, 0]) == pytest.approx(0.61527676, abs=5e-9)
    mean, width = policy.reward_model.predict(policy.leading_row, np.array([1.0, 0.0]))
    assert width / math.sqrt(spread[0, 0]) == pytest.approx(1.32889325, abs=5e-9)
    assert mean == pytest.approx(theta[0])


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_d_linucb_follows_its_definition(dim):
    rng = np.random.default_rng(dim)
    discount, ridge = 0.9, 0.3
    policy = DiscountedLinUCB(dim, noise=0.1, discount=discount, ridge=ridge, explore=0.4)
    seen = []
    for _ in range(150):
        pool = rng.standard_normal((6, dim))
        x, rewards = np.array([x for x, _ in seen]).reshape(-1, dim), np.array([reward for _, reward in seen])
        weights = discount ** np.arange(len(seen))[::-1]
        inverse = np.linalg.inv(ridge * np.eye(dim) + (weights[:, None] * x).T @ x)
        noise_gram = ridge * np.eye(dim) + (weights[:, None] ** 2 * x).T @ x
        theta, spread = inverse @ (x.T @ (weights * rewards)), inverse @ noise_gram @ inverse
        found = parts_of(policy.leading_row, dim)
        np.testing.assert_allclose(found[0], theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[1], spread, rtol=1e-9, atol=1e-12)
        scores = pool @ theta + 0.4 * np.sqrt(np.einsum("kd,de,ke->k", pool, spread, pool))
        index = policy.choose(pool)
        assert index == int(np.argmax(scores))
        reward = float(pool[index].sum() + rng.standard_normal())
        policy.learn(pool[index], reward)
        seen.append((pool[index], reward))


def test_the_radius_of_d_linucb_settles():
    """The sum of squared weights, not the number of rewards, drives it."""
    policy = DiscountedLinUCB(2, noise=0.1, discount=0.9)
    for t in range(1, 200):
        policy.learn([0.5, 0.5], 0.0)
        assert policy.leading_row[0] == pytest.approx((1 - 0.9 ** (2 * t)) / (1 - 0.81))


@pytest.mark.parametrize(
    "limit",
    [
        lambda explore: DiscountedLinUCB(10, 0.1, discount=1.0, ridge=0.1, explore=explore),
        lambda explore: SWLinUCB(10, 0.1, window=1500, ridge=0.1, explore=explore),
        lambda explore: RestartLinUCB(10, 0.1, period=1500, ridge=0.1, explore=explore),
    ],
    ids=["discount 1", "a window as long as the horizon", "a period as long as the horizon"],
)
@pytest.mark.parametrize("growing", [False, True])
def test_without_forgetting_they_are_linucb(limit, growing):
    explore = Radius.abbasi_yadkori(10, noise=0.1, ridge=0.1, delta=0.01) if growing else 0.3
    rounds = synthetic("table1", seed=5, horizon=1500)
    expected = simulate(LinUCB(10, ridge=0.1, explore=explore), rounds)
    trace = simulate(limit(explore), rounds)
    np.testing.assert_array_equal(trace.choices, expected.choices)
    assert trace.changes == ()


def test_the_discount_matters():
    rounds = synthetic("table1", seed=5, horizon=1500)
    regrets = [
        simulate(DiscountedLinUCB(10, 0.05, discount=discount, ridge=0.1, explore=0.05), rounds).regret.sum()
        for discount in (0.98, 1.0)
    ]
    assert regrets[0] < 0.5 * regrets[1]


@pytest.mark.parametrize(
    ("dim", "window", "ridge"), [(1, 1, 0.1), (3, 5, 0.1), (10, 7, 0.1), (5, 100, 1e-3), (10, 40, 1.0)]
)
def test_a_window_equals_one_built_from_scratch_every_round(dim, window, ridge):
    rng = np.random.default_rng(window)
    model = WindowedModel(dim, window=window, ridge=ridge, explore=0.0)
    row = np.empty(model.size)
    model.reset(row)
    features, rewards = rng.standard_normal((5 * window + 20, dim)), rng.standard_normal(5 * window + 20)
    for t in range(len(features)):
        model.update(row, features[t], rewards[t])
        last = slice(max(0, t + 1 - window), t + 1)
        gram = ridge * np.eye(dim) + features[last].T @ features[last]
        inverse = symmetric(row[1 + dim : kernel.row_size(dim)])
        np.testing.assert_allclose(inverse @ gram, np.eye(dim), atol=1e-9)
        theta = np.linalg.solve(gram, features[last].T @ rewards[last])
        np.testing.assert_allclose(row[1 : 1 + dim], theta, rtol=1e-8, atol=1e-9)
        assert row[0] == min(t + 1, window)
        assert np.linalg.eigvalsh(np.linalg.inv(inverse)).min() >= ridge * (1 - 1e-9)


def test_a_window_survives_one_huge_reward_and_features_in_between():
    """What leaves takes most of A with it; the rank-one formula alone would keep its rounding errors."""
    rng = np.random.default_rng(1)
    model = WindowedModel(3, window=10, ridge=0.1, explore=0.0)
    row, fresh = np.empty(model.size), np.empty(model.size)
    model.reset(row)
    for t in range(1, 40):
        model.update(row, rng.standard_normal(3) * (1e6 if t == 13 else 1.0), 1e9 if t == 13 else 1.0)
        if t == 23:  # just gone, and the ring has not come round
            model.reset(fresh)
            ring = row[kernel.row_size(3) + 1 :].reshape(10, 4)
            for entry in np.roll(ring, -3, axis=0):
                model.update(fresh, entry[:3].copy(), float(entry[3]))
            np.testing.assert_allclose(row[: kernel.row_size(3)], fresh[: kernel.row_size(3)], rtol=1e-9)


def test_a_window_is_made_anew_whenever_its_ring_has_gone_round():
    rng = np.random.default_rng(2)
    model = WindowedModel(3, window=10, ridge=0.1, explore=0.0)
    row, fresh = np.empty(model.size), np.empty(model.size)
    model.reset(row)
    for t in range(1, 51):
        model.update(row, rng.standard_normal(3), float(rng.standard_normal()))
        if t % 10 == 0:
            model.reset(fresh)
            for entry in row[kernel.row_size(3) + 1 :].reshape(10, 4):
                model.update(fresh, entry[:3].copy(), float(entry[3]))
            np.testing.assert_array_equal(row, fresh)  # to the last bit: no error is older than one window


def test_what_left_the_window_leaves_no_trace():
    rng = np.random.default_rng(3)
    past, present = SWLinUCB(4, 0.1, window=30, explore=0.2), SWLinUCB(4, 0.1, window=30, explore=0.2)
    for x in rng.standard_normal((47, 4)):
        past.learn(x, 100.0)
    for x in rng.standard_normal((30, 4)):
        past.learn(x, float(x.sum()))
        present.learn(x, float(x.sum()))
    size = kernel.row_size(4)
    np.testing.assert_allclose(past.leading_row[:size], present.leading_row[:size], rtol=1e-9, atol=1e-11)


def test_the_radius_of_sw_linucb():
    expected = 0.1 * math.sqrt(10 * math.log((1 + 200 / 1.0) / 0.01)) + 1.0
    assert window_radius(10, 200, noise=0.1, ridge=1.0, delta=0.01).at(123, 10) == pytest.approx(expected)
    policy = SWLinUCB(10, 0.1, window=200)
    _, width = policy.reward_model.predict(policy.leading_row, np.eye(10)[0])
    assert width == pytest.approx(expected)  # A^-1 = I


def test_restart_linucb_is_new_at_every_multiple_of_its_period():
    rng = np.random.default_rng(4)
    policy, fresh = RestartLinUCB(3, 0.1, period=50), RestartLinUCB(3, 0.1, period=50)
    for t, x in enumerate(rng.standard_normal((125, 3)), 1):
        assert policy.learn(x, float(x.sum())) == ()
        alike = np.array_equal(policy.leading_row, fresh.leading_row)
        assert alike == (t % 50 == 0)


@pytest.mark.parametrize("policy", [DiscountedLinUCB, SWLinUCB], ids=lambda policy: policy.__name__)
def test_they_can_stand_for_an_article_each(policy):
    news = PerArm(policy(2, 0.1, explore=0.1))
    young, old = np.eye(2)
    for user, article, click in ((young, 7, 1.0), (young, 8, 0.0), (old, 7, 0.0), (old, 8, 1.0)):
        news.learn(user, click, arm=article)
    assert [news.choose(np.tile(user, (2, 1)), arms=[7, 8]) for user in (young, old)] == [0, 1]


def test_a_discounted_model_can_be_a_member():
    rng = np.random.default_rng(0)
    policy = DLinUCB(3, 0.1, model=DiscountedModel)
    for t in range(400):
        pool = rng.standard_normal((5, 3)) / 2.0
        x = pool[policy.choose(pool)]
        policy.learn(x, float(x.sum()) * (0.5 if t < 200 else -0.5))
    assert [change.kind for change in policy.changes][:1] == ["spawned"]


@pytest.mark.parametrize(
    ("policy", "setting", "value"),
    [
        (DiscountedLinUCB, "discount", 0.0),
        (DiscountedLinUCB, "discount", 1.1),
        (SWLinUCB, "window", 0),
        (SWLinUCB, "window", 2.5),
        (RestartLinUCB, "period", 0),
        *((policy, "ridge", 0.0) for policy in (DiscountedLinUCB, SWLinUCB, RestartLinUCB)),
        *((policy, "explore", -1.0) for policy in (DiscountedLinUCB, SWLinUCB, RestartLinUCB)),
        *((policy, "delta", 0.0) for policy in (DiscountedLinUCB, SWLinUCB, RestartLinUCB)),
    ],
)
def test_bad_settings(policy, setting, value):
    with pytest.raises(ValueError, match=setting):
        policy(3, 0.1, **{setting: value})
    with pytest.raises(ValueError, match="noise"):
        policy(3, -1.0)
