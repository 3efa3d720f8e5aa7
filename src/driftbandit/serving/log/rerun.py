"""Run an exported log again: make every decision once more, and check that it is the same."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import msgspec

from driftbandit.serving.engine.reading import state_bytes
from driftbandit.serving.log.export import from_row
from driftbandit.serving.log.places import Place
from driftbandit.serving.log.tables import AS_TEXT
from driftbandit.serving.loop.events import AnyEvent, Configured, Decided, Erased
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.repeating import is_verifiable

_KEPT = 10


@dataclass(slots=True)
class LogRerun:
    """What running a log again found.

    Attributes
    ----------
    loop : str
        Name of the loop.
    events, decisions, identical : int
        Events, decisions among them, and decisions that came out the same in all respects: pool, arm, propensity.
    erased, unchecked : int
        Events of scopes that were erased since, and decisions that cannot be made again because the model that all
        scopes share lacks what it learned from such events. `decisions` does not count either of them.
    learned, changes : int
        Rewards learned and changes detected on the way.
    differing : list of str
        Ids of the first few decisions that came out differently.
    digest : str
        Hash of the final state; the service's own state after the same event has the same hash.
    """

    loop: str = ""
    events: int = 0
    decisions: int = 0
    identical: int = 0
    erased: int = 0
    unchecked: int = 0
    learned: int = 0
    changes: int = 0
    differing: list[str] = field(default_factory=list)
    digest: str = ""


def read_export(path: str | os.PathLike[str] | Place) -> Iterator[tuple[dict[str, Any], AnyEvent]]:
    """Rows and events of an exported log, ndjson or Parquet: a file of this machine, or ``s3://BUCKET/KEY``.

    Raises
    ------
    ValueError
        If the file is neither, naming the row that is no event.
    """
    place, number = Place.of(path), 1
    with _opened(place) as file:
        magic = file.read(4)
    try:
        for row in _parquet_rows(place) if magic == b"PAR1" else _json_rows(place):
            yield row, from_row(row)
            number += 1
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{place}: row {number} is no event of a log exported as ndjson or Parquet: {why}") from error


def read_exports(paths: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[dict[str, Any], AnyEvent]]:
    """Rows and events of a log in several files, in order: an archive's, and the export of what came after it.

    A folder stands for the Parquet files in it. Events that an earlier file had already are passed over.
    """
    last: dict[Any, int] = {}
    for path in paths:
        place = Place.of(path)
        files = place.files(".parquet", recursive=True) if place.is_folder() else [place]
        if not files:
            raise ValueError(f"{place}: there are no Parquet files in this folder")
        for file in files:
            before = dict(last)
            for row, event in read_export(file):
                seq, shard = row.get("seq"), row.get("shard")
                if isinstance(seq, int) and seq <= before.get(shard, 0):
                    continue
                yield row, event
                if isinstance(seq, int):
                    last[shard] = seq


def _opened(place: Place) -> BinaryIO:
    """A file to read; where it is on this machine, errors are Python's own."""
    if place.is_local:
        return open(place.path, "rb")
    return cast(BinaryIO, io.BufferedReader(place.system.open_input_file(place.path)))


def _json_rows(place: Place) -> Iterator[dict[str, Any]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    with _opened(place) as file:
        for line in file:
            yield decoder.decode(line)


def _parquet_rows(place: Place) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    with pq.ParquetFile(place.path, filesystem=place.system) as file:
        for batch in file.iter_batches(1_000):
            for row in batch.to_pylist():
                for field in AS_TEXT:
                    if row.get(field) is not None:
                        row[field] = msgspec.json.decode(row[field])
                yield row


def rerun_log(rows: Iterable[tuple[dict[str, Any], AnyEvent]]) -> LogRerun:
    """Run the log of one loop again, from the first event of each of its shards.

    Raises
    ------
    ValueError
        If the rows are not a whole log, naming the event that is missing or does not fit.
    """
    found = LogRerun()
    loops: dict[int, Loop] = {}
    for row, event in rows:
        name, shard, seq = (row.get(key) for key in ("loop", "shard", "seq"))
        if not isinstance(name, str) or not isinstance(shard, int) or not isinstance(seq, int):
            raise ValueError(f"row {found.events + 1} does not say which event of which loop it is")
        if not loops:
            found.loop = name
        if shard not in loops:
            if seq != 1 or not isinstance(event, Configured):
                raise ValueError(
                    f"the log does not start at its beginning but at event {seq}: export it without after=, and give "
                    "the archive first if old events were archived"
                )
            loops[shard] = Loop(name, shard, lambda role, epoch, scope: None)
        loop = loops[shard]
        expected = loop.state.seq + 1
        if (name, seq) != (found.loop, expected):
            raise ValueError(
                f"expected event {expected} of loop {found.loop!r}, got event {seq} of {name!r}: is a part missing?"
            )
        checks = is_verifiable(loop)
        same = _again(loop, seq, event)
        found.events += 1
        found.erased += isinstance(event, Erased)
        if isinstance(event, Decided) and not checks:
            found.unchecked += 1
        elif isinstance(event, Decided):
            found.decisions += 1
            found.identical += same
            if not same and len(found.differing) < _KEPT:
                found.differing.append(event.id)
        loop.forget_closed()
        loop.outbox.found.clear()
    if not loops:
        raise ValueError("the log is empty")
    found.learned = sum(loop.counts.learned for loop in loops.values())
    found.changes = sum(loop.counts.changes for loop in loops.values())
    state = hashlib.sha256()
    for _, loop in sorted(loops.items()):
        state.update(state_bytes(loop))
    found.digest = state.hexdigest()
    return found


def _again(loop: Loop, seq: int, event: AnyEvent) -> bool:
    """Repeat what an event did; False for a decision that comes out differently."""
    try:
        return loop.apply(event, verify=True)
    except ValueError as error:
        raise ValueError(f"event {seq}: {error}") from error
