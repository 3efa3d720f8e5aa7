"""The picture of the study of sensitivity: regret above, false alarms below, one column per setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from matplotlib.axes import Axes

from driftbandit.plots import COLOURS, Picture, name_of


class Measured(Protocol):
    """What the picture needs to know of one setting."""

    @property
    def regret(self) -> float:
        """Mean regret where tastes shift."""

    @property
    def false_alarms(self) -> float:
        """Alarms per run in which nothing changes."""

    @property
    def found(self) -> int:
        """Shifts detected."""

    @property
    def missed(self) -> int:
        """Shifts not detected."""


Lines = Mapping[str, Mapping[str, Measured]]
"""By policy, then by label of the value."""

_ACROSS = 4
"""Settings side by side."""

_STYLES: dict[str, dict[str, Any]] = {
    "dlinucb": {"color": COLOURS[0], "marker": "o", "linestyle": "-"},
    "dlinucb-paper": {"color": COLOURS[2], "marker": "^", "linestyle": "--"},
    "linucb": {"color": COLOURS[1], "marker": "s", "linestyle": "-"},
    "driftucb": {"color": COLOURS[3], "marker": "v", "linestyle": "-"},
}


def sensitivity_figure(
    knobs: Sequence[tuple[str, str, Lines]], references: Mapping[str, float], sizes: tuple[str, Lines]
) -> Picture:
    """Regret and false alarms by setting, and what becomes of small shifts.

    Parameters
    ----------
    knobs : sequence of (title, label of the usual value, lines)
        The settings.
    references : mapping of str to float
        Regret of other policies in the same world.
    sizes : (title, lines)
        Shifts of several sizes.
    """
    figure = Picture(figsize=(13.5, 11.0), layout="constrained")
    grid = figure.subplots(4, _ACROSS)
    # Regret stands above the false alarms of the same setting.
    pairs = [(grid[2 * row, column], grid[2 * row + 1, column]) for row in range(2) for column in range(_ACROSS)]
    for (title, usual, lines), (above, below) in zip(knobs, pairs, strict=False):
        _draw(above, lines, "regret", usual)
        _draw(below, lines, "false_alarms", usual)
        for policy, regret in references.items():
            above.axhline(regret, color=_STYLES[policy]["color"], linewidth=1.2, linestyle=":")
        above.set_title(title, fontsize=11)
        above.set_yscale("log")
        above.set_ylim(8.0, 600.0)
        above.set_yticks([10, 30, 100, 300], ["10", "30", "100", "300"])
        below.set_yscale("symlog", linthresh=1.0)
        below.set_ylim(-0.15, 150.0)
        below.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    title, lines = sizes
    above, below = pairs[len(knobs)]
    _draw(above, lines, "regret")
    above.set_yscale("log")
    above.set_title(title, fontsize=11)
    _draw_found(below, lines)
    for above, below in pairs[len(knobs) + 1 :]:
        above.set_axis_off()
        below.set_axis_off()
    for row in (0, 2):
        grid[row, 0].set_ylabel("regret where tastes shift")
        grid[row + 1, 0].set_ylabel("false alarms per still run\nof 20,000 rounds")
    grid[2, -1].legend(
        *pairs[len(knobs)][0].get_legend_handles_labels(),
        loc="center",
        fontsize=11,
        frameon=False,
        title="grey: the value of Table 1\ndotted: other policies,\nwhich do not have the setting\n",
    )
    return figure


def _draw(axes: Axes, lines: Lines, what: str, usual: str = "") -> None:
    labels = list(next(iter(lines.values())))
    for policy, by in lines.items():
        heights = [getattr(measured, what) for measured in by.values()]
        axes.plot(range(len(heights)), heights, markersize=5, label=name_of(policy), **_STYLES[policy])
    if usual in labels:
        axes.axvline(labels.index(usual), color="black", alpha=0.12, linewidth=9)
    _tick(axes, labels)


def _draw_found(axes: Axes, lines: Lines) -> None:
    """Shares of shifts that were found, on a scale of its own."""
    for policy, by in lines.items():
        seen = [measured.found + measured.missed for measured in by.values()]
        if any(seen):
            shares = [100.0 * m.found / (m.found + m.missed) for m in by.values()]
            axes.plot(range(len(shares)), shares, markersize=5, **_STYLES[policy])
    axes.set_ylabel("shifts found, %")
    _tick(axes, list(next(iter(lines.values()))))


def _tick(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_xticks(range(len(labels)), labels, fontsize=8, rotation=45)
    axes.grid(alpha=0.25)
