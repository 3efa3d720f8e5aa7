"""An archive of old events: a folder, here or in S3-compatible storage, with Parquet files, such as exports are.

``DIR/LOOP/SHARD/FIRST-LAST.parquet`` holds events FIRST to LAST of one shard; LOOP is the loop's number in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

from driftbandit.serving.log.export import Wanted, as_row, read_log
from driftbandit.serving.log.places import Place, check_place
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
    folder : path or str
        Where the files are: a folder, made if missing, or ``s3://BUCKET/PREFIX``; see `Place.of`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        check_place("folder", folder)
        self._address = folder

    @cached_property
    def _root(self) -> Place:
        return Place.of(self._address)

    def _folder(self, loop: int, shard: int) -> Place:
        return self._root / str(loop) / str(shard)

    def _files(self, loop: int, shard: int) -> list[tuple[int, int, Place]]:
        """(first, last, file) of the files of a shard, in order."""
        found = []
        for file in self._folder(loop, shard).files(".parquet"):
            first, _, last = file.name.removesuffix(".parquet").partition("-")
            if first.isdigit() and last.isdigit():
                found.append((int(first), int(last), file))
        return sorted(found, key=lambda each: each[:2])

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

        try:
            self._folder(row.number, shard).save(
                parquet_pieces(rows()), lambda: f"{had + 1:012}-{last:012}.parquet" if last > had else None
            )
        finally:
            found.close()
        return last

    def read(self, loop: int, shard: int, upto: int) -> Iterator[AnyEvent]:
        """Events 1 to `upto`; raises ValueError if one of them is missing."""
        seq = 0
        for first, last, file in self._files(loop, shard):
            if first > seq + 1:
                break
            for number, (_, event) in enumerate(read_export(file), first):
                if seq < number <= upto:
                    seq = number
                    yield event
            if seq != min(last, upto):
                break
        if seq < upto:
            raise ValueError(f"{self._root}: events {seq + 1} to {upto} of loop {loop}, shard {shard} are missing")

    def ids_of(self, loop: int, shard: int, scope: str) -> list[str]:
        """Ids of the archived decisions of a scope."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

        ids: list[str] = []
        for _, _, file in self._files(loop, shard):
            wanted = {"columns": ["id"], "filters": [("scope", "=", scope)], "filesystem": file.system}
            ids += pq.read_table(file.path, **wanted)["id"].to_pylist()
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

        self._folder(loop, shard).tidy()  # a process that was killed may have left some of these events there
        for concerned in (is_reward, is_decision):
            for _, _, file in self._files(loop, shard):
                if any(concerned(event) for _, event in read_export(file)):
                    rows = _with_tombstones(file, concerned, until)
                    self._folder(loop, shard).save(parquet_pieces(rows), lambda file=file: file.name)  # type: ignore[misc]


def _with_tombstones(
    file: Place, concerned: Callable[[AnyEvent], bool], until: int
) -> Iterator[tuple[dict[str, Any], int]]:
    """The rows of a file, with tombstones for some events."""
    for row, event in read_export(file):
        if concerned(event):
            event = Erased(event.time, isinstance(event, Decided), until)  # noqa: PLW2901
        yield as_row(row["seq"], row["loop"], row["shard"], event), len(encode(event))
