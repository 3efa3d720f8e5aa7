"""A store in one SQLite file, with write-ahead logging; every commit is synced to the disk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.rows import Batch, Closed
from driftbandit.serving.stores.sql import CHECKED, MOVE_MODELS, SQLStore

_SCHEMA = """
CREATE TABLE IF NOT EXISTS loops (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, config BLOB NOT NULL,
    arms_version INTEGER NOT NULL DEFAULT 0, arms BLOB) STRICT;
CREATE TABLE IF NOT EXISTS events (
    loop INTEGER, shard INTEGER, first INTEGER, last INTEGER NOT NULL, bodies BLOB NOT NULL, crc INTEGER,
    PRIMARY KEY (loop, shard, first)) STRICT;
CREATE TABLE IF NOT EXISTS snapshots (
    loop INTEGER, shard INTEGER, seq INTEGER NOT NULL, core BLOB NOT NULL, crc INTEGER,
    PRIMARY KEY (loop, shard)) STRICT;
CREATE TABLE IF NOT EXISTS states (
    loop INTEGER, shard INTEGER, role INTEGER, epoch INTEGER, scope TEXT, seq INTEGER, state BLOB NOT NULL,
    crc INTEGER, PRIMARY KEY (loop, shard, role, epoch, scope, seq)) STRICT;
CREATE INDEX IF NOT EXISTS states_by_seq ON states (loop, shard, seq);
CREATE TABLE IF NOT EXISTS closed (
    loop INTEGER, id TEXT, shard INTEGER NOT NULL, seq INTEGER NOT NULL, reward REAL,
    PRIMARY KEY (loop, id)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    loop INTEGER, shard INTEGER, number INTEGER, seq INTEGER NOT NULL, time INTEGER NOT NULL, scope TEXT NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (loop, shard, number)) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (loop, time);
