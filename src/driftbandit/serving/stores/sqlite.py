"""SQLite as the log: one file, write-ahead logging, every commit synced to the disk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from driftbandit.serving.stores.base import (
    Batch,
    ChangeRow,
    Closed,
    ClosedRow,
    KeyRow,
    LoopRow,
    StoreError,
    VersionConflict,
    bodies_after,
    check_order,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS loops (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, config BLOB NOT NULL,
    arms_version INTEGER NOT NULL DEFAULT 0, arms BLOB) STRICT;
CREATE TABLE IF NOT EXISTS events (
    loop INTEGER, shard INTEGER, first INTEGER, last INTEGER NOT NULL, bodies BLOB NOT NULL,
    PRIMARY KEY (loop, shard, first)) STRICT;
CREATE TABLE IF NOT EXISTS snapshots (
    loop INTEGER, shard INTEGER, seq INTEGER NOT NULL, core BLOB NOT NULL, PRIMARY KEY (loop, shard)) STRICT;
CREATE TABLE IF NOT EXISTS models (
    loop INTEGER, shard INTEGER, role INTEGER, epoch INTEGER, scope TEXT, state BLOB NOT NULL,
    PRIMARY KEY (loop, shard, role, epoch, scope)) STRICT;
CREATE TABLE IF NOT EXISTS closed (
    loop INTEGER, id TEXT, shard INTEGER NOT NULL, seq INTEGER NOT NULL, reward REAL,
    PRIMARY KEY (loop, id)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    loop INTEGER, shard INTEGER, number INTEGER, seq INTEGER NOT NULL, time INTEGER NOT NULL, scope TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (loop, shard, number)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (loop, time);
CREATE INDEX IF NOT EXISTS changes_by_scope ON changes (loop, scope, time);
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, digest BLOB NOT NULL, created INTEGER NOT NULL,
    revoked INTEGER) STRICT, WITHOUT ROWID;
"""
_LOOP = "number, name, version, config, arms_version, arms"
_PRAGMAS = (
    "page_size = 8192",  # of a new file
    "journal_mode = WAL",
    "synchronous = FULL",
    "wal_autocheckpoint = 2000",  # pages: 16 MB, so that pages written often are copied seldom
    "cache_size = -65536",
    "foreign_keys = ON",
)
_BUSY_MS = 10_000
_ROWS = 128
"""Rows a statement: one by one they take twice as long."""
_ROWS = 100


