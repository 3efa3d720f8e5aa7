"""The application behind a real socket, in a thread of the test's process, and what tests ask it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import uvicorn

from driftbandit.serving.api.connections import Door, connections_of


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def live(app: Any, port: int | None = None, *, ready: bool = True, door: Door | None = None) -> Iterator[str]:
    """Yield the URL of the running application, with `ready` once it answers requests; `door` limits connections."""
    port = port or free_port()
    config = uvicorn.Config(
        app, port=port, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1, ws="none"
    )
    if door is not None:
        app.door, config.http = door, connections_of(door)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive(), "the application did not start"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while ready and httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 503:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def problem(answer: httpx.Response, status: int) -> str:
    """Every error is a problem document; returns its detail."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    return str(body["detail"])


def play(http: httpx.Client, path: str, rounds: int, flip: int, seed: int = 0) -> None:
    """Rewards that follow a taste, which flips after so many rounds."""
    rng = np.random.default_rng(seed)
    taste = np.array([0.6, -0.5, 0.3])
    for start in range(0, rounds, 100):
        pools = rng.standard_normal((100, 5, 3)) / 2
        decisions = [
            {
                "decision_id": f"{seed}-{start + i}",
                "arms": [{"id": f"a{k}", "features": x} for k, x in enumerate(pool.tolist())],
            }
            for i, pool in enumerate(pools)
        ]
        results = http.post(f"{path}/decisions:batch", json={"decisions": decisions}).json()["results"]
        rewards = []
        for i, result in enumerate(results):
            x = pools[i, result["decision"]["index"]]
            value = float(x @ (taste if start + i < flip else -taste))
            rewards.append({"decision_id": f"{seed}-{start + i}", "value": value})
        http.post(f"{path}/rewards:batch", json={"rewards": rewards})


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found
