"""What SQL stores have in common: statements that every database understands, with ``?`` for values."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores.base import (
    Batch,
    ChangeRow,
    Closed,
    KeyRow,
    LoopRow,
    VersionConflict,
    bodies_after,
    check_order,
)

_KEY = "id, name, role, digest, created, revoked, expires, rate, loops"
_LOOP = "number, name, version, config, arms_version, arms"


class SQLStore(ABC):
    """The part of a store that is the same for all databases.

    Each database adds its connection, its tables, who may write, and the few statements that differ.
    """

    # What a database does in its own way ---------------------------------------------------------------------------

    @abstractmethod
    def _all(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement and return its rows."""

    @abstractmethod
    def _do(self, sql: str, *values: Any) -> None:
        """Run a statement that returns no rows."""

    @abstractmethod
    def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once per row of values, in a transaction that `_write` was called in."""

    @abstractmethod
    def _insert_closed(self, closed: Closed) -> None:
        """Add closed decisions, except those already stored."""

    @abstractmethod
    def _runs(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(first, bodies) of runs, in order, starting with the one that has event ``after + 1``."""

    @abstractmethod
    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""

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
                "INSERT INTO loops (name, version, config, arms_version, arms) VALUES (?, 1, ?, ?, ?) "
                f"ON CONFLICT (name) DO NOTHING RETURNING {_LOOP}",
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

    # The log -------------------------------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        """Write a batch; the caller has begun a transaction."""
        check_order(batch.events, self._last)
        self._many("INSERT INTO events VALUES (?, ?, ?, ?, ?)", batch.events)
        changes = [(c.loop, c.shard, c.number, c.seq, c.time, c.scope, c.body) for c in batch.changes]
        self._many("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", changes)
        for closed in batch.closed:
            self._insert_closed(closed)
        for shot in batch.snapshots:
            at = (shot.loop, shot.shard)
            self._do(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?) "
                "ON CONFLICT (loop, shard) DO UPDATE SET seq = excluded.seq, core = excluded.core",
                *(*at, shot.seq, shot.core),
            )
            self._many(
                "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (loop, shard, role, epoch, scope) DO UPDATE SET state = excluded.state",
                [(*at, *row) for row in shot.models],
            )
            for role, epoch in enumerate(shot.epochs):
                self._do("DELETE FROM models WHERE loop = ? AND shard = ? AND role = ? AND epoch < ?", *at, role, epoch)

    def _last(self, loop: int, shard: int) -> int:
        """Number of the last event."""
        rows = self._all(
            "SELECT last FROM events WHERE loop = ? AND shard = ? ORDER BY first DESC LIMIT 1", loop, shard
        )
        return rows[0][0] if rows else 0

    def events(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(seq, body) of at most `limit` events after number `after`, in order."""
        return bodies_after(self._runs(loop, shard, after, limit), after, limit)

    def event(self, loop: int, shard: int, seq: int) -> bytes | None:
        """One event."""
        rows = self.events(loop, shard, seq - 1, 1)
        return rows[0][1] if rows and rows[0][0] == seq else None

    def snapshot(self, loop: int, shard: int) -> tuple[int, bytes] | None:
        """Number of the last event that the latest snapshot includes, and its core."""
        rows = self._all("SELECT seq, core FROM snapshots WHERE loop = ? AND shard = ?", loop, shard)
        return rows[0] if rows else None

    def model(self, loop: int, shard: int, role: int, epoch: int, scope: str) -> bytes | None:
        """Packed state of a scope as of the latest snapshot."""
        rows = self._all(
            "SELECT state FROM models WHERE loop = ? AND shard = ? AND role = ? AND epoch = ? AND scope = ?",
            *(loop, shard, role, epoch, scope),
        )
        return rows[0][0] if rows else None

    def model_scopes(self, loop: int, shard: int, role: int, epoch: int) -> list[str]:
        """Scopes that have a model in the latest snapshot."""
        rows = self._all(
            "SELECT scope FROM models WHERE loop = ? AND shard = ? AND role = ? AND epoch = ? ORDER BY scope",
            *(loop, shard, role, epoch),
        )
        return [row[0] for row in rows]

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

    # Access keys -----------------------------------------------------------------------------------------------------

    def access_keys(self) -> list[KeyRow]:
        """All access keys."""
        rows = self._all(f"SELECT {_KEY} FROM keys ORDER BY created, id")
        return [KeyRow(*(*row[:8], None if row[8] is None else tuple(json.loads(row[8])))) for row in rows]

    def add_key(self, key: KeyRow) -> None:
        """Add an access key."""
        values = (key.id, key.name, key.role, key.digest, key.created, key.revoked, key.expires, key.rate)
        loops = None if key.loops is None else json.dumps(key.loops)
        self._do(f"INSERT INTO keys ({_KEY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values, loops)

    def revoke_key(self, key_id: str, time: int) -> bool:
        """Revoke an access key; False if no key has that id."""
        return bool(self._all("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ? RETURNING id", time, key_id))

    # Sessions of the page --------------------------------------------------------------------------------------------

    def add_session(self, digest: bytes, key_id: str, expires: int, now: int) -> None:
        """Begin a session with a key, and forget those that ended before now."""
        self._do("DELETE FROM sessions WHERE expires <= ?", now)
        self._do("INSERT INTO sessions (digest, key_id, expires) VALUES (?, ?, ?)", digest, key_id, expires)

    def session(self, digest: bytes, now: int) -> str | None:
        """Id of the key with which a session began; None if there is none, or its time is over."""
        rows = self._all("SELECT key_id FROM sessions WHERE digest = ? AND expires > ?", digest, now)
        return rows[0][0] if rows else None

    def end_session(self, digest: bytes) -> None:
        """End a session."""
        self._do("DELETE FROM sessions WHERE digest = ?", digest)
