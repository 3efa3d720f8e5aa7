"""The charts over time: reward, who was in charge, miss rates, traffic. Each returns a section's HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from driftbandit.serving.page import svg
from driftbandit.serving.page.facts import SPANS, Facts
from driftbandit.serving.page.story import ALARMS, lanes
from driftbandit.serving.page.words import address, number, percent

_LANE = 24
_MOST_LANES = 12


def reward(facts: Facts) -> str:
    """Mean reward over time, with detected changes."""
    times, points = facts.times, [bucket for bucket in facts.points() if bucket.closed]
    head = f"<h2>Reward over time</h2>{_spans(facts)}"
    if not points:
        return f"{head}<p class='empty'>Nothing yet.</p>"
    means = [bucket.reward / bucket.closed for bucket in points]
    values = svg.Values.of(means, 22, 170)
    step, floor = facts.step, values.top + values.height
    drawn = [(times.at(bucket.start + step / 2), values.at(mean)) for bucket, mean in zip(points, means, strict=True)]
    pieces: list[list[tuple[float, float]]] = []
    for place, point in enumerate(drawn):
        if not place or points[place].start - points[place - 1].start > 3 * step:
            pieces.append([])  # nothing happened for a while: lift the pen
        pieces[-1].append(point)
    others = [event for event in facts.all_events if facts.config.scoped and event.kind in ALARMS]
    small = "".join(
        f'<line class="other" x1="{x:.2f}%" x2="{x:.2f}%" y1="{floor - 8}" y2="{floor}"/>'
        for x in sorted({round(times.at(event.time), 1) for event in others if event.time >= times.start})
    )
    hover = "".join(
        f'<rect class="hover" x="{times.at(bucket.start):.2f}%" y="22" height="170" '
        f'width="{times.at(bucket.start + step) - times.at(bucket.start):.2f}%">'
        f"<title>{svg.label(bucket.start)}: {number(mean)}, mean of {bucket.closed:,}</title></rect>"
        for bucket, mean in zip(points, means, strict=True)
    )
    shapes = [svg.area(piece, floor, "area") + svg.line(piece, "line") for piece in pieces]
    picture = svg.chart(
        *(210, "Mean reward over time, with detected changes", svg.grid(times, values, int(floor))),
        *(svg.stretched(210, *shapes), small, hover, _marks(facts, 14, int(floor))),
        axis=True,
    )
    return f"{head}{picture}<p class='legend'>{_legend(facts)}</p>"


def _legend(facts: Facts) -> str:
    parts = ["<span class='key line-key'></span>mean reward of decisions as their windows close"]
    if facts.alarms:
        of = "" if not facts.config.scoped else f" in the model of {escape(facts.scope or '')}"
        parts.append(f"<span class='key change-key'></span>a change was detected{of}")
    if facts.config.scoped:
        parts.append("<span class='key other-key'></span>in other scopes")
    return " ".join(f"<span>{part}</span>" for part in parts) + " <span>Times are UTC.</span>"


def _spans(facts: Facts) -> str:
    links = []
    for name, tier in SPANS.items():
        query = {"span": name} | ({"scope": facts.scope} if facts.config.scoped and facts.scope else {})
        here = ' aria-current="true"' if tier == facts.tier else ""
        links.append(f'<a href="{escape(address(facts.name, **query))}"{here}>{name}</a>')
    return f'<nav class="spans" aria-label="Time span">{"".join(links)}</nav>'


def _marks(facts: Facts, top: int, bottom: int) -> str:
    times = facts.times
    return "".join(
        svg.mark(times.at(event.time), top, bottom, f"{svg.label(event.time)}: {event.why}")
        for event in facts.alarms
        if event.time >= times.start
    )


def lanes_chart(facts: Facts) -> str:
    """Who was in charge when."""
    if facts.model is None:
        return ""
    times, members = facts.times, facts.model["members"]
    began = times.start if not facts.buckets else facts.buckets[0].start
    found = [
        lane
        for lane in lanes(facts.present, began, members, facts.model["leader"])
        if lane.end is None or lane.end >= times.start
    ]
    shown = found[-_MOST_LANES:]
    parts = [svg.grid(times, None, _LANE * len(shown))]
    for row, lane in enumerate(shown):
        left, right = times.at(lane.start), times.at(lane.end or times.end)
        kind = "leads" if lane.leads else "there" if lane.end is None else "gone"
        until = "now" if lane.end is None else svg.label(lane.end)
        parts.append(
            f'<rect class="lane {kind}" x="{left:.2f}%" y="{row * _LANE + 3}" height="{_LANE - 6}" rx="4" '
            f'width="{max(right - left, 0.4):.2f}%">'
            f"<title>{lane.title}: {svg.label(lane.start)} to {until}</title></rect>"
        )
        if right - left > 25.0:
            name, at, side = f"lane-name {kind}", left, 'dx="8"'
        elif left >= 60.0:  # beside it, where there is room
            name, at, side = "lane-name", left, 'dx="-8" text-anchor="end"'
        else:
            name, at, side = "lane-name", right, 'dx="8"'
        parts.append(f'<text class="{name}" x="{at:.2f}%" y="{row * _LANE + 16}" {side}>{lane.title}</text>')
    hidden = f" The {len(found) - len(shown)} before them are not shown." if len(found) > len(shown) else ""
    if members:
        title, note = "Members", "From spawn to retirement. The blue one chooses."
    else:
        title, note = "Models", "A new one takes over at each detected change."
    of = f" of {escape(facts.scope)}" if facts.config.scoped and facts.scope else ""
    picture = svg.chart(_LANE * len(shown) + 18, f"{title}: lanes over time", *parts, axis=True)
    return f"<h2>{title}{of}</h2>{picture}<p class='legend'>{note}{hidden}</p>"


def misses(facts: Facts) -> str:
    """Miss rates against their two bounds: over time, and of every member now."""
    if facts.model is None or not facts.model["members"]:
        return ""
    if facts.model.get("judges_clicks"):
        why = "So far rewards are clicks. Many of them are judged at a time, so there are no misses to count."
        return f"<h2>Miss rate</h2><p class='empty'>{why}</p>"
    times = facts.times
    samples = [(bucket.start, bucket.misses) for bucket in facts.points() if bucket.misses is not None]
    rows = "".join(_bullet(member, facts.model["leader"]) for member in facts.model["members"][-_MOST_LANES:])
    picture = ""
    if samples:
        caught = [
            (event.time, event.evidence["miss_rate"])
            for event in facts.alarms
            if event.time >= times.start and "miss_rate" in event.evidence
        ]
        rates = sorted([(time + facts.step // 2, found[0]) for time, found in samples] + caught)
        # A young member's bounds are beyond all rates, so the usual ones set the height.
        high = 1.3 * max(min(found[2] for _, found in samples), *(rate for _, rate in rates))
        values = svg.Values(0.0, high, 10, 110)
        traces = [
            svg.line([(times.at(time + facts.step / 2), values.at(found[which])) for time, found in samples], kind)
            for which, kind in ((1, "spawn-bound"), (2, "retire-bound"))
        ]
        traces.append(svg.line([(times.at(time), values.at(rate)) for time, rate in rates], "line"))
        peaks = "".join(
            f'<circle class="peak" cx="{times.at(time):.2f}%" cy="{values.at(rate):.1f}" r="4">'
            f"<title>{svg.label(time)}: {percent(rate)}</title></circle>"
            for time, rate in caught
        )
        picture = svg.chart(
            *(138, "Miss rate of the leading member and its bounds", svg.grid(times, values, 120)),
            *(svg.stretched(138, *traces), peaks),
            axis=True,
        )
    legend = (
        "<span><span class='key line-key'></span>miss rate of the leading member</span> "
        "<span><span class='key spawn-key'></span>above it in all members, one is spawned</span> "
        "<span><span class='key retire-key'></span>above it a member is retired</span>"
    )
    return f"<h2>Miss rate</h2>{picture}<div class='bullets'>{rows}</div><p class='legend'>{legend}</p>"


def _bullet(member: dict[str, Any], leader: int | None) -> str:
    most = max(0.1, 1.15 * max(member["miss_rate"], member["retire_bound"]))
    rate, spawn, retire = (100.0 * member[key] / most for key in ("miss_rate", "spawn_bound", "retire_bound"))
    text = percent(member["miss_rate"])
    return (
        f"<div><span>member {member['id']}{' (leads)' if member['id'] == leader else ''}</span>"
        + svg.chart(
            *(16, f"member {member['id']}: miss rate {text}"),
            '<rect class="track" y="4" width="100%" height="8" rx="2"/>',
            f'<rect class="fill" y="4" width="{rate:.2f}%" height="8" rx="2"/>',
            f'<line class="spawn-bound" x1="{spawn:.2f}%" x2="{spawn:.2f}%" y1="0" y2="16"/>',
            f'<line class="retire-bound" x1="{retire:.2f}%" x2="{retire:.2f}%" y1="0" y2="16"/>',
        )
        + f"<b>{text}</b></div>"
    )


def pace(facts: Facts) -> str:
    """Decisions a second over time."""
    times, points = facts.times, facts.points()
    if not points:
        return ""
    rates = [bucket.decisions * 1000.0 / facts.step for bucket in points]
    values = svg.Values.of([0.0, *rates], 12, 70)
    floor = values.top + values.height
    bars = "".join(
        f'<rect class="bar" x="{times.at(bucket.start):.2f}%" y="{values.at(rate):.1f}" '
        f'height="{floor - values.at(rate):.1f}" '
        f'width="{0.85 * (times.at(bucket.start + facts.step) - times.at(bucket.start)):.2f}%">'
        f"<title>{svg.label(bucket.start)}: {rate:,.1f} a second</title></rect>"
        for bucket, rate in zip(points, rates, strict=True)
    )
    return "<h2>Decisions a second</h2>" + svg.chart(
        100, "Decisions a second over time", bars, svg.grid(times, values, int(floor)), axis=True
    )
