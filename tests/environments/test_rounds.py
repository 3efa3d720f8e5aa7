"""Rounds as arrays, and what a console shows of them."""

from driftbandit import synthetic


def test_a_console_shows_the_size_of_rounds_and_not_their_arrays():
    rounds = synthetic("table1", seed=3, dim=4, arms=50, pool=5, horizon=1200)
    assert repr(rounds) == (
        "Rounds(1,200 rounds, 5 arms shown in each, catalogue of 50 x 4, 1 shift, noise 0.05, seed 3)"
    )
    assert repr(synthetic("stationary", horizon=10)).count("0 shifts") == 1
