"""The figure of regret over time, and what all figures share: colours, names, and being shown in notebooks.

Figures are drawn from traces alone. Nothing is run here, so any figure can be redrawn from saved traces. A figure that
only one artefact of the paper needs lives in the module of that artefact.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftbandit.evaluation.detection import alarm_rounds
from driftbandit.evaluation.results import Row, best_first, number_of, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.policies.registry import title_of

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

_DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_FIRST = ("dlinucb", "linucb", "adts", "oracle")
"""Policies that always have the first colours, the paper's own policy first."""

# A policy whose regret is this many times the median would flatten all other curves.
_OFF_THE_CHART = 4.0


class Picture(Figure):
    """A Matplotlib figure that a notebook shows by itself.

    IPython shows a plain `Figure` only after `matplotlib.pyplot` was imported or ``%matplotlib inline`` was typed.
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def regret_figure(traces: Sequence[Trace], title: str) -> Picture:
    """Regret over time, true shifts and detected changes, and the final regret of every policy.

    Parameters
    ----------
    traces : sequence of Trace
        Runs in one setting; curves are means over seeds, bands one standard deviation.
    title : str
        Heading of the figure.
    """
    if not traces:
        raise ValueError("traces: expected at least one run, got none")
    rows = best_first(summarise(traces))
    styles = styles_of([row.policy for row in rows])
    median = float(np.median([row.regret for row in rows]))
    shown = [row for row in rows if row.regret <= _OFF_THE_CHART * max(median, 1e-9)]
    detectors = [row for row in rows if row.detection and (row.detection.delays or row.detection.false_alarms)]
    lanes = max(len(detectors), 1)
    figure = Picture(figsize=(12.0, 5.6 + 0.22 * lanes), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(2.3, 1.0), height_ratios=(5.2, 0.3 + 0.32 * lanes))
    curves = figure.add_subplot(grid[0, 0])
    lane_axes = figure.add_subplot(grid[1, 0], sharex=curves)
    bars = figure.add_subplot(grid[:, 1])
    figure.suptitle(title.replace("$", r"\$"), fontsize=13)
    _draw_curves(curves, traces, shown, styles)
    _draw_lanes(lane_axes, traces, detectors, styles)
    grey = {"color": "#BBBBBB"}
    _draw_bars(bars, rows, {row.policy: styles[row.policy] if row in shown else grey for row in rows})
    return figure


def name_of(policy: str) -> str:
    """Name of a policy for Matplotlib, with dollar signs escaped, which would start a formula."""
    return title_of(policy).replace("$", r"\$")


def styles_of(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of every policy's line, as keywords for Matplotlib; up to 40 policies can be told apart."""
    order = [name for name in _FIRST if name in policies]
    order += [name for name in policies if name not in order]
    return {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": _DASHES[i // len(COLOURS) % len(_DASHES)],
        }
        for i, name in enumerate(order)
    }


def _curves_of(traces: Sequence[Trace], policy: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.cumsum(trace.regret) for trace in traces if trace.policy == policy])


def _draw_curves(axes: Axes, traces: Sequence[Trace], rows: Sequence[Row], styles: dict[str, dict[str, Any]]) -> None:
    horizon = len(traces[0])
    rounds = np.arange(1, horizon + 1)
    handles: dict[str, Any] = {}
    for shift in traces[0].shifts:
        handles["true shift"] = axes.axvline(shift, color="black", linewidth=0.8, alpha=0.6)
    for row in reversed(rows):
        curves = _curves_of(traces, row.policy)
        mean = curves.mean(axis=0)
        name = name_of(row.policy)
        (handles[name],) = axes.plot(rounds, mean, label=name, linewidth=1.7, **styles[row.policy])
        if len(curves) > 1:
            spread = curves.std(axis=0, ddof=1)
            colour = styles[row.policy]["color"]
            axes.fill_between(rounds, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlim(0, horizon)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("accumulated regret")
    axes.tick_params(labelbottom=False)
    axes.grid(axis="y", alpha=0.25)
    # Labels set on the lines themselves are left out of a legend if they start with an underscore.
    axes.legend(handles.values(), handles.keys(), loc="upper left", fontsize=9, framealpha=0.9)


def _draw_lanes(axes: Axes, traces: Sequence[Trace], rows: Sequence[Row], styles: dict[str, dict[str, Any]]) -> None:
    for shift in traces[0].shifts:
        axes.axvline(shift, color="black", linewidth=0.8, alpha=0.6)
    for lane, row in enumerate(rows):
        runs = [trace for trace in traces if trace.policy == row.policy]
        alarms = [alarm for trace in runs for alarm in alarm_rounds(trace.changes)]
        axes.plot(
            alarms,
            np.full(len(alarms), lane),
            "|",
            color=styles[row.policy]["color"],
            markersize=11,
            markeredgewidth=1.2,
            alpha=0.7,
        )
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [name_of(row.policy) for row in rows], fontsize=8)
    axes.set_xlabel("round")
    axes.set_title(
        "detected changes, all seeds" if rows else "no policy here reports changes",
        fontsize=9,
        loc="left",
    )


def _draw_bars(axes: Axes, rows: Sequence[Row], styles: dict[str, dict[str, Any]]) -> None:
    places = np.arange(len(rows))
    axes.barh(
        places,
        [row.regret for row in rows],
        xerr=[np.nan_to_num(row.regret_std) for row in rows],
        color=[styles[row.policy]["color"] for row in rows],
        height=0.6,
        error_kw={"linewidth": 1.0},
    )
    axes.set_yticks(places, [name_of(row.policy) for row in rows], fontsize=9)
    axes.invert_yaxis()
    positive = [row.regret for row in rows if row.regret > 0.0]
    axes.set_xlabel("accumulated regret" + (", log scale" if positive else ""))
    if positive:
        axes.set_xscale("log")
        axes.set_xlim(min(positive) / 2.0, max(positive) * 5.0)
    for place, row in zip(places, rows, strict=True):
        label = f"{row.regret:,.0f}" if row.regret >= 100 else f"{row.regret:,.1f}"
        axes.annotate(
            label,
            (row.regret + np.nan_to_num(row.regret_std), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_title(f"final regret, {number_of('seed', rows[0].seeds)}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
