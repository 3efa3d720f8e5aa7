"""The charts over time: reward, who was in charge, miss rates, traffic. Each function draws one section."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from driftbandit.serving.loop.series import Bucket
from driftbandit.serving.page import svg
from driftbandit.serving.page.facts import SPANS, Facts
from driftbandit.serving.page.html import render
from driftbandit.serving.page.story import ALARMS, Lane, lanes
from driftbandit.serving.page.words import address, number, percent

_LANE = 24
_MOST_LANES = 12


def reward(facts: Facts) -> Markup:
    """Mean reward over time, with detected changes."""
    points, times = [bucket for bucket in facts.points() if bucket.closed], facts.times
    scope = facts.scope or "" if facts.config.scoped else None
    return render(
        "reward.html",
        spans=[
            {
                "name": name,
                "address": address(facts.name, span=name, **({"scope": scope} if scope else {})),
                "here": tier == facts.tier,
            }
            for name, tier in SPANS.items()
        ],
        chart=_reward_chart(facts, points) if points else None,
        alarms=facts.alarms,
        marks=sorted({text for time, text in facts.marks if times.start <= time <= times.end}),
        scope=scope,
    )


def _reward_chart(facts: Facts, points: list[Bucket]) -> Markup:
    times, step = facts.times, facts.step
    means = [bucket.reward / bucket.closed for bucket in points]
    values = svg.Values.of(means, 22, 170)
    floor = values.top + values.height
    drawn = [(times.at(bucket.start + step / 2), values.at(mean)) for bucket, mean in zip(points, means, strict=True)]
    pieces: list[list[tuple[float, float]]] = []
    for place, point in enumerate(drawn):
        if not place or points[place].start - points[place - 1].start > 3 * step:
            pieces.append([])  # nothing happened for a while: interrupt the line
        pieces[-1].append(point)
    shapes = [shape for piece in pieces for shape in (svg.area(piece, floor, "area"), svg.line(piece, "line"))]
    others = [event for event in facts.all_events if facts.config.scoped and event.kind in ALARMS]
    places = sorted({round(times.at(event.time), 1) for event in others if event.time >= times.start})
    hover = []
    for bucket, mean in zip(points, means, strict=True):
        left, title = times.at(bucket.start), f"{svg.label(bucket.start)}: {number(mean)}, mean of {bucket.closed:,}"
        hover.append(_column("hover", left, times.at(bucket.start + step) - left, "22", "170", title))
    marks = [
        svg.mark(times.at(event.time), 14, int(floor), f"{svg.label(event.time)}: {event.why}")
        for event in facts.alarms
        if event.time >= times.start
    ]
    noted = [
        svg.note(times.at(time), int(values.top), int(floor), f"{svg.label(time)}: {text}")
        for time, text in facts.marks
        if times.start <= time <= times.end
    ]
    return svg.chart(
        210,
        "Mean reward over time, with detected changes",
        *svg.grid(times, values, int(floor)),
        svg.stretched(210, *shapes),
        *(svg.vertical("other", f"{x:.2f}%", floor - 8, floor) for x in places),
        *hover,
        *noted,
        *marks,
        axis=True,
    )


def _column(kind: str, left: float, width: float, y: str, height: str, title: str) -> Markup:
    """A rectangle at a horizontal position in per cent; `title` is shown when the pointer rests on it."""
    place = {"x": f"{left:.2f}%", "y": y, "height": height, "width": f"{width:.2f}%"}
    return svg.tag("rect", {"class": kind, **place}, svg.tag("title", {}, title))


def lanes_chart(facts: Facts) -> Markup:
    """Who was in charge when."""
    if facts.model is None:
        return Markup()
    times, members = facts.times, facts.model["members"]
    began = times.start if not facts.buckets else facts.buckets[0].start
    found = [
        lane
        for lane in lanes(facts.present, began, members, facts.model["leader"])
        if lane.end is None or lane.end >= times.start
    ]
    shown = found[-_MOST_LANES:]
    title = "Members" if members else "Models"
    parts = svg.grid(times, None, _LANE * len(shown))
    for row, lane in enumerate(shown):
        parts += _lane(lane, times, row * _LANE)
    return render(
        "lanes.html",
        title=title,
        scope=facts.scope if facts.config.scoped else None,
        chart=svg.chart(_LANE * len(shown) + 18, f"{title}: lanes over time", *parts, axis=True),
        members=members,
        hidden=len(found) - len(shown),
    )


def _lane(lane: Lane, times: svg.Times, top: int) -> list[Markup]:
    left, right = times.at(lane.start), times.at(lane.end or times.end)
    kind = "leads" if lane.leads else "there" if lane.end is None else "gone"
    until = "now" if lane.end is None else svg.label(lane.end)
    width = {"x": f"{left:.2f}%", "width": f"{max(right - left, 0.4):.2f}%"}
    title = svg.tag("title", {}, f"{lane.title}: {svg.label(lane.start)} to {until}")
    bar = svg.tag("rect", {"class": f"lane {kind}", **width, "y": top + 3, "height": _LANE - 6, "rx": "4"}, title)
    if right - left > 25.0:
        name, at, side = f"lane-name {kind}", left, {"dx": "8"}
    elif left >= 60.0:  # beside it, where there is room
        name, at, side = "lane-name", left, {"dx": "-8", "text-anchor": "end"}
    else:
        name, at, side = "lane-name", right, {"dx": "8"}
    return [bar, svg.tag("text", {"class": name, "x": f"{at:.2f}%", "y": top + 16, **side}, lane.title)]


def misses(facts: Facts) -> Markup:
    """Miss rates against their two bounds: over time, and of every member now."""
    if facts.model is None or not facts.model["members"]:
        return Markup()
    leader = facts.model["leader"]
    return render(
        "misses.html",
        clicks=facts.model.get("judges_clicks"),
        chart=_misses_chart(facts),
        members=[
            {"id": member["id"], "leads": member["id"] == leader, "rate": member["miss_rate"], "chart": _bullet(member)}
            for member in facts.model["members"][-_MOST_LANES:]
        ],
    )


def _misses_chart(facts: Facts) -> Markup:
    times = facts.times
    samples = [(bucket.start, bucket.misses) for bucket in facts.points() if bucket.misses is not None]
    if not samples:
        return Markup()
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
    peaks = [
        svg.tag(
            "circle",
            {"class": "peak", "cx": f"{times.at(time):.2f}%", "cy": f"{values.at(rate):.1f}", "r": "4"},
            svg.tag("title", {}, f"{svg.label(time)}: {percent(rate)}"),
        )
        for time, rate in caught
    ]
    return svg.chart(
        138,
        "Miss rate of the leading member and its bounds",
        *svg.grid(times, values, 120),
        svg.stretched(138, *traces),
        *peaks,
        axis=True,
    )


def _bullet(member: dict[str, Any]) -> Markup:
    most = max(0.1, 1.15 * max(member["miss_rate"], member["retire_bound"]))
    rate, spawn, retire = (100.0 * member[key] / most for key in ("miss_rate", "spawn_bound", "retire_bound"))
    return svg.chart(
        16,
        f"member {member['id']}: miss rate {percent(member['miss_rate'])}",
        *svg.bar(rate),
        svg.vertical("spawn-bound", f"{spawn:.2f}%", 0, 16),
        svg.vertical("retire-bound", f"{retire:.2f}%", 0, 16),
    )


def pace(facts: Facts) -> Markup:
    """Decisions a second over time."""
    times, points = facts.times, facts.points()
    if not points:
        return Markup()
    rates = [bucket.decisions * 1000.0 / facts.step for bucket in points]
    values = svg.Values.of([0.0, *rates], 12, 70)
    floor = values.top + values.height
    bars = []
    for bucket, rate in zip(points, rates, strict=True):
        left, top = times.at(bucket.start), values.at(rate)
        width = 0.85 * (times.at(bucket.start + facts.step) - left)
        title = f"{svg.label(bucket.start)}: {rate:,.1f} a second"
        bars.append(_column("bar", left, width, f"{top:.1f}", f"{floor - top:.1f}", title))
    grid = svg.grid(times, values, int(floor))
    return render("pace.html", chart=svg.chart(100, "Decisions a second over time", *bars, *grid, axis=True))
