import math

import numpy as np
import pytest

from driftbandit import MUCB


def test_arms_are_played_in_turn_at_the_start_of_every_period():
    """K = 4 and a share of .1: 4 rounds of every 40, by id, and nothing else after the widths have shrunk."""
    policy = MUCB(forced_share=0.1, threshold=1e9)
    choices = []
    for _ in range(4080):
        choices.append(policy.choose(None, np.arange(4)))
        policy.learn(None, float(choices[-1] == 0), arm=choices[-1])
    for period in (choices[4000:4040], choices[4040:]):
        assert period[:4] == [0, 1, 2, 3]
        assert sum(index != 0 for index in period[4:]) <= 1


def test_forced_rounds_go_to_the_offered_arm_with_the_fewest():
    policy = MUCB(forced_share=1.0, threshold=1e9)  # all rounds, once the first arm is known
    policy.learn(None, 1.0, arm=5)
    for pool, arm in (([5, 9], 5), ([9, 5], 9), ([5, 9, 2], 2), ([9, 2, 5], 2), ([9, 2, 5], 5)):
        index = policy.choose(None, pool)
        assert pool[index] == arm, pool
        policy.learn(None, 0.0, arm=arm)


def test_an_alarm_restarts_all_arms():
    policy = MUCB(window=20, threshold=6.0)
    for _ in range(10):
        policy.learn(None, 1.0, arm=1)
    for reward in [0.0] * 15 + [1.0] * 7:
        changes = policy.learn(None, reward, arm=2)
    assert [(change.kind, change.round, change.member) for change in changes] == [("restarted", 32, 2)]
    assert changes[0].evidence == {"statistic": 7.0, "threshold": 6.0}
    assert len(policy._table) == 0


def test_the_default_threshold_grows_with_the_arms():
    policy = MUCB(window=100, horizon=1000)
    for arm in range(7):
        policy.learn(None, 0.5, arm=arm)
    for reward in [0.0] * 50 + [1.0] * 50:
        changes = policy.learn(None, reward, arm=3)
        if changes:
            break
    threshold = math.sqrt(50 * math.log(2 * 7 * 1000**2))
    assert changes[0].evidence["threshold"] == pytest.approx(threshold)
    # The ring is full with the 99th of these, 49 ones on top of 50 zeros and the .5 that came first.
    assert changes[0].evidence["statistic"] == pytest.approx(48.5)


def test_it_does_not_restart_merely_because_the_window_is_full():
    policy = MUCB(window=100, horizon=1000)
    rng = np.random.default_rng(0)
    assert not any(policy.learn(None, float(rng.random() < 0.5), arm=1) for _ in range(2000))


def test_published_tuning():
    policy = MUCB.for_horizon(20_000, changes=4, arms=5, window=200)
    assert policy.threshold == pytest.approx(47.0208041, abs=5e-8)
    assert policy.forced_share == pytest.approx(0.2612164, abs=5e-8)
    assert MUCB.for_horizon(20_000, changes=4, arms=5, shift=0.3).window == 2816  # 2814.18
