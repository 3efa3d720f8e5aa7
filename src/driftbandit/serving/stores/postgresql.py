"""PostgreSQL as the log, for several service processes at once.

Scopes are hashed to shards, and a shard has one writer. A process holds shards by lease: a row with its name, an expiry
that it renews every second, and a token that grows with every change of hands. Every commit locks and checks those
rows, so a process that slept through its lease cannot write any more. A process also holds an advisory lock while its
connection lives; where that is gone, its shards are taken over without waiting for the lease to end. A process may fall
asleep in the middle of a transaction, with locks that nobody else gets past: the others end its connection when its
lease has ended. For that all processes must log in as one role.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from driftbandit.serving.stores.base import (
    Batch,
    ChangeRow,
    ClosedRow,
    Fenced,
    KeyRow,
    LoopRow,
    StoreError,
    VersionConflict,
    bodies_after,
    check_order,
)

SHARDS = 16
"""Shards of a new store."""

LEASE_S = 5.0
"""How long a process that does not answer keeps its shards."""

_ALIVE = 0x64726966  # the first key of the advisory locks that processes hold while they live
_ALONE = 0x64726967  # held while shards change hands or tables are made
_SCHEMA = """
CREATE TABLE IF NOT EXISTS loops (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, version bigint NOT NULL,
    config bytea NOT NULL, arms_version bigint NOT NULL DEFAULT 0, arms bytea);
CREATE TABLE IF NOT EXISTS events (
    loop bigint, shard integer, first bigint, last bigint NOT NULL, bodies bytea NOT NULL,
    PRIMARY KEY (loop, shard, first));
CREATE TABLE IF NOT EXISTS snapshots (
    loop bigint, shard integer, seq bigint NOT NULL, core bytea NOT NULL, PRIMARY KEY (loop, shard));
CREATE TABLE IF NOT EXISTS models (
    loop bigint, shard integer, role integer, epoch bigint, scope text COLLATE "C", state bytea NOT NULL,
    PRIMARY KEY (loop, shard, role, epoch, scope));
CREATE TABLE IF NOT EXISTS closed (
    loop bigint, id text COLLATE "C", shard integer NOT NULL, seq bigint NOT NULL, reward double precision,
    PRIMARY KEY (loop, id, shard));
CREATE TABLE IF NOT EXISTS changes (
    loop bigint, shard integer, number bigint, seq bigint NOT NULL, time bigint NOT NULL, scope text NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (loop, shard, number));
CREATE INDEX IF NOT EXISTS events_by_last ON events (loop, shard, last);
CREATE INDEX IF NOT EXISTS changes_by_time ON changes (loop, time);
CREATE INDEX IF NOT EXISTS changes_by_scope ON changes (loop, scope, time);
CREATE TABLE IF NOT EXISTS keys (
    id text PRIMARY KEY, name text NOT NULL, role text NOT NULL, digest bytea NOT NULL, created bigint NOT NULL,
    revoked bigint);
