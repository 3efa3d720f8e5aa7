"""The arena's picture: the best policies in every kind of scenario, one dot per scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftbandit.arena.entrants import OURS, Entrant, in_focus
from driftbandit.arena.scenarios import Scenario
from driftbandit.arena.scoreboard import TITLES, Scores
from driftbandit.core import Floats
from driftbandit.evaluation.results import number_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 10
"""Policies drawn."""

_PANELS = 3
"""Panels side by side."""

_WIDTH = 9.0
"""Inches; README shows the picture about 900 pixels wide, 100 to the inch."""

_FARTHEST = 100.0
"""Ratios above this are drawn at the edge."""

_TICKS = (1, 2, 5, 10, 30, 100)


def arena_figure(
    scores: Scores, scenarios: Mapping[str, Scenario], entrants: Mapping[str, Entrant], focus: str = OURS
) -> Figure:
    """Regret of the ten best policies as a multiple of the best in each scenario, one panel per kind of scenario.

    Drawn are the policy in focus and its rivals, not policies that are told the shifts, nor the policy in focus with a
    part switched off. The best have the lowest mean logarithm of their ratios; a policy that plays fewer than half of
    the scenarios is left out, and so is a kind in which only one of the drawn policies plays. Small dots are scenarios,
    large ones the geometric mean.
    """
    from driftbandit.plots import Picture, colours

    ratios = competitors(scores, scenarios, entrants, focus)
    names = list(ratios)[:_MOST]
    if focus in ratios and focus not in names:
        names[-1] = focus
    kinds = {
        kind: [place for place, scenario in enumerate(scenarios.values()) if scenario.kind == kind] for kind in TITLES
    }
    kinds = {kind: places for kind, places in kinds.items() if _players(ratios, names, places) > 1} or {
        kind: places for kind, places in kinds.items() if places
    }
    columns = min(len(kinds), _PANELS)
    lines = -(-len(kinds) // columns)
    figure = Picture(figsize=(_WIDTH, 1.0 + lines * (0.75 + 0.27 * max(len(names), 3))), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    paints = dict(zip(names, colours(len(names)), strict=True))
    for axes, (kind, places) in zip(panels, kinds.items(), strict=False):
        axes.set_title(f"{TITLES[kind]}\n{number_of('scenario', len(places))}", fontsize=10)
        for row, name in enumerate(names):
            _draw(axes, row, ratios[name][places], paints[name])
    for axes in panels[len(kinds) :]:
        axes.set_visible(False)
    first = panels[0]
    farthest = min(max((float(np.nanmax(ratios[name])) for name in names), default=1.0), _FARTHEST)
    right = max(farthest, 2.0) * 1.4
    ticks = [tick for tick in _TICKS if tick <= right]
    first.set_xscale("log")
    first.set_xticks(ticks, [f"{tick}" + "+" * (tick == _FARTHEST) for tick in ticks])
    first.set_xlim(0.7, right)
    first.set_yticks(range(len(names)), [entrants[name].title.replace("$", r"\$") for name in names])
    first.set_ylim(len(names) - 0.4, -0.6)
    for place, axes in enumerate(panels):
        axes.minorticks_off()
        axes.tick_params(labelsize=9, labelbottom=place + columns >= len(kinds))
    first.tick_params(axis="y", labelsize=10)
    which = f"the {len(names)} best of {len(ratios)} policies" if len(names) < len(ratios) else "all policies"
    figure.suptitle(f"Regret of {which}, as a multiple of the least in each scenario", fontsize=12)
    figure.supxlabel("1 is best. Small dots: scenarios; large dots and numbers: their geometric means", fontsize=10)
    return figure


def competitors(
    scores: Scores, scenarios: Mapping[str, Scenario], entrants: Mapping[str, Entrant], focus: str
) -> dict[str, Floats]:
    """Regret as a multiple of the least in each scenario, NaN where a policy did not play; best policy first."""
    field = [name for name, entrant in entrants.items() if entrant.rival or name == focus]
    regrets = np.array([[_regret(scores, place, s, name, focus) for place, s in scenarios.items()] for name in field])
    regrets = regrets.reshape(len(field), len(scenarios))
    least = np.fmin.reduce(regrets, axis=0, initial=math.inf)
    # Where the best lost nothing, whoever lost something is as far off as can be drawn.
    ratios = np.where(regrets > 0.0, _FARTHEST, regrets + 1.0)
    np.divide(regrets, least, out=ratios, where=least > 0.0)
    played = np.isfinite(ratios).sum(axis=1)
    often = {row: played[row] for row in range(len(field)) if 2 * played[row] >= len(scenarios)}
    level = {row: float(np.nanmean(np.log(ratios[row]))) for row in often}
    return {field[row]: ratios[row] for row in sorted(level, key=lambda row: level[row])}


def _regret(scores: Scores, place: str, scenario: Scenario, name: str, focus: str) -> float:
    who = in_focus(scenario.kind, focus) if name == focus else name
    return scores[place, who].regret if (place, who) in scores else math.nan


def _players(ratios: Mapping[str, Floats], names: Sequence[str], places: Sequence[int]) -> int:
    return sum(bool(np.isfinite(ratios[name][places]).any()) for name in names)


def _draw(axes: Axes, row: int, ratios: Floats, colour: str) -> None:
    """One policy in one panel; nothing if it does not play there."""
    found = np.minimum(ratios[np.isfinite(ratios)], _FARTHEST)
    axes.axhline(row, color="#DDDDDD", linewidth=0.6, zorder=0)
    axes.axvline(1.0, color="#999999", linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    if not len(found):
        return
    mean = float(np.exp(np.log(found).mean()))
    axes.plot(found, np.full(len(found), row), "o", color=colour, markersize=3.5, alpha=0.45, markeredgewidth=0)
    axes.plot(mean, row, "o", color=colour, markersize=7.5, markeredgecolor="white", markeredgewidth=0.7)
    text = f"{mean:.2f}" if mean < 1.995 else f"{mean:.1f}" if mean < 9.95 else f"{mean:.0f}"
    # Without a background, the line at 1 strikes the number through; above the dots, it would cut them.
    above = axes.annotate(text, (mean, row), (0, 5), textcoords="offset points", fontsize=8.5, ha="center", zorder=1.0)
    above.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
