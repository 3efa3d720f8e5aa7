"""Which process writes to which shard of a PostgreSQL store.

A process holds shards by lease: a row with its number, an expiry that it renews every second, and a token that grows
whenever the shard changes hands. Every commit locks and checks these rows, so a process that slept through its lease
can no longer write.

A process also holds an advisory lock as long as its connection lives. Once that lock is gone, others take its shards
without waiting for the lease to end. A process may fall asleep in the middle of a transaction and hold locks that stop
everybody else; once its lease has ended, the others end its connection. To allow that, all processes must log in as one
role.
"""

from __future__ import annotations

import secrets
from typing import Any

import psycopg

from driftbandit.serving.stores.base import Fenced

LEASE_S = 5.0
"""How long a process that does not answer keeps its shards, in seconds."""

ALIVE = 0x64726966
"""First key of the advisory locks that processes hold while they live."""

ALONE = 0x64726967
"""Key of the advisory lock that is held while shards change hands or tables are made."""


class Leases:
    """The leases of one process, over one connection.

    Parameters
    ----------
    db : connection
        The process's connection; it commits by itself.
    shards : int
        How many shards there are.
    advertise : str, optional
        URL under which other processes can send clients here.
    lease : float
        Seconds after which a process that does not answer loses its shards.
    """

    def __init__(self, db: psycopg.Connection[Any], shards: int, advertise: str | None, lease: float) -> None:
        self._db = db
        self._shards = shards
        self._advertise = advertise
        self._lease = lease
        self._me = secrets.randbits(31)
        self._tokens: dict[int, int] = {}
        self._db.execute("SELECT pg_advisory_lock(%s, %s)", (ALIVE, self._me))

    def _all(self, sql: str, *values: Any) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    def hold(self) -> dict[int, int]:
        """Renew the held shards, take a fair share of the free ones, and give back any surplus.

        Returns the token of each shard that is held.
        """
        self._end_sleepers()
        with self._db.transaction():
            if not self._all("SELECT pg_try_advisory_xact_lock(%s)", ALONE)[0][0]:
                return dict(self._tokens)  # another process is doing this; the lease outlasts the next call
            self._db.execute(
                "INSERT INTO processes VALUES (%s, %s, now()) ON CONFLICT (id) DO UPDATE SET seen = now()",
                (self._me, self._advertise),
            )
            self._free_the_dead()
            processes = self._all(
                "SELECT count(*) FROM processes WHERE seen > now() - make_interval(secs => %s)", self._lease
            )[0][0]
            share = -(-self._shards // max(processes, 1))
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
        """End the connections of processes that slept through their lease, which frees their locks."""
        self._all(
            "SELECT pg_terminate_backend(l.pid) FROM processes p JOIN pg_locks l "
            "ON l.locktype = 'advisory' AND l.classid = %s AND l.objid = p.id::oid AND l.granted "
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
        self._db.execute("UPDATE shards SET holder = NULL, expires = NULL WHERE holder = %s", (process,))
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
        if self._tokens and not self._db.closed:
            self._remove(self._me)
        self._tokens = {}
