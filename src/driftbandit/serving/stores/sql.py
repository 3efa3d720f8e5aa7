"""What SQL stores have in common: statements that every database understands, with ``?`` for values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from driftbandit.serving.loop.events import Run
from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores import inspection, upkeep
from driftbandit.serving.stores.access import AccessTables
from driftbandit.serving.stores.base import LATEST, Damaged, StoreError, VersionConflict
from driftbandit.serving.stores.removals import RemovalRow
from driftbandit.serving.stores.rows import Batch, ChangeRow, Closed, LoopRow, SizeRow, Snapshot, TallyRow
from driftbandit.serving.stores.runs import bodies_after, check_order, checksum

CHECKED = ("events", "snapshots")
"""Tables whose rows have a checksum, in a column that stores of older versions lack until they are opened."""

_BYTES = 8 << 20
"""Most bytes of events that are read at a time: large requests make large events."""

_MODEL = "loop = ? AND shard = ? AND role = ? AND epoch = ? AND scope = ?"
_LOOP = "number, name, version, config, arms_version, arms"


MOVE_MODELS = """
INSERT INTO states SELECT loop, shard, role, epoch, scope, 0, state, NULL FROM models;
DROP TABLE models;
"""
"""Brings the models of a store of an older version to where they belong now."""


class SQLStore(AccessTables):
    """The part of a store that is the same for all databases.

    Each database adds its connection, its tables, who may write, and the few statements that differ.
    """

    # What a database does in its own way, beside `_all` and `_do` --------------------------------------------------

    @abstractmethod
    def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row of values, in a transaction that `_write` was called in."""

    @abstractmethod
    def _insert_closed(self, closed: Closed) -> None:
        """Add closed decisions, except those already stored."""

    @abstractmethod
    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""

    shards: int
    _new_number: str
    """Expression for the number of a new loop, which no loop has had before."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]:
        """All statements until its end take effect, or none."""

    # Loops -----------------------------------------------------------------------------------------------------------

    def loops(self) -> list[LoopRow]:
        """All loops."""
        return [LoopRow(*row) for row in self._all(f"SELECT {_LOOP} FROM loops ORDER BY number")]

    def put_loop(self, name: str, expected: int, config: bytes, arms: bytes | None = None) -> LoopRow:
        """Create a loop (expected version 0) or replace its settings, or raise VersionConflict.

        With `arms` the catalogue is replaced in the same step.
        """
        catalogues = 0 if arms is None else 1
        if expected == 0:
            rows = self._all(
                "INSERT INTO loops (number, name, version, config, arms_version, arms) "
                f"VALUES ({self._new_number}, ?, 1, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING {_LOOP}",
                *(name, config, catalogues, arms),
            )
        else:
            rows = self._all(
                "UPDATE loops SET version = version + 1, config = ?, arms_version = arms_version + ?, "
                f"arms = coalesce(?, arms) WHERE name = ? AND version = ? RETURNING {_LOOP}",
                *(config, catalogues, arms, name, expected),
            )
        if not rows:
            found = self._all("SELECT version FROM loops WHERE name = ?", name)
            raise VersionConflict(found[0][0] if found else 0)
        return LoopRow(*rows[0])

    def put_arms(self, number: int, arms: bytes) -> LoopRow:
        """Replace a loop's catalogue."""
        rows = self._all(
            f"UPDATE loops SET arms_version = arms_version + 1, arms = ? WHERE number = ? RETURNING {_LOOP}",
            *(arms, number),
        )
        return LoopRow(*rows[0])

    def delete_loop(self, name: str, who: str, time: int) -> bool:
        """Delete a loop and record that; False if there is none."""
        with self._transaction():
            found = self._all("DELETE FROM loops WHERE name = ? RETURNING number", name)
            for (loop,) in found:
                upkeep.record(self._many, [(loop, 0, name, None, None, who, time)])
        return bool(found)

    def erase_scope(self, loop: LoopRow, scope: str, scope_hash: str, who: str, time: int) -> None:
        """Record that a scope is to be erased from all shards of a loop."""
        rows = [(loop.number, shard, loop.name, scope, scope_hash, who, time) for shard in range(self.shards)]
        with self._transaction():
            upkeep.record(self._many, rows)

    def removals(self, *, pending: bool = False) -> list[RemovalRow]:
        """Loops that were deleted and scopes that were erased; with `pending`, only if data may be left."""
        which = "WHERE done IS NULL" if pending else ""
        rows = self._all(f"SELECT * FROM removals {which} ORDER BY number")
        return [RemovalRow(*row) for row in rows]

    def has_rows(self, loop: int) -> bool:
        """Whether there is any data of a loop, deleted or not."""
        return upkeep.has_rows(self._all, loop)

    # The log -------------------------------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        """Write a batch; the caller has begun a transaction."""
        check_order(batch.events, self.last)
        runs = [(*run, checksum(run.bodies, *run[:4])) for run in batch.events]
        self._many("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", runs)
        changes = [(c.loop, c.shard, c.number, c.seq, c.time, c.scope, c.body) for c in batch.changes]
        self._many("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", changes)
        for closed in batch.closed:
            self._insert_closed(closed)
        upkeep.remove(self._all, self._many, batch)
        self._write_models(batch)
        for shot in batch.snapshots:
            at = (shot.loop, shot.shard)
            self._check_newer(shot)
            self._do(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (loop, shard) DO UPDATE SET seq = excluded.seq, core = excluded.core, crc = excluded.crc",
                *(*at, shot.seq, shot.core, checksum(shot.core, *at, shot.seq)),
            )

    def _write_models(self, batch: Batch) -> None:
        self._many(
            "DELETE FROM states WHERE loop = ? AND shard = ? AND seq > "
            "coalesce((SELECT seq FROM snapshots WHERE loop = ? AND shard = ?), -1)",
            [(*part, *part) for part in batch.unfinished],
        )
        self._many(
            "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (loop, shard, role, epoch, scope, seq) "
            "DO UPDATE SET state = excluded.state, crc = excluded.crc",
            [(*row[:7], checksum(row.state, *row[:6])) for row in batch.models],
        )
        self._many(
            f"DELETE FROM states WHERE {_MODEL} AND seq < (SELECT max(seq) FROM states WHERE {_MODEL} AND seq <= ?)",
            [(*row[:5], *row[:5], row.saved) for row in batch.models],
        )
        self._many(
            "DELETE FROM states WHERE loop = ? AND shard = ? AND role = ? AND epoch < ? AND scope = ?",
            [(*part[:4], scope) for part in batch.outdated for scope in part.scopes],
        )

        self._many(
            "INSERT INTO tallies VALUES (?, ?, ?) ON CONFLICT (loop, shard) DO UPDATE SET body = excluded.body",
            batch.tallies,
        )

    def _check_newer(self, shot: Snapshot) -> None:
        """Raise StoreError if the store has a later snapshot; one that is ahead of the log is damaged and may go."""
        before = self._all("SELECT seq FROM snapshots WHERE loop = ? AND shard = ?", shot.loop, shot.shard)
        if before and shot.seq < before[0][0] <= self.last(shot.loop, shot.shard):
            raise StoreError(
                f"{self.place(shot.loop, shot.shard)}: a snapshot at event {shot.seq} cannot replace the later one "
                f"at event {before[0][0]}"
            )

    def last(self, loop: int, shard: int) -> int:
        """Number of the last event."""
        rows = self._all(
            "SELECT last FROM events WHERE loop = ? AND shard = ? ORDER BY first DESC LIMIT 1", loop, shard
        )
        return rows[0][0] if rows else 0

    def events(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(seq, body) of some events after number `after`, in order, at most `limit`; raises Damaged."""
        runs = self.runs(loop, shard, after, limit)
        return bodies_after((self.checked(loop, shard, *run) for run in runs), after, limit)

    def runs(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, int, bytes, int | None]]:
        """(first, last, bodies, checksum) of some runs, in order, starting with the one that has event ``after + 1``.

        There are at most `limit`, and no more than have `_BYTES` together, unless the first one has more by itself.
        """
        place = "loop = ? AND shard = ?"
        start = f"coalesce((SELECT max(first) FROM events WHERE {place} AND first <= ?), 0)"
        sizes = (
            "SELECT first, sum(length(bodies)) OVER (ORDER BY first) - length(bodies) AS before FROM events "
            f"WHERE {place} AND first >= {start} ORDER BY first LIMIT ?"
        )
        return self._all(
            f"SELECT events.first, last, bodies, crc FROM events JOIN ({sizes}) AS sizes ON sizes.first = events.first "
            f"WHERE {place} AND before < ? ORDER BY events.first",
            *(loop, shard, loop, shard, after + 1, limit, loop, shard, _BYTES),
        )

    def pruned(self, loop: int, shard: int) -> int:
        """Number of the last event that went out of the log because it was old; 0 if the log is whole."""
        rows = self._all("SELECT upto FROM pruned WHERE loop = ? AND shard = ?", loop, shard)
        return rows[0][0] if rows else 0

    def whole_runs(self, loop: int, shard: int, after: int, limit: int) -> list[Run]:
        """At most `limit` runs, in order, starting with the one that has the event after `after`; raises Damaged."""
        runs = self.runs(loop, shard, after, limit)
        return [Run(loop, shard, run[0], run[1], self.checked(loop, shard, *run)[1]) for run in runs if run[1] > after]

    def log_sizes(self) -> dict[tuple[int, int], int]:
        """Bytes of the events of every loop and shard. Reads a little of every row, so it may take seconds."""
        rows = self._all(
            "SELECT loop, shard, sum(length(bodies)) FROM events WHERE loop IN (SELECT number FROM loops) GROUP BY 1, 2"
        )
        return {(loop, shard): int(size) for loop, shard, size in rows}

    def oldest(self, loop: int, shard: int, size: int) -> int:
        """Number of the last event of the oldest runs that have at least so many bytes; 0 if all have fewer."""
        sums = (
            "SELECT last, sum(length(bodies)) OVER (ORDER BY first ROWS UNBOUNDED PRECEDING) AS size "
            "FROM events WHERE loop = ? AND shard = ?"
        )
        rows = self._all(f"SELECT last FROM ({sums}) AS sums WHERE size >= ? ORDER BY last LIMIT 1", loop, shard, size)
        return rows[0][0] if rows else 0

    def event(self, loop: int, shard: int, seq: int) -> bytes | None:
        """One event."""
        rows = self.events(loop, shard, seq - 1, 1)
        return rows[0][1] if rows and rows[0][0] == seq else None

    def snapshot(self, loop: int, shard: int) -> tuple[int, bytes] | None:
        """Number of the last event that the latest snapshot includes, and its core; raises Damaged."""
        rows = self._all("SELECT seq, core, crc FROM snapshots WHERE loop = ? AND shard = ?", loop, shard)
        for seq, core, crc in rows:
            if crc is not None and crc != checksum(core, loop, shard, seq):
                raise Damaged(f"{self.place(loop, shard)}: the snapshot at event {seq}", rest=True)
            return seq, core
        return None

    def model(self, loop: int, shard: int, role: int, epoch: int, scope: str, upto: int = LATEST) -> bytes | None:
        """Packed state of a scope, the latest up to an event; raises Damaged."""
        rows = self._all(
            f"SELECT state, crc, seq FROM states WHERE {_MODEL} AND seq <= ? ORDER BY seq DESC LIMIT 1",
            *(loop, shard, role, epoch, scope, upto),
        )
        for state, crc, seq in rows:
            if crc is not None and crc != checksum(state, loop, shard, role, epoch, scope, seq):
                raise Damaged(f"{self.place(loop, shard)}: the model of scope {scope!r}", rest=True)
            return state  # type: ignore[no-any-return]
        return None

    def model_scopes(self, loop: int, shard: int, role: int, epoch: int) -> list[str]:
        """Scopes that have a model."""
        rows = self._all(
            "SELECT DISTINCT scope FROM states WHERE loop = ? AND shard = ? AND role = ? AND epoch = ? ORDER BY scope",
            *(loop, shard, role, epoch),
        )
        return [row[0] for row in rows]

    def outdated(self, loop: int, shard: int, role: int, epoch: int, limit: int) -> list[str]:
        """Some scopes that have models of earlier epochs."""
        rows = self._all(
            "SELECT scope FROM states WHERE loop = ? AND shard = ? AND role = ? AND epoch < ? LIMIT ?",
            *(loop, shard, role, epoch, limit),
        )
        return [row[0] for row in rows]

    def checked(
        self, loop: int, shard: int, first: int, last: int, bodies: bytes, crc: int | None
    ) -> tuple[int, bytes]:
        """First event and bodies of a run; raises Damaged. Runs of older versions have no checksum."""
        if crc is not None and crc != checksum(bodies, loop, shard, first, last):
            raise Damaged(f"{self.place(loop, shard)}: events {first} to {last}", rest=False)
        return first, bodies

    def place(self, loop: int, shard: int) -> str:
        """A shard of a loop, for people to read."""
        names = self._all("SELECT name FROM loops WHERE number = ?", loop)
        return f"loop {names[0][0]!r}, shard {shard}" if names else f"unknown loop {loop}, shard {shard}"

    def tallies(self) -> list[TallyRow]:
        """The latest tally of each shard of each loop."""
        return [TallyRow(*row) for row in self._all("SELECT loop, shard, body FROM tallies ORDER BY loop, shard")]

    def damage(self) -> Iterator[str]:
        """Look at everything, and say what is not what was written, a line each."""
        return inspection.damage(self, self._all)

    def sizes(self) -> list[SizeRow]:
        """How many rows and bytes each loop has, by kind."""
        return upkeep.sizes(self._all)

    # Changes -------------------------------------------------------------------------------------------------------

    def changes(self, loop: int, shard: int, after: int, limit: int) -> list[ChangeRow]:
        """Changes after a number, in order."""
        rows = self._all(
            "SELECT * FROM changes WHERE loop = ? AND shard = ? AND number > ? ORDER BY number LIMIT ?",
            *(loop, shard, after, limit),
        )
        return [ChangeRow(*row) for row in rows]

    def last_changes(self, loop: int, limit: int, scope: str | None = None) -> list[ChangeRow]:
        """The latest changes of all shards, or of a scope, oldest first."""
        which = "loop = ?" if scope is None else "loop = ? AND scope = ?"
        rows = self._all(
            f"SELECT * FROM changes WHERE {which} ORDER BY time DESC, shard DESC, number DESC LIMIT ?",
            *([loop, limit] if scope is None else [loop, scope, limit]),
        )
        return [ChangeRow(*row) for row in reversed(rows)]

    def changed_scopes(self, loop: int, limit: int) -> list[tuple[str, int, int]]:
        """The most changed scopes: (scope, number of changes, time of the last)."""
        return self._all(
            "SELECT scope, count(*), max(time) FROM changes WHERE loop = ? GROUP BY scope ORDER BY 2 DESC, 1 LIMIT ?",
            *(loop, limit),
        )
