from __future__ import annotations

import time
from pathlib import Path

import httpx

from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live


def test_roles(tmp_path: Path) -> None:
    """Every route with every kind of key: what is not allowed is 401 or 403, what is allowed is neither."""
    path = tmp_path / "a.db"
    store = SQLiteStore(path, writer=False)
    secrets = {role: create_key(store, role, role)[1] for role in ("decide", "read", "admin")}
    revoked, dead = create_key(store, "gone", "admin")
    store.revoke_key(revoked.id, 1)
    app = build_app(f"sqlite:{path}")
    may: dict[str, set[str]] = {
        "none": set(),
        "decide": {"decide"},
        "read": {"read"},
        "admin": {"decide", "read", "admin"},
    }
    checked = 0
    with live(app) as url, httpx.Client(base_url=url, timeout=10) as client:
        admin = {"authorization": f"Bearer {secrets['admin']}"}
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}, headers=admin).status_code == 201
        for route in app.routes:
            target = route.path.replace("{loop}", "x").replace("{id}", "d")
            for role, roles in may.items():
                headers = {} if role == "none" else {"authorization": f"Bearer {secrets[role]}"}
                with client.stream(route.method, target, headers=headers) as answer:
                    allowed = route.role is None or route.role in roles
                    status = answer.status_code
                    assert (status not in (401, 403)) == allowed, (route.method, target, role, status)
                    if not allowed:
                        assert status == (401 if role == "none" else 403)
                    assert status < 500
                checked += 1
            if route.role is not None:
                for wrong in ("Bearer nonsense", f"Bearer {dead}", f"Basic {secrets['admin']}", "Bearer", ""):
                    with client.stream(route.method, target, headers={"authorization": wrong}) as answer:
                        assert answer.status_code == 401
                        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert checked == 4 * len(app.routes) >= 60
        key = next(key for key in store.access_keys() if key.revoked is None)
        store.revoke_key(key.id, 2)
        deadline = time.monotonic() + 10
        headers = {"authorization": f"Bearer {secrets[key.role]}"}
        while client.post("/v1/loops/x/decisions", json={}, headers=headers).status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert all(secret.encode() not in path.read_bytes() for secret in secrets.values())


def test_a_key_may_ask_only_so_often(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db", writer=False)
    _, secret = create_key(store, "busy", "read")
    with live(build_app(f"sqlite:{tmp_path / 'a.db'}", rate=5)) as url, httpx.Client(base_url=url) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        statuses = [client.get("/v1/loops").status_code for _ in range(8)]
        assert statuses[:5] == [200] * 5
        assert 429 in statuses
