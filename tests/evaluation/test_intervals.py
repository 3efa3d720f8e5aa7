"""Block bootstrap intervals."""

import numpy as np
import pytest

from driftbandit.evaluation.intervals import ratio_interval


def test_intervals_cover_the_truth_as_often_as_they_say():
    """200 streams of clicks at 5 %: a 90 % interval covers 180 of them, standard deviation 4.2; four are allowed."""
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        clicks = (rng.random(4000) < 0.05).astype(float)
        interval = ratio_interval(clicks, np.ones(4000), level=0.9, resamples=400, seed=seed)
        covered += interval.low <= 0.05 <= interval.high
    assert abs(covered - 180) <= 17


def test_blocks_widen_the_interval_where_rounds_depend_on_each_other():
    rng = np.random.default_rng(1)
    moods = np.repeat((rng.random(40) < 0.5).astype(float), 100)  # a hundred rounds share one outcome
    single, blocks = (ratio_interval(moods, np.ones(4000), block=block) for block in (1, 100))
    assert single.estimate == blocks.estimate
    assert blocks.high - blocks.low > 5 * (single.high - single.low)


def test_a_ratio_of_two_noisy_sums():
    rng = np.random.default_rng(2)
    base = rng.random(2000)
    interval = ratio_interval(1.5 * base, base)
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((1.5, 1.5, 1.5))


def test_nothing_below_the_line_is_no_number():
    interval = ratio_interval(np.ones(10), np.zeros(10))
    assert interval.estimate == np.inf
    assert np.isnan(interval.low)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ratio_interval([], []),
        lambda: ratio_interval([1.0, np.nan], [1.0, 1.0]),
        lambda: ratio_interval([[1.0]], [[1.0]]),
        lambda: ratio_interval([1.0], [1.0], block=0),
        lambda: ratio_interval([1.0], [1.0], level=1.5),
        lambda: ratio_interval([1.0], [1.0], resamples=0),
        lambda: ratio_interval([1.0, 2.0], [1.0]),
    ],
)
def test_bad_input(call):
    with pytest.raises(ValueError, match=r"expected|inhomogeneous|broadcast"):
        call()
