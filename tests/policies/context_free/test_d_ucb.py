import math

import numpy as np
import pytest

from driftbandit import DUCB
from driftbandit.kernels import arms as kernel


def discounted(policy, arm):
    """Plays of an arm, brought up to date."""
    entry = policy._table.find(arm)
    return entry[kernel.COUNT] * policy.discount ** (policy.rounds - 1 - entry[kernel.LAST])


def test_plays_and_index_by_hand():
    policy = DUCB(discount=0.5)
    for arm, reward in ((1, 1.0), (2, 0.0), (1, 0.0)):
        policy.learn(None, reward, arm=arm)
    assert discounted(policy, 1) == 0.25 + 1.0
    assert discounted(policy, 2) == 0.5
    assert policy._table.plays == 1.75
    assert policy._table.mean_of(1) == pytest.approx(0.25 / 1.25)
    level = math.log(1.75)
    indices = 0.2 + 2 * math.sqrt(0.5 * level / 1.25), 0.0 + 2 * math.sqrt(0.5 * level / 0.5)
    assert policy.choose(None, arms=[1, 2]) == int(np.argmax(indices)) == 1


@pytest.mark.parametrize("discount", [0.6, 0.95, 0.999])
def test_lazy_discounts_are_those_of_the_definition(discount):
    """Sums over the whole history, in pools that differ; an arm's last play may be long ago."""
    rng = np.random.default_rng(0)
    policy = DUCB(discount=discount, explore=0.3, min_count=0.0)
    history = []
    for t in range(300):
        pool = rng.permutation(12)[:4]
        index = policy.choose(None, pool)
        weights = discount ** (t - 1 - np.arange(t))
        total = max(weights.sum(), 1.0)
        scores = []
        for arm in pool:
            mine = np.array([a == arm for a, _ in history], dtype=bool)
            count = weights[mine].sum() if t else 0.0
            if not mine.any():
                scores.append(math.inf)
                continue
            mean = (weights * np.array([r for _, r in history]))[mine].sum() / count
            scores.append(mean + 2.0 * math.sqrt(0.3 * math.log(total) / count))
        assert scores[index] >= max(scores) - 1e-9 if max(scores) < math.inf else scores[index] == math.inf
        reward = float(rng.random())
        policy.learn(None, reward, arm=int(pool[index]))
        history.append((pool[index], reward))


def test_all_plays_together_approach_their_limit():
    policy = DUCB(discount=0.99)
    for t in range(2000):
        policy.learn(None, 0.5, arm=t % 3)
    assert policy._table.plays == pytest.approx(100.0, abs=1e-6)
    assert sum(discounted(policy, arm) for arm in range(3)) == pytest.approx(100.0, abs=1e-6)


def test_an_absent_arms_plays_halve_in_ln_half_over_ln_discount_rounds():
    policy = DUCB(discount=0.5 ** (1 / 40))
    for _ in range(10):
        policy.learn(None, 0.5, arm=1)
    before = discounted(policy, 1)
    for _ in range(40):
        policy.learn(None, 0.5, arm=2)
    assert discounted(policy, 1) == pytest.approx(before / 2)


def test_an_arm_whose_plays_have_faded_counts_as_new():
    """.5^k falls to 1e-6 within 20 rounds; the mean of arm 1 would never be played."""
    policy = DUCB(discount=0.5, explore=0.0)
    policy.learn(None, 0.0, arm=1)
    for _ in range(19):
        policy.learn(None, 1.0, arm=2)
    assert policy.choose(None, arms=[1, 2]) == 1
    policy.learn(None, 1.0, arm=2)
    assert policy.choose(None, arms=[1, 2]) == 0


def test_imaginary_plays_do_not_fade():
    policy = DUCB(discount=0.5, explore=0.0, prior_mean=0.3, prior_count=1.0)
    for _ in range(100):
        policy.learn(None, 0.35, arm=1)
    assert policy.choose(None, arms=[1, 2]) == 0
    policy.learn(None, 0.1, arm=1)
    assert policy.choose(None, arms=[1, 2]) == 1


def test_a_pause_of_a_million_rounds_does_no_harm():
    policy = DUCB(discount=0.9)
    policy.learn(None, 1.0, arm=1)
    policy.rounds += 1_000_000
    policy.learn(None, 0.25, arm=1)
    assert policy._table.mean_of(1) == 0.25
    assert policy.choose(None, arms=[1]) == 0


def test_published_tuning():
    assert DUCB.for_horizon(10_000, changes=2).discount == pytest.approx(0.99646447, abs=5e-9)
    assert DUCB.for_horizon(10_000, changes=2, explore=0.2).explore == 0.2
    assert DUCB().discount == pytest.approx(DUCB.for_horizon(10_000, changes=5).discount, abs=5e-5)
