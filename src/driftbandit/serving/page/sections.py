"""The sections of a loop's page as HTML, by their id; an empty one is not shown."""

from __future__ import annotations

from html import escape

from driftbandit.serving.loop.series import TIERS
from driftbandit.serving.page import svg, timeline
from driftbandit.serving.page.facts import MOST_EVENTS, SPANS, Facts, recent
from driftbandit.serving.page.story import ALARMS, Event, Move, moves
from driftbandit.serving.page.words import address, number, percent, signed

_MOST_MOVES = 6
_MOST_ALARMS = 3
_MOST_HISTORY = 50


def all_sections(facts: Facts) -> dict[str, str]:
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


def tiles(facts: Facts) -> str:
    """The numbers of the moment."""
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
    return "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in found)


def moved(facts: Facts) -> str:
    """What changed: the features whose weights moved most at the latest alarms."""
    if facts.model is None or facts.model["weights"] is None:
        return ""
    head = "<h2>What changed</h2>"
    found = moves(facts.present, facts.model["weights"], _MOST_MOVES)[:_MOST_ALARMS]
    if not found:
        return f'{head}<p class="empty">No change was detected so far.</p>'
    parts = []
    for place, (event, rows) in enumerate(found):
        ends = [0.0, *(end for move in rows for end in (move.before, move.after))]
        low, size = min(ends), max(ends) - min(ends) or 1.0
        lines = "".join(
            f"<tr><th>{_feature(facts, move.feature)}</th><td>{_dumbbell(move, low, size)}</td>"
            f"<td class='num'>{signed(move.before)} → {signed(move.after)}</td></tr>"
            for move in rows
        )
        until = "now" if place == 0 else "just before the next change"
        parts.append(
            f"<h3><time>{svg.moment(event.time)}</time> <b>{_gist(facts, rows)}</b></h3>"
            f"<table class='moves'><caption>Weights before, and {until}</caption>{lines}</table>"
        )
    return head + "".join(parts)


def _feature(facts: Facts, feature: int) -> str:
    names = facts.config.feature_names
    return f"feature {feature}" if names is None or feature >= len(names) else escape(names[feature])


def _dumbbell(move: Move, low: float, size: float) -> str:
    zero, old, new = (4.0 + 92.0 * (value - low) / size for value in (0.0, move.before, move.after))
    return svg.chart(
        *(18, f"from {signed(move.before)} to {signed(move.after)}"),
        f'<line class="zero" x1="{zero:.1f}%" x2="{zero:.1f}%" y1="0" y2="18"/>',
        f'<line class="way" x1="{old:.1f}%" x2="{new:.1f}%" y1="9" y2="9"/>',
        f'<circle class="was" cx="{old:.1f}%" cy="9" r="4"/><circle class="is" cx="{new:.1f}%" cy="9" r="5"/>',
    )


def _gist(facts: Facts, rows: list[Move]) -> str:
    """Which features gained and which lost: those that moved at least half as much as the first."""
    least = 0.5 * abs(rows[0].after - rows[0].before)
    up = [_feature(facts, move.feature) for move in rows if move.after - move.before >= max(least, 1e-9)]
    down = [_feature(facts, move.feature) for move in rows if move.before - move.after >= max(least, 1e-9)]
    return " · ".join(f"{', '.join(names)} {arrow}" for names, arrow in ((up, "↑"), (down, "↓")) if names)


def acting(facts: Facts) -> str:
    """Who acts in a DriftUCB: incumbent and experts by weight."""
    if facts.model is None or "experts" not in facts.model:
        return ""
    rows = []
    for expert in facts.model["experts"]:
        name = "all of this model" if expert["memory"] is None else f"{expert['memory']:,.0f} rewards"
        weight = 100.0 * expert["weight"]
        bar = svg.chart(
            *(16, f"{name}: {weight:.0f} %"),
            '<rect class="track" y="4" width="100%" height="8" rx="2"/>',
            f'<rect class="fill" y="4" width="{weight:.2f}%" height="8" rx="2"/>',
        )
        rows.append(f"<div><span>{name}</span>{bar}<b>{weight:.0f} %</b></div>")
    noise = f"Estimated noise of a reward: {number(facts.model['noise'])}. " if facts.model["noise"] else ""
    note = f"{noise}The present model has learned from {facts.model['age']:,} of them."
    return f"<h2>How far back it looks</h2><div class='bullets'>{''.join(rows)}</div><p class='legend'>{note}</p>"


def scopes(facts: Facts) -> str:
    """The most changed scopes."""
    if not facts.config.scoped:
        return ""
    if not facts.most_changed:
        return '<h2>Most changed scopes</h2><p class="empty">No change was detected so far.</p>'
    span = next(name for name, tier in SPANS.items() if tier == facts.tier)
    rows = "".join(
        f"<tr{' class=here' if scope == facts.scope else ''}>"
        f'<th><a href="{escape(address(facts.name, span=span, scope=scope))}">{escape(scope)}</a></th>'
        f"<td class='num'>{count:,}</td><td class='num'>{svg.moment(last)}</td></tr>"
        for scope, count, last in facts.most_changed
    )
    return (
        "<h2>Most changed scopes</h2><table class='list'><thead><tr><th>scope</th><th class='num'>changes</th>"
        f"<th class='num'>last</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def history(facts: Facts) -> str:
    """All changes, latest first."""
    if not facts.all_events:
        return "<h2>Change history</h2><p class='empty'>Nothing yet.</p>"
    rows = "".join(_entry(event, facts.config.scoped) for event in reversed(facts.all_events[-_MOST_HISTORY:]))
    more = len(facts.all_events) - _MOST_HISTORY
    rest = f"<p class='legend'>The latest {_MOST_HISTORY}; all are in the API under <code>/changes</code>.</p>"
    return f"<h2>Change history</h2><ol class='history'>{rows}</ol>{rest if more > 0 else ''}"


def _entry(event: Event, scoped: bool) -> str:
    what = {"spawned": f"member {event.member} spawned", "retired": f"member {event.member} retired"}
    of = f" for <b>{escape(event.scope)}</b>" if scoped else ""
    return (
        f"<li class='{event.kind}'><time>{svg.moment(event.time)}</time>"
        f"<span><b>{what.get(event.kind, 'change detected')}</b>{of} at reward {event.round:,}: "
        f"{escape(event.why)}.</span></li>"
    )
