"""CUSUM-UCB and PHT-UCB."""

import math

import numpy as np
import pytest

from driftbandit import PHTUCB, CusumUCB, GammaRestart
from driftbandit.kernels import arms as kernel


def test_an_alarm_restarts_its_arm_only():
    policy = CusumUCB(calibration=10, slack=0.1, threshold=5.0)
    for _ in range(30):
        policy.learn(None, 0.6, arm=1)
    for reward in [0.0] * 20 + [1.0] * 6:
        changes = policy.learn(None, reward, arm=2)
    assert [(change.kind, change.round, change.member) for change in changes] == [("restarted", 56, 2)]
    assert changes[0].evidence == pytest.approx({"statistic": 5.4, "threshold": 5.0, "changed_at": 50})
    assert policy._table.find(1)[kernel.COUNT] == 30
    assert policy._table.find(2)[kernel.COUNT] == 0
    assert policy._table.plays == 30  # n of the index counts what is left
    assert policy.choose(None, arms=[1, 2]) == 1  # as if never played


def test_the_reference_is_made_anew_after_an_alarm():
    policy = CusumUCB(calibration=10, slack=0.1, threshold=5.0)
    for reward in [0.0] * 20 + [1.0] * 6:
        policy.learn(None, reward, arm=1)
    assert not any(policy.learn(None, 1.0, arm=1) for _ in range(500))
    fired = [n for n in range(1, 10) if policy.learn(None, 0.0, arm=1)]
    assert fired == [6]


def test_the_index_by_hand():
    policy = CusumUCB(random_share=0.0, explore=0.5)
    for arm, reward in ((1, 1.0), (1, 0.0), (2, 0.2), (1, 0.5)):
        policy.learn(None, reward, arm=arm)
    indices = 0.5 + math.sqrt(0.5 * math.log(4) / 3), 0.2 + math.sqrt(0.5 * math.log(4))
    assert policy.choose(None, arms=[1, 2]) == int(np.argmax(indices)) == 1


@pytest.mark.parametrize("kind", [CusumUCB, PHTUCB])
def test_random_exploration_reaches_every_arm_of_the_pool(kind):
    """A tenth of 6,000 rounds, 120 for each of 5 arms, standard deviation 11; the greedy arm has the rest."""
    policy = kind(random_share=0.1, explore=0.0)
    for arm in range(5):
        policy.learn(None, float(arm == 2), arm=arm)
    plays = np.bincount([policy.choose(None, np.arange(5)) for _ in range(6000)], minlength=5)
    assert plays[2] > 5000
    assert np.abs(np.delete(plays, 2) - 120).max() < 45


def test_pht_compares_with_the_running_mean():
    policy = PHTUCB(threshold=5.0, slack=0.005)
    for reward in [1.0] * 50 + [0.0] * 6:
        changes = policy.learn(None, reward, arm=1)
    assert changes[0].round == 56
    assert changes[0].evidence["statistic"] == pytest.approx(5.58320082, abs=5e-9)
    assert changes[0].evidence["changed_at"] == 50


def test_for_a_drop_pht_fires_when_gamma_restart_does():
    """The same Page-Hinkley statistic, one-sided there."""
    rng = np.random.default_rng(0)
    rewards = np.concatenate([rng.random(200), 0.5 * rng.random(200)])
    pht, one_sided = PHTUCB(threshold=8.0, slack=0.02), GammaRestart(threshold=8.0, slack=0.02)
    fired = []
    for policy in (pht, one_sided):
        changes = (policy.learn(None, float(reward), arm=1) for reward in rewards)
        fired.append(next(found[0] for found in changes if found))
    assert fired[0].round == fired[1].round > 200
    assert fired[0].evidence["statistic"] == pytest.approx(fired[1].evidence["statistic"])


def test_published_tuning():
    for kind in (CusumUCB, PHTUCB):
        policy = kind.for_horizon(100_000, changes=10, slack=0.05)
        assert policy.threshold == pytest.approx(9.21034, abs=5e-6)
        assert policy.random_share == pytest.approx(0.0303485, abs=5e-8)
        assert policy.slack == 0.05
