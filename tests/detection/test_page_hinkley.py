import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.detection.page_hinkley import PageHinkley


def test_fifty_ones_then_zeros():
    test = PageHinkley(slack=0.005, threshold=5.0)
    fired = [n for n, reward in enumerate([1.0] * 50 + [0.0] * 6, 1) if test.add(reward)]
    assert fired == [56]
    assert test.statistic == pytest.approx(5.58320082, abs=5e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.floats(0, 0.2))
def test_the_recursion_equals_the_running_maximum_form(rewards, slack):
    test = PageHinkley(slack=slack, threshold=1e9)
    m, highest = 0.0, 0.0
    for n, reward in enumerate(rewards, 1):
        test.add(reward)
        m += reward - np.mean(rewards[:n]) + slack
        highest = max(highest, m)
        assert test.statistic == pytest.approx(highest - m, abs=1e-9)


def test_a_constant_stream_and_a_rise_never_fire():
    test = PageHinkley(slack=0.005, threshold=1.0)
    assert not any(test.add(0.3) for _ in range(1000))
    assert not any(test.add(0.9) for _ in range(100))


@pytest.mark.parametrize("settings", [{"slack": -1.0}, {"threshold": 0.0}, {"threshold": float("nan")}])
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        PageHinkley(**settings)
