"""Intervals on drifting logs: a small version of the study, and what it makes up."""

import numpy as np
import pytest

from driftbandit.benchmarks.coverage import drifting_logs, study, table


@pytest.fixture(scope="module")
def shares():
    return study(logs=100, events=500, seed=1, resamples=300)


def test_a_confidence_sequence_hardly_ever_misses(shares):
    """At most 5 % may ever miss; of 100 logs, 11 or more would miss with a chance of 1 % even then."""
    found = [share for name, share in shares.items() if name.startswith("sequence")]
    assert len(found) == 5
    assert min(found) > 1 - 11 / 100


def test_fixed_intervals_cover_about_as_often_as_they_say(shares):
    """Coverage of 93 % to 97 %, and less three standard deviations of 100 logs."""
    for name, share in shares.items():
        if not name.startswith("sequence"):
            assert share > 0.93 - 0.065, name
            assert share < 1.0, name


def test_made_up_logs_are_honest():
    """Given the past, weights have a mean of 1, and a weighted reward has the mean of the policy's value."""
    made = drifting_logs(400, 300, seed=2)
    assert made.weights.mean() == pytest.approx(1.0, abs=0.02)
    assert (made.weights * made.rewards).mean() == pytest.approx(made.values.mean(), abs=0.01)
    assert made.rewards.mean() == pytest.approx(made.logged.mean(), abs=0.01)
    assert made.values.mean() > made.logged.mean()
    again = drifting_logs(400, 300, seed=2)
    assert np.array_equal(made.rewards, again.rewards)


def test_the_table_names_every_interval(shares):
    text = table(shares, 100)
    assert text.count("\n") == len(shares) + 1
    assert "sequence, difference (at all looks)" in text
