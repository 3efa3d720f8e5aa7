"""The sections of a loop's page as HTML, by their id; an empty one is not shown."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from driftbandit.serving.loop.series import TIERS
from driftbandit.serving.page import svg, timeline
from driftbandit.serving.page.facts import MOST_EVENTS, SPANS, Facts, recent
from driftbandit.serving.page.html import render
from driftbandit.serving.page.story import ALARMS, Move, moves
from driftbandit.serving.page.words import address, number, percent, signed

_MOST_MOVES = 6
_MOST_ALARMS = 3
_MOST_HISTORY = 50


def all_sections(facts: Facts) -> dict[str, Markup]:
    """Every section, drawn."""
    return {
        "tiles": tiles(facts),
        "reward": timeline.reward(facts),
        "lanes": timeline.lanes_chart(facts),
        "misses": timeline.misses(facts),
        "pace": timeline.pace(facts),
        "moved": moved(facts),
        "acting": acting(facts),
        "scopes": scopes(facts),
        "history": history(facts),
    }


def tiles(facts: Facts) -> Markup:
    """The current numbers."""
    rate, mean = recent(facts.buckets, facts.now, TIERS[facts.tier][0])
    totals = facts.totals
    alarms = sum(event.kind in ALARMS for event in facts.all_events)
    more = "+" if len(facts.all_events) == MOST_EVENTS else ""
    found = [
        ("mean reward, lately", number(mean)),
        ("decisions a second", f"{rate:,.1f}"),
        ("changes noticed", f"{alarms:,}{more}"),
        ("decisions", number(totals["decisions"])),
        ("rewards awaited", number(totals["open"])),
        ("without a reward", number(totals["missing"])),
    ]
    if (shadow := totals["shadow"]) is not None:
        found.append(("agrees with its shadow", percent(shadow["agreed"] / shadow["decisions"])))
        if shadow["interval"] is not None:
            low, high = shadow["interval"]
            found.append((f"what its shadow would earn; {number(low)} to {number(high)}", number(shadow["ips"])))
    return render("tiles.html", tiles=found, partial=facts.partial)


def moved(facts: Facts) -> Markup:
    """What changed: the features whose weights moved most at the latest alarms."""
    if facts.model is None or facts.model["weights"] is None:
        return Markup()
    names = facts.config.shown_names
    alarms = []
    for event, rows in moves(facts.present, facts.model["weights"], _MOST_MOVES)[:_MOST_ALARMS]:
        ends = [0.0, *(end for move in rows for end in (move.before, move.after))]
        low, size = min(ends), max(ends) - min(ends) or 1.0
        shown = [
            {
                "feature": _feature(names, move.feature),
                "chart": _dumbbell(move, low, size),
                "before": move.before,
                "after": move.after,
            }
            for move in rows
        ]
        alarms.append({"time": event.time, "gist": _gist(names, rows), "rows": shown})
    return render("moved.html", alarms=alarms)


def _feature(names: Sequence[str] | None, feature: int) -> str:
    return f"feature {feature}" if names is None or feature >= len(names) else names[feature]


def _dumbbell(move: Move, low: float, size: float) -> Markup:
    """A weight before and after, as two dots and the way between them."""
    zero, old, new = (f"{4.0 + 92.0 * (value - low) / size:.1f}%" for value in (0.0, move.before, move.after))
    return svg.chart(
        18,
        f"from {signed(move.before)} to {signed(move.after)}",
        svg.vertical("zero", zero, 0, 18),
        svg.tag("line", {"class": "way", "x1": old, "x2": new, "y1": "9", "y2": "9"}),
        svg.tag("circle", {"class": "was", "cx": old, "cy": "9", "r": "4"}),
        svg.tag("circle", {"class": "is", "cx": new, "cy": "9", "r": "5"}),
    )


def _gist(names: Sequence[str] | None, rows: list[Move]) -> str:
    """Which features gained and which lost, among those that moved at least half as much as the first."""
    least = 0.5 * abs(rows[0].after - rows[0].before)
    up = [_feature(names, move.feature) for move in rows if move.after - move.before >= max(least, 1e-9)]
    down = [_feature(names, move.feature) for move in rows if move.before - move.after >= max(least, 1e-9)]
    return " · ".join(f"{', '.join(moved)} {arrow}" for moved, arrow in ((up, "↑"), (down, "↓")) if moved)


def acting(facts: Facts) -> Markup:
    """Who acts in a DriftUCB: incumbent and experts by weight."""
    if facts.model is None or "experts" not in facts.model:
        return Markup()
    experts = []
    for expert in facts.model["experts"]:
        name = "all of this model" if expert["memory"] is None else f"{expert['memory']:,.0f} rewards"
        weight = 100.0 * expert["weight"]
        share = f"{weight:.0f} %"
        experts.append({"name": name, "share": share, "chart": svg.chart(16, f"{name}: {share}", *svg.bar(weight))})
    return render("acting.html", experts=experts, noise=facts.model["noise"], age=facts.model["age"])


def scopes(facts: Facts) -> Markup:
    """The most changed scopes."""
    if not facts.config.scoped:
        return Markup()
    span = next(name for name, tier in SPANS.items() if tier == facts.tier)
    return render(
        "scopes.html",
        scopes=[
            {
                "name": scope,
                "address": address(facts.name, span=span, scope=scope),
                "here": scope == facts.scope,
                "changes": count,
                "last": last,
            }
            for scope, count, last in facts.most_changed
        ],
    )


def history(facts: Facts) -> Markup:
    """The latest changes and marks, latest first."""
    changes = [(event.time, event, "") for event in facts.all_events]
    marks = [(time, None, text) for time, text in facts.marks if time <= facts.now]
    found = sorted([*marks, *changes], key=lambda entry: entry[0])
    return render(
        "history.html",
        entries=found[: -_MOST_HISTORY - 1 : -1],
        scoped=facts.config.scoped,
        more=len(found) > _MOST_HISTORY,
    )
