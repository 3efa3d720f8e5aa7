"""Access keys: random secrets (the store keeps only their hash), what they allow, and how many requests per second."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Literal, get_args

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.stores.base import KeyRow, Store

Role = Literal["decide", "read", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


def create_key(store: Store, name: str, role: str) -> tuple[KeyRow, str]:
    """Make a key; the secret is returned once and never stored."""
    check_key(name, role)
    secret = f"dbk_{secrets.token_urlsafe(32)}"
    row = KeyRow(secrets.token_hex(4), name, role, digest_of(secret), int(time.time() * 1000), None)
    store.add_key(row)
    return row, secret


def check_key(name: str, role: str) -> None:
    """Raise ValueError if a key cannot have this name or role."""
    if role not in ROLES:
        raise ValueError(f"role: expected one of {', '.join(ROLES)}, got {role!r}")
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise ValueError("name: expected 1 to 100 printable characters")


def digest_of(secret: str) -> bytes:
    """The hash that the store keeps; a plain one will do, since the secret is 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()


KEYS_LAST_S = 60.0
"""How long the keys that were read last are good for while the store cannot be read, in seconds."""


class Keyring:
    """The keys of a store, read again every second, so that a revoked key stops working within a second.

    While the store cannot be read, the keys that were read last serve for `KEYS_LAST_S`. After that all keys are
    answered with 503, since one of them may have been revoked meanwhile.

    Parameters
    ----------
    store : Store
        Where the keys are.
    clock : callable
        Seconds that never run backwards.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._roles: dict[bytes, tuple[str, Role]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the keys; raises StoreError if that fails."""
        with self._lock:
            asked = self._clock()
            rows = self._store.access_keys()
            self._roles = {row.digest: (row.id, row.role) for row in rows if row.revoked is None}  # type: ignore[misc]
            self._read_at = asked

    def find(self, header: bytes) -> tuple[str, Role] | None:
        """Id and role of the key in an Authorization header, or None.

        Raises HTTPError if the keys could not be read for too long.
        """
        if self._clock() - self._read_at > KEYS_LAST_S:
            raise HTTPError(503, "access keys cannot be read from the store", {"retry-after": "1"})
        scheme, _, secret = header.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        return self._roles.get(hashlib.sha256(secret.strip()).digest())

    def admit(self, header: bytes | None, role: Role) -> str:
        """Id of the key in an Authorization header.

        Raises HTTPError if it is missing, unknown, or of the wrong role, and if the keys could not be read for too
        long.
        """
        found = None if header is None else self.find(header)
        if found is None:
            why = (
                "a key is needed: Authorization: Bearer dbk_..." if header is None else "no such key, or it was revoked"
            )
            raise HTTPError(401, why, {"www-authenticate": 'Bearer realm="driftbandit"'})
        ident, given = found
        if given not in (role, "admin"):
            raise HTTPError(403, f"this needs a key of role {role!r} or 'admin', the given one is {given!r}")
        return ident


class Allowance:
    """Limits requests per key: one token bucket per key, refilled with `rate` tokens per second.

    >>> allowance = Allowance(1.0)
    >>> allowance.spend("ann")
    >>> allowance.spend("ann")
    Traceback (most recent call last):
    driftbandit.serving.api.errors.HTTPError: more than 1 requests a second with this key
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._tokens: dict[str, tuple[float, float]] = {}
        """Tokens that each key had left, and when."""

    def spend(self, key: str) -> None:
        """Take a token; raises HTTPError if there is none."""
        rate, now = self._rate, time.monotonic()
        most = max(rate, 1.0)  # also where a key may make a request every few seconds only
        tokens, then = self._tokens.get(key, (most, now))
        tokens = min(most, tokens + (now - then) * rate)
        if tokens < 1.0:
            raise HTTPError(429, f"more than {rate:g} requests a second with this key", {"retry-after": "1"})
        self._tokens[key] = tokens - 1.0, now
