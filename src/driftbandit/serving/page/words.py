"""Numbers, times and addresses as the page writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode


def percent(share: float) -> str:
    """A share for reading.

    >>> percent(0.081)
    '8.1 %'
    """
    return f"{100.0 * share:.1f} %"


def number(value: float | None) -> str:
    """A number for reading.

    >>> number(None), number(12345), number(0.12345), number(0.53), number(48.61), number(486.1)
    ('–', '12,345', '0.123', '0.530', '48.6', '486')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:#.3g}"


def signed(value: float) -> str:
    """A weight for reading.

    >>> signed(0.123), signed(-0.001)
    ('+0.12', '+0.00')
    """
    return f"{round(value, 2) + 0.0:+.2f}"


def moment(time: int) -> str:
    """A date and time, in UTC.

    >>> moment(1_700_000_000_123)
    '14 Nov 22:13:20'
    """
    return datetime.fromtimestamp(time / 1000.0, UTC).strftime("%d %b %H:%M:%S")


def address(loop: str, **query: str) -> str:
    """Where a loop's page is."""
    return "/?" + urlencode({"loop": loop, **query})
