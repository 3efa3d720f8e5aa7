import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.detection.cusum import Cusum
from driftbandit.detection.page_hinkley import PageHinkley
from driftbandit.kernels import cusum as kernel

STREAMS = st.lists(st.floats(0, 1), min_size=1, max_size=150)


def test_twenty_zeros_then_ones():
    test = Cusum(calibration=10, slack=0.1, threshold=5.0)
    fired = [n for n, reward in enumerate([0.0] * 20 + [1.0] * 6, 1) if test.add(reward)]
    assert fired == [26]
    assert test.statistic == pytest.approx(5.4)
    assert test.changed_at == 20


def test_a_fall_is_found_like_a_rise():
    up, down = (Cusum(calibration=10, slack=0.1, threshold=5.0) for _ in range(2))
    for reward in [0.3] * 20 + [0.9] * 8:
        assert not up.add(reward)
        assert not down.add(1.0 - reward)
        assert up.statistic == pytest.approx(down.statistic)
    assert up.statistic == pytest.approx(8 * 0.5)


@given(STREAMS, st.integers(1, 30), st.floats(0, 0.3))
def test_the_recursions_of_the_paper(rewards, calibration, slack):
    test = Cusum(calibration=calibration, slack=slack, threshold=1e9)
    reference = np.mean(rewards[:calibration])
    rise = fall = 0.0
    for n, reward in enumerate(rewards, 1):
        test.add(reward)
        if n > calibration:
            rise = max(0.0, rise + reward - reference - slack)
            fall = max(0.0, fall + reference - reward - slack)
        assert test.statistic == pytest.approx(max(rise, fall), abs=1e-9)


@given(STREAMS, st.floats(0, 0.2))
def test_without_calibration_it_is_page_hinkley_in_both_directions(rewards, slack):
    both = Cusum(calibration=0, slack=slack, threshold=1e9)
    down, up = (PageHinkley(slack=slack, threshold=1e9) for _ in range(2))
    for reward in rewards:
        both.add(reward)
        down.add(reward)
        up.add(1.0 - reward)
        assert both.statistic == pytest.approx(max(down.statistic, up.statistic), abs=1e-9)


def test_fifty_ones_then_zeros_without_calibration():
    test = Cusum(calibration=0, slack=0.005, threshold=5.0)
    fired = [n for n, reward in enumerate([1.0] * 50 + [0.0] * 6, 1) if test.add(reward)]
    assert fired == [56]
    assert test.statistic == pytest.approx(5.58320082, abs=5e-9)
    assert test.changed_at == 50


def test_rewards_are_not_judged_while_the_reference_is_made():
    test = Cusum(calibration=100, slack=0.0, threshold=1.0)
    assert not any(test.add(float(n >= 50)) for n in range(100))
    assert test.statistic == 0.0


def test_a_constant_stream_never_fires_and_clear_starts_afresh():
    test = Cusum(calibration=10, slack=0.01, threshold=0.5)
    assert not any(test.add(0.3) for _ in range(1000))
    assert any(test.add(0.9) for _ in range(10))
    test.clear()
    assert not any(test.add(0.9) for _ in range(1000))


def test_false_alarms_are_as_rare_as_theory_says():
    """Siegmund's approximation of the time between false alarms, with the reference known.

    For steps of standard deviation .5 and a drift of -.1, in units of it D = .2, and b = h / .5 + 1.166 = 21.2: (exp(2
    D b) - 2 D b - 1) / (2 D^2) = 59,000 rewards a side, so 6.5 % of 400 runs of 2,000 rewards, 26 with a standard
    deviation of 5, should fire. Three of these are allowed on both sides.
    """
    drift, boundary = 0.2, 10.0 / 0.5 + 1.166
    between = (math.expm1(2 * drift * boundary) - 2 * drift * boundary) / (2 * drift**2)
    share = -math.expm1(-2000 / (between / 2))
    assert share == pytest.approx(0.065, abs=0.002)
    rewards = (np.random.default_rng(0).random((400, 2000)) < 0.5).astype(float)
    fired = 0
    for stream in rewards:
        row = np.zeros(kernel.COLUMNS)
        row[[kernel.SAMPLES, kernel.REFERENCE]] = 1, 0.5
        for n, reward in enumerate(stream):
            kernel.add(row, reward, 1, 0.1, n)
            if kernel.evidence(row)[0] > 10.0:
                fired += 1
                break
    assert abs(fired - 400 * share) < 15


def test_a_larger_jump_is_found_sooner():
    delays = []
    for jump in (0.2, 0.4, 0.6):
        test = Cusum(calibration=100, slack=0.05, threshold=6.0)
        rng = np.random.default_rng(1)
        stream = np.concatenate([rng.random(200) < 0.2, rng.random(500) < 0.2 + jump]).astype(float)
        delays.append(next(n for n, reward in enumerate(stream, 1) if test.add(reward)) - 200)
    assert 0 < delays[2] < delays[1] < delays[0]


@pytest.mark.parametrize("settings", [{"slack": -1.0}, {"threshold": 0.0}, {"calibration": -1}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Cusum(**settings)
