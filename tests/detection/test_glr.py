import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.detection.glr import GLR, glr_threshold
from driftbandit.kernels import glr as kernel


def kl(p, q):
    """Bernoulli, with 0 ln 0 = 0."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q)
    if p < 1.0:
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return total


def by_definition(rewards):
    """Largest statistic of all splits, and its split."""
    n, mean = len(rewards), np.mean(rewards)
    if not 0.0 < mean < 1.0:
        return 0.0, 0
    values = [s * kl(np.mean(rewards[:s]), mean) + (n - s) * kl(np.mean(rewards[s:]), mean) for s in range(1, n)]
    return (max(values), 1 + int(np.argmax(values))) if values else (0.0, 0)


def test_ten_zeros_and_ten_ones():
    test = GLR(delta=1e-9)
    for reward in [0.0] * 10 + [1.0] * 10:
        test.add(reward)
    assert test.statistic == pytest.approx(20 * math.log(2), abs=1e-12)
    assert test.statistic == pytest.approx(13.86294361, abs=5e-9)
    assert test.changed_at == 10


def test_twenty_zeros_then_ones_fire_at_the_fourth():
    test = GLR(delta=0.01)
    fired = [n for n, reward in enumerate([0.0] * 20 + [1.0] * 4, 1) if test.add(reward)]
    assert fired == [24]
    assert test.statistic == pytest.approx(10.813, abs=5e-4)
    assert test.threshold == pytest.approx(9.372, abs=5e-4)
    assert test.statistic > test.threshold + math.log(3)  # also with SMPyBandits' threshold
    assert test.changed_at == 20


@given(st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 0.99)), min_size=1, max_size=60))
def test_the_entropies_give_the_statistic_of_the_paper(rewards):
    test = GLR(delta=0.01, splits=100)
    for reward in rewards:
        test.add(reward)
    statistic, split = by_definition(rewards)
    assert test.statistic == pytest.approx(statistic, abs=1e-9)
    if statistic > 0.1:
        at_split = test.changed_at
        ours = rewards[:at_split], rewards[at_split:]
        mean = np.mean(rewards)
        value = sum(len(part) * kl(np.mean(part), mean) for part in ours)
        assert value == pytest.approx(statistic, abs=1e-9), split


@pytest.mark.parametrize(("before", "after", "mean"), [(500, 60, 0.3), (3000, 60, 0.3), (1500, 1500, 0.6)])
def test_thinned_splits_lose_little(before, after, mean):
    """100 splits of up to 3,000 rewards have gaps of 8 % of their age: little of the statistic is lost."""
    rng = np.random.default_rng(2)
    rewards = np.concatenate([rng.random(before) < 0.7, rng.random(after) < mean]).astype(float)
    full, thin = GLR(splits=5000), GLR(splits=100)
    for reward in rewards:
        full.add(reward)
        thin.add(reward)
    assert thin._row[kernel.SPLITS] <= 100
    assert 0.85 * full.statistic < thin.statistic <= full.statistic + 1e-9
    assert abs(thin.changed_at - full.changed_at) <= 0.2 * after


def test_splits_are_kept_in_order_and_the_recent_ones_are_dense():
    test = GLR(splits=20)
    for _ in range(1000):
        test.add(0.5)
        kept = int(test._row[kernel.SPLITS])
        places = test._row[kernel.FIRST : kernel.FIRST + kernel.SPLIT * kept : kernel.SPLIT]
        assert (np.diff(places) > 0).all()
        assert places[-1] == test._row[kernel.SAMPLES]
    gaps, ages = np.diff(places), places[-1] - places[:-1]
    assert (gaps[-3:] == 1).all()
    assert (gaps <= 1 + 0.5 * ages).all()


def test_false_alarms_are_no_more_common_than_delta_says():
    """200 streams of 1,000 clicks at delta = .05: at most 10 alarms expected, standard deviation 3."""
    streams = (np.random.default_rng(3).random((200, 1000)) < 0.4).astype(float)
    fired = 0
    for stream in streams:
        test = GLR(delta=0.05)
        fired += any(test.add(reward) for reward in stream)
    assert fired <= 10


def test_a_larger_jump_is_found_sooner():
    delays = []
    for jump in (0.2, 0.4, 0.6):
        test = GLR(delta=0.01)
        rng = np.random.default_rng(4)
        stream = np.concatenate([rng.random(200) < 0.2, rng.random(500) < 0.2 + jump]).astype(float)
        delays.append(next(n for n, reward in enumerate(stream, 1) if test.add(reward)) - 200)
    assert 0 < delays[2] < delays[1] < delays[0]


def test_clear_starts_afresh():
    test = GLR()
    for reward in [0.0] * 20 + [1.0] * 20:
        test.add(reward)
    test.clear()
    assert not any(test.add(1.0) for _ in range(100))
    assert test.threshold == pytest.approx(glr_threshold(100, 0.01))


@pytest.mark.parametrize("settings", [{"delta": 0.0}, {"delta": 2.0}, {"splits": 3}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        GLR(**settings)
