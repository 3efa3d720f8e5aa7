"""Access keys: random secrets (the store keeps only their hash), what they allow, and how many requests per second."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Literal, NamedTuple, get_args

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.engine.messages import check_name
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.rows import KeyRow

Role = Literal["decide", "read", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


class Access(NamedTuple):
    """What a key allows.

    Attributes
    ----------
    id, role : str
        The key's id, and what it may do.
    loops : frozenset of str or None
        Loops that it is for; None for all of them.
    expires : int or None
        When it ends, in milliseconds since 1970.
    rate : float or None
        Requests per second that it may make; None for the service's own rate.
    """

    id: str
    role: Role
    loops: frozenset[str] | None = None
    expires: int | None = None
    rate: float | None = None

    @classmethod
    def of(cls, row: KeyRow) -> Access:
        """What a stored key allows."""
        loops = None if row.loops is None else frozenset(row.loops)
        return cls(row.id, row.role, loops, row.expires, row.rate)  # type: ignore[arg-type]

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and time.time() * 1000.0 >= self.expires

    def may_see(self, loop: str) -> bool:
        """Whether it is for this loop."""
        return self.loops is None or loop in self.loops


def create_key(
    store: Store,
    name: str,
    role: str,
    *,
    seconds: float | None = None,
    loops: Sequence[str] | None = None,
    rate: float | None = None,
) -> tuple[KeyRow, str]:
    """Make a key; the secret is returned once and never stored.

    Parameters
    ----------
    store : Store
        Where the key's hash goes.
    name, role : str
        Whose key it is, and what it may do.
    seconds : float, optional
        How long it is valid; without, until it is revoked.
    loops : sequence of str, optional
        Loops that it is for; without, all of them.
    rate : float, optional
        Requests per second that it may make; without, as many as the service grants every key.
    """
    check_key(name, role, loops)
    secret = f"dbk_{secrets.token_urlsafe(32)}"
    now = int(time.time() * 1000)
    row = KeyRow(
        *(secrets.token_hex(4), name, role, digest_of(secret), now, None),
        expires=None if seconds is None else now + round(seconds * 1000.0),
        loops=None if loops is None else tuple(loops),
        rate=rate,
    )
    store.add_key(row)
    return row, secret


def check_key(name: str, role: str, loops: Sequence[str] | None = None) -> None:
    """Raise ValueError if a key cannot have this name or role, or be for these loops."""
    if loops is not None and not loops:
        raise ValueError("loops: expected at least one name")
    for loop in loops or ():
        check_name("loops", loop)
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
    answered with 503, since one of them may have been revoked meanwhile; and so they are before the first reading.

    Parameters
    ----------
    clock : callable
        Seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._roles: dict[bytes, Access] = {}
        self._read_at = -inf

    @property
    def was_read(self) -> bool:
        """Whether the keys were ever read."""
        return self._read_at > -inf

    def refresh(self, store: Store) -> None:
        """Read the keys; raises StoreError if that fails."""
        with self._lock:
            asked = self._clock()
            rows = store.access_keys()
            self._roles = {row.digest: Access.of(row) for row in rows if row.revoked is None}
            self._read_at = asked

    def check_age(self) -> None:
        """Raise HTTPError if the keys could not be read for too long."""
        if self._clock() - self._read_at > KEYS_LAST_S:
            raise HTTPError(503, "access keys cannot be read from the store", {"retry-after": "1"})

    def find(self, header: bytes) -> Access | None:
        """What the key in an Authorization header allows; None if there is no such key, or its time is over."""
        self.check_age()
        scheme, _, secret = header.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        found = self._roles.get(hashlib.sha256(secret.strip()).digest())
        return None if found is None or found.expired else found

    def of_id(self, ident: str) -> Access | None:
        """What the key of this id allows; None if it was revoked, or its time is over."""
        self.check_age()
        found = (access for access in self._roles.values() if access.id == ident and not access.expired)
        return next(found, None)

    @staticmethod
    def check(found: Access | None, role: Role, given: bool) -> Access:
        """The key that was found, if it is of the right role; raises HTTPError otherwise.

        `given` says whether the request had a key or a session at all.
        """
        if found is None:
            why = (
                "no such key or session, or it was ended" if given else "a key is needed: Authorization: Bearer dbk_..."
            )
            raise HTTPError(401, why, {"www-authenticate": 'Bearer realm="driftbandit"'})
        if found.role not in (role, "admin"):
            raise HTTPError(403, f"this needs a key of role {role!r} or 'admin', the given one is {found.role!r}")
        return found


class Allowance:
    """Limits requests per key: one token bucket per key, refilled with its rate of tokens per second.

    A batch costs one token per item. It may take more than there are; requests then wait until the debt is paid.

    Parameters
    ----------
    rate : float or None
        The rate of keys that have none of their own; None for as many requests as they like.

    Examples
    --------
    >>> allowance, ann = Allowance(1.0), Access("ann", "read")
    >>> allowance.spend(ann)
    >>> allowance.spend(ann)
    Traceback (most recent call last):
    driftbandit.serving.api.errors.HTTPError: more than 1 requests a second with this key
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._tokens: dict[str, tuple[float, float]] = {}
        """Tokens that each key had left, and when."""

    def limits(self, key: Access) -> bool:
        """Whether the key has a rate."""
        return key.rate is not None or self._rate is not None

    def spend(self, key: Access, count: int | None = None) -> None:
        """Take the token of a request, or `count` more for its items; raises HTTPError if there is none."""
        rate, now = key.rate or self._rate or inf, time.monotonic()
        most = max(rate, 1.0)  # also where a key may make a request every few seconds only
        tokens, then = self._tokens.get(key.id, (most, now))
        tokens = min(most, tokens + (now - then) * rate)
        if tokens < (1.0 if count is None else 0.0):
            wait = max(1, ceil((1.0 - tokens) / rate))
            raise HTTPError(429, f"more than {rate:g} requests a second with this key", {"retry-after": str(wait)})
        self._tokens[key.id] = tokens - (1 if count is None else max(count, 0)), now
