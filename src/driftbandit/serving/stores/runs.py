"""Runs of events as stores keep them: their order, their checksums and their contents."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence

from driftbandit.serving.loop.events import Run, unpack_run
from driftbandit.serving.stores.base import StoreError


def checksum(data: bytes, *place: int | str) -> int:
    """CRC-32 of a row's data and of the place where it belongs, so that rows that were mixed up are noticed too.

    >>> checksum(b"data", 1, 0, 7) == checksum(b"data", 1, 0, 8)
    False
    """
    return zlib.crc32(data, zlib.crc32(repr(place).encode()))


def check_order(runs: Sequence[Run], last_of: Callable[[int, int], int]) -> None:
    """Raise StoreError unless the runs continue the log, and each other, without gaps.

    ``last_of(loop, shard)`` is the number of the last event that the log has.

    >>> check_order([Run.of(1, 0, 3, [b"\\x01"]), Run.of(1, 0, 5, [b"\\x02"])], lambda loop, shard: 2)
    Traceback (most recent call last):
    driftbandit.serving.stores.base.StoreError: event 5 of loop 1 does not follow 3
    """
    last: dict[tuple[int, int], int] = {}
    for run in runs:
        at = run.loop, run.shard
        before = last[at] if at in last else last_of(*at)
        if run.first != before + 1:
            raise StoreError(f"event {run.first} of loop {run.loop} does not follow {before}")
        last[at] = run.last


def bodies_after(rows: Iterable[tuple[int, bytes]], after: int, limit: int) -> list[tuple[int, bytes]]:
    """(seq, body) of at most `limit` events after a number, from (first, bodies) of a table's rows."""
    found: list[tuple[int, bytes]] = []
    for first, packed in rows:
        found += [(seq, bytes(body)) for seq, body in enumerate(unpack_run(packed), first) if seq > after]
        if len(found) >= limit:
            break
    return found[:limit]
