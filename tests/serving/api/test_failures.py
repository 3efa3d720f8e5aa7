from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from driftbandit.serving.api.handlers import make_app
from driftbandit.serving.api.service import Service
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live, problem
from ..world import FailingVFS


@pytest.mark.parametrize("kind", ["full", "sync"])
def test_a_failing_disk_is_a_503_and_then_over(tmp_path: Path, kind: str) -> None:
    vfs = FailingVFS()
    path = tmp_path / "a.db"
    service = Service(
        lambda: SQLiteStore(path, vfs="failing"),
        lambda store, wake, say: Engine(store, wall, background=True, wake=wake),
        lambda: SQLiteStore(path, writer=False),
        secure=False,
    )
    with live(make_app(service)) as url, httpx.Client(base_url=url, timeout=10) as client:
        client.put("/v1/loops/x", json={"policy": "ucb1"})
        kept = client.post("/v1/loops/x/decisions", json={"decision_id": "kept", "arms": ["a", "b"]})
        assert kept.status_code == 201
        vfs.broken = kind
        for number in range(5):
            body = {"decision_id": f"lost{number}", "arms": ["a", "b"]}
            problem(client.post("/v1/loops/x/decisions", json=body), 503)
        problem(client.get("/readyz"), 503)
        assert client.get("/healthz").status_code == 200
        vfs.broken = None
        deadline = time.monotonic() + 10
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        again = client.post("/v1/loops/x/decisions", json={"decision_id": "kept", "arms": ["a", "b"]})
        assert (again.status_code, again.json()) == (200, kept.json())
        assert client.post("/v1/loops/x/decisions", json={"decision_id": "lost0", "arms": ["a", "b"]}).status_code < 300
    vfs.unregister()
