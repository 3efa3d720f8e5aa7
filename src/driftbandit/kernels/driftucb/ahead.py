"""What DriftUCB fetches of the next scope's bank while it works on one: piece by piece, since memory is slow.

A core can wait for a few cache lines at a time; asked for more, it stands still until some have come. So what is needed
next is fetched in pieces, spread over the work on what is at hand: `tiles.product` and `tiles.fade_outer` fetch the row
whose turn it is, group by group, and `acting` its `PIECES` of each row. Nothing that is computed depends on it.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.vector_units.vectors import fetch, padded

Ahead = tuple[int, int]
"""How many numbers behind a bank the next one lies, and which rows of that to fetch: bit m stands for row m."""

NOTHING: Ahead = (0, 0)
"""Fetch nothing."""

PIECES = 3
"""Into how many pieces `fetch_pieces` cuts a row."""

_FETCHED = 512  # numbers of a row that are fetched; of a longer one, the processor expects the rest by itself
_MOST_BITS = 62


@jit_inside
def bit_of(row: int) -> int:
    """The bit that stands for a row; rows from number 62 on have one bit together."""
    return 1 << min(row, _MOST_BITS)


@jit_inside
def first_rows(count: int) -> int:
    """The bits of so many rows, from the first one on."""
    return bit_of(count) - 1


@jit_inside
def row_ahead(ahead: Ahead, row: int) -> int:
    """How far behind a row the same row of the next bank lies, or 0 if that is not to be fetched."""
    distance, rows = ahead
    return distance if rows & bit_of(row) else 0


@jit_inside
def fetch_row(rows: Floats, at: int, distance: int, width: int) -> None:
    """Fetch so many numbers of the row that lies `distance` numbers behind the place `at`; nothing if that is 0."""
    if distance != 0:
        fetch(rows, at + distance, min(width, _FETCHED))


@jit_inside
def fetch_pieces(rows: Floats, width: int, count: int, ahead: Ahead, which: int) -> None:
    """Fetch one of the `PIECES` of each row of the next bank that is to be fetched, of `count` rows of this width."""
    step = padded(min(width, _FETCHED) // PIECES + 1)
    for m in range(count):
        fetch_row(rows, m * width + which * step, row_ahead(ahead, m), step)
