"""Keys: what is stored of them, which are let in, and which cannot be made."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import (
    KEYS_LAST_S,
    ROLES,
    Access,
    Allowance,
    Keyring,
    check_key,
    create_key,
    digest_of,
)
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.sqlite import SQLiteStore


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    return SQLiteStore(tmp_path / "a.db", writer=False)


def keys_of(store: SQLiteStore, clock: Callable[[], float] = time.monotonic) -> Keyring:
    keys = Keyring(clock)
    keys.refresh(store)
    return keys


def test_a_store_knows_a_hash_alone(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftbandit.serving.api.keys.time.time", lambda: 1234.5678)
    row, secret = create_key(store, "site", "decide")
    assert re.fullmatch(r"dbk_[\w-]{43}", secret)  # 32 random bytes
    assert re.fullmatch(r"[0-9a-f]{8}", row.id)
    assert (row.name, row.role, row.created, row.revoked) == ("site", "decide", 1_234_567, None)
    assert row.digest == digest_of(secret) == hashlib.sha256(secret.encode()).digest()
    assert store.access_keys() == [row]


def test_who_is_let_in(store: SQLiteStore) -> None:
    (reader, secret), (gone, old) = create_key(store, "a", "read"), create_key(store, "b", "admin")
    store.revoke_key(gone.id, 1)
    keys = keys_of(store)
    for header in (f"Bearer {secret}", f"bearer {secret}", f"BEARER   {secret} "):
        assert keys.find(header.encode()) == Access(reader.id, "read")
    for header in ("", "Bearer", "Bearer ", secret, f"Basic {secret}", f"Bearer {old}", f"Bearer x{secret}"):
        assert keys.find(header.encode()) is None
    late, new = create_key(store, "c", "decide")
    assert keys.find(f"Bearer {new}".encode()) is None
    keys.refresh(store)
    assert keys.find(f"Bearer {new}".encode()) == Access(late.id, "decide")


def test_the_last_known_keys_serve_for_a_while_if_the_store_cannot_be_read(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    row, secret = create_key(store, "a", "admin")
    header = f"Bearer {secret}".encode()
    keys = keys_of(store, lambda: now)

    def broken() -> Any:
        raise StoreError("gone")

    monkeypatch.setattr(store, "access_keys", broken)
    with pytest.raises(StoreError, match="gone"):
        keys.refresh(store)
    now += KEYS_LAST_S
    found = keys.find(header)
    assert found is not None
    assert (found.id, keys.of_id(row.id)) == (row.id, found)
    now += 1.0
    for anybody in (header, b"Bearer nobody"):
        with pytest.raises(HTTPError, match="cannot be read from the store") as refused:
            keys.find(anybody)
        assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "1"})
    monkeypatch.undo()
    store.revoke_key(row.id, 1)
    keys.refresh(store)
    assert keys.find(header) is None


def test_names_and_roles() -> None:
    assert ROLES == ("decide", "read", "admin")
    for role in ROLES:
        check_key("x", role)
        check_key("ü" * 100, role)
    for name in ("", "x" * 101, "a\nb"):
        with pytest.raises(ValueError, match="name: expected 1 to 100 printable"):
            check_key(name, "read")
    with pytest.raises(ValueError, match="role: expected one of decide, read, admin, got 'root'"):
        check_key("x", "root")


def test_no_key_is_made_of_a_wrong_name(store: SQLiteStore) -> None:
    with pytest.raises(ValueError, match="name: expected"):
        create_key(store, "", "read")
    assert store.access_keys() == []


def test_what_a_key_may_do(store: SQLiteStore) -> None:
    made = {role: create_key(store, role, role) for role in ROLES}
    keys = keys_of(store)
    for role, (row, secret) in made.items():
        header = f"Bearer {secret}".encode()
        for needed in ROLES:
            if role in (needed, "admin"):
                assert keys.check(keys.find(header), needed, True).id == row.id
            else:
                with pytest.raises(HTTPError, match=f"needs a key of role '{needed}' or 'admin', the given one") as no:
                    keys.check(keys.find(header), needed, True)
                assert no.value.status == 403
    for given, why in ((False, "a key is needed"), (True, "no such key or session, or it was ended")):
        with pytest.raises(HTTPError, match=why) as refused:
            keys.check(None, "read", given)
        assert refused.value.status == 401
        assert refused.value.headers == {"www-authenticate": 'Bearer realm="driftbandit"'}


def spend(allowance: Allowance, key: str, times: int) -> list[bool]:
    """Whether each of so many requests may pass."""
    passed = []
    for _ in range(times):
        passed.append(False)
        with contextlib.suppress(HTTPError):
            allowance.spend(Access(key, "read"))
            passed[-1] = True
    return passed


def test_tokens_come_back_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("driftbandit.serving.api.keys.time.monotonic", lambda: now[0])
    allowance = Allowance(4.0)
    assert spend(allowance, "ann", 5) == [True] * 4 + [False]
    with pytest.raises(HTTPError, match="more than 4 requests a second with this key") as refused:
        allowance.spend(Access("ann", "read"))
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    assert spend(allowance, "bob", 1) == [True], "every key has tokens of its own"
    now[0] += 0.2
    assert spend(allowance, "ann", 1) == [False], "0.8 of a token"
    now[0] += 0.05
    assert spend(allowance, "ann", 2) == [True, False]
    now[0] += 100.0
    assert spend(allowance, "ann", 5) == [True] * 4 + [False], "no more than a second's worth is kept"


def test_at_one_a_second_no_two_requests_pass_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("driftbandit.serving.api.keys.time.monotonic", lambda: now[0])
    allowance = Allowance(1.0)
    for _ in range(3):
        assert spend(allowance, "ann", 2) == [True, False]
        now[0] += 9.0


def test_a_request_every_two_seconds_passes_at_half_a_request_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("driftbandit.serving.api.keys.time.monotonic", lambda: now[0])
    allowance = Allowance(0.5)
    assert spend(allowance, "ann", 2) == [True, False]
    now[0] += 1.0
    assert spend(allowance, "ann", 1) == [False]
    now[0] += 1.0
    assert spend(allowance, "ann", 2) == [True, False]
    now[0] += 100.0
    assert spend(allowance, "ann", 2) == [True, False], "no more than one request's worth is kept"
