"""The formula beside simulated shifts: what is called a lift, and how runs are summed up."""

import math

import pytest

from driftbandit import World
from driftbandit.benchmarks import click_delays
from driftbandit.benchmarks.click_delays import Shift, measure_one, table_of

WORLD = World(
    features="sphere", thetas="sphere", reward="rates", clicks=(0.05, 0.2), arms=50, dim=6, period=3000, horizon=6000
)


def test_a_large_shift_is_found_about_when_the_formula_says():
    shift = measure_one(WORLD, seed=1000)
    assert shift.lift > 2.0
    assert 0.25 < shift.ratio < 4.0, "a factor of four is far beyond the quartiles of such shifts"
    assert shift == measure_one(WORLD, seed=1000)


def test_where_nothing_falls_there_is_no_shift_to_find():
    still = World(
        path="recurring", regimes=2, features="sphere", reward="rates", clicks=(0.2, 0.2), period=50, horizon=100
    )
    assert measure_one(still, seed=0) is None


def test_runs_are_summed_up_by_lift():
    shifts = [Shift(2.5, ratio) for ratio in (0.4, 1.0, 1.5, math.inf)]
    table = table_of([*shifts, Shift(7.0, 2.1), Shift(1.3, math.inf)])
    assert table.cells == (
        ("1.2 to 1.5", "1", "0%", "not found", "not found", "not found", "0%"),
        ("2 to 3", "4", "75%", "0.40", "1.00", "1.50", "50%"),
        ("5 or more", "1", "100%", "2.10", "2.10", "2.10", "0%"),
        ("2 or more", "5", "80%", "1.00", "1.50", "2.10", "40%"),
    )
    assert table_of([]).cells == ()


def test_the_command_prints_the_table(monkeypatch, capsys):
    monkeypatch.setattr(click_delays, "_CELLS", [(0.15, 4.0, 6)])
    monkeypatch.setattr("sys.argv", ["click_delays", "--seed", "1000", "--seeds", "1"])
    click_delays.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("| lift | shifts | found |")
    assert len(printed) == 4, "headings, a rule, the lift and all lifts from 2 on"


@pytest.mark.parametrize("arguments", [["--seeds", "many"], ["--colour", "red"]])
def test_wrong_arguments_are_explained(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["click_delays", *arguments])
    with pytest.raises(SystemExit):
        click_delays.main()
    assert "usage:" in capsys.readouterr().err
