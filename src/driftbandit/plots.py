"""Pictures from traces. Nothing is run here, so any figure can be drawn again from what was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbandit.core import Floats
from driftbandit.evaluation.detection import alarm_rounds
from driftbandit.evaluation.results import Row, best_first, number_of, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.extras import pip_install
from driftbandit.policies.registry import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart; the paper's policy comes first.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000")
_DASHES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_FIRST = ("dlinucb", "linucb", "adts", "oracle")

# A policy whose regret is this many times the median one would flatten all other curves.
_OFF_THE_CHART = 4.0


def regret_figure(traces: Sequence[Trace], title: str) -> Figure:
    """Regret over time, true shifts and detected changes, and the final regret of every policy.

    Parameters
    ----------
    traces : sequence of Trace
        Runs in one setting; curves are means over seeds, bands one standard deviation.
    title : str
        Heading of the figure.
    """
    from matplotlib.figure import Figure

    if not traces:
        raise ValueError("traces: expected at least one run, got none")
    rows = best_first(summarise(traces))
    styles = _styles([row.policy for row in rows])
    median = float(np.median([row.regret for row in rows]))
    shown = [row for row in rows if row.regret <= _OFF_THE_CHART * max(median, 1e-9)]
    detectors = [row for row in rows if row.detection and (row.detection.delays or row.detection.false_alarms)]
    lanes = max(len(detectors), 1)
    figure = Figure(figsize=(12.0, 5.6 + 0.22 * lanes), layout="constrained")
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


def _name(policy: str) -> str:
    """Name of a policy as Matplotlib should print it: a dollar sign is no formula."""
    return title_of(policy).replace("$", r"\$")


def _styles(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    order = [name for name in _FIRST if name in policies]
    order += [name for name in policies if name not in order]
    return {
        name: {
            "color": _COLOURS[i % len(_COLOURS)],
            "linestyle": _DASHES[i // len(_COLOURS) % len(_DASHES)],
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
        name = _name(row.policy)
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
    axes.set_yticks(range(len(rows)), [_name(row.policy) for row in rows], fontsize=8)
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
    axes.set_yticks(places, [_name(row.policy) for row in rows], fontsize=9)
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


@dataclass(frozen=True)
class Panel:
    """One panel of `reward_figure`: its title, its runs, and whether to mark shifts and detected changes."""

    title: str
    traces: Sequence[Trace]
    show_changes: bool = False


def reward_figure(panels: Sequence[Panel], chance: float) -> Figure:
    """Accumulated reward over time, divided by what random picks would earn.

    Parameters
    ----------
    panels : sequence of Panel
        Curves are means over seeds. Marked shifts are black lines, detected changes of the first seed ticks at the
        bottom.
    chance : float
        Expected reward of a random pick.
    """
    from matplotlib.figure import Figure

    columns = min(len(panels), 2)
    lines = -(-len(panels) // 2)
    figure = Figure(figsize=(6.2 * columns, 4.2 * lines), layout="constrained")
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, number + 1)
        policies = list(dict.fromkeys(trace.policy for trace in panel.traces))
        styles = _styles(policies)
        horizon = len(panel.traces[0])
        rounds = np.arange(1, horizon + 1)
        drawn = np.unique(np.linspace(horizon // 100, horizon - 1, 1000).astype(int))
        for policy in policies:
            runs = np.array([np.cumsum(trace.rewards) for trace in panel.traces if trace.policy == policy])
            curve = runs.mean(axis=0) / (chance * rounds)
            axes.plot(rounds[drawn], curve[drawn], label=_name(policy), linewidth=1.7, **styles[policy])
        if panel.show_changes:
            _mark_changes(axes, panel.traces, styles)
        axes.set_title(panel.title, fontsize=11)
        axes.set_xlabel("round")
        axes.set_ylabel("normalised reward")
        axes.set_xlim(0, horizon)
        axes.grid(axis="y", alpha=0.25)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.12 * (high - low))  # room for the legend above the curves
        axes.legend(fontsize=9, loc="upper center", ncols=len(policies))
    return figure


def _mark_changes(axes: Axes, traces: Sequence[Trace], styles: dict[str, dict[str, Any]]) -> None:
    for shift in traces[0].shifts:
        axes.axvline(shift, color="black", linewidth=0.8, alpha=0.6)
    first: dict[str, Trace] = {}
    for trace in traces:
        first.setdefault(trace.policy, trace)
    for policy, trace in first.items():
        for alarm in alarm_rounds(trace.changes):
            axes.axvline(alarm, ymax=0.08, color=styles[policy]["color"], linewidth=1.6)


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


def rate_figure(panels: Sequence[RatePanel], articles: Sequence[ArticlePanel], shifts: Floats, title: str) -> Figure:
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
    from matplotlib.figure import Figure

    columns = len(panels) + bool(articles)
    figure = Figure(figsize=(5.6 * columns, 5.8), layout="constrained")
    figure.suptitle(title, fontsize=13)
    grid = figure.add_gridspec(max(len(articles), 1), columns)
    for column, panel in enumerate(panels):
        axes = figure.add_subplot(grid[:, column])
        _draw_shifts(axes, panel.shifts)
        for name, (hours, rates) in panel.curves.items():
            axes.plot(hours, rates, label=name, linewidth=1.7, **_rate_style(name))
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
            axes.axvline(hour, color=_COLOURS[1], linestyle="--", linewidth=1.8, label=label)
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


def _rate_style(name: str) -> dict[str, Any]:
    """The same colour for a policy whether it is shared or one a group, which is dashed."""
    kinds = ("dLinUCB", "LinUCB", "adTS", "CLUB")
    kind = name.removeprefix("uniform-").removeprefix("N-")
    colour = _COLOURS[kinds.index(kind)] if kind in kinds else _COLOURS[-1]
    return {"color": colour, "linestyle": "--" if name.startswith("N-") else "-"}


def share_figure(rows: Sequence[Row], shares: Sequence[float], paper: dict[float, float]) -> Figure:
    """Regret and detection delay against the share of arms that a shift changes.

    Parameters
    ----------
    rows : sequence of Row
        One a share, in order.
    shares : sequence of float
        Shares of changed arms.
    paper : dict
        Regret that the paper gives, by share.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(
        shares,
        [row.regret for row in rows],
        yerr=[np.nan_to_num(row.regret_std) for row in rows],
        marker="o",
        capsize=3,
        color=_COLOURS[0],
        label="dLinUCB, ours",
    )
    left.plot(list(paper), list(paper.values()), "D", color=_COLOURS[1], label="dLinUCB, paper", zorder=5)
    left.set_xlabel("share of arms that a shift changes (rho)")
    left.set_ylabel("accumulated regret")
    left.set_ylim(bottom=0)
    left.legend(loc="lower right")
    left.grid(alpha=0.25)
    seen = [
        (share, row.detection.median_delay, row.detection.slow_delay)
        for share, row in zip(shares, rows, strict=True)
        if row.detection is not None and row.detection.delays
    ]
    if seen:
        where, median, slow = zip(*seen, strict=True)
        right.plot(where, median, marker="o", color=_COLOURS[0], label="median")
        right.plot(where, slow, marker="o", color=_COLOURS[5], linestyle="--", label="90th percentile")
        right.legend()
    right.set_xlabel("share of arms that a shift changes (rho)")
    right.set_ylabel("detection delay, rounds")
    right.set_xlim(left.get_xlim())
    right.set_ylim(bottom=0)
    right.grid(alpha=0.25)
    return figure


