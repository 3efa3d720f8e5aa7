"""An archive of old events: a folder with Parquet files, such as exports are.

``DIR/LOOP/SHARD/FIRST-LAST.parquet`` holds events FIRST to LAST of one shard; LOOP is the loop's number in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from driftbandit.serving.log.export import Wanted, as_row, read_log
from driftbandit.serving.log.rerun import read_export
from driftbandit.serving.log.tables import parquet_pieces
from driftbandit.serving.loop.events import AnyEvent
from driftbandit.serving.stores.base import LoopRow, Store

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
        """Archive the events up to a number that are older than a time; returns the number of the last one.

        A file gets its name once it is whole and on the disk.
        """
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
        partial = folder / f".{os.getpid()}.partial"
        try:
            with open(partial, "wb") as file:
                for piece in parquet_pieces(rows()):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if last > had:
                partial.rename(folder / f"{had + 1:012}-{last:012}.parquet")
                _sync(folder)
        finally:
            partial.unlink(missing_ok=True)
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


def _sync(folder: Path) -> None:
    """Make a new name in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
