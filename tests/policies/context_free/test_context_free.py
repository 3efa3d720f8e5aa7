"""Policies that know arms by id only."""

import warnings

import numpy as np
import pytest

from driftbandit import (
    DUCB,
    MUCB,
    PHTUCB,
    SWUCB,
    UCB1,
    WMDUCB1,
    BrownianRestless,
    CusumUCB,
    GammaRestart,
    GLRklUCB,
    MetaBandit,
    RandomChoice,
)
from driftbandit.kernels import arms as kernel

ALL = [UCB1, WMDUCB1, MetaBandit, GammaRestart, DUCB, SWUCB, CusumUCB, PHTUCB, GLRklUCB, MUCB, BrownianRestless]


@pytest.mark.parametrize("kind", ALL)
def test_the_better_of_two_arms_is_found(kind):
    """Gap .4 over 2,000 rounds: the bad arm is played O(ln t / gap^2) times, far fewer than 400."""
    rng = np.random.default_rng(0)
    policy = kind()
    plays = np.zeros(2, dtype=int)
    for _ in range(2000):
        index = policy.choose(None, arms=[10, 20])
        policy.learn(None, float(rng.random() < (0.3, 0.7)[index]), arm=(10, 20)[index])
        plays[index] += 1
    assert plays[0] < 400
    assert plays[0] > 5


@pytest.mark.parametrize("kind", ALL)
def test_pools_may_differ_every_round_and_bring_new_arms(kind):
    rng = np.random.default_rng(1)
    policy = kind()
    good = 0
    for t in range(3000):
        pool = rng.permutation(30)[:5] - 10
        index = policy.choose(None, arms=pool)
        good += t >= 2000 and pool[index] == pool.max()
        policy.learn(None, float(rng.random() < (pool[index] + 10) / 30), arm=int(pool[index]))
    assert good > 300  # of 1,000; chance would give 200
    assert policy.choose(None, arms=[5, 999]) == 1  # never seen


@pytest.mark.parametrize("kind", ALL)
def test_rewards_are_scaled_from_their_range(kind):
    plain, scaled = kind(), kind(reward_range=(-5.0, 15.0))
    rng = np.random.default_rng(2)
    for _ in range(300):
        pool = rng.permutation(8)[:3]
        index = plain.choose(None, arms=pool)
        assert scaled.choose(None, arms=pool) == index
        reward = round(float(rng.random()), 2)
        plain.learn(None, reward, arm=int(pool[index]))
        scaled.learn(None, 20.0 * reward - 5.0, arm=int(pool[index]))


