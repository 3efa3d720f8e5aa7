"""Does anybody wait for a snapshot? ``python -m driftbandit.benchmarks.snapshots --scopes 100000``.

A service with one DriftUCB per scope (25 features) gets so many scopes, all of which a snapshot must write. Meanwhile
one client decides and rewards, one request after the other. Printed are how long its requests took before the snapshot
and while it was written, the service's memory, and how long it took to stop with all scopes changed again.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.benchmarks.load import resident_bytes
from driftbandit.benchmarks.service import ARMS, CATALOGUE, DIM, put, server

_SERVE = """
import sys
from driftbandit.serving.server import build_app, serve
app = build_app("sqlite:" + sys.argv[2], secure=False, snapshot_every=int(sys.argv[3]))
serve(app, "127.0.0.1", int(sys.argv[1]))
"""
_BATCH = 500
_EDGES = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class _Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._pool = [f"a{arm}" for arm in range(ARMS)]
        self._count = 0

    def post(self, path: str, body: Any) -> Any:
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {found}")
        return found

    def teach(self, scopes: list[str]) -> None:
        """A decision and a reward for every scope."""
        for start in range(0, len(scopes), _BATCH):
            some = scopes[start : start + _BATCH]
            self._count += 1
            idents = [f"{self._count}-{scope}" for scope in some]
            asked = [
                {"decision_id": ident, "scope": scope, "arms": self._pool}
                for ident, scope in zip(idents, some, strict=True)
            ]
            self.post("/v1/loops/x/decisions:batch", {"decisions": asked})
            self.post("/v1/loops/x/rewards:batch", {"rewards": [{"decision_id": one, "value": 0.5} for one in idents]})

    def seconds(self, scope: str) -> list[float]:
        """How long a decision and its reward took."""
        started = time.perf_counter()
        ident = self.post("/v1/loops/x/decisions", {"scope": scope, "arms": self._pool})["decision_id"]
        between = time.perf_counter()
        self.post(f"/v1/loops/x/decisions/{ident}/reward", {"value": 0.5})
        return [between - started, time.perf_counter() - between]

    def is_saving(self) -> bool:
        """Whether a snapshot is being written."""
        self._connection.request("GET", "/metrics")
        return b"driftbandit_saving 1.0" in self._connection.getresponse().read()


def histogram(title: str, seconds: list[float]) -> str:
    """A line per bucket.

    >>> print(histogram("idle", [0.0005, 0.003]))
    idle: 2 requests, median 1.8 ms, 99 % within 3.0 ms, longest 3.0 ms
      up to    1 ms: 1
      up to    5 ms: 1
    """
    found = np.array(seconds)
    lines = [
        f"{title}: {len(found):,} requests, median {1e3 * np.median(found):.1f} ms, "
        f"99 % within {1e3 * np.quantile(found, 0.99):.1f} ms, longest {1e3 * found.max():.1f} ms"
    ]
    counts = np.bincount(np.searchsorted(_EDGES, found), minlength=len(_EDGES) + 1)
    for edge, count in zip((*_EDGES, np.inf), counts.tolist(), strict=True):
        if count:
            lines.append(f"  up to {1e3 * edge:4.0f} ms: {count:,}" if edge < np.inf else f"  longer: {count:,}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scopes", type=int, default=100_000)
    scopes = [f"user {number}" for number in range(parser.parse_args().scopes)]
    with (
        tempfile.TemporaryDirectory() as folder,
        server(_SERVE, None, str(Path(folder, "a.db")), str(2 * len(scopes) + 500)) as (port, process),
    ):
        put(port, "/v1/loops/x", {"dim": DIM, "scoped": True, "learn": "arrival", "window": 5.0})
        features = np.random.default_rng(1).standard_normal((CATALOGUE, DIM)) / DIM**0.5
        arms = [{"id": f"a{arm}", "features": row} for arm, row in enumerate(features.tolist())]
        put(port, "/v1/loops/x/arms", {"arms": arms})
        client = _Client(port)
        client.teach(scopes)
        full = resident_bytes(process)
        idle, saving = [], []
        number = 0
        while not client.is_saving():
            for _ in range(20):
                idle += client.seconds(scopes[number % len(scopes)])
                number += 1
        started, peak = time.perf_counter(), full
        while client.is_saving():
            for _ in range(20):
                saving += client.seconds(scopes[(number * 7919) % len(scopes)])
                number += 1
            peak = max(peak, resident_bytes(process))
        took = time.perf_counter() - started
        print(histogram("before the snapshot", idle))
        print(histogram("during the snapshot", saving))
        print(f"the snapshot of {len(scopes):,} scopes took {took:.1f} s")
        print(f"memory: {full / 1e6:,.0f} MB before the snapshot, at most {peak / 1e6:,.0f} MB while it was written")
        client.teach(scopes)
        started = time.perf_counter()
        os.kill(process, signal.SIGTERM)
        while _lives(process):
            time.sleep(0.05)
        print(f"stopping with {len(scopes):,} changed scopes took {time.perf_counter() - started:.1f} s")


def _lives(process: int) -> bool:
    """Whether a child still runs."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


if __name__ == "__main__":
    main()
