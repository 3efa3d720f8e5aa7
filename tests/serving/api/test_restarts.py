"""A service whose PostgreSQL goes away and comes back: it says so, serves what it can, and recovers by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app, open_store

from ..live import live, problem
from ..postgres import Postgres, server

pytest.importorskip("psycopg", reason="needs driftbandit[serve]")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A server that no other test uses."""
    try:
        with server() as postgres:
            yield postgres
    except RuntimeError as reason:
        pytest.skip(str(reason))


def test_keys_decisions_and_readiness_come_back_after_postgresql_restarts(postgres: Postgres) -> None:
    store = open_store(postgres.address, writer=False)
    _, secret = create_key(store, "site", "admin")
    gone, revoked = create_key(store, "gone", "admin")
    store.close()
    with live(build_app(postgres.address)) as url, httpx.Client(base_url=url, timeout=30) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        arms = {"arms": ["a", "b"]}
        first = client.post("/v1/loops/x/decisions", json=arms | {"decision_id": "first"})
        assert first.status_code == 201
        postgres.stop()
        wait(lambda: "PostgreSQL" in problem(client.get("/readyz"), 503), 503, client)
        for header in (secret, revoked):  # both were valid when the keys were read last
            answer = client.post("/v1/loops/x/decisions", json=arms, headers={"authorization": f"Bearer {header}"})
            assert "PostgreSQL" in problem(answer, 503)
            assert answer.headers["retry-after"] == "1"
        problem(client.get("/v1/loops/x/changes"), 503)
        assert client.get("/healthz").status_code == 200
        postgres.start()
        store = open_store(postgres.address, writer=False)
        store.revoke_key(gone.id, 1)
        store.close()
        wait(lambda: True, 200, client)
        again = client.post("/v1/loops/x/decisions", json=arms | {"decision_id": "first"})
        assert (again.status_code, again.json()) == (200, first.json())
        assert client.post("/v1/loops/x/decisions", json=arms).status_code == 201
        assert client.get("/v1/loops/x/changes").status_code == 200
        deadline = time.monotonic() + 30
        while client.get("/v1/loops", headers={"authorization": f"Bearer {revoked}"}).status_code != 401:
            assert time.monotonic() < deadline, "a revoked key still works"
            time.sleep(0.1)


def wait(for_what: Callable[[], bool], status: int, client: httpx.Client) -> None:
    """Wait until readiness has a status, and something else holds."""
    deadline = time.monotonic() + 60
    while not (client.get("/readyz").status_code == status and for_what()):
        assert time.monotonic() < deadline, client.get("/readyz").text
        time.sleep(0.05)
