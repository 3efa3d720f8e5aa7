"""A store in PostgreSQL, for several service processes at once.

Scopes are divided into shards, and each shard has one writer at a time: see `leases`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores.base import Fenced, StoreError, Unreachable, without_password
from driftbandit.serving.stores.leases import ALONE, LEASE_S, Leases
from driftbandit.serving.stores.rows import Batch, Closed
from driftbandit.serving.stores.sql import CHECKED, MOVE_MODELS, SQLStore

SHARDS = 16
"""Shards of a new store."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS loops (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, version bigint NOT NULL,
    config bytea NOT NULL, arms_version bigint NOT NULL DEFAULT 0, arms bytea);
CREATE TABLE IF NOT EXISTS events (
    loop bigint, shard integer, first bigint, last bigint NOT NULL, bodies bytea NOT NULL, crc bigint,
    PRIMARY KEY (loop, shard, first));
CREATE TABLE IF NOT EXISTS snapshots (
    loop bigint, shard integer, seq bigint NOT NULL, core bytea NOT NULL, crc bigint,
    PRIMARY KEY (loop, shard));
CREATE TABLE IF NOT EXISTS states (
    loop bigint, shard integer, role integer, epoch bigint, scope text COLLATE "C", seq bigint, state bytea NOT NULL,
    crc bigint, PRIMARY KEY (loop, shard, role, epoch, scope, seq));
CREATE INDEX IF NOT EXISTS states_by_seq ON states (loop, shard, seq);
CREATE TABLE IF NOT EXISTS closed (
    loop bigint, id text COLLATE "C", shard integer NOT NULL, seq bigint NOT NULL, reward double precision,
    PRIMARY KEY (loop, id, shard));
CREATE TABLE IF NOT EXISTS changes (
    loop bigint, shard integer, number bigint, seq bigint NOT NULL, time bigint NOT NULL, scope text NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (loop, shard, number));
CREATE INDEX IF NOT EXISTS events_by_last ON events (loop, shard, last);
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (loop, time);
CREATE INDEX IF NOT EXISTS changes_by_scope ON changes (loop, scope, time);
CREATE TABLE IF NOT EXISTS tallies (
    loop bigint, shard integer, body bytea NOT NULL, PRIMARY KEY (loop, shard));
CREATE TABLE IF NOT EXISTS pruned (
    loop bigint, shard integer, upto bigint NOT NULL, PRIMARY KEY (loop, shard));
CREATE TABLE IF NOT EXISTS removals (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, loop bigint NOT NULL, shard integer NOT NULL,
    name text NOT NULL, scope text, scope_hash text, who text NOT NULL, time bigint NOT NULL, done bigint);
CREATE TABLE IF NOT EXISTS keys (
    id text PRIMARY KEY, name text NOT NULL, role text NOT NULL, digest bytea NOT NULL, created bigint NOT NULL,
    revoked bigint);
CREATE TABLE IF NOT EXISTS processes (
    id integer PRIMARY KEY, address text, seen timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS shards (
    shard integer PRIMARY KEY, token bigint NOT NULL DEFAULT 0, holder integer);
"""

_SESSIONS = """
ALTER TABLE keys ADD COLUMN IF NOT EXISTS expires bigint, ADD COLUMN IF NOT EXISTS loops text,
    ADD COLUMN IF NOT EXISTS rate double precision;
CREATE TABLE IF NOT EXISTS sessions (digest bytea PRIMARY KEY, key_id text NOT NULL, expires bigint NOT NULL);
"""


_LIMITS = {
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
"""When a connection counts as lost. Without these, a server that vanished from the network would be waited for."""

_STANDING = """
SELECT to_regclass('shards') IS NOT NULL,
    to_regclass('states') IS NOT NULL AND to_regclass('pruned') IS NOT NULL AND EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('snapshots') AND attname = 'crc')
