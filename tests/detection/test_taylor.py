import itertools

import numpy as np
import pytest

from driftbandit.detection.taylor import change_confidence, cusum_range

STEP = np.array([1.0, 1, 1, 1, 5, 5, 5, 5])


def test_the_exact_confidence_of_a_step_of_eight_is_62_of_70():
    assert cusum_range(STEP) == 8.0
    arrangements = set(itertools.permutations(STEP.tolist()))
    below = sum(cusum_range(np.array(arrangement)) < 8.0 for arrangement in arrangements)
    assert (below, len(arrangements)) == (62, 70)


def test_resampling_comes_close_to_the_exact_confidence():
    """10,000 resamples have a standard error of .0032; five of them are allowed."""
    confidence = change_confidence(STEP, 10_000, np.random.default_rng(0))
    assert confidence == pytest.approx(62 / 70, abs=0.016)


def test_a_constant_series_is_no_change():
    assert change_confidence(np.full(10, 3.3), 100, np.random.default_rng(0)) == 0.0


def test_a_long_step_is_a_change_and_noise_is_not_more_often_than_the_level_says():
    rng = np.random.default_rng(1)
    assert change_confidence(np.repeat([1.0, 5.0], 10), 500, rng) > 0.95
    # 200 series of noise at the 95 % level: 10 expected, standard deviation 3.
    fired = sum(change_confidence(rng.standard_normal(12), 300, rng) > 0.95 for _ in range(200))
    assert fired <= 22


def test_leaving_the_first_distance_out_of_the_sums_changes_nothing():
    """As the released adTS does: the sums end at zero anyway, so all of them are shifted by the same amount."""
    rng = np.random.default_rng(2)
    for length in range(2, 30):
        series = rng.standard_normal(length)
        released = np.append(0.0, np.cumsum(series[1:] - series.mean()))
        assert np.ptp(released) == pytest.approx(cusum_range(series))
