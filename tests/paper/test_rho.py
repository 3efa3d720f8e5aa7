"""The figure of the rho study: regret and delays against the share of arms that change."""

import io

import numpy as np
import pytest

from driftbandit import Trace, summarise
from driftbandit.core import Change
from driftbandit.paper.rho import share_figure


def trace(seed, regret, alarms):
    return Trace(
        policy="dlinucb",
        setting="a",
        seed=seed,
        choices=np.zeros(100, dtype=np.int64),
        rewards=np.zeros(100),
        regret=np.full(100, float(regret)),
        shifts=np.array((40, 80)),
        changes=tuple(Change(alarm, "spawned", 1, {}) for alarm in alarms),
        seconds=0.1,
    )


def draw(figure):
    """Drawing is where Matplotlib finds most faults."""
    figure.savefig(io.BytesIO(), format="png", dpi=40)


def rows_at(shares, alarms):
    runs = [
        Trace(**{**vars(trace(seed, 0.1 * (1 + seed), alarms)), "setting": f"rho {share}"})
        for share in shares
        for seed in range(2)
    ]
    return summarise(runs)


def test_the_figure_of_shares():
    shares = (0.1, 0.5, 1.0)
    figure = share_figure(rows_at(shares, alarms=(45, 90)), shares, {0.1: 57.59, 1.0: 54.07})
    draw(figure)
    left, right = figure.axes
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in left.lines}
    assert drawn["dLinUCB, paper"] == ([0.1, 1.0], [57.59, 54.07])
    bars = left.containers[0].lines[0]
    assert list(bars.get_xdata()) == list(shares)
    assert [float(value) for value in bars.get_ydata()] == pytest.approx([15.0] * 3)
    medians = {line.get_label(): list(line.get_ydata()) for line in right.lines}
    assert medians["median"] == [7.5] * 3, "delays of 5 and 10 in both runs"


def test_shares_without_a_detection_are_left_out():
    rows = [*rows_at((0.0,), alarms=()), *rows_at((0.5, 1.0), alarms=(45, 90))]
    right = share_figure(rows, (0.0, 0.5, 1.0), {}).axes[1]
    assert list(right.lines[0].get_xdata()) == [0.5, 1.0]


def test_the_figure_of_shares_without_any_detection():
    draw(share_figure(rows_at((0.0, 0.1), alarms=()), (0.0, 0.1), {}))
