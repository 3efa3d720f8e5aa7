"""A client that may only decide cannot exhaust the service's memory."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np

from driftbandit.benchmarks.load import resident_bytes
from driftbandit.benchmarks.service import put, server
from driftbandit.serving.loop.arms import Catalogue, Pools

DIM = 25
MEMORY = 40_000_000
CACHE = 64 << 20  # of SQLite
SCOPES = 6_000
SERVE = f"""
import sys
from driftbandit.serving.server import build_app, serve
serve(build_app("sqlite:" + sys.argv[2], secure=False, memory={MEMORY}), "127.0.0.1", int(sys.argv[1]))
"""


def test_resident_memory_stays_bounded_while_scopes_pour_in(tmp_path: Path) -> None:
    """6,000 scopes of DriftUCB with 25 features are 300 MB; each learns, and all are right in the end."""
    with (
        server(SERVE, None, str(tmp_path / "a.db")) as (port, process),
        httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/loops/x", timeout=60) as client,
    ):
        put(port, "/v1/loops/x", {"dim": DIM, "scoped": True, "learn": "arrival", "window": 600.0})
        arms = [{"id": f"a{arm}", "features": row} for arm, row in enumerate(np.eye(3, DIM).tolist())]
        put(port, "/v1/loops/x/arms", {"arms": arms})
        client.post("/decisions", json={"scope": "first"}).raise_for_status()
        before = most = resident_bytes(process)
        for start in range(0, SCOPES, 200):
            idents = [f"d{number}" for number in range(start, start + 200)]
            waiting = [{"decision_id": ident, "scope": f"user {ident}"} for ident in idents]
            while waiting:  # 429: the service asks for patience
                answer = client.post("/decisions:batch", json={"decisions": waiting}).json()["results"]
                assert {one["status"] for one in answer} <= {201, 429}
                waiting = [one for one, got in zip(waiting, answer, strict=True) if got["status"] == 429]
            rewards = [{"decision_id": ident, "value": 1.0} for ident in idents]
            results = client.post("/rewards:batch", json={"rewards": rewards}).json()["results"]
            assert {one["status"] for one in results} == {200}
            most = max(most, resident_bytes(process))
        first = client.get("/scopes/user%20d0").json()
        assert (first["rounds"], client.get("/stats").json()["totals"]["learned"]) == (1, SCOPES)
    assert most - before < MEMORY + CACHE + 60_000_000


def test_pools_are_kept_up_to_a_number_of_bytes() -> None:
    ids = [f"a{arm}" for arm in range(10_000)]
    pools = Pools(Catalogue(ids, np.ones((10_000, 25)).tobytes()), 25, numbered=False)
    rng = np.random.default_rng(0)
    for _ in range(20):
        pools.of([ids[arm] for arm in rng.permutation(10_000)])
        assert sum(pool.nbytes for pool in pools.known.values()) <= 16 << 20
    assert pools.known
