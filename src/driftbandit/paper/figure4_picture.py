"""The picture of Figure 4: normalised reward over time, with the true changes and every policy's alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from driftbandit.evaluation.detection import alarm_rounds
from driftbandit.evaluation.trace import Trace
from driftbandit.plots import Picture, name_of, styles_of

_LANE = 0.07
"""Height of a lane of alarms, as a share of the curves'."""


@dataclass(frozen=True)
class Panel:
    """One panel of `reward_figure`: its title, its runs, and whether to mark shifts and detected changes."""

    title: str
    traces: Sequence[Trace]
    show_changes: bool = False


def reward_figure(panels: Sequence[Panel], chance: float) -> Picture:
    """Accumulated reward over time, divided by what random picks would earn.

    Parameters
    ----------
    panels : sequence of Panel
        Curves are means over seeds. True changes are black lines; the alarms of the first seed are ticks at the
        bottom, one lane per policy.
    chance : float
        Expected reward of a random pick.
    """
    columns = min(len(panels), 2)
    lines = -(-len(panels) // 2)
    figure = Picture(figsize=(6.2 * columns, 4.2 * lines), layout="constrained")
    styles = styles_of(list(dict.fromkeys(trace.policy for panel in panels for trace in panel.traces)))
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, number + 1)
        policies = list(dict.fromkeys(trace.policy for trace in panel.traces))
        horizon = len(panel.traces[0])
        rounds = np.arange(1, horizon + 1)
        drawn = np.unique(np.linspace(horizon // 100, horizon - 1, 1000).astype(int))
        for policy in policies:
            runs = np.array([np.cumsum(trace.rewards) for trace in panel.traces if trace.policy == policy])
            curve = runs.mean(axis=0) / (chance * rounds)
            axes.plot(rounds[drawn], curve[drawn], label=name_of(policy), linewidth=1.7, **styles[policy])
        seed = f"; alarms of pool seed {panel.traces[0].seed}" if panel.show_changes else ""
        axes.set_title(panel.title + seed, fontsize=11)
        axes.set_xlabel("round")
        axes.set_ylabel("normalised reward")
        axes.set_xlim(0, horizon)
        axes.grid(axis="y", alpha=0.25)
        if panel.show_changes:
            _mark_changes(axes, panel, styles)
        low, high = axes.get_ylim()
        room = 0.2 if panel.show_changes else 0.12  # for the legend above the curves
        axes.set_ylim(low, high + room * (high - low))
        axes.legend(fontsize=8.5, loc="upper center", ncols=4, framealpha=1.0, columnspacing=1.2, handlelength=1.5)
    return figure


def _mark_changes(axes: Axes, panel: Panel, styles: dict[str, dict[str, Any]]) -> None:
    for number, shift in enumerate(panel.traces[0].shifts):
        axes.axvline(shift, color="black", linewidth=0.8, alpha=0.6, label="_" if number else "true change")
    first: dict[str, Trace] = {}
    for trace in panel.traces:
        first.setdefault(trace.policy, trace)
    low, high = axes.get_ylim()
    detectors = [trace for trace in first.values() if trace.changes]
    lane = _LANE * (high - low)
    for place, trace in enumerate(detectors):
        alarms = alarm_rounds(trace.changes)
        level = np.full(len(alarms), low - (place + 0.5) * lane)
        marks = {"color": styles[trace.policy]["color"], "markersize": 10, "markeredgewidth": 1.8}
        axes.plot(alarms, level, "|", label=f"{name_of(trace.policy)}'s alarms", **marks)
    axes.set_ylim(low - (len(detectors) + 0.2) * lane, high)
