"""Who may use the service: access keys, and the sessions of people on the page, as tables of a store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from driftbandit.serving.stores.rows import KeyRow

_KEY = "id, name, role, digest, created, revoked, expires, rate, loops"


class AccessTables(ABC):
    """The part of a store that knows keys and sessions; the same for all databases."""

    @abstractmethod
    def _all(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement, with ``?`` for values, and return its rows."""

    @abstractmethod
    def _do(self, sql: str, *values: Any) -> None:
        """Run a statement that returns no rows."""

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
