"""When a young model is born, when there may be an alarm, and what it must exceed: by hand."""

import math

import numpy as np
import pytest

from driftbandit.kernels.driftucb import scales
from driftbandit.kernels.driftucb.ladder import births, evidence
from driftbandit.kernels.driftucb.rows import row_size


def memo(**known):
    """Not clicks, a noise of 1/4, and enough seen."""
    found = np.zeros(scales.MEMO)
    values = {"ROUNDS": 8.0, "NOISE": 0.25, "PRIOR": 0.5, "FIRST_SQUARE": 3.0, "SHRINK": 0.5, "RECENT_COUNT": 2.0}
    for name, value in (values | known).items():
        found[getattr(scales, name)] = value
    return found


CLICKS = {"HITS": 50.0, "MISFITS": 1.0, "ROUNDS": 104.0}  # one stray of fifty is still clicks; round 8 * 13


def test_on_clicks_births_count_and_not_rounds():
    """51 of 106 are clicks: a birth can tell something in 51 / 106 / 4 of the rounds, beside a hundred others."""
    plain = evidence.threshold(memo(), 98.0, 0.02)
    assert plain == pytest.approx(math.log(100.0 / 0.02))
    births = 98.0 * 51.0 / 106.0 / 4.0 + 100.0
    assert evidence.threshold(memo(**CLICKS), 98.0, 0.02) == pytest.approx(math.log(births / 0.02))


def test_an_error_counts_as_much_as_a_new_taste_would_cause():
    assert evidence.error_cap(memo()) == 200.0
    assert evidence.error_cap(memo(PRIOR=50.0)) == 50.0 * 3.0 / 0.25


@pytest.mark.parametrize(
    ("known", "enough"),
    [
        ({"ALL_COUNT": 6.0}, True),  # 2 d
        ({"ALL_COUNT": 5.9}, False),
        ({"ALL_COUNT": 6.0, "HITS": 1.0, "MISFITS": 1.0}, True),  # no clicks
        ({"ALL_COUNT": 6.0, "ROUNDS": 13.0, "HITS": 6.0}, True),  # six of either outcome, of clicks
        ({"ALL_COUNT": 6.0, "ROUNDS": 13.0, "HITS": 7.0}, True),
        ({"ALL_COUNT": 6.0, "ROUNDS": 13.0, "HITS": 5.0}, False),
        ({"ALL_COUNT": 6.0, "ROUNDS": 13.0, "HITS": 8.0}, False),
        ({"ALL_COUNT": 5.9, "ROUNDS": 13.0, "HITS": 6.0}, False),
    ],
)
def test_when_there_may_be_an_alarm(known, enough):
    assert evidence.ready(memo(**known), 3) == enough


THETA, UNITS = np.array([2.0]), np.array([1.5])


def renewed(**known):
    """Rungs after a renewal, of which the third had its turn in round 8; sevens are untouched."""
    rungs = np.full((births.RUNGS, row_size(1)), 7.0)
    told = memo(**known)
    births.renew(told, rungs, THETA, UNITS, np.zeros(20), 0, 100.0, 0.02)
    turn = births.rung_of(int(told[scales.ROUNDS]), births.RUNGS)
    assert (np.delete(rungs, turn, axis=0) == 7.0).all()
    return turn, rungs[turn]


def born(ridge, nu, noise=0.25):
    rung = np.full(row_size(1), 7.0)
    births.give_birth(rung, THETA, UNITS, 0.5, ridge, nu, noise)
    return rung


def test_a_birth_with_the_noise_and_the_prior_of_its_time():
    turn, rung = renewed()
    assert turn == 3
    np.testing.assert_allclose(rung, born(0.25 / 0.5, 2.0))


@pytest.mark.parametrize(
    ("seen", "clicks", "nu"),
    [
        (0.1, False, 0.5),
        (2.0, False, 2.0),
        (40.0, False, 8.0),
        (40.0, True, 40.0),
        (60.0, True, 50.0),
        (0.1, True, 0.5),
    ],
)
def test_how_much_of_the_noise_a_newborn_takes_over(seen, clicks, nu):
    _, rung = renewed(RECENT_COUNT=seen, **({"HITS": 4.0} if clicks else {}))
    np.testing.assert_allclose(rung, born(0.5, nu))


def test_the_ridge_of_a_newborn_has_a_least_value():
    _, rung = renewed(PRIOR=1e9)
    np.testing.assert_allclose(rung, born(1e-6 * 3.0, 2.0))


@pytest.mark.parametrize(("noise", "alive"), [(0.6, True), (0.600001, False)])
def test_only_who_could_tell_a_shift_from_noise_is_born(noise, alive):
    """2^3 rounds of a new taste, with weights of variance 1/2 and |x|^2 = 3, amount to 12: twenty times 0.6."""
    _, rung = renewed(NOISE=noise)
    assert (rung[0] == 0.0) == alive
    if not alive:
        assert rung.tolist() == [-1.0] + [0.0] * (len(rung) - 1)
    assert renewed(NOISE=noise, **CLICKS)[1][0] == 7.0, "8 rounds of clicks are too few: 8 * 51 / 106 < 4"
    assert renewed(NOISE=noise, ROUNDS=16.0)[1][0] == 0.0, "who lives longer can tell more"
