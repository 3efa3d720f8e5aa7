import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbandit import SWUCB
from driftbandit.kernels import arms as kernel


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.integers(-3, 3), st.floats(0, 1)), min_size=1, max_size=80))
def test_statistics_are_those_of_the_last_rewards(window, plays):
    policy = SWUCB(window=window)
    for t, (arm, reward) in enumerate(plays, 1):
        policy.learn(None, reward, arm=arm)
        recent = plays[max(0, t - window) : t]
        assert policy._table.plays == len(recent)
        for each in range(-3, 4):
            mine = [r for a, r in recent if a == each]
            entry = policy._table.find(each)
            assert (0.0 if entry is None else entry[kernel.COUNT]) == len(mine)
            if mine:
                assert policy._table.mean_of(each) == pytest.approx(np.mean(mine), abs=1e-9)


def test_the_index_by_hand():
    policy = SWUCB(window=4, explore=0.6)
    for arm, reward in ((1, 1.0), (1, 0.0), (2, 0.5), (1, 0.0), (1, 0.4)):
        policy.learn(None, reward, arm=arm)
    indices = 0.4 / 3 + math.sqrt(0.6 * math.log(4) / 3), 0.5 + math.sqrt(0.6 * math.log(4))
    assert policy.choose(None, arms=[1, 2]) == int(np.argmax(indices)) == 1


def test_old_rewards_have_no_influence_at_all():
    """Two runs that differ before round 100 are one run from round 100 + window on."""
    first, second = SWUCB(window=50, seed=1), SWUCB(window=50, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(100):
        first.learn(None, float(rng.random()), arm=int(rng.integers(4)))
        second.learn(None, float(rng.random()), arm=int(rng.integers(4)))
    for t in range(400):
        pool = rng.permutation(4)
        reward, arm = float(rng.random()), int(rng.integers(4))
        first.learn(None, reward, arm=arm)
        second.learn(None, reward, arm=arm)
        if t >= 50:
            assert first.choose(None, pool) == second.choose(None, pool)


def test_arms_that_left_the_window_are_dropped():
    policy = SWUCB(window=20)
    for arm in range(1000):
        policy.learn(None, 0.5, arm=arm)
        assert len(policy._table) <= 40
    assert len(policy._table) == 20  # a full turn
    assert policy.choose(None, arms=[999, 0]) == 1  # long forgotten, so new


def test_rounding_errors_do_not_pile_up():
    """Means are made anew at every turn of the ring: a fresh policy that saw the window only agrees to the bit."""
    rng = np.random.default_rng(1)
    policy = SWUCB(window=50)
    for _ in range(20):
        fresh = SWUCB(window=50)
        for arm, reward in zip(rng.integers(4, size=50).tolist(), rng.random(50).tolist(), strict=True):
            policy.learn(None, reward, arm=arm)
            fresh.learn(None, reward, arm=arm)
        assert [policy._table.mean_of(arm) for arm in range(4)] == [fresh._table.mean_of(arm) for arm in range(4)]


def test_an_offered_arm_without_plays_in_the_window_is_played_unless_there_is_a_prior():
    for prior, expected in ((0.0, 1), (5.0, 0)):
        policy = SWUCB(window=10, explore=0.1, prior_mean=0.2, prior_count=prior)
        policy.learn(None, 1.0, arm=2)
        for _ in range(10):
            policy.learn(None, 0.9, arm=1)
        assert policy.choose(None, arms=[1, 2]) == expected


def test_a_contradictory_state_is_refused():
    policy = SWUCB(window=5)
    for arm in (1, 2, 1, 3, 1, 2):
        policy.learn(None, 0.5, arm=arm)
    state = policy.state()
    for name, array in (("arms", np.array([9, 9, 9, 9, 9])), ("rounds", np.array(3)), ("table.plays", np.array(2.0))):
        with pytest.raises(ValueError, match="window"):
            SWUCB(window=5).restore(state | {name: array})


def test_published_tuning():
    assert SWUCB.for_horizon(10_000, changes=2).window == 429  # 429.19
    assert SWUCB().window == SWUCB.for_horizon(10_000, changes=5).window