class SQLiteStore:
    """The embedded store.

    Parameters
    ----------
    path : path
        The database file; made, with its folder, where it is missing.
    writer : bool
        Whether to hold the log: one process at a time may. Without it only keys can be written.
    vfs : str, optional
        Name of a registered apsw VFS, for tests that make the disk fail.
    create : bool
        Whether to make a missing file; otherwise that is a StoreError.
    """

    shards = 1

    def __init__(
        self, path: str | os.PathLike[str], *, writer: bool = True, vfs: str | None = None, create: bool = True
    ) -> None:
        self.path = Path(path)
        self._vfs = vfs
        self._lock: int | None = None
        if not self.path.name:
            raise ValueError("store: expected sqlite:PATH, got no path")
        if not create and not self.path.exists():
            raise StoreError(f"there is no store {self.path}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if writer:
            self._lock = self._take_lock()
        try:
            self._connect()
        except StoreError:
            self._unlock()
            raise

    def _take_lock(self) -> int:
        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise StoreError(f"{self.path}: another process is serving from this file") from error
        return handle

    def _connect(self) -> None:
        with _errors(self.path):
            self._db = apsw.Connection(str(self.path), vfs=self._vfs)
            self._db.set_busy_timeout(_BUSY_MS)
            self._check_owner()
            for pragma in _PRAGMAS:
                self._db.execute(f"PRAGMA {pragma}")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(_SCHEMA)
            self._db.execute("COMMIT")

    def _check_owner(self) -> None:
        """Leave the database of another program alone."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= {"loops", "events", "keys"}:
            self._db.close()
            raise StoreError(f"{self.path}: the database of another program, with a table {min(tables)!r}")

    def reader(self) -> SQLiteStore:
        """Open a second connection, for reading and for keys."""
        return SQLiteStore(self.path, writer=False, vfs=self._vfs)

    def reopen(self) -> None:
        """Start over with a new connection: after a failed sync nothing that the old one believes can be trusted."""
        with _errors():
            self._db.close()
        self._connect()
        if self._lock is not None:
            with _errors():  # a disk that cannot take this is not ready for more
                self._db.execute("PRAGMA user_version = 2")
                self._db.execute("PRAGMA user_version = 1")

    def close(self) -> None:
        """Close the file and let another process have it."""
        with _errors():
            self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def hold(self) -> dict[int, int]:
        """The only shard, as long as the file's lock is held."""
        return {0: 1} if self._lock is not None else {}

    def holder(self, shard: int) -> str | None:
        """Nobody else can hold it."""
        return None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with _errors():
            return list(self._db.execute(sql, values))

    def loops(self) -> list[LoopRow]:
        """All loops."""
        return [LoopRow(*row) for row in self._all(f"SELECT {_LOOP} FROM loops ORDER BY number")]

    def put_loop(self, name: str, expected: int, config: bytes) -> LoopRow:
        """Create a loop (expected version 0) or replace its settings, or raise VersionConflict."""
        with self._transaction():
            found = self._all("SELECT version FROM loops WHERE name = ?", name)
            version = found[0][0] if found else 0
            if version != expected:
                raise VersionConflict(version)
            self._db.execute(
                "INSERT INTO loops (name, version, config) VALUES (?, 1, ?) "
                "ON CONFLICT (name) DO UPDATE SET version = version + 1, config = excluded.config",
                (name, config),
            )
            return LoopRow(*self._all(f"SELECT {_LOOP} FROM loops WHERE name = ?", name)[0])

    def put_arms(self, number: int, arms: bytes) -> LoopRow:
        """Replace a loop's catalogue."""
        with self._transaction():
            self._db.execute(
                "UPDATE loops SET arms_version = arms_version + 1, arms = ? WHERE number = ?", (arms, number)
            )
            return LoopRow(*self._all(f"SELECT {_LOOP} FROM loops WHERE number = ?", number)[0])

    def commit(self, batch: Batch) -> None:
        """Make a batch durable in one transaction."""
        if self._lock is None:
            raise StoreError(f"{self.path}: opened for reading")
        with self._transaction():
            many = self._db.executemany
            check_order(batch.events, self._last)
            many("INSERT INTO events VALUES (?, ?, ?, ?, ?)", batch.events)
            if batch.changes:
                rows = [(c.loop, c.shard, c.number, c.seq, c.time, c.scope, c.body) for c in batch.changes]
                many("INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            for closed in batch.closed:
                self._insert_closed(closed)
            for shot in batch.snapshots:
                at = (shot.loop, shot.shard)
                self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (*at, shot.seq, shot.core))
                many("INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?, ?, ?)", [(*at, *row) for row in shot.models])
                for role, epoch in enumerate(shot.epochs):
                    self._db.execute(
                        "DELETE FROM models WHERE loop = ? AND shard = ? AND role = ? AND epoch < ?", (*at, role, epoch)
                    )

    def _insert_closed(self, closed: Closed) -> None:
        rows = sorted(closed.rows)  # so that neighbours share the pages that are written
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            marks = ", ".join([f"(?, ?, ?, {closed.loop}, {closed.shard})"] * len(part))
            insert = f"INSERT OR IGNORE INTO closed (id, seq, reward, loop, shard) VALUES {marks}"
            self._db.execute(insert, [value for row in part for value in row])

    def events(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(seq, body) of at most `limit` events after number `after`, in order."""
        rows = self._all(
            "SELECT first, bodies FROM events WHERE loop = ?1 AND shard = ?2 AND first >= coalesce((SELECT max(first) "
            "FROM events WHERE loop = ?1 AND shard = ?2 AND first <= ?3 + 1), 0) ORDER BY first LIMIT ?4",
            *(loop, shard, after, limit),
        )
        return bodies_after(rows, after, limit)

    def _last(self, loop: int, shard: int) -> int:
        rows = self._all(
            "SELECT last FROM events WHERE loop = ? AND shard = ? ORDER BY first DESC LIMIT 1", loop, shard
        )
        return rows[0][0] if rows else 0

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

    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""
        rows = self._all(
            "SELECT closed.* FROM json_each(?) AS given CROSS JOIN closed "
            "ON closed.loop = ? AND closed.id = given.value",
            *(msgspec.json.encode(ids).decode(), loop),
        )
        return [ClosedRow(*row) for row in rows]

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

    def access_keys(self) -> list[KeyRow]:
        """All access keys."""
        return [KeyRow(*row) for row in self._all("SELECT * FROM keys ORDER BY created, id")]

    def add_key(self, key: KeyRow) -> None:
        """Add an access key."""
        values = (key.id, key.name, key.role, key.digest, key.created, key.revoked)
        with self._transaction():
            self._db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", values)

    def revoke_key(self, key_id: str, time: int) -> bool:
        """Revoke an access key; False if there is none of that id."""
        with self._transaction():
            self._db.execute("UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?", (time, key_id))
            return self._db.changes() > 0


@contextmanager
def _errors(path: Path | None = None) -> Iterator[None]:
    where = "SQLite" if path is None else f"{path}: SQLite"
    try:
        yield
    except apsw.Error as error:
        raise StoreError(f"{where}: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise StoreError(f"{where}: {error}") from error
