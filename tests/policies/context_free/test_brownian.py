import math

import numpy as np
import pytest

from driftbandit import BrownianRestless


def reflected_walks(arms, rounds, step, seed):
    steps = step * np.random.default_rng(seed).standard_normal((rounds, arms))
    start = np.random.default_rng([seed, 1]).random(arms)
    path = np.mod(start + np.cumsum(steps, axis=0), 2.0)
    return np.where(path > 1.0, 2.0 - path, path)


def average_regret(policy, means, clicks):
    arms, regret = np.arange(means.shape[1]), 0.0
    for t, mean in enumerate(means):
        index = policy.choose(None, arms)
        regret += mean.max() - mean[index]
        seen = mean[index] if clicks is None else float(clicks[t, index] < mean[index])
        policy.learn(None, seen, arm=int(index))
    return regret / len(means)


def test_phases_end_on_time():
    """sqrt(3 ln(1 / .01)) / .01 = 371.7: the 372nd reward of a phase is its last."""
    policy = BrownianRestless(volatility=0.01)
    sizes = []
    for t in range(800):
        policy.learn(None, 0.5, arm=t % 3)
        sizes.append(len(policy._table))
    assert math.sqrt(3 * math.log(100)) / 0.01 == pytest.approx(371.69, abs=0.01)
    assert [t + 1 for t, size in enumerate(sizes) if size == 0] == [372, 744]


def test_a_phase_of_ones_own():
    policy = BrownianRestless(phase=10)
    for t in range(1, 31):
        policy.learn(None, 0.5, arm=t % 4)
        assert policy._table.plays == t % 10


def test_with_means_revealed_only_the_last_look_counts():
    policy = BrownianRestless(reveals="mean")
    for mean in (0.9, 0.1, 0.4):
        policy.learn(None, mean, arm=1)
    assert policy._table.mean_of(1) == 0.4
    assert policy._table.plays == 3


def test_suspicion_grows_with_age_and_the_longest_wait_is_looked_at_first():
    """c sigma sqrt(s ln(1 / sigma)) with c = 2, sigma = .01: .0429 sqrt(s)."""
    policy = BrownianRestless(volatility=0.01, reveals="mean", suspicion=2.0)
    for arm, mean in ((1, 0.5), (2, 0.72), (3, 0.8)):
        policy.learn(None, mean, arm=arm)
    # Round 3: arm 1 waited 3 rounds and is .3 behind (.074 allowed), arm 2 waited 2 and is .08 behind (.061 allowed).
    assert policy.choose(None, arms=[1, 2, 3]) == 2
    for _ in range(2):
        policy.learn(None, 0.8, arm=3)
    # Round 5: arm 2 waited 4 and is allowed .0858.
    assert policy.choose(None, arms=[1, 2, 3]) == 1
    assert policy.choose(None, arms=[1, 3]) == 1
    policy.learn(None, 0.72, arm=2)
    assert policy.choose(None, arms=[1, 2, 3]) == 2  # round 6 is one for the leader
    for _ in range(43):
        policy.learn(None, 0.8, arm=3)
    # Round 49: arm 1 waited 49 and is allowed .3004; arm 2 is suspicious too, but waited less.
    assert policy.choose(None, arms=[1, 2, 3]) == 0


def test_arms_age_while_they_are_not_offered():
    policy = BrownianRestless(volatility=0.01, reveals="mean")
    policy.learn(None, 0.5, arm=1)
    for _ in range(100):
        policy.learn(None, 0.8, arm=2)
    assert policy.rounds % 2 == 1
    assert policy.choose(None, arms=[1, 2]) == 0


def test_in_a_still_world_with_means_revealed_it_is_greedy():
    policy = BrownianRestless(volatility=0.0, reveals="mean")
    means = np.array([0.2, 0.9, 0.9, 0.4])
    choices = []
    for _ in range(50):
        index = policy.choose(None, np.arange(4))
        choices.append(index)
        policy.learn(None, means[index], arm=int(index))
    assert sorted(choices[:4]) == [0, 1, 2, 3]
    assert set(choices[4:]) == {1}


@pytest.mark.parametrize("reveals", ["reward", "mean"])
def test_slower_walks_cost_less(reveals):
    """A tenth of the volatility costs less than half, as theory has it: sigma^(2/3), or sigma^2 where means show."""
    regret = {}
    for step in (0.02, 0.002):
        runs = []
        for seed in range(3):
            means = reflected_walks(4, 10_000, step, seed)
            clicks = None if reveals == "mean" else np.random.default_rng([seed, 2]).random(means.shape)
            policy = BrownianRestless(volatility=step, reveals=reveals, seed=seed)
            runs.append(average_regret(policy, means, clicks))
        regret[step] = np.mean(runs)
    assert regret[0.002] < regret[0.02] / 2


def test_a_look_at_the_means_beats_never_looking():
    """Against always playing the arm that was best at first."""
    means = reflected_walks(4, 5000, 0.01, seed=5)
    first = int(means[0].argmax())
    still = (means.max(axis=1) - means[:, first]).mean()
    assert average_regret(BrownianRestless(volatility=0.01, reveals="mean"), means, None) < still / 3
