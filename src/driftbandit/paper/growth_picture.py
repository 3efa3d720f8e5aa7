"""The picture of the study of growth: one panel per axis, and several members against one."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from driftbandit.paper.growth_axes import AXES, PAIRS, POLICIES, Axis, Found, promised, promised_slopes, regrets, slope
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.plots import COLOURS, Picture

_STYLES: dict[str, dict[str, Any]] = {
    "linucb": {"color": COLOURS[1], "marker": "s"},
    "dlinucb": {"color": COLOURS[0], "marker": "o"},
    "dlinucb-one": {"color": COLOURS[0], "marker": "o", "linestyle": ":", "markerfacecolor": "white"},
    "dlinucb-paper": {"color": COLOURS[2], "marker": "^"},
    "dlinucb-paper-one": {"color": COLOURS[2], "marker": "^", "linestyle": ":", "markerfacecolor": "white"},
    "oracle": {"color": COLOURS[6], "marker": "D"},
    "driftucb": {"color": COLOURS[3], "marker": "v"},
}
"""From the highest curve to the lowest, so that the legend is in their order."""


def growth_figure(found: Found) -> Picture:
    """Regret along every axis on logarithmic scales, with slopes, and several members against one."""
    figure = Picture(figsize=(14.0, 8.6), layout="constrained")
    panels = figure.subplots(2, 3)
    for axes, axis in zip(panels.flat, AXES, strict=False):
        _draw_axis(axes, found, axis)
    _draw_members(panels[1, 2], found)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def _draw_axis(axes: Axes, found: Found, axis: Axis) -> None:
    bound = promised(axis)[0]
    axes.plot(
        axis.values, bound, color="black", linestyle="--", linewidth=1.0, label="bound of Theorem 3.3, one member"
    )
    for policy, style in _STYLES.items():
        rows = regrets(found, axis, policy)
        axes.errorbar(
            axis.values,
            rows.mean(axis=1),
            yerr=rows.std(axis=1, ddof=1) if rows.shape[1] > 1 else None,
            capsize=2,
            markersize=5,
            linewidth=1.4,
            label=POLICIES[policy][0],
            **style,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(axis.values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{value:,g}" for value in axis.values])
    axes.set_xlabel(axis.label)
    axes.set_ylabel("accumulated regret")
    measured = slope(found, axis, "dlinucb")
    axes.set_title(
        f"{axis.title}\nslope of dLinUCB {measured.estimate:.2f}, LinUCB {slope(found, axis, 'linucb').estimate:.2f}, "
        f"bound {promised_slopes(axis)[0]:.2f}",
        fontsize=10,
    )
    axes.grid(alpha=0.25)


def _draw_members(axes: Axes, found: Found) -> None:
    """Regret saved by several members in every column, seed by seed."""
    for number, (several, one) in enumerate(PAIRS):
        saved = np.array(
            [
                [b.regret - a.regret for a, b in zip(found[c.name, several], found[c.name, one], strict=True)]
                for c in COLUMNS
            ]
        )
        places = np.arange(len(COLUMNS)) + (number - 0.5) * 0.25
        colour = _STYLES[several]["color"]
        for runs in saved.T:
            axes.plot(places, runs, "o", color=colour, markersize=3, alpha=0.35)
        axes.plot(
            places,
            saved.mean(axis=1),
            "_",
            color=colour,
            markersize=18,
            markeredgewidth=2.5,
            label=POLICIES[several][0],
        )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(COLUMNS)), [column.name.replace(", ", "\n") for column in COLUMNS], fontsize=8)
    axes.set_xlabel("noise, shift, period")
    axes.set_ylabel("regret of one member minus that of several")
    axes.set_title("Several members against one, columns of Table 1\ndots: seeds; bars: means", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(axis="y", alpha=0.25)