@dataclass(frozen=True)
class Cloud:
    """One panel of `cloud_figure`: its title, and words with their weights."""

    title: str
    weights: Mapping[str, float]


def cloud_figure(rows: Sequence[Sequence[Cloud]]) -> Figure:
    """Word clouds: the heavier a word, the larger it is set. The same words give the same picture.

    Parameters
    ----------
    rows : sequence of sequences of Cloud
        Panels; a row has one colour.
    """
    from matplotlib.figure import Figure
    from matplotlib.font_manager import findfont

    try:
        from wordcloud import WordCloud
    except ImportError as error:
        raise ImportError(f"word clouds need wordcloud: {pip_install('data')}") from error
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(3.4 * columns, 3.5 * len(rows)), layout="constrained")
    for line, place, cloud in (
        (line, place, cloud) for line, row in enumerate(rows) for place, cloud in enumerate(row)
    ):
        axes = figure.add_subplot(len(rows), columns, line * columns + place + 1)
        axes.set_title(cloud.title.replace("$", r"\$"), fontsize=10)
        axes.set_axis_off()
        if not cloud.weights:
            axes.text(0.5, 0.5, "nothing stands out", ha="center", va="center", color="#666666")
            continue
        colour = _COLOURS[line % len(_COLOURS)]
        words = WordCloud(
            font_path=findfont("DejaVu Sans"),  # comes with Matplotlib, and has accents
            width=850,
            height=720,
            background_color="white",
            color_func=lambda *_, colour=colour, **__: colour,
            prefer_horizontal=1.0,
            relative_scaling=0.5,
            max_font_size=130,
            min_font_size=26,
            margin=16,  # or a small word ends up between the two of a larger pair
            random_state=0,
        ).generate_from_frequencies(dict(cloud.weights))
        axes.imshow(words.to_array(), interpolation="bilinear")
    return figure
