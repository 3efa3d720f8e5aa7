"""An archive of old events: a folder with Parquet files, such as exports are.

``DIR/LOOP/SHARD/FIRST-LAST.parquet`` holds events FIRST to LAST of one shard; LOOP is the loop's number in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from driftbandit.files import sync
from driftbandit.serving.log.export import Wanted, as_row, read_log
from driftbandit.serving.log.rerun import read_export
from driftbandit.serving.log.tables import parquet_pieces
from driftbandit.serving.loop.events import AnyEvent, Decided, Erased, Late, Rewarded, encode
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import LoopRow

_EVENTS = 1_000_000
"""Events in one file, at most."""


class ParquetArchive:
    """A folder with the old events of all loops of a store.

    Parameters
    ----------
    folder : path
        Where the files are; made if missing.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def _files(self, loop: int, shard: int) -> list[tuple[int, int, Path]]:
        """(first, last, path) of the files of a shard, in order."""
        found = []
        for path in self.folder.glob(f"{loop}/{shard}/*.parquet"):
            first, _, last = path.stem.partition("-")
            if first.isdigit() and last.isdigit():
                found.append((int(first), int(last), path))
        return sorted(found)

    def upto(self, loop: int, shard: int) -> int:
        """Number of the last event that is archived; 0 if none is."""
        return max((last for _, last, _ in self._files(loop, shard)), default=0)

    def write(self, open_reader: Callable[[], Store], row: LoopRow, shard: int, upto: int, before: int) -> int:
        """Archive the events up to a number that are older than a time; returns the number of the last one."""
        had = last = self.upto(row.number, shard)
        wanted = Wanted(row.name, row.number, shard, had)
        found = read_log(open_reader, wanted)
        old = takewhile(lambda each: each[1] <= upto and each[2].time < before, found)

        def rows() -> Iterator[tuple[dict[str, Any], int]]:
            nonlocal last
            for _, seq, event, size in islice(old, _EVENTS):
                if seq != last + 1:
                    raise ValueError(f"loop {row.name!r}, shard {shard}: events {last + 1} to {seq - 1} are missing")
                last = seq
                yield as_row(seq, row.name, shard, event), size

        folder = self.folder / str(row.number) / str(shard)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _save(rows(), folder, lambda: f"{had + 1:012}-{last:012}.parquet" if last > had else None)
        finally:
            found.close()
        return last

    def read(self, loop: int, shard: int, upto: int) -> Iterator[AnyEvent]:
        """Events 1 to `upto`; raises ValueError if one of them is missing."""
        seq = 0
        for first, last, path in self._files(loop, shard):
            if first > seq + 1:
                break
            for number, (_, event) in enumerate(read_export(path), first):
                if seq < number <= upto:
                    seq = number
                    yield event
            if seq != min(last, upto):
                break
        if seq < upto:
            raise ValueError(f"{self.folder}: events {seq + 1} to {upto} of loop {loop}, shard {shard} are missing")

    def ids_of(self, loop: int, shard: int, scope: str) -> list[str]:
        """Ids of the archived decisions of a scope."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        ids: list[str] = []
        for _, _, path in self._files(loop, shard):
            ids += pq.read_table(path, columns=["id"], filters=[("scope", "=", scope)])["id"].to_pylist()
        return ids

    def erase(self, loop: int, shard: int, scope: str, ids: Container[str], until: int) -> None:
        """Replace the events of a scope, whose decisions have these ids, by tombstones.

        Rewards come first, in all files: only the ids of their decisions tie them to the scope, so decisions must be
        there as long as it may be necessary to begin again.
        """

        def is_reward(event: AnyEvent) -> bool:
            return isinstance(event, Rewarded | Late) and event.id in ids

        def is_decision(event: AnyEvent) -> bool:
            return isinstance(event, Decided) and event.scope == scope

        for concerned in (is_reward, is_decision):
            for _, _, path in self._files(loop, shard):
                if any(concerned(event) for _, event in read_export(path)):
                    _save(_with_tombstones(path, concerned, until), path.parent, lambda path=path: path.name)  # type: ignore[misc]


def _with_tombstones(
    path: Path, concerned: Callable[[AnyEvent], bool], until: int
) -> Iterator[tuple[dict[str, Any], int]]:
    """The rows of a file, with tombstones for some events."""
    for row, event in read_export(path):
        if concerned(event):
            event = Erased(event.time, isinstance(event, Decided), until)  # noqa: PLW2901
        yield as_row(row["seq"], row["loop"], row["shard"], event), len(encode(event))


def _save(rows: Iterable[tuple[dict[str, Any], int]], folder: Path, name: Callable[[], str | None]) -> None:
    """Write rows to a file, which gets its name when it is whole and on the disk; none if `name` says so."""
    partial = folder / f".{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            for piece in parquet_pieces(rows):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if (final := name()) is not None:
            partial.replace(folder / final)
            sync(folder)
    finally:
        partial.unlink(missing_ok=True)
