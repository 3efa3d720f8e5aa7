import math

import numpy as np
import pytest

from driftbandit import GLRklUCB
from driftbandit.kernels import arms as kernel
from driftbandit.kernels import glr


def two_arms(restart):
    """Arm 1 is steady, arm 2 jumps after 20 of its own plays."""
    policy = GLRklUCB(delta=0.01, restart=restart)
    for _ in range(30):
        policy.learn(None, 0.6, arm=1)
    for reward in [0.0] * 20 + [1.0] * 4:
        changes = policy.learn(None, reward, arm=2)
    assert [(change.kind, change.round, change.member) for change in changes] == [("restarted", 54, 2)]
    assert changes[0].evidence == pytest.approx({"statistic": 10.813, "threshold": 9.372, "changed_at": 50}, abs=5e-4)
    return policy


def test_a_global_alarm_restarts_all_arms():
    policy = two_arms("global")
    assert len(policy._table) == 0
    assert policy.choose(None, arms=[1, 2]) in {0, 1}


def test_a_local_alarm_restarts_its_arm_only():
    policy = two_arms("local")
    assert policy._table.find(1)[kernel.COUNT] == 30
    assert policy._table.find(2)[kernel.COUNT] == 0
    assert policy._table.plays == 54
    assert policy.choose(None, arms=[1, 2]) == 1  # as if never played


def kl_index(mean, level):
    grid = np.linspace(mean, 1.0, 2_000_001)[:-1]
    kl = mean * np.log(mean / grid) + (1 - mean) * np.log((1 - mean) / (1 - grid))
    return grid[kl <= level][-1]


def test_a_local_alarm_starts_the_clock_of_its_arm():
    """ln(t - tau) / n: for arm 1 t = 60, for arm 2 t - tau = 6 of its own rounds."""
    policy = GLRklUCB(delta=0.01, restart="local", forced_share=0.0)
    for _ in range(30):
        policy.learn(None, 0.6, arm=1)
    for reward in [0.0] * 20 + [1.0] * 4:
        policy.learn(None, reward, arm=2)
    for _ in range(6):
        policy.learn(None, 0.55, arm=2)
    first, second = kl_index(0.6, math.log(60) / 30), kl_index(0.55, math.log(6) / 6)
    with_t = kl_index(0.55, math.log(60) / 6)
    assert first < second < with_t
    # Bring arm 1 to where the two readings disagree: above ln 6, below ln 60.
    policy._table.find(1)[kernel.MEAN] = 0.77
    assert second < kl_index(0.77, math.log(60) / 30) < with_t
    assert policy.choose(None, arms=[1, 2]) == 0


def forced_share(policy, rounds):
    """Share of the rounds in which an arm is played that no index would pick."""
    worst = 0
    for _ in range(rounds):
        index = policy.choose(None, np.arange(5))
        worst += index != 0
        policy.learn(None, 0.95 if index == 0 else 0.0, arm=int(index))
    return worst / rounds


def test_the_share_of_forced_rounds():
    """alpha_0 = .049758 at K = 5 and T = 20,000; 4 of 5 forced rounds show, and kl-UCB explores a little itself."""
    policy = GLRklUCB(horizon=20_000)
    for arm in range(5):
        policy.learn(None, 0.5, arm=arm)
    assert policy._share() == pytest.approx(0.049758, abs=5e-7)
    policy.alarms = 3
    assert policy._share() == pytest.approx(2 * 0.049758, abs=1e-6)
    policy.alarms = 10_000
    assert policy._share() == 0.5
    assert forced_share(GLRklUCB(horizon=20_000, delta=1e-300), 5000) == pytest.approx(0.8 * 0.049758, abs=0.01)


def test_tests_can_be_made_rarer():
    policy = GLRklUCB(delta=0.01, check_every=10)
    fired = [n for n, reward in enumerate([0.0] * 20 + [1.0] * 10, 1) if policy.learn(None, reward, arm=1)]
    assert fired == [30]


def test_delta_follows_from_the_horizon():
    assert GLRklUCB(horizon=10_000).delta == pytest.approx(0.01)
    assert GLRklUCB(horizon=10_000, delta=0.2).delta == 0.2


def test_a_state_with_more_splits_than_there_is_room_for_is_refused():
    policy = two_arms("local")
    state = policy.state()
    state["table.stats"][0, kernel.COLUMNS + 2 + glr.SPLITS] = 201
    with pytest.raises(ValueError, match="splits"):
        GLRklUCB().restore(state)
