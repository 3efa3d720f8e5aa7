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
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from driftbandit.core import Floats
from driftbandit.evaluation.detection import alarm_rounds
from driftbandit.evaluation.results import Row, best_first, number_of, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.policies.registry import title_of

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart; `colours` goes on where it ends."""

_LIGHTNESS = (30.0, 72.0)
"""CIELAB lightness of further colours: neither taken for black nor lost on white paper."""

_GRID = 14
"""Steps per channel of the grid that further colours are taken from."""

# Linear sRGB to CIE XYZ (IEC 61966-2-1), each row divided by the white point D65.
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_TO_XYZ /= _TO_XYZ.sum(axis=1, keepdims=True)

_DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_FIRST = ("dlinucb", "linucb", "adts", "oracle")
"""Policies that always have the first colours, the paper's own policy first."""

# A policy whose regret is this many times the median would flatten all other curves.
_OFF_THE_CHART = 4.0

# More curves than these cannot be followed, and their legend would hide them.
_MOST_CURVES = 16


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
        Runs in one setting; curves are means over seeds, bands one standard deviation. Only the 16 best policies
        have a curve, and none with more than four times the median regret; the others are hollow dots at the right.
    title : str
        Heading of the figure.
    """
    if not traces:
        raise ValueError("traces: expected at least one run, got none")
    rows = best_first(summarise(traces))
    styles = styles_of([row.policy for row in rows])
    median = float(np.median([row.regret for row in rows]))
    shown = [row for row in rows if row.regret <= _OFF_THE_CHART * max(median, 1e-9)][:_MOST_CURVES]
    detectors = [row for row in rows if row.detection and (row.detection.delays or row.detection.false_alarms)]
    lanes = max(len(detectors), 1)
    figure = Picture(figsize=(12.0, 5.6 + 0.3 * lanes), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(2.3, 1.0), height_ratios=(5.2, 0.3 + 0.32 * lanes))
    curves = figure.add_subplot(grid[0, 0])
    lane_axes = figure.add_subplot(grid[1, 0], sharex=curves)
    finals = figure.add_subplot(grid[:, 1])
    figure.suptitle(title.replace("$", r"\$"), fontsize=13)
    _draw_curves(curves, traces, shown, styles)
    _draw_lanes(lane_axes, traces, detectors, styles)
    _draw_finals(finals, rows, styles, {row.policy for row in shown})
    return figure


def name_of(policy: str) -> str:
    """Name of a policy for Matplotlib, with dollar signs escaped, which would start a formula."""
    return title_of(policy).replace("$", r"\$")


def styles_of(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of every policy's line, as keywords for Matplotlib; no two policies have one colour."""
    order = [name for name in _FIRST if name in policies]
    order += [name for name in policies if name not in order]
    return {
        name: {"color": colour, "linestyle": _DASHES[i // len(COLOURS) % len(_DASHES)]}
        for i, (name, colour) in enumerate(zip(order, colours(len(order)), strict=True))
    }


def colours(count: int) -> list[str]:
    """As many different colours as asked for, the first of them always the same.

    After `COLOURS`, each is the one of a grid that is farthest in CIELAB from all colours before it.

    >>> colours(2), len(set(colours(40)))
    (['#0072B2', '#D55E00'], 40)
    """
    found = list(COLOURS[:count])
    if count <= len(COLOURS):
        return found
    steps = np.linspace(0.0, 1.0, _GRID)
    grid = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    places = _cielab(grid)
    clear = (places[:, 0] >= _LIGHTNESS[0]) & (places[:, 0] <= _LIGHTNESS[1])
    grid, places = grid[clear], places[clear]
    taken = _cielab(np.array([to_rgb(colour) for colour in found]))
    gaps = np.linalg.norm(places[:, None] - taken, axis=-1).min(axis=1)
    while len(found) < count:
        best = int(np.argmax(gaps))
        found.append(to_hex(grid[best]))
        gaps = np.minimum(gaps, np.linalg.norm(places - places[best], axis=-1))
    return found


def _cielab(rgb: Floats) -> Floats:
    """sRGB colours from 0 to 1 as CIELAB, in which equal distances look about equally large."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    t = np.cbrt(linear @ _TO_XYZ.T)
    lab: Floats = np.stack([116.0 * t[:, 1] - 16.0, 500.0 * (t[:, 0] - t[:, 1]), 200.0 * (t[:, 1] - t[:, 2])], axis=1)
    return lab


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


def _draw_finals(axes: Axes, rows: Sequence[Row], styles: dict[str, dict[str, Any]], shown: set[str]) -> None:
    """Final regret as dots, hollow for policies without a curve; a bar on a log axis would start anywhere."""
    lowest = min((row.regret for row in rows if row.regret > 0.0), default=0.0)
    for place, row in enumerate(rows):
        spread = float(np.nan_to_num(row.regret_std))
        # On a log axis an error bar cannot reach 0.
        below = min(spread, max(row.regret - lowest / 2.0, 0.0)) if lowest else spread
        colour = styles[row.policy]["color"]
        axes.errorbar(
            row.regret,
            place,
            xerr=[[below], [spread]],
            fmt="o",
            color=colour,
            markerfacecolor=colour if row.policy in shown else "white",
            markersize=7,
            capsize=3,
            linewidth=1.2,
        )
        label = f"{row.regret:,.0f}" if row.regret >= 100 else f"{row.regret:,.1f}"
        axes.annotate(
            label, (row.regret + spread, place), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8.5
        )
    axes.set_yticks(range(len(rows)), [name_of(row.policy) for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("accumulated regret" + (", log scale" if lowest else ""))
    if lowest:
        axes.set_xscale("log")
        axes.set_xlim(lowest / 2.0, max(row.regret for row in rows) * 5.0)
    hollow = "" if len(shown) == len(rows) else "; hollow: no curve"
    axes.set_title(f"final regret, {number_of('seed', rows[0].seeds)}\n± standard deviation{hollow}", fontsize=10)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
