"""ExpDiscounts and BOB: policies that choose on the way how much to remember."""

import math

import numpy as np
import pytest

from driftbandit import BOB, DiscountedLinUCB, ExpDiscounts, LinUCB, SWLinUCB, simulate, synthetic


def test_one_discount_is_d_linucb():
    rounds = synthetic("table1", seed=8, horizon=1200)
    one = ExpDiscounts(10, 0.05, discounts=(0.98,), ridge=0.1, explore=0.05)
    trace = simulate(one, rounds)
    expected = simulate(DiscountedLinUCB(10, 0.05, discount=0.98, ridge=0.1, explore=0.05), rounds)
    np.testing.assert_array_equal(trace.choices, expected.choices)
    stays = ExpDiscounts(10, 0.05, discounts=(1.0,), ridge=0.1, explore=0.05)
    expected = simulate(LinUCB(10, ridge=0.1, explore=0.05), rounds)
    np.testing.assert_array_equal(simulate(stays, rounds).choices, expected.choices)


def test_the_weights_by_hand():
    policy = ExpDiscounts(1, 0.5, discounts=(1.0, 0.5), rate=2.0, share=0.1, ridge=1.0, reward_range=(0.0, 2.0))
    policy.learn([1.0], 1.0)  # both predicted 0: a tie
    assert policy.weights == {1.0: 0.5, 0.5: 0.5}
    assert policy.discount == 1.0
    policy.learn([1.0], 0.0)  # both predict 1 / 2
    assert policy.weights == {1.0: 0.5, 0.5: 0.5}
    policy.learn([1.0], 0.0)
    # Without a discount theta was 1 / 3; with it 0.5 / (1 + 1 + 0.5) = 0.2.
    losses = np.array([(1 / 3 / 2) ** 2, (0.2 / 2) ** 2])
    raw = np.exp(-2.0 * losses)
    expected = 0.9 * raw / raw.sum() + 0.05
    np.testing.assert_allclose(list(policy.weights.values()), expected, rtol=1e-12)
    assert policy.discount == 0.5


def test_losses_are_clipped_to_the_reward_range():
    policy = ExpDiscounts(1, 0.1, discounts=(1.0, 0.9), rate=1.0, share=0.0, reward_range=(0.0, 1.0))
    for reward in (5.0, -5.0, 1e50):
        policy.learn([1.0], reward)
    weights = np.array(list(policy.weights.values()))
    assert np.isfinite(weights).all()
    assert weights.min() >= math.exp(-3) / 2


def test_weight_goes_where_it_belongs():
    still = ExpDiscounts(10, 0.1, reward_range=(-1.4, 1.4), ridge=0.1, explore=0.1)
    simulate(still, synthetic("stationary", seed=9, horizon=2000))
    assert still.discount >= 0.999
    turning = ExpDiscounts(10, 0.1, reward_range=(-1.4, 1.4), ridge=0.1, explore=0.1)
    simulate(turning, synthetic("rotation", seed=9, horizon=5000))
    assert 0.95 <= turning.discount <= 0.99


def test_it_comes_close_to_the_best_discount_without_being_told():
    rounds = synthetic("rotation", seed=10)
    regrets = [
        simulate(DiscountedLinUCB(10, 0.1, discount=discount, ridge=0.1, explore=0.1), rounds).regret.sum()
        for discount in (1.0, 0.999, 0.99, 0.98, 0.95)
    ]
    policy = ExpDiscounts(10, 0.1, reward_range=rounds.reward_range, ridge=0.1, explore=0.1)
    assert simulate(policy, rounds).regret.sum() <= 1.3 * min(regrets)


def test_forced_arms_are_uniform_and_rare():
    policy = ExpDiscounts(2, 0.1, forced=0.2, explore=0.0, seed=1)
    policy.learn([1.0, 0.0], 1.0)
    picks = np.bincount([policy.choose(np.eye(2)) for _ in range(5000)], minlength=2)
    assert picks[1] / 5000 == pytest.approx(0.1, abs=0.02)  # half of the forced ones; 4 standard errors
    state = policy.state()
    with pytest.raises(ValueError, match="features"):
        policy.choose([[math.nan, 0.0]])
    assert all(np.array_equal(state[name], array) for name, array in policy.state().items())


