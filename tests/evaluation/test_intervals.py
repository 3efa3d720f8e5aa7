"""Block bootstrap intervals."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from driftbandit.evaluation.intervals import Interval, block_length, bootstrap, ratio_interval


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


def test_about_two_hundred_blocks():
    assert [block_length(count) for count in (0, 1, 200, 201, 400, 401)] == [1, 1, 1, 2, 2, 3]


def test_ends_are_quantiles_of_what_blocks_can_give():
    """Four blocks, two of which pay 1: a resample pays Binomial(4, 1/2) / 4, whose distribution is 1, 5, 11, 15, 16
    sixteenths at 0, 1/4, 1/2, 3/4, 1."""
    sums = np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]])

    def ends(**settings):
        found = bootstrap(sums, lambda both: both[0] / both[1], **settings)
        assert found.estimate == 0.5
        return found.low, found.high

    assert ends() == ends(level=1.0) == (0.0, 1.0)
    assert ends(level=0.8) == (0.25, 0.75)  # .1 and .9
    assert ends(level=0.2) == ends(level=0.0) == (0.5, 0.5)


def test_sums_of_blocks_are_resampled_not_rounds():
    """Two blocks of three rounds, the last one short: 1 of 3 and 2 of 2."""
    found = ratio_interval([1.0, 0.0, 0.0, 1.0, 1.0], np.ones(5), block=3, level=1.0)
    assert (found.low, found.estimate, found.high) == pytest.approx((1 / 3, 3 / 5, 1.0))


def test_resamples_without_a_number_are_left_out():
    found = ratio_interval([1.0, 1.0], [0.0, 1.0], level=1.0)
    assert (found.low, found.estimate, found.high) == (1.0, 2.0, 2.0)


def test_defaults_are_those_of_the_documentation():
    rng = np.random.default_rng(5)
    above, below = rng.random(1000), rng.random(1000)
    found = ratio_interval(above, below)
    assert found == ratio_interval(above, below, block=5, resamples=2000, level=0.95, seed=0)
    sums = np.array([above, below]).reshape(2, 200, 5).sum(axis=2)
    again = bootstrap(sums, lambda both: both[0] / both[1])
    assert (again.low, again.high) == pytest.approx((found.low, found.high), rel=1e-12)
    assert found != ratio_interval(above, below, seed=1)


def test_an_interval_prints_in_three_digits_and_cannot_change():
    interval = Interval(0.51234, 0.25, 1.0)
    assert str(interval) == "0.512 [0.25, 1]"
    with pytest.raises(FrozenInstanceError):
        interval.low = 0.0


@pytest.mark.parametrize("level", [-0.1, 1.1])
def test_a_level_is_a_probability(level):
    with pytest.raises(ValueError, match="level: expected"):
        ratio_interval([1.0], [1.0], level=level)
