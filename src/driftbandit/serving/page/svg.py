"""Charts as SVG. A chart fills the width it is given and its text does not shrink: horizontal positions are
percentages.

All elements are made by `tag`, which escapes what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

WIDE = 1000.0
"""Width of the space in which lines are drawn; it is stretched to the chart's width, the strokes are not."""

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS = [
    *(n * _SECOND for n in (5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 5, 10, 20, 30)),
]
_MOST_TICKS = 5
_MARGIN = 5.0  # per cent at both ends where no label fits


@dataclass(frozen=True, slots=True)
class Times:
    """The horizontal axis, in milliseconds since 1970."""

    start: int
    end: int

    def at(self, time: float) -> float:
        """Horizontal position of a time, in per cent of the chart."""
        return min(100.0, max(0.0, 100.0 * (time - self.start) / (self.end - self.start)))

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels.

        >>> Times(0, 240_000).ticks()
        [(25.0, '00:01'), (50.0, '00:02'), (75.0, '00:03')]
        """
        step = next((s for s in _STEPS if (self.end - self.start) / s <= _MOST_TICKS), _STEPS[-1])
        first = -(-self.start // step) * step
        places = [(self.at(time), label(time, step)) for time in range(first, self.end + 1, step)]
        return [(place, text) for place, text in places if _MARGIN <= place <= 100.0 - _MARGIN]


def label(time: int, step: int = _SECOND) -> str:
    """A time of day or a date, in UTC, as precise as the step."""
    form = "%H:%M:%S" if step < _MINUTE else "%H:%M" if step < _DAY else "%d %b"
    return datetime.fromtimestamp(time / 1000.0, UTC).strftime(form)


@dataclass(frozen=True, slots=True)
class Values:
    """The vertical axis: values from `low` to `high` on so many pixels."""

    low: float
    high: float
    top: float
    height: float

    def at(self, value: float) -> float:
        """Vertical position of a value, in pixels from the top."""
        return self.top + self.height * (1.0 - (value - self.low) / (self.high - self.low))

    @classmethod
    def of(cls, values: Sequence[float], top: float, height: float) -> Values:
        """Room for these values, from zero where that is near."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if 0.0 <= low < 0.6 * high:
            low = 0.0
        if low == high:
            high = low + (abs(low) or 1.0)
        return cls(low, high + 0.08 * (high - low), top, height)

    def ticks(self) -> list[float]:
        """Round values, as many as there is room for.

        >>> Values(0.0, 0.83, 0.0, 170.0).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8]
        """
        rough = (self.high - self.low) / (self.height / 42.0)
        power = 10.0 ** math.floor(math.log10(rough))
        step = power * next((n for n in (1.0, 2.0, 5.0) if n * power >= rough * 0.9), 10.0)
        first = math.ceil(self.low / step - 1e-9)
        return [round(k * step, 12) for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def tag(name: str, attributes: Mapping[str, object], *children: str) -> Markup:
    """An element. Values of attributes and text are escaped; elements that this function made are left as they are.

    >>> tag("title", {"class": 'a "b"'}, "1 < 2", tag("g", {}))
    Markup('<title class="a &#34;b&#34;">1 &lt; 2<g/></title>')
    """
    opening = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    if not children:
        return Markup(f"<{name}{opening}/>")
    return Markup(f"<{name}{opening}>{''.join(map(escape, children))}</{name}>")


def chart(height: int, name: str, *parts: Markup, axis: bool = False) -> Markup:
    """The whole picture; screen readers read out `name`. With `axis` there is room on the left."""
    kind = "chart axis" if axis else "chart"
    return tag("svg", {"class": kind, "width": "100%", "height": height, "role": "img", "aria-label": name}, *parts)


def stretched(height: int, *parts: Markup) -> Markup:
    """Shapes in a space 1000 wide, stretched to the chart's width."""
    box = {"viewBox": f"0 0 {WIDE:g} {height}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    return tag("svg", {"width": "100%", "height": height, **box}, *parts)


def grid(times: Times, values: Values | None, bottom: int) -> list[Markup]:
    """Lines and labels of both axes; the labels of values stand on the left of a chart that has an axis."""
    parts = []
    for place, text in times.ticks():
        x = f"{place:.2f}%"
        parts.append(tag("text", {"class": "tick", "x": x, "y": bottom + 14, "text-anchor": "middle"}, text))
        parts.append(vertical("grid", x, bottom, bottom + 4))
    if values is not None:
        for value in values.ticks():
            y = values.at(value)
            across = {"x1": "0", "x2": "100%", "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
            parts.append(tag("line", {"class": "grid", **across}))
            beside = {"x": "-8", "y": f"{y + 4:.1f}", "text-anchor": "end"}
            parts.append(tag("text", {"class": "tick", **beside}, f"{value:g}"))
    return parts


def vertical(kind: str, x: str, top: float, bottom: float) -> Markup:
    """A vertical line."""
    return tag("line", {"class": kind, "x1": x, "x2": x, "y1": top, "y2": bottom})


def line(points: Sequence[tuple[float, float]], kind: str) -> Markup:
    """A line through points (per cent, pixels); a dot where there is only one.

    >>> line([(0.0, 5.0), (50.0, 7.5)], "trace")
    Markup('<path class="trace" d="M0.0 5.0L500.0 7.5"/>')
    """
    if len(points) == 1:
        points = [points[0], (points[0][0] + 0.2, points[0][1])]
    path = "L".join(f"{x * WIDE / 100:.1f} {y:.1f}" for x, y in points)
    return tag("path", {"class": kind, "d": f"M{path}"}) if path else Markup()


def area(points: Sequence[tuple[float, float]], floor: float, kind: str) -> Markup:
    """The area between points and a floor."""
    if len(points) < 2:
        return Markup()
    first, last = points[0][0] * WIDE / 100, points[-1][0] * WIDE / 100
    inner = "".join(f"L{x * WIDE / 100:.1f} {y:.1f}" for x, y in points)
    return tag("path", {"class": kind, "d": f"M{first:.1f} {floor:.1f}{inner}L{last:.1f} {floor:.1f}Z"})


def mark(place: float, top: int, bottom: int, text: str) -> Markup:
    """A detected change: a vertical line with a flag and a description."""
    x = f"{place:.2f}%"
    return tag(
        "g",
        {"class": "change"},
        tag("title", {}, text),
        tag("line", {"x1": x, "x2": x, "y1": top, "y2": bottom}),
        tag("circle", {"cx": x, "cy": top, "r": "4"}),
    )


def note(place: float, top: int, bottom: int, text: str) -> Markup:
    """A mark of the user's: a thin vertical line with a description."""
    return tag("g", {"class": "note"}, tag("title", {}, text), vertical("thin", f"{place:.2f}%", top, bottom))


def bar(share: float) -> list[Markup]:
    """A bar that is filled to so many per cent."""
    place = {"y": "4", "height": "8", "rx": "2"}
    return [
        tag("rect", {"class": "track", "width": "100%", **place}),
        tag("rect", {"class": "fill", "width": f"{share:.2f}%", **place}),
    ]