CREATE TABLE IF NOT EXISTS processes (
    id integer PRIMARY KEY, address text, seen timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS shards (
    shard integer PRIMARY KEY, token bigint NOT NULL DEFAULT 0, holder integer, expires timestamptz);
"""
_LOOP = "number, name, version, config, arms_version, arms"


class PostgreSQLStore:
    """A store that processes share.

    Parameters
    ----------
    address : str
        ``postgresql://user:password@host/database``.
    writer : bool
        Whether to take part in serving; without it the store is only read, and keys are written.
    advertise : str, optional
        URL under which other processes can send clients here.
    shards : int
        Number of shards if the store is new.
    lease : float
        Seconds after which a process that does not answer loses its shards.
    create : bool
        Whether to make missing tables; otherwise that is a StoreError.
    """

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
        self._tokens: dict[int, int] = {}
        self.shards = shards
        self._connect()

    def _connect(self) -> None:
        self._tokens = {}
        self._me = secrets.randbits(31)
        with _errors():
            self._db = psycopg.connect(self._address, autocommit=True, row_factory=tuple_row, connect_timeout=10)
            self._db.execute("SET synchronous_commit = on")
            if not self._exists():
                if not self._may_create:
                    self._db.close()
                    raise StoreError("PostgreSQL: there is no store in this database")
                self._create()
            self.shards = self._all("SELECT count(*) FROM shards")[0][0]
            if self._writer:
                self._db.execute("SELECT pg_advisory_lock(%s, %s)", (_ALIVE, self._me))

    def _create(self) -> None:
        with self._db.transaction():
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", (_ALONE,))
            self._db.execute(_SCHEMA)
            self._db.execute(
                "INSERT INTO shards (shard) SELECT generate_series(0, %s) WHERE NOT EXISTS (SELECT FROM shards)",
                (self._wanted - 1,),
            )

    def _exists(self) -> bool:
        found: bool = self._all("SELECT to_regclass('shards') IS NOT NULL")[0][0]
        return found

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
                if self._tokens and not self._db.closed:
                    self._db.execute("UPDATE shards SET holder = NULL, expires = NULL WHERE holder = %s", (self._me,))
                    self._db.execute("DELETE FROM processes WHERE id = %s", (self._me,))
            finally:
                self._tokens = {}
                self._db.close()

    # Shards ----------------------------------------------------------------------------------------------------------

    def hold(self) -> dict[int, int]:
        """Renew what is held, take a fair share of what nobody holds, and give back what is more than that."""
        if not self._writer:
            return {}
        self._end_sleepers()
        with _errors(), self._db.transaction():
            if not self._all("SELECT pg_try_advisory_xact_lock(%s)", _ALONE)[0][0]:
                return dict(self._tokens)  # another process is at it; this one comes back before its lease ends
            self._db.execute(
                "INSERT INTO processes VALUES (%s, %s, now()) ON CONFLICT (id) DO UPDATE SET seen = now()",
                (self._me, self._advertise),
            )
            self._free_the_dead()
            processes = self._all(
                "SELECT count(*) FROM processes WHERE seen > now() - make_interval(secs => %s)", self._lease
            )[0][0]
            share = -(-self.shards // max(processes, 1))
            mine = self._all(
                "UPDATE shards SET expires = now() + make_interval(secs => %s) WHERE holder = %s "
                "RETURNING shard, token",
                *(self._lease, self._me),
            )
            held = {shard: token for shard, token in mine if self._tokens.get(shard) == token}
            extra = sorted(held)[share:]
            if extra:
                self._db.execute(
                    "UPDATE shards SET holder = NULL, expires = NULL WHERE holder = %s AND shard = ANY(%s)",
                    (self._me, extra),
                )
            taken = self._all(
                "UPDATE shards SET holder = %s, token = token + 1, expires = now() + make_interval(secs => %s) "
                "WHERE shard IN (SELECT shard FROM shards WHERE holder IS NULL OR expires < now() "
                "ORDER BY shard LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING shard, token",
                *(self._me, self._lease, max(0, share - len(held))),
            )
        self._tokens = {shard: token for shard, token in held.items() if shard not in extra} | dict(taken)
        return dict(self._tokens)

    def _end_sleepers(self) -> None:
        """End the connections of processes that slept through their lease, and with them the locks they hold."""
        self._all(
            "SELECT pg_terminate_backend(l.pid) FROM processes p JOIN pg_locks l "
            "ON l.locktype = 'advisory' AND l.classid = %s AND l.objid = p.id::oid AND l.granted "
            "WHERE p.id <> %s AND p.seen < now() - make_interval(secs => %s)",
            *(_ALIVE, self._me, self._lease),
        )

    def _free_the_dead(self) -> None:
        """Free the shards of processes whose connection is gone."""
        for (other,) in self._all("SELECT id FROM processes WHERE id <> %s", self._me):
            if self._all("SELECT pg_try_advisory_lock(%s, %s)", _ALIVE, other)[0][0]:
                self._db.execute("UPDATE shards SET holder = NULL, expires = NULL WHERE holder = %s", (other,))
                self._db.execute("DELETE FROM processes WHERE id = %s", (other,))
                self._db.execute("SELECT pg_advisory_unlock(%s, %s)", (_ALIVE, other))

    def holder(self, shard: int) -> str | None:
        """Address of the process that holds a shard, if it gave one."""
        rows = self._all("SELECT p.address FROM shards s JOIN processes p ON p.id = s.holder WHERE s.shard = %s", shard)
        return rows[0][0] if rows else None

    def _check_tokens(self, shards: set[int]) -> None:
        """Lock the shards' rows for the transaction, or find that they have changed hands."""
        rows = self._all(
            "SELECT shard, token FROM shards WHERE shard = ANY(%s) AND holder = %s ORDER BY shard FOR SHARE",
            *(sorted(shards), self._me),
        )
        if dict(rows) != {shard: self._tokens.get(shard) for shard in shards}:
            raise Fenced(f"shards {sorted(shards)} are no longer all held by this process")

    # The log -------------------------------------------------------------------------------------------------------

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with _errors():
            return self._db.execute(sql, values).fetchall()

    def loops(self) -> list[LoopRow]:
        """All loops."""
        return [LoopRow(*row) for row in self._all(f"SELECT {_LOOP} FROM loops ORDER BY number")]

    def put_loop(self, name: str, expected: int, config: bytes) -> LoopRow:
        """Create a loop (expected version 0) or replace its settings, or raise VersionConflict."""
        if expected == 0:
            rows = self._all(
                "INSERT INTO loops (name, version, config) VALUES (%s, 1, %s) ON CONFLICT (name) DO NOTHING "
                f"RETURNING {_LOOP}",
                *(name, config),
            )
        else:
            rows = self._all(
                "UPDATE loops SET version = version + 1, config = %s WHERE name = %s AND version = %s "
                f"RETURNING {_LOOP}",
                *(config, name, expected),
            )
        if not rows:
            found = self._all("SELECT version FROM loops WHERE name = %s", name)
            raise VersionConflict(found[0][0] if found else 0)
        return LoopRow(*rows[0])

    def put_arms(self, number: int, arms: bytes) -> LoopRow:
        """Replace a loop's catalogue."""
        rows = self._all(
            f"UPDATE loops SET arms_version = arms_version + 1, arms = %s WHERE number = %s RETURNING {_LOOP}",
            *(arms, number),
        )
        return LoopRow(*rows[0])

    def commit(self, batch: Batch) -> None:
        """Make a batch durable in one transaction, if its shards are still held."""
        shards = {run.shard for run in batch.events} | {row.shard for row in batch.changes}
        shards |= {part.shard for part in batch.closed} | {shot.shard for shot in batch.snapshots}
        with _errors(), self._db.transaction(), self._db.cursor() as cursor:
            self._check_tokens(shards)
            check_order(batch.events, self._last)
            self._insert(cursor, "events", "", batch.events)
            changes = [(c.loop, c.shard, c.number, c.seq, c.time, c.scope, c.body) for c in batch.changes]
            self._insert(cursor, "changes", "ON CONFLICT DO NOTHING", changes)
            for loop, shard, closed in batch.closed:
                rows = [(loop, ident, shard, seq, reward) for ident, seq, reward in closed]
                self._insert(cursor, "closed", "ON CONFLICT DO NOTHING", rows)
            for shot in batch.snapshots:
                at = (shot.loop, shot.shard)
                replace = "ON CONFLICT (loop, shard) DO UPDATE SET seq = excluded.seq, core = excluded.core"
                self._insert(cursor, "snapshots", replace, [(*at, shot.seq, shot.core)])
                replace = "ON CONFLICT (loop, shard, role, epoch, scope) DO UPDATE SET state = excluded.state"
                self._insert(cursor, "models", replace, [(*at, *row) for row in shot.models])
                for role, epoch in enumerate(shot.epochs):
                    cursor.execute(
                        "DELETE FROM models WHERE loop = %s AND shard = %s AND role = %s AND epoch < %s",
                        (*at, role, epoch),
                    )

    @staticmethod
    def _insert(cursor: psycopg.Cursor[Any], table: str, conflict: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks}) {conflict}", rows)

    def events(self, loop: int, shard: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """(seq, body) of at most `limit` events after number `after`, in order."""
        rows = self._all(
            "SELECT first, bodies FROM events WHERE loop = %s AND shard = %s AND last > %s ORDER BY first LIMIT %s",
            *(loop, shard, after, limit),
        )
        return bodies_after(rows, after, limit)

    def _last(self, loop: int, shard: int) -> int:
        rows = self._all(
            "SELECT last FROM events WHERE loop = %s AND shard = %s ORDER BY first DESC LIMIT 1", loop, shard
        )
        return rows[0][0] if rows else 0

    def event(self, loop: int, shard: int, seq: int) -> bytes | None:
        """One event."""
        rows = self.events(loop, shard, seq - 1, 1)
        return rows[0][1] if rows and rows[0][0] == seq else None

    def snapshot(self, loop: int, shard: int) -> tuple[int, bytes] | None:
        """Number of the last event that the latest snapshot includes, and its core."""
        rows = self._all("SELECT seq, core FROM snapshots WHERE loop = %s AND shard = %s", loop, shard)
        return rows[0] if rows else None

    def model(self, loop: int, shard: int, role: int, epoch: int, scope: str) -> bytes | None:
        """Packed state of a scope as of the latest snapshot."""
        rows = self._all(
            "SELECT state FROM models WHERE loop = %s AND shard = %s AND role = %s AND epoch = %s AND scope = %s",
            *(loop, shard, role, epoch, scope),
        )
        return rows[0][0] if rows else None

    def model_scopes(self, loop: int, shard: int, role: int, epoch: int) -> list[str]:
        """Scopes that have a model in the latest snapshot."""
        rows = self._all(
            "SELECT scope FROM models WHERE loop = %s AND shard = %s AND role = %s AND epoch = %s ORDER BY scope",
            *(loop, shard, role, epoch),
        )
        return [row[0] for row in rows]

    def closed(self, loop: int, ids: list[str]) -> list[ClosedRow]:
        """Closed decisions among these ids."""
        rows = self._all("SELECT loop, id, shard, seq, reward FROM closed WHERE loop = %s AND id = ANY(%s)", loop, ids)
        return [ClosedRow(*row) for row in rows]

    def changes(self, loop: int, shard: int, after: int, limit: int) -> list[ChangeRow]:
        """Changes after a number, in order."""
        rows = self._all(
            "SELECT * FROM changes WHERE loop = %s AND shard = %s AND number > %s ORDER BY number LIMIT %s",
            *(loop, shard, after, limit),
        )
        return [ChangeRow(*row) for row in rows]

    def last_changes(self, loop: int, limit: int, scope: str | None = None) -> list[ChangeRow]:
        """The latest changes of all shards, or of a scope, oldest first."""
        which = "loop = %s" if scope is None else "loop = %s AND scope = %s"
        rows = self._all(
            f"SELECT * FROM changes WHERE {which} ORDER BY time DESC, shard DESC, number DESC LIMIT %s",
            *([loop, limit] if scope is None else [loop, scope, limit]),
        )
        return [ChangeRow(*row) for row in reversed(rows)]

    def changed_scopes(self, loop: int, limit: int) -> list[tuple[str, int, int]]:
        """The most changed scopes: (scope, number of changes, time of the last)."""
        return self._all(
            "SELECT scope, count(*), max(time) FROM changes WHERE loop = %s GROUP BY scope ORDER BY 2 DESC, 1 LIMIT %s",
            *(loop, limit),
        )

    def access_keys(self) -> list[KeyRow]:
        """All access keys."""
        return [KeyRow(*row) for row in self._all("SELECT * FROM keys ORDER BY created, id")]

    def add_key(self, key: KeyRow) -> None:
        """Add an access key."""
        values = (key.id, key.name, key.role, key.digest, key.created, key.revoked)
        with _errors():
            self._db.execute("INSERT INTO keys VALUES (%s, %s, %s, %s, %s, %s)", values)

    def revoke_key(self, key_id: str, time: int) -> bool:
        """Revoke an access key; False if there is none of that id."""
        return bool(
            self._all("UPDATE keys SET revoked = coalesce(revoked, %s) WHERE id = %s RETURNING id", time, key_id)
        )


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {type(error).__name__}: {error}") from error
