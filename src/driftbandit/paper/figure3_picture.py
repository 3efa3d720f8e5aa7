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
from driftbandit.plots import COLOURS, Picture, colours

SAMPLES = 4
"""Number of articles in panel (c), those that dLinUCB learned most about."""
OBSERVATIONS = 2000
_LEAST_POINTS = 8


def figure(sides: Sequence[Side], replays: Replays, kind: str) -> Picture:
    """The picture of both sides of one log."""
    panels = []
    for letter, side in zip("ab", sides, strict=True):
        curves = {}
        for name, runs in replays[side.kind].items():
            ends, rates = runs[0].trailing()
            curves[name] = (side.hours[ends - 1], rates)
        panels.append(RatePanel(f"({letter}) models of {side.kind}", curves, side.planted_hours))
    articles = sides[1]
    displayed = articles.log.displayed()
    detector = replays["articles"]["dLinUCB"][0]
    samples = []
    learned = np.bincount(displayed[detector.matched], minlength=len(articles.log.articles))
    for row in np.argsort(-learned, kind="stable")[:SAMPLES].tolist():
        shown = np.flatnonzero(displayed == row)
        size = min(OBSERVATIONS, len(shown) // _LEAST_POINTS)
        if not size:
            continue
        blocks = np.array_split(shown, round(len(shown) / size))
        alarms = [event for event, change in detector.changes if change.kind in ALARMS and displayed[event] == row]
        samples.append(
            ArticlePanel(
                f"article {articles.log.articles[row]}, points of about {size:,} displays",
                np.array([articles.hours[block].mean() for block in blocks]),
                np.array([articles.log.rewards[block].mean() for block in blocks]),
                articles.hours[alarms],
            )
        )
    return rate_figure(panels, samples, articles.planted_hours, f"Figure 3: {kind}")


@dataclass(frozen=True)
class RatePanel:
    """A panel of `rate_figure`: its title, curves as hours and normalised rates by policy, and hours of the shifts."""

    title: str
    curves: Mapping[str, tuple[Floats, Floats]]
    shifts: Floats


@dataclass(frozen=True)
class ArticlePanel:
    """An article in `rate_figure`: its title, its rate over the hours, and the hours of detected changes."""

    title: str
    hours: Floats
    rates: Floats
    detected: Floats


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
    figure = Picture(figsize=(5.6 * columns, 5.8), layout="constrained")
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
        for number, hour in enumerate(article.detected):
            label = "detected" if not number else None
            axes.axvline(hour, color=COLOURS[1], linestyle="--", linewidth=1.8, label=label)
        axes.set_title(f"(c) {article.title}" if not row else article.title, fontsize=9, loc="left")
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
            bbox_to_anchor=(0.5, -0.5),
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
