"""Which process writes to which shard of a PostgreSQL store.

A process holds a shard by a row with the process's number and a token that grows whenever the shard changes hands.
Every commit locks and checks these rows, so a process that lost a shard can no longer write to it.

A process is alive as long as its row in `processes` is renewed, which a thread with a connection of its own does about
once per second, whatever else the process is busy with. The others take the shards of a process whose row was not
renewed for the length of the lease.

A process also holds an advisory lock as long as its main connection lives. Once that lock is gone, others take its
shards without waiting for the lease to end. A process may fall asleep in the middle of a transaction and hold locks
that stop everybody else; once its lease has ended, the others end its connection. To allow that, all processes must log
in as one role.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from driftbandit.serving.stores.base import Fenced, StoreError

LEASE_S = 5.0
"""How long a process that does not answer keeps its shards, in seconds."""

ALIVE = 0x64726966
"""First key of the advisory locks that processes hold while they live."""

ALONE = 0x64726967
"""Key of the advisory lock that is held while shards change hands or tables are made."""


_PULSES = 5
"""How often a lease is renewed within its length."""

_FREE = (
    "(s.holder IS NULL OR NOT EXISTS (SELECT FROM processes p WHERE p.id = s.holder "
    "AND p.seen > now() - make_interval(secs => %s)))"
)


class Leases:
    """The leases of one process.

    Parameters
    ----------
    db : connection
        The process's main connection; it commits by itself.
    shards : int
        How many shards there are.
    advertise : str, optional
        URL under which other processes can send clients here.
    lease : float
        Seconds after which a process that does not answer loses its shards.
    connect : callable
        Makes the connection over which the lease is renewed.
    """

    def __init__(
        self,
        db: psycopg.Connection[Any],
        shards: int,
        advertise: str | None,
        lease: float,
        connect: Callable[[], psycopg.Connection[Any]],
    ) -> None:
        self._db = db
        self._shards = shards
        self._advertise = advertise
        self._lease = lease
        self._me = secrets.randbits(31)
        self._tokens: dict[int, int] = {}
        self._connect = connect
        self.pulse: Pulse | None = None
        """Renews the lease, from the first `hold` on."""
        self._db.execute("SELECT pg_advisory_lock(%s, %s)", (ALIVE, self._me))

    def _all(self, sql: str, *values: Any) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    def hold(self) -> dict[int, int]:
        """Take a fair share of the free shards, and give back any surplus.

        Returns the token of each shard that is held.
        """
        self._end_sleepers()
        with self._db.transaction():
            if not self._all("SELECT pg_try_advisory_xact_lock(%s)", ALONE)[0][0]:
                return dict(self._tokens)  # another process is doing this
            self._db.execute(
                "INSERT INTO processes VALUES (%s, %s, now()) ON CONFLICT (id) DO UPDATE SET seen = now()",
                (self._me, self._advertise),
            )
            self._free_the_dead()
            processes = self._all(
                "SELECT count(*) FROM processes WHERE seen > now() - make_interval(secs => %s)", self._lease
            )[0][0]
            share = -(-self._shards // max(processes, 1))
            mine = self._all("SELECT shard, token FROM shards WHERE holder = %s", self._me)
            held = {shard: token for shard, token in mine if self._tokens.get(shard) == token}
            extra = sorted(held)[share:]
            if extra:
                self._db.execute(
                    "UPDATE shards SET holder = NULL WHERE holder = %s AND shard = ANY(%s)", (self._me, extra)
                )
            taken = self._all(
                "UPDATE shards SET holder = %s, token = token + 1 WHERE shard IN "
                f"(SELECT s.shard FROM shards s WHERE {_FREE} ORDER BY s.shard LIMIT %s FOR UPDATE SKIP LOCKED) "
                "RETURNING shard, token",
                *(self._me, self._lease, max(0, share - len(held))),
            )
        self._tokens = {shard: token for shard, token in held.items() if shard not in extra} | dict(taken)
        if self.pulse is None:
            self.pulse = Pulse(self._connect, self._me, self._lease / _PULSES)
            self.pulse.start()
        return dict(self._tokens)

    def _end_sleepers(self) -> None:
        """End the connections of processes that slept through their lease, which frees their locks."""
        self._all(
            "SELECT pg_terminate_backend(l.pid) FROM processes p JOIN pg_locks l "
            "ON l.locktype = 'advisory' AND l.classid = %s AND l.objid = p.id::oid AND l.granted "
            # A restored copy of a store lists the processes of the original, which may be served from the same server.
            "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "WHERE p.id <> %s AND p.seen < now() - make_interval(secs => %s)",
            *(ALIVE, self._me, self._lease),
        )

    def _free_the_dead(self) -> None:
        """Free the shards of processes whose connection is gone."""
        for (other,) in self._all("SELECT id FROM processes WHERE id <> %s", self._me):
            if self._all("SELECT pg_try_advisory_lock(%s, %s)", ALIVE, other)[0][0]:
                self._remove(other)
                self._db.execute("SELECT pg_advisory_unlock(%s, %s)", (ALIVE, other))

    def _remove(self, process: int) -> None:
        self._db.execute("UPDATE shards SET holder = NULL WHERE holder = %s", (process,))
        self._db.execute("DELETE FROM processes WHERE id = %s", (process,))

    def check(self, shards: set[int]) -> None:
        """Lock the shards' rows until the transaction ends; raise Fenced if one of them has changed hands."""
        rows = self._all(
            "SELECT shard, token FROM shards WHERE shard = ANY(%s) AND holder = %s ORDER BY shard FOR SHARE",
            *(sorted(shards), self._me),
        )
        if dict(rows) != {shard: self._tokens.get(shard) for shard in shards}:
            raise Fenced(f"shards {sorted(shards)} are no longer all held by this process")

    def release(self) -> None:
        """Give back everything."""
        if self.pulse is not None:
            self.pulse.stop()
            if not self._db.closed:
                self._remove(self._me)
        self._tokens = {}


class Pulse(threading.Thread):
    """Renews the lease of a process on a connection of its own, as long as the thread that made it lives.

    Parameters
    ----------
    connect : callable
        Makes the connection; after an error, another one.
    process : int
        The process's number.
    every : float
        Seconds between two renewals.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], process: int, every: float) -> None:
        super().__init__(name="driftbandit-lease", daemon=True)
        self._connect = connect
        self._process = process
        self._every = every
        self._owner = threading.current_thread()
        self._stopped = threading.Event()

    def run(self) -> None:
        """Renew until stopped; a process that the others have removed is not brought back."""
        db: psycopg.Connection[Any] | None = None
        while not self._stopped.wait(self._every) and self._owner.is_alive():
            try:
                if db is None:
                    db = self._connect()
                db.execute("UPDATE processes SET seen = now() WHERE id = %s", (self._process,))
            except (psycopg.Error, StoreError):
                if db is not None:
                    with contextlib.suppress(psycopg.Error):
                        db.close()
                db = None
        if db is not None:
            db.close()

    def stop(self) -> None:
        """Renew no more."""
        self._stopped.set()
