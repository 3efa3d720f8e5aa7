"""The picture of Figure 3: click-through rates of policies, and of single articles with detected changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from driftbandit.core import Floats
from driftbandit.evaluation.detection import ALARMS
from driftbandit.paper.figure3_results import Replays, Side
from driftbandit.plots import Picture, colours

SAMPLES = 5
"""Number of articles in panel (c), those that dLinUCB learned most about."""
ALARMED = ("dLinUCB", "LR member")
"""Policies of the articles' side whose alarms panel (c) shows."""
OBSERVATIONS = 2000
_LEAST_POINTS = 8


def figure(sides: Sequence[Side], replays: Replays, samples: Sequence[ArticlePanel], kind: str) -> Picture:
    """The picture of both sides of one log."""
    panels = []
    for letter, side in zip("ab", sides, strict=True):
        curves = {}
        for name, runs in replays[side.kind].items():
            ends, rates = runs[0].trailing()
            curves[name] = (side.hours[ends - 1], rates)
        panels.append(RatePanel(f"({letter}) models of {side.kind}", curves, side.planted_hours))
    return rate_figure(panels, samples, sides[1].planted_hours, f"Figure 3: {kind}")


def samples_of(side: Side, replays: Replays) -> list[ArticlePanel]:
    """The articles of panel (c), most rewards first; none where no article was displayed often enough."""
    displayed = side.log.displayed()
    runs = {name: replays["articles"][name][0] for name in ALARMED}
    learned = np.bincount(displayed[runs["dLinUCB"].matched], minlength=len(side.log.articles))
    samples = []
    for row in np.argsort(-learned, kind="stable")[:SAMPLES].tolist():
        shown = np.flatnonzero(displayed == row)
        size = min(OBSERVATIONS, len(shown) // _LEAST_POINTS)
        if not size:
            continue
        blocks = np.array_split(shown, round(len(shown) / size))
        detected = {}
        for name, run in runs.items():
            alarms = [event for event, change in run.changes if change.kind in ALARMS and displayed[event] == row]
            detected[name] = side.hours[alarms]
        samples.append(
            ArticlePanel(
                int(side.log.articles[row]),
                f"points of about {size:,} displays",
                np.array([side.hours[block].mean() for block in blocks]),
                np.array([side.log.rewards[block].mean() for block in blocks]),
                detected,
            )
        )
    return samples


@dataclass(frozen=True)
class RatePanel:
    """A panel of `rate_figure`: its title, curves as hours and normalised rates by policy, and hours of the shifts."""

    title: str
    curves: Mapping[str, tuple[Floats, Floats]]
    shifts: Floats


@dataclass(frozen=True)
class ArticlePanel:
    """An article in `rate_figure`: its id, what a point is, its rate over the hours, and hours of alarms by policy."""

    article: int
    points: str
    hours: Floats
    rates: Floats
    detected: Mapping[str, Floats]


def rate_figure(panels: Sequence[RatePanel], articles: Sequence[ArticlePanel], shifts: Floats, title: str) -> Picture:
    """Normalised click-through rates of policies, and those of single articles with detected changes.

    Parameters
    ----------
    panels : sequence of RatePanel
        Side by side.
    articles : sequence of ArticlePanel
        One below the other, at the right.
    shifts : array
        Hours of the planted changes, drawn into the articles' panels.
    title : str
        Heading of the figure.
    """
    columns = len(panels) + bool(articles)
    figure = Picture(figsize=(5.6 * columns, 6.4), layout="constrained")
    figure.suptitle(title, fontsize=13)
    grid = figure.add_gridspec(max(len(articles), 1), columns)
    styles = _rate_styles(name for panel in panels for name in panel.curves)
    for column, panel in enumerate(panels):
        axes = figure.add_subplot(grid[:, column])
        _draw_shifts(axes, panel.shifts)
        for name, (hours, rates) in panel.curves.items():
            axes.plot(hours, rates, label=name, linewidth=1.7, **styles[name])
        axes.axhline(1.0, color="#888888", linewidth=0.8, linestyle=":")
        axes.set_title(panel.title, fontsize=11)
        axes.set_xlabel("hours")
        axes.set_ylabel("click-through rate / random logger's, latest tenth of the events")
        axes.grid(axis="y", alpha=0.25)
        axes.legend(fontsize=8.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    above: Axes | None = None
    highest = max((float(article.rates.max()) for article in articles), default=0.0)
    for row, article in enumerate(articles):
        above = axes = figure.add_subplot(grid[row, -1], sharex=above)
        _draw_shifts(axes, shifts)
        axes.plot(article.hours, article.rates, color="#444444", marker=".", linewidth=1.2)
        for name, hours in article.detected.items():
            for number, hour in enumerate(hours):
                label = None if number else f"{name}'s alarm"
                axes.axvline(hour, color=styles[name]["color"], linestyle="--", linewidth=1.8, label=label)
        title = f"article {article.article}, {article.points}"
        axes.set_title(title if row else f"(c) {title}", fontsize=9, loc="left")
        axes.set_ylim(0.0, 1.15 * highest or 1.0)
        axes.set_ylabel("rate", fontsize=9)
        axes.tick_params(labelsize=8, labelbottom=row == len(articles) - 1)
    if above is not None:
        above.set_xlabel("hours")
        handles = {
            label: handle
            for axes in figure.axes[len(panels) :]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        above.legend(
            handles.values(),
            handles.keys(),
            fontsize=8.5,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.9),
            frameon=False,
        )
    return figure


def _draw_shifts(axes: Axes, shifts: Floats) -> None:
    for number, hour in enumerate(shifts):
        axes.axvline(hour, color="black", linewidth=0.8, alpha=0.6, label=None if number else "planted change")


def _rate_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Every policy has a colour of its own, in all panels; lines with one model per group are dashed.

    >>> _rate_styles(["uniform-adTS", "N-adTS", "adTS"])["adTS"]
    {'color': '#0072B2', 'linestyle': '-'}
    """
    names = list(names)
    policies = list(dict.fromkeys(name.removeprefix("uniform-") for name in names))
    paints = dict(zip(policies, colours(len(policies)), strict=True))
    return {
        name: {"color": paints[name.removeprefix("uniform-")], "linestyle": "--" if name.startswith("N-") else "-"}
        for name in names
    }
