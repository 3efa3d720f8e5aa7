"""The picture of how cost grows: one panel per thing that grows, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from driftbandit.plots import COLOURS, Picture

_MARKERS = "osD^v"
_WITHIN_A_DECADE = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


def _short(value: float) -> str:
    """A number as an axis shows it.

    >>> _short(400_000.0), _short(1_000.0)
    ('400k', '1k')
    """
    return f"{value / 1000:,.0f}k" if value >= 1_000 and value % 1_000 == 0 else f"{value:,.0f}"


def draw(panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]) -> Picture:
    """Draw microseconds per round over what grows, by panel and curve; a curve whose name begins with 'floor' is grey.

    >>> figure = draw({"features": {"LinUCB": [(1, 1.0), (10, 5.0)], "floor: a copy": [(1, 0.1), (10, 0.4)]}})
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['features']
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Picture(figsize=(4.6 * columns, 3.9 * rows), layout="constrained")
    for place, (title, curves) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(rows, columns, place)
        for number, (name, curve) in enumerate(curves.items()):
            colour, dashes, marker = COLOURS[number], "-", _MARKERS[number % len(_MARKERS)]
            if name.startswith("floor"):
                colour, dashes, marker = "#666666", "--", ""
            sizes, values = zip(*curve, strict=True)
            axes.loglog(sizes, values, dashes, color=colour, marker=marker, markersize=4, label=name)
        axes.set_xlabel(title)
        axes.set_ylabel("microseconds per round")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        low, high = axes.get_ylim()
        if high < 10.0 * low:  # no power of ten, or one, would be labelled
            axes.set_ylim(low / 1.5, high * 1.5)
            axes.yaxis.set_major_locator(LogLocator(subs=_WITHIN_A_DECADE))
        else:
            axes.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))  # whole decades
        first = next(iter(curves.values()))
        if len(first) <= 6:
            axes.set_xticks([size for size, _ in first])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8, frameon=False)
    return figure
