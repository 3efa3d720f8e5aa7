"""Replay an exported log: make every decision again and see whether it comes out the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from driftbandit.serving.events import AnyEvent, Configured, Decided
from driftbandit.serving.export import from_row
from driftbandit.serving.loop import Loop
from driftbandit.serving.reading import state_bytes

_KEPT = 10


@dataclass(slots=True)
class LogReplay:
    """What a replay found.

    Attributes
    ----------
    loop : str
        Name of the loop.
    events, decisions, identical : int
        Events in all, decisions among them, and those that came out the same: pool, arm, propensity and all.
    learned, changes : int
        Rewards learned and changes detected on the way.
    differing : list of str
        Ids of the first few decisions that came out otherwise.
    digest : str
        Hash of the final state; the service's own state at that event has the same.
    """

    loop: str = ""
    events: int = 0
    decisions: int = 0
    identical: int = 0
    learned: int = 0
    changes: int = 0
    differing: list[str] = field(default_factory=list)
    digest: str = ""


def read_export(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], AnyEvent]]:
    """Rows and events of an exported log, ndjson or Parquet.

    Raises
    ------
    ValueError
        If the file is neither.
    """
    with open(path, "rb") as file:
        magic = file.read(4)
    try:
        for row in _parquet_rows(Path(path)) if magic == b"PAR1" else _json_rows(Path(path)):
            yield row, from_row(row)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a log exported as ndjson or Parquet ({error!r})") from error


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    with open(path, "rb") as file:
        for line in file:
            yield decoder.decode(line)


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1_000):
            for row in batch.to_pylist():
                if row["config"] is not None:
                    row["config"] = msgspec.json.decode(row["config"])
                yield row


def replay_log(rows: Iterable[tuple[dict[str, Any], AnyEvent]]) -> LogReplay:
    """Replay the log of one loop on one shard, from its first event on."""
    found = LogReplay()
    loop: Loop | None = None
    for row, event in rows:
        if loop is None:
            if row["seq"] != 1 or not isinstance(event, Configured):
                raise ValueError("the log does not start at its beginning; export it without after=")
            loop = Loop(row["loop"], row["shard"], lambda role, epoch, scope: None)
            found.loop = row["loop"]
        if (row["loop"], row["shard"], row["seq"]) != (loop.name, loop.shard, loop.seq + 1):
            raise ValueError(f"event {loop.seq + 1} of the log is missing")
        same = loop.apply(event, verify=True)
        found.events += 1
        if isinstance(event, Decided):
            found.decisions += 1
            found.identical += same
            if not same and len(found.differing) < _KEPT:
                found.differing.append(event.id)
        loop.closed.clear()
        loop.found.clear()
    if loop is None:
        raise ValueError("the log is empty")
    found.learned, found.changes = loop.counts.learned, loop.counts.changes
    found.digest = hashlib.sha256(state_bytes(loop, None, 0, stored=False)).hexdigest()
    return found
