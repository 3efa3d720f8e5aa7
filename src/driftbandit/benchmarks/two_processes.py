"""How much more do two service processes on one PostgreSQL store serve than one?

``python -m driftbandit.benchmarks.two_processes postgresql://user@host/database`` needs an empty database. DriftUCB
with 25 features, 10 arms by id, 10,000 scopes, batches of 100 decisions and of their rewards; each batch goes to the
process that serves its scopes. One process alone is measured before and after both together. Client and PostgreSQL
share the machine with the processes, so that two cores are too few to see twice as much.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from driftbandit.benchmarks.failover import Process
from driftbandit.benchmarks.load import drive
from driftbandit.benchmarks.service import BATCH, CATALOGUE, DIM, batches, put
from driftbandit.serving.engine.shards import shard_of
from driftbandit.serving.stores.postgresql import SHARDS

_LOOP = "y"
_SCOPES = 10_000
_PATIENCE_S = 60.0


def _send(port: int, pid: int, tag: str, scopes: Sequence[int], connections: int, seconds: float) -> float:
    """Requests per second that a process answers."""
    own = [batches(f"{tag}-{number}", loop=_LOOP, scopes=scopes) for number in range(connections)]
    load = drive(port, pid, own, seconds)
    return load.requests / load.seconds


def measure(store: str, *, seconds: float, connections: int) -> tuple[list[float], float]:
    """Batches per second of one process, twice, and of two together."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        first, second = (Process(store, str(Path(folder, name))) for name in ("first.log", "second.log"))
        try:
            first.start()
            put(first.port, f"/v1/loops/{_LOOP}", {"dim": DIM, "window": 2.0, "scoped": True})
            features = np.random.default_rng(1).standard_normal((CATALOGUE, DIM)) / DIM**0.5
            arms = [{"id": f"a{i}", "features": row} for i, row in enumerate(features.tolist())]
            put(first.port, f"/v1/loops/{_LOOP}/arms", {"arms": arms})
            everyone = list(range(_SCOPES))
            send = pool.submit
            send(_send, first.port, first.pid, "warm", everyone, connections, seconds).result()
            alone = [send(_send, first.port, first.pid, "one", everyone, connections, seconds).result()]
            second.start()
            parts = _shared_out([first, second])
            half = connections // 2
            both = [
                send(_send, process.port, process.pid, f"both {process.port}", scopes, half, seconds)
                for process, scopes in zip((first, second), parts, strict=True)
            ]
            together = sum(each.result() for each in both)
            second.end(signal.SIGTERM)
            _shared_out([first])
            alone.append(send(_send, first.port, first.pid, "again", everyone, connections, seconds).result())
        finally:
            for process in (first, second):
                process.end(signal.SIGKILL)
    return alone, together


def _shared_out(processes: Sequence[Process]) -> list[list[int]]:
    """Wait until the processes have about as many shards each; the scopes of each."""
    names = {shard_of(_LOOP, f"user {user}", SHARDS): f"user {user}" for user in range(_SCOPES)}
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        mine = [{shard for shard, scope in names.items() if process.holds(_LOOP, scope)} for process in processes]
        if sum(map(len, mine)) == SHARDS and max(map(len, mine)) - min(map(len, mine)) <= 1:
            return [[user for user in range(_SCOPES) if shard_of(_LOOP, f"user {user}", SHARDS) in own] for own in mine]
        time.sleep(0.5)
    raise RuntimeError("the processes did not share the shards out")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=32)
    given = parser.parse_args()
    alone, together = measure(given.store, seconds=given.seconds, connections=given.connections)
    mean = sum(alone) / len(alone)
    shown = ", ".join(f"{rate:.0f}" for rate in alone)
    print(f"one process: {shown} batches of {BATCH} a second; two: {together:.0f}; ratio {together / mean:.2f}")


if __name__ == "__main__":
    main()
