"""The picture of Table 1: paper and ours, how far tastes lie apart, and what makes LinUCB depend on the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from driftbandit.core import Floats
from driftbandit.evaluation.results import Row
from driftbandit.paper.table1_columns import COLUMNS, PAPER
from driftbandit.plots import COLOURS, Picture, name_of

_DRAWN = {
    "LinUCB, paper": "paper",
    "LinUCB as in Table 1: exploration 0.6": "ours, exploration 0.6",
    "LinUCB, exploration 100 times the noise": "exploration 100 times the noise",
}
"""Settings of LinUCB that are drawn, and what to call them."""


def table1_figure(rows: Mapping[tuple[str, str], Row], gaps: Floats, tried: Mapping[str, Sequence[float]]) -> Picture:
    """Three panels.

    Parameters
    ----------
    rows : mapping
        Our results by policy and column.
    gaps : array
        Distances between tastes that the simulator draws.
    tried : mapping of str to sequence of float
        Regret at the three noises, by description.
    """
    figure = Picture(figsize=(14.5, 4.8), layout="constrained")
    table, distances, noise = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    _draw_table(table, rows)
    _draw_distances(distances, gaps)
    _draw_noise(noise, tried)
    return figure


def _draw_table(axes: Axes, rows: Mapping[tuple[str, str], Row]) -> None:
    places = np.arange(len(COLUMNS))
    for policy, colour in zip(PAPER, COLOURS, strict=False):
        printed = [mean for mean, _ in PAPER[policy]]
        ours = [rows[policy, column.name].regret for column in COLUMNS]
        axes.plot(places - 0.12, printed, "D", color=colour, markerfacecolor="white", markersize=6)
        axes.plot(places + 0.12, ours, "o", color=colour, markersize=6, label=name_of(policy))
    axes.set_yscale("log")
    axes.set_yticks([30, 100, 300, 1000, 3000], ["30", "100", "300", "1,000", "3,000"])
    axes.set_ylim(30.0, 9000.0)
    axes.set_xticks(places, [column.name.replace(", ", "\n") for column in COLUMNS], fontsize=9)
    axes.set_xlabel("noise, shift, period")
    axes.set_ylabel("accumulated regret")
    axes.set_title("Table 1: hollow, paper; full, ours", fontsize=11)
    axes.legend(ncols=3, fontsize=9, loc="upper center", frameon=False)
    axes.grid(axis="y", alpha=0.25)


def _draw_distances(axes: Axes, gaps: Floats) -> None:
    axes.hist(gaps, bins=80, color=COLOURS[5], density=True)
    height = axes.get_ylim()[1]
    for size in sorted({column.shift for column in COLUMNS}):
        axes.axvline(size, color="black", linewidth=1.0)
        rejected = 100.0 * float((gaps < size).mean())
        axes.annotate(
            f"shift {size:g}:\n{rejected:.0f} % rejected",
            (size, 1.08 * height),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=9,
            va="center",
        )
    axes.set_ylim(0.0, 1.2 * height)
    axes.set_xlim(0.0, 1.45)
    axes.set_yticks([])
    axes.set_xlabel("distance between two tastes")
    axes.set_title("What the authors' simulator draws", fontsize=11)


def _draw_noise(axes: Axes, tried: Mapping[str, Sequence[float]]) -> None:
    labels = [f"{column.noise:g}" for column in COLUMNS[:3]]
    for name, colour, marker in zip(_DRAWN, (COLOURS[2], COLOURS[0], COLOURS[1]), "Dos", strict=True):
        axes.plot(range(3), tried[name], marker=marker, color=colour, label=_DRAWN[name])
    axes.set_xticks(range(3), labels)
    axes.set_ylim(0.0, 560.0)
    axes.set_xlabel("noise")
    axes.set_ylabel("regret of LinUCB")
    axes.set_title("LinUCB and the noise", fontsize=11)
    axes.legend(fontsize=9, loc="lower left")
    axes.grid(alpha=0.25)