def test_bob_by_the_book():
    policy = BOB(5, 0.1, horizon=10_000)
    assert (policy.block, len(policy.windows)) == (500, 8)
    assert policy.windows == (1, 2, 5, 14, 34, 84, 205, 500)
    assert policy.mixing == pytest.approx(0.69575471, abs=5e-9)
    np.testing.assert_allclose(policy.probabilities, 1 / 8)
    for block in (1, 2, 3, 7, 100, 707, 1000, 2500):
        windows = BOB(1, 0.1, block=block).windows
        assert (windows[0], windows[-1]) == (1, block)
        assert len(windows) == math.ceil(math.log(block)) + 1


def test_bob_with_one_window_is_a_restarted_sw_linucb():
    rounds = synthetic("table1", seed=11, horizon=1000)
    policy = BOB(10, 0.05, block=200, windows=(50,), ridge=0.1, explore=0.05)
    assert policy.mixing == 0.0
    trace = simulate(policy, rounds)
    assert trace.changes == ()
    for start in range(0, 1000, 200):
        fresh = SWLinUCB(10, 0.05, window=50, ridge=0.1, explore=0.05)
        for t in range(start, start + 200):
            pool = rounds.catalogue[rounds.pools[t]]
            assert fresh.choose(pool) == trace.choices[t]
            fresh.learn(pool[trace.choices[t]], rounds.rewards[t, trace.choices[t]])


def test_every_window_of_bob_keeps_its_own_radius():
    policy = BOB(3, 0.1, block=30, windows=(2, 30), seed=3)
    for _ in range(300):
        expected = SWLinUCB(3, 0.1, window=policy.window)
        x = np.array([0.3, -0.2, 0.5])
        _, width = policy.reward_model.predict(policy.leading_row, x)
        if policy.rounds % 30 == 0:
            assert width == pytest.approx(expected.reward_model.predict(expected.leading_row, x)[1])
        policy.learn(x, 0.5)


def test_the_scores_of_bob_by_hand():
    policy = BOB(1, 0.1, horizon=100, block=10, windows=(2, 5), mixing=0.4, seed=0)
    picked = policy._pick
    for reward in [1.0] * 6 + [-1.0] * 4:
        policy.learn([1.0], reward)
    # H + 2 R sqrt(H ln(T / sqrt(H))); the note's code has ln(T / ln H).
    most = 10 + 2 * 0.1 * math.sqrt(10 * math.log(100 / math.sqrt(10)))
    expected = [0.0, 0.0]
    expected[picked] = 0.4 / (2 * 0.5) * (0.5 + 2.0 / (2 * most))
    np.testing.assert_allclose(policy._scores, expected, rtol=1e-12)
    shares = np.exp(expected) / np.exp(expected).sum()
    np.testing.assert_allclose(policy.probabilities, 0.6 * shares + 0.2)
    assert policy._earned.tolist() == [0.0]


def test_bob_maps_rewards_by_their_range():
    plain = BOB(1, 0.1, horizon=100, block=10, windows=(2, 5), mixing=0.4)
    mapped = BOB(1, 50.0, horizon=100, block=10, windows=(2, 5), mixing=0.4, reward_range=(0.0, 1000.0))
    for reward in np.linspace(-1.0, 1.0, 10):
        plain.learn([1.0], float(reward))
        mapped.learn([1.0], float(500.0 * (reward + 1.0)))
    np.testing.assert_allclose(plain._scores, mapped._scores, rtol=1e-12)


def test_the_draws_of_bob_follow_its_probabilities():
    policy = BOB(1, 0.1, block=1, windows=(1, 2, 3), mixing=0.3, seed=4)
    policy._scores[:] = [0.0, 1.0, 2.0]
    expected = policy.probabilities
    assert expected.min() >= 0.1
    assert expected.sum() == pytest.approx(1.0)
    picks = []
    for _ in range(4000):
        policy._draw()
        picks.append(policy._pick)
    np.testing.assert_allclose(np.bincount(picks, minlength=3) / 4000, expected, atol=0.03)  # 4 standard errors


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (ExpDiscounts, {"discounts": ()}),
        (ExpDiscounts, {"discounts": (0.5, 2.0)}),
        (ExpDiscounts, {"rate": -1.0}),
        (ExpDiscounts, {"share": 1.5}),
        (ExpDiscounts, {"forced": -0.1}),
        (ExpDiscounts, {"reward_range": (1.0, 0.0)}),
        (ExpDiscounts, {"ridge": 0.0}),
        (BOB, {"horizon": 0}),
        (BOB, {"block": 0}),
        (BOB, {"windows": ()}),
        (BOB, {"windows": (0,)}),
        (BOB, {"mixing": 2.0}),
        (BOB, {"reward_range": (1.0, 1.0)}),
    ],
)
def test_bad_settings(policy, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        policy(3, 0.1, **settings)
