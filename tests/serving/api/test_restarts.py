"""A service whose PostgreSQL goes away and comes back: it says so, serves what it can, and recovers by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app, open_store

from ..live import free_port, live, problem
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


def test_a_start_waits_for_postgresql(postgres: Postgres) -> None:
    store = open_store(postgres.address, writer=False)
    _, secret = create_key(store, "site", "admin")
    store.close()
    postgres.stop()
    app = build_app(postgres.address)
    with live(app, ready=False) as url, httpx.Client(base_url=url, timeout=30) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        assert client.get("/healthz").status_code == 200
        assert problem(client.get("/readyz"), 503).startswith("waiting for the store: PostgreSQL: ")
        for path in ("/v1/loops", "/metrics", "/v1/loops/x/changes"):
            answer = client.get(path)
            assert problem(answer, 503) == "access keys cannot be read from the store"
            assert answer.headers["retry-after"] == "1"
        page = client.get("/", headers={"cookie": "driftbandit_session=x", "authorization": ""})
        assert page.status_code == 503
        postgres.start()
        wait(lambda: True, 200, client)
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        assert client.get("/v1/loops/x/changes").status_code == 200
        problem(client.get("/v1/loops", headers={"authorization": "Bearer dbk_wrong"}), 401)


def serve(address: str, *options: str) -> subprocess.Popen[str]:
    """The command, as a person would give it."""
    program = [sys.executable, "-c", "from driftbandit.cli import app; app()", "serve", "--insecure-local"]
    program += ["--port", str(free_port()), "--store", address, *options]
    return subprocess.Popen(program, stderr=subprocess.PIPE, text=True)


def test_a_process_that_waits_for_postgresql_can_be_stopped(postgres: Postgres) -> None:
    postgres.stop()
    try:
        with serve(postgres.address) as process:
            assert process.stderr is not None
            assert "the start waits for the store: PostgreSQL: " in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            _, complained = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        assert "Traceback" not in complained
    finally:
        postgres.start()


def test_what_waiting_does_not_heal_ends_the_process(postgres: Postgres) -> None:
    with serve(postgres.address.replace("/postgres?", "/nowhere?")) as process:
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 3
    assert 'database "nowhere" does not exist' in complained
    assert "Traceback" not in complained


def wait(for_what: Callable[[], bool], status: int, client: httpx.Client) -> None:
    """Wait until readiness has a status, and something else holds."""
    deadline = time.monotonic() + 60
    while not (client.get("/readyz").status_code == status and for_what()):
        assert time.monotonic() < deadline, client.get("/readyz").text
        time.sleep(0.05)
