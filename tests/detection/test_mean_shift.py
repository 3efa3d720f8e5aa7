import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.detection.mean_shift import MeanShift


@given(st.lists(st.floats(0, 1), min_size=1, max_size=150), st.integers(1, 20))
def test_the_statistic_compares_the_two_halves(rewards, half):
    test = MeanShift(window=2 * half, threshold=1e9)
    for n, reward in enumerate(rewards, 1):
        test.add(reward)
        expected = 0.0
        if n >= 2 * half:
            expected = abs(sum(rewards[n - half : n]) - sum(rewards[n - 2 * half : n - half]))
        assert test.statistic == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("threshold", "first"), [(0.5, 41), (10.5, 51), (19.5, 60), (20.0, None)])
def test_a_step_fires_when_the_ones_exceed_the_threshold(threshold, first):
    """40 zeros, then ones, in halves of 20."""
    test = MeanShift(window=40, threshold=threshold)
    fired = (n for n, reward in enumerate([0.0] * 40 + [1.0] * 60, 1) if test.add(reward))
    assert next(fired, None) == first


def test_a_constant_stream_never_fires():
    test = MeanShift(window=20, threshold=1e-9)
    assert not any(test.add(0.1) for _ in range(10_000))


def test_rounding_errors_do_not_pile_up():
    """The sums are added up anew at every turn of the ring: a fresh test of the last 20 rewards agrees to the bit."""
    rewards = np.random.default_rng(6).random(20 * 100)
    test, fresh = MeanShift(window=20, threshold=1e9), MeanShift(window=20, threshold=1e9)
    for turn in rewards.reshape(100, 20):
        fresh.clear()
        for reward in turn:
            test.add(reward)
            fresh.add(reward)
        assert test.statistic == fresh.statistic


def test_false_alarms_are_no_more_common_than_hoeffding_says():
    """b = sqrt(w / 2 ln(2 / .05)) fails in at most 5 % of 400 single tests: 20, standard deviation 4.4."""
    rewards = (np.random.default_rng(5).random((400, 60)) < 0.5).astype(float)
    fired = 0
    for stream in rewards:
        test = MeanShift(window=60, threshold=np.sqrt(30 * np.log(40)))
        fired += any(test.add(reward) for reward in stream)
    assert fired <= 20


def test_clear_starts_afresh():
    test = MeanShift(window=10, threshold=3.0)
    assert any(test.add(reward) for reward in [0.0] * 5 + [1.0] * 5)
    test.clear()
    assert not any(test.add(1.0) for _ in range(30))


@pytest.mark.parametrize("settings", [{"window": 7}, {"window": 0}, {"threshold": 0.0}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        MeanShift(**settings)