CREATE INDEX IF NOT EXISTS changes_by_scope ON changes (loop, scope, time);
CREATE TABLE IF NOT EXISTS tallies (
    loop INTEGER, shard INTEGER, body BLOB NOT NULL, PRIMARY KEY (loop, shard)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pruned (
    loop INTEGER, shard INTEGER, upto INTEGER NOT NULL, PRIMARY KEY (loop, shard)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS removals (
    number INTEGER PRIMARY KEY, loop INTEGER NOT NULL, shard INTEGER NOT NULL, name TEXT NOT NULL, scope TEXT,
    scope_hash TEXT, who TEXT NOT NULL, time INTEGER NOT NULL, done INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, digest BLOB NOT NULL, created INTEGER NOT NULL,
    revoked INTEGER) STRICT, WITHOUT ROWID;
"""
_SESSIONS = """
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, key_id TEXT NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
_KEY_COLUMNS = {"expires": "INTEGER", "loops": "TEXT", "rate": "REAL"}
_PRAGMAS = (
    "page_size = 8192",  # of a new file
    "journal_mode = WAL",
    "synchronous = FULL",
    "wal_autocheckpoint = 2000",  # pages: 16 MB, so that pages written often are copied seldom
    "cache_size = -65536",
    "foreign_keys = ON",
)
_BUSY_MS = 10_000
_ROWS = 100
"""Rows per statement: one by one they take twice as long."""


class SQLiteStore(SQLStore):
    """The embedded store.

    Parameters
    ----------
    path : path
        The database file; made, with its folder, if missing.
    writer : bool
        Whether to write the log, which one process at a time may. Otherwise only keys can be written.
    vfs : str, optional
        Name of a registered apsw VFS, for tests that make the disk fail.
    create : bool
        Whether to make a missing file; otherwise a missing file is a StoreError.
    """

    shards = 1
    _new_number = (
        "(SELECT 1 + coalesce(max(number), 0) FROM (SELECT number FROM loops UNION SELECT loop FROM removals))"
    )

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
            self._lock = _take_lock(self.path)
        try:
            if writer:
                self._check_names()
            self._connect()
        except StoreError:
            self._unlock()
            raise

    def _check_names(self) -> None:
        """Raise StoreError if the file has several names.

        SQLite keeps the latest commits in a second file that is named after the first. Processes that come by different
        names would not see each other's.
        """
        if self.path.exists() and self.path.stat().st_nlink > 1:
            raise StoreError(
                f"{self.path}: the file has another name (a hard link), under which it could be served too"
            )

    def _connect(self) -> None:
        with errors(self.path):
            if not self.path.exists():
                os.close(
                    os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                )  # SQLite's other files follow
            self._db = apsw.Connection(str(self.path), vfs=self._vfs)
            self._db.set_busy_timeout(_BUSY_MS)
            self._check_owner()
            for pragma in _PRAGMAS:
                self._db.execute(f"PRAGMA {pragma}")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(_SCHEMA)
            if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'models'").fetchone():
                self._db.execute(MOVE_MODELS)
            for table in CHECKED:
                if "crc" not in {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}:
                    self._db.execute(f"ALTER TABLE {table} ADD COLUMN crc INTEGER")  # a store of an older version
            self._add_key_columns()
            self._db.execute("COMMIT")

    def _add_key_columns(self) -> None:
        """Let keys of version 0.1.0 end, be for some loops only, and have a rate; and let people have sessions."""
        self._db.execute(_SESSIONS)
        known = {row[1] for row in self._db.execute("PRAGMA table_info(keys)")}
        for name, kind in _KEY_COLUMNS.items():
            if name not in known:
                self._db.execute(f"ALTER TABLE keys ADD COLUMN {name} {kind}")

    def _check_owner(self) -> None:
        """Raise StoreError if the file is the database of another program."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= {"loops", "events", "keys"}:
            self._db.close()
            raise StoreError(f"{self.path}: the database of another program, with a table {min(tables)!r}")

    def reader(self) -> SQLiteStore:
        """Open a second connection, for reading and for keys."""
        return SQLiteStore(self.path, writer=False, vfs=self._vfs)

    def reopen(self) -> None:
        """Start over with a new connection: after a failed sync the old one cannot be trusted."""
        with errors():
            self._db.close()
        self._connect()
        if self._lock is not None:
            with errors():  # a disk that cannot take this cannot take more
                self._db.execute("PRAGMA user_version = 2")
                self._db.execute("PRAGMA user_version = 1")

    def close(self) -> None:
        """Close the file, so that another process may write to it."""
        with errors():
            self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def hold(self) -> dict[int, int]:
        """The only shard, if this object writes the log."""
        return {0: 1} if self._lock is not None else {}

    def holder(self, shard: int) -> str | None:
        """Always None: no other process can hold the shard."""
        return None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def commit(self, batch: Batch) -> None:
        """Make a batch durable in one transaction."""
        if self._lock is None:
            raise StoreError(f"{self.path}: opened for reading")
        with self._transaction():
            self._write(batch)

    def compact(self) -> tuple[int, int]:
        """Write the file anew without the room that deleted rows left; returns its bytes before and after."""
        with errors(self.path):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = self.path.stat().st_size
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return before, self.path.stat().st_size

    # What SQLite does in its own way -------------------------------------------------------------------------------

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with errors():
            return list(self._db.execute(sql, values))

    def _do(self, sql: str, *values: Any) -> None:
        self._all(sql, *values)

    def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._db.executemany(sql, rows)

    def _insert_closed(self, closed: Closed) -> None:
        rows = sorted(closed.rows)  # so that neighbours share the pages that are written
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            marks = ", ".join([f"(?, ?, ?, {closed.loop}, {closed.shard})"] * len(part))
            insert = f"INSERT OR IGNORE INTO closed (id, seq, reward, loop, shard) VALUES {marks}"
            self._do(insert, *[value for row in part for value in row])

    def damage(self) -> Iterator[str]:
        """Look at everything, SQLite's own structures first, and say what is not what was written, a line each."""
        for (line,) in self._all("PRAGMA quick_check"):
            if line != "ok":
                yield f"SQLite: {line}"
        yield from super().damage()

    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""
        rows = self._all(
            "SELECT closed.* FROM json_each(?) AS given CROSS JOIN closed "
            "ON closed.loop = ? AND closed.id = given.value",
            *(msgspec.json.encode(ids).decode(), loop),
        )
        return [ClosedRow(*row) for row in rows]


def _take_lock(path: Path) -> int:
    # By whatever symbolic links a process comes, the lock is the same.
    handle = os.open(f"{path.resolve()}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise StoreError(f"{path}: another process is serving from this file") from error
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from serving a file; raises StoreError if one does."""
    handle = _take_lock(path)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def errors(path: Path | None = None) -> Iterator[None]:
    """Turn errors of SQLite and of the disk into StoreError."""
    where = "SQLite" if path is None else f"{path}: SQLite"
    try:
        yield
    except apsw.Error as error:
        raise StoreError(f"{where}: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise StoreError(f"{where}: {error}") from error
