"""While the service starts it listens, says what it waits for, and turns requests away with 503."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftbandit.serving.api.keys import create_key
from driftbandit.serving.engine import warmup
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.server import build_app, open_store
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import free_port, live, problem

# A process whose policies take long to compile, or cannot be compiled.
_SLOW = """
import sys, threading
from driftbandit.serving.engine import warmup
from driftbandit.serving.server import build_app, serve

def compile(config):
    if sys.argv[3] == "never":
        raise ValueError("settings: expected something else")
    threading.Event().wait(60)

warmup.rehearse = compile
serve(build_app("sqlite:" + sys.argv[2], secure=False), "127.0.0.1", int(sys.argv[1]), lambda: print("started"))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one loop."""
    path = tmp_path / "a.db"
    opened = SQLiteStore(path)
    Engine(opened, wall).configure("x", LoopConfig(policy="linucb", dim=25), None)
    opened.close()
    return path


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_while_policies_are_compiled(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = open_store(f"sqlite:{store}", writer=False)
    _, secret = create_key(reader, "site", "admin")
    reader.close()
    go_on = threading.Event()
    compiled: list[str] = []

    def slow(config: LoopConfig) -> None:
        compiled.append(config.policy)
        assert go_on.wait(60)

    monkeypatch.setattr(warmup, "rehearse", slow)
    with live(build_app(f"sqlite:{store}"), ready=False) as url, httpx.Client(base_url=url, timeout=30) as client:
        wait(lambda: bool(compiled))
        assert client.get("/healthz").status_code == 200
        waiting = "compiling linucb, dim 25, for loop 'x'"
        answer = client.get("/readyz")
        assert problem(answer, 503) == waiting
        assert answer.headers["retry-after"] == "1"
        decision = {"arms": [{"id": "a", "features": [0.1] * 25}]}
        problem(client.post("/v1/loops/x/decisions", json=decision), 401)
        problem(client.get("/v1/loops", headers={"authorization": "Bearer dbk_wrong"}), 401)
        client.headers["authorization"] = f"Bearer {secret}"
        for ask in (
            lambda: client.post("/v1/loops/x/decisions", json=decision),
            lambda: client.get("/v1/loops/x/stats"),
            lambda: client.get("/v1/loops/x/log"),
            lambda: client.put("/v1/loops/y", json={"policy": "ucb1"}),
        ):
            answer = ask()
            assert problem(answer, 503) == f"the service is starting: {waiting}"
            assert answer.headers["retry-after"] == "1"
        assert "driftbandit_ready 0.0" in client.get("/metrics").text
        assert compiled == ["linucb"], "a loop that cannot be put is not compiled"
        go_on.set()
        wait(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/loops/x/decisions", json=decision).status_code == 201


def test_a_store_that_fails_during_the_start_is_tried_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "rehearse", lambda config: None)
    broken = True
    hold = SQLiteStore.hold

    def hold_or_fail(opened: SQLiteStore) -> Any:
        if broken:
            raise StoreError("the disk is away")
        return hold(opened)

    monkeypatch.setattr(SQLiteStore, "hold", hold_or_fail)
    app = build_app(f"sqlite:{store}", secure=False)
    with live(app, ready=False) as url, httpx.Client(base_url=url, timeout=30) as client:
        wait(lambda: problem(client.get("/readyz"), 503) == "the disk is away")
        assert "the disk is away" in problem(client.get("/v1/loops"), 503)
        broken = False
        wait(lambda: client.get("/readyz").status_code == 200)
        assert [loop["loop"] for loop in client.get("/v1/loops").json()["loops"]] == ["x"]


@pytest.mark.parametrize("kind", ["long", "never"])
def test_a_process_that_does_not_get_through_its_start(store: Path, kind: str) -> None:
    """Told to stop while it compiles, it ends soon and in good order; if it can never start, it says so and ends."""
    port = free_port()
    program = [sys.executable, "-c", _SLOW, str(port), str(store), kind]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if kind == "long":
            wait(lambda: _status(port) == 503)
            process.send_signal(signal.SIGTERM)
        said, complained = process.communicate(timeout=60)
    assert said == ""
    if kind == "never":
        assert process.returncode == 3
        assert complained == "the service cannot start: settings: expected something else\n"
    else:
        assert (process.returncode, complained) == (-signal.SIGTERM, "")
    SQLiteStore(store).close()  # nobody holds it


def _status(port: int) -> int:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code
    except httpx.TransportError:
        return 0