"""
"""Whether there is a store, and whether it has everything that this version needs."""


class PostgreSQLStore(SQLStore):
    """A store that processes share.

    Parameters
    ----------
    address : str
        ``postgresql://user:password@host/database``.
    writer : bool
        Whether to take part in serving. Otherwise the store is only read, and keys are written.
    advertise : str, optional
        URL under which other processes can send clients here.
    shards : int
        Number of shards if the store is new.
    lease : float
        Seconds after which a process that does not answer loses its shards.
    create : bool
        Whether to make missing tables; otherwise missing tables are a StoreError.
    """

    _new_number = "DEFAULT"

    def __init__(
        self,
        address: str,
        *,
        writer: bool = True,
        advertise: str | None = None,
        shards: int = SHARDS,
        lease: float = LEASE_S,
        create: bool = True,
    ) -> None:
        self._address = address
        self._advertise = advertise
        self._wanted = shards
        self._lease = lease
        self._may_create = create
        self._writer = writer
        self._connect()

    def _connect(self) -> None:
        self._leases: Leases | None = None
        with _errors():
            self._db = connect(self._address)
            self._db.execute("SET synchronous_commit = on")
            there, current = self._all(_STANDING)[0]
            if not current:
                if not (there or self._may_create):
                    self._db.close()
                    raise StoreError("PostgreSQL: there is no store in this database")
                self._create()
            self._add_key_columns()
            self.shards: int = self._all("SELECT count(*) FROM shards")[0][0]
            if self._writer:
                self._leases = Leases(
                    self._db, self.shards, self._advertise, self._lease, lambda: connect(self._address)
                )

    def _create(self) -> None:
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", (ALONE,))
            self._db.execute(_SCHEMA)
            if self._all("SELECT to_regclass('models') IS NOT NULL")[0][0]:
                self._db.execute(MOVE_MODELS)
            for table in CHECKED:
                self._db.execute(SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS crc bigint").format(Identifier(table)))
            self._db.execute(
                "INSERT INTO shards (shard) SELECT generate_series(0, %s) WHERE NOT EXISTS (SELECT FROM shards)",
                (self._wanted - 1,),
            )

    def _add_key_columns(self) -> None:
        """Let keys of version 0.1.0 end, be for some loops only, and have a rate; and let people have sessions."""
        if not self._all("SELECT to_regclass('sessions') IS NOT NULL")[0][0]:
            with self._db.transaction():
                self._db.execute("SELECT pg_advisory_xact_lock(%s)", (ALONE,))
                self._db.execute(_SESSIONS)

    def reader(self) -> PostgreSQLStore:
        """Open a second connection, for reading and for keys."""
        return PostgreSQLStore(self._address, writer=False)

    def reopen(self) -> None:
        """Start over with a new connection, holding nothing."""
        with contextlib.suppress(StoreError):
            self.close()
        self._connect()

    def close(self) -> None:
        """Give the shards back and close the connection."""
        with _errors():
            try:
                if self._leases is not None:
                    self._leases.release()
            finally:
                self._db.close()

    def hold(self) -> dict[int, int]:
        """Take a fair share of the free shards, and give back any surplus."""
        if self._leases is None:
            return {}
        with _errors():
            return self._leases.hold()

    def holder(self, shard: int) -> str | None:
        """Address of the process that holds a shard, if it gave one."""
        rows = self._all("SELECT p.address FROM shards s JOIN processes p ON p.id = s.holder WHERE s.shard = ?", shard)
        return rows[0][0] if rows else None

    def commit(self, batch: Batch) -> None:
        """Make a batch durable in one transaction, if its shards are still held."""
        shards = batch.shards
        if self._leases is None:
            raise Fenced(f"shards {sorted(shards)}: the store was opened for reading")
        with self._transaction():
            self._leases.check(shards)
            self._write(batch)

    # What PostgreSQL does in its own way ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with _errors(), self._db.transaction():
            yield

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with _errors():
            return self._db.execute(_marked(sql), values).fetchall()

    def _do(self, sql: str, *values: Any) -> None:
        with _errors():
            self._db.execute(_marked(sql), values)

    def _many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            with self._db.cursor() as cursor:
                cursor.executemany(_marked(sql), rows)

    def _insert_closed(self, closed: Closed) -> None:
        rows = [(closed.loop, ident, closed.shard, seq, reward) for ident, seq, reward in closed.rows]
        self._many("INSERT INTO closed VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""
        rows = self._all("SELECT loop, id, shard, seq, reward FROM closed WHERE loop = ? AND id = ANY(?)", loop, ids)
        return [ClosedRow(*row) for row in rows]


def connect(address: str) -> psycopg.Connection[Any]:
    """A connection that commits by itself, and that notices within seconds if the server is gone.

    What the address says about time limits comes first. What goes wrong is said without the password, also if the
    address is misspelt. Raises Unreachable if no server answers, or one that is starting or stopping.
    """
    shown = without_password(address)
    why = f"the address {shown} cannot be read; in a password, write / ? # @ : % as %2F %3F %23 %40 %3A %25"
    kind = StoreError
    try:
        given = _LIMITS | conninfo_to_dict(address)
        password = given.get("password")
        try:
            return _connection(given)
        except psycopg.OperationalError:
            if _answers(given):  # it may have done so only since the first attempt
                return _connection(given)
            kind = Unreachable
            raise
    except psycopg.ProgrammingError:
        pass
    except psycopg.Error as error:
        if password is not None or shown == address:  # else, some of the password was taken for something else
            why = f"{type(error).__name__}: {str(error).replace(str(password), '***')}"
    raise kind(f"PostgreSQL: {why}")


def _connection(given: dict[str, Any]) -> psycopg.Connection[Any]:
    return psycopg.connect(**given, autocommit=True, row_factory=tuple_row)


def _answers(given: dict[str, Any]) -> bool:
    """Whether a server takes connections, though perhaps not ours. The error of a connection does not tell."""
    return PGconn.ping(make_conninfo(**given).encode()) not in (Ping.NO_RESPONSE, Ping.REJECT)


@cache
def _marked(sql: str) -> str:
    """A statement with values marked as psycopg wants them."""
    return sql.replace("?", "%s")


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        kind = Unreachable if isinstance(error, psycopg.OperationalError) else StoreError
        raise kind(f"PostgreSQL: {type(error).__name__}: {error}") from error