@pytest.mark.parametrize("kind", ALL)
def test_rewards_outside_the_range_are_clipped_counted_and_warned_about_once(kind):
    policy = kind()
    with pytest.warns(RuntimeWarning, match=r"outside reward_range \(0, 1\)"):
        policy.learn(None, 3.0, arm=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.learn(None, -3.0, arm=1)
    assert policy.clipped == 2


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("bad", [(1.0, 1.0), (1.0, 0.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_bad_reward_ranges(kind, bad):
    with pytest.raises(ValueError, match="reward_range"):
        kind(reward_range=bad)


def test_random_choice_is_uniform():
    """10,000 draws of 5: 2,000 each, standard deviation 40; five of them are allowed."""
    policy = RandomChoice(seed=3)
    counts = np.bincount([policy.choose(np.zeros((5, 2))) for _ in range(10_000)], minlength=5)
    assert np.abs(counts - 2000).max() < 200


def test_random_choice_needs_a_pool():
    for features, arms in ((None, None), (np.zeros(3), None), (np.zeros((0, 3)), None), (None, [])):
        with pytest.raises(ValueError, match=r"features|arms"):
            RandomChoice().choose(features, arms)


def test_wmducb1_fires_at_the_first_check_after_the_second_window_fills():
    policy = WMDUCB1(window=30, check_every=7)
    for reward in [0.0] * 30 + [1.0] * 40:
        changes = policy.learn(None, reward, arm=5)
        if changes:
            break
    assert changes[0].round == 63  # the first multiple of 7 from 60 on
    assert changes[0].member == 5
    assert changes[0].evidence["gap"] == pytest.approx(27 / 30)
    assert len(policy._table) == 0


def test_wmducb1_never_fires_on_a_constant_stream():
    policy = WMDUCB1(window=20, check_every=5)
    for _ in range(500):
        assert policy.learn(None, 0.7, arm=5) == ()


def test_wmducb1_false_alarms_are_as_rare_as_delta_says():
    """Bernoulli(.5), 300 arms, one test each: delta = .05 bounds 15 alarms, standard deviation 4."""
    rng = np.random.default_rng(4)
    fired = 0
    for _ in range(300):
        policy = WMDUCB1(window=50, check_every=100)
        fired += any(policy.learn(None, float(rng.random() < 0.5), arm=1) for _ in range(100))
    assert fired <= 15


def test_wmducb1_can_watch_all_rewards_as_one_stream():
    by_arm, pooled = WMDUCB1(window=20, check_every=5), WMDUCB1(window=20, check_every=5, stream="pooled")
    for t in range(60):
        reward = float(t >= 30)
        assert by_arm.learn(None, reward, arm=t) == ()  # every arm is played once
        changes = pooled.learn(None, reward, arm=t)
        if changes:
            break
    assert changes[0].kind == "restarted"


def test_gamma_restart_halves_the_evidence_and_keeps_the_means():
    policy = GammaRestart(gamma=0.5, threshold=2.0)
    for reward in [1.0] * 20:
        policy.learn(None, reward, arm=1)
    for reward in [0.2] * 10:
        policy.learn(None, reward, arm=2)
    before = policy._table.stats[:2].copy()
    changes = ()
    while not changes:
        before = policy._table.stats[:2].copy()
        changes = policy.learn(None, 0.0, arm=1)
    after = policy._table.stats[:2]
    assert after[1, kernel.COUNT] == before[1, kernel.COUNT] / 2
    assert after[1, kernel.MEAN] == before[1, kernel.MEAN]
    assert after[0, kernel.COUNT] == (before[0, kernel.COUNT] + 1) / 2
    assert policy._table.plays == after[:, kernel.COUNT].sum()


def test_gamma_zero_is_a_full_restart_and_one_is_refused():
    policy = GammaRestart(gamma=0.0, threshold=1.0)
    for reward in [1.0] * 10 + [0.0] * 5:
        policy.learn(None, reward, arm=1)
    assert policy.changes
    for _ in range(10):
        policy.learn(None, 0.3, arm=2)
    assert policy._test.count > 0  # forgotten means do not keep a new arm from leading
    with pytest.raises(ValueError, match="gamma"):
        GammaRestart(gamma=1.0)


def test_gamma_restart_every_round_is_a_discount():
    policy = GammaRestart(gamma=0.9, apply="round")
    for _ in range(200):
        policy.learn(None, 0.5, arm=1)
    assert policy._table.stats[0, kernel.COUNT] == pytest.approx(10.0, abs=1e-6)
    assert policy.changes == ()


def test_meta_bandit_keeps_the_fresh_bandit_when_the_world_changed():
    policy = MetaBandit(threshold=10.0, slack=0.05, trial=100)
    rng = np.random.default_rng(5)
    late = []
    for t in range(1500):
        index = policy.choose(None, arms=[1, 2])
        best = 0 if t < 500 else 1
        late.append(index == best)
        policy.learn(None, float(rng.random() < (0.9 if index == best else 0.1)), arm=(1, 2)[index])
    spawned, retired = policy.changes[:2]
    assert (spawned.kind, retired.kind) == ("spawned", "retired")
    assert 500 < spawned.round < 560
    assert retired.round == spawned.round + 100
    assert retired.member == 0  # the old one
    assert retired.evidence["statistic"] < retired.evidence["threshold"]
    assert np.mean(late[800:]) > 0.85


def test_meta_bandit_keeps_the_old_bandit_after_a_false_alarm():
    policy = MetaBandit(threshold=3.0, trial=60)
    for _ in range(200):
        index = policy.choose(None, arms=[1, 2])
        policy.learn(None, (0.9, 0.1)[index], arm=(1, 2)[index])
    while not policy.changes:  # a run of bad luck
        policy.learn(None, 0.0, arm=1)
    for _ in range(60):
        index = policy.choose(None, arms=[1, 2])
        policy.learn(None, (0.9, 0.1)[index], arm=(1, 2)[index])
    assert [c.kind for c in policy.changes] == ["spawned", "retired"]
    assert policy.changes[1].member == 1  # the fresh one, which had to explore


def test_meta_bandit_names_its_members_over_several_trials():
    """Trial 1 is lost by the fresh bandit, trial 2 is won: members 1, then 0, are retired."""
    policy = MetaBandit(threshold=0.5, trial=4)
    for verdicts in ((1.0, 0.0), (0.0, 1.0)):  # rewards of the old and of the fresh bandit
        for reward in [1.0] * 5 + [0.0] * 3:
            if not policy._left:
                policy.learn(None, reward, arm=1)
        while policy._left:
            policy.learn(None, verdicts[policy._player()], arm=1)
    assert [(c.kind, c.member) for c in policy.changes] == [
        ("spawned", 1),
        ("retired", 1),
        ("spawned", 2),
        ("retired", 0),
    ]


def test_meta_bandit_learns_with_the_bandit_that_plays():
    policy = MetaBandit(threshold=0.5, trial=10)
    for reward in [1.0] * 5 + [0.0] * 3:
        policy.learn(None, reward, arm=1)
    assert policy._left > 0
    while policy._left:
        plays = policy._old.plays, policy._fresh.plays
        player = policy._player()
        index = policy.choose(None, arms=[1, 2])
        policy.learn(None, 0.5, arm=(1, 2)[index])
        grown = policy._old.plays - plays[0], policy._fresh.plays - plays[1]
        if policy._left:
            assert grown == ((1, 0) if player == 0 else (0, 1))


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: WMDUCB1(window=0), "window"),
        (lambda: WMDUCB1(stream="both"), "stream"),
        (lambda: WMDUCB1(delta=0.0), "delta"),
        (lambda: MetaBandit(base="greedy"), "base"),
        (lambda: MetaBandit(trial=1), "trial"),
        (lambda: GammaRestart(apply="never"), "apply"),
        (lambda: GammaRestart(gamma=-0.1), "gamma"),
        (lambda: UCB1(max_arms=1), "max_arms"),
        (lambda: UCB1(prior_count=-1.0), "prior_count"),
        (lambda: UCB1(prior_mean=2.0), "prior_mean"),
        (lambda: UCB1(seed="x"), "seed"),
    ],
)
def test_bad_settings(build, name):
    with pytest.raises(ValueError, match=name):
        build()
