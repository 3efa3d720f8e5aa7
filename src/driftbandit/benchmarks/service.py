"""How much of the HTTP server's speed the decision service keeps, measured in one run on one core.

The yardstick is a route of the same server and the same parsing that answers a constant. Both get the same bodies over
the same number of connections, in turns.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DIM = 25
ARMS = 10
CATALOGUE = 100

_CONSTANT = """
import msgspec, sys
from contextlib import asynccontextmanager
from driftbandit.serving.asgi import App, Response, Route
from driftbandit.serving.engine import Decision, DecisionRequest, RewardRequest
from driftbandit.serving.server import serve
decision, reward = msgspec.json.Decoder(DecisionRequest), msgspec.json.Decoder(RewardRequest)
ANSWER = msgspec.json.encode(Decision("0123456789abcdef", "a1", 1, 0.955, "1.100", "2026-01-01T00:00:00.000Z"))
async def decide(request):
    decision.decode(request.body)
    return Response(201, ANSWER)
async def learn(request):
    reward.decode(request.body)
    return Response(200, b'{"status":"accepted"}')
@asynccontextmanager
async def life():
    yield
routes = [
    Route("POST", "/v1/loops/{loop}/decisions", None, decide, "", {}, body=DecisionRequest),
    Route("POST", "/v1/loops/{loop}/decisions/{id}/reward", None, learn, "", {}, body=RewardRequest),
]
serve(App(routes, lambda: None, life), "127.0.0.1", int(sys.argv[1]))
"""
_SERVE = """
import sys
from driftbandit.serving.server import build_app, serve
serve(build_app("sqlite:" + sys.argv[2], secure=False), "127.0.0.1", int(sys.argv[1]))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests or pairs a second, and latencies of requests in seconds."""

    rate: float
    latencies: list[float]

    def percentile(self, share: float) -> float:
        """The latency below which this share of the requests were answered."""
        return float(np.quantile(self.latencies, share)) if self.latencies else float("nan")


@contextmanager
def server(script: str, core: int | None, *arguments: str) -> Iterator[int]:
    """Run a server on one core; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    pin = ["taskset", "-c", str(core)] if core is not None else []
    process = subprocess.Popen([*pin, sys.executable, "-c", script, str(port), *arguments])
    try:
        deadline = time.monotonic() + 60.0
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the server did not start") from None
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(30)


class _Connection:
    """A bare HTTP/1.1 connection: the client must cost less than what it measures."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> _Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        self._writer.write(head + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.index(b"content-length: ") + 16
        answer = await self._reader.readexactly(int(head[at : head.index(b"\r", at)]))
        if head[9] != ord("2"):
            raise RuntimeError(f"{head.split(bytes([13]))[0].decode()}: {answer[:200].decode()}")
        return answer

    def close(self) -> None:
        self._writer.close()


Body = Callable[[int], bytes]


def bodies(seed: int, count: int = 1000) -> list[list[str]]:
    """Pools of arms from the catalogue."""
    rng = np.random.default_rng(seed)
    return [[f"a{arm}" for arm in rng.permutation(CATALOGUE)[:ARMS]] for _ in range(count)]


async def pairs(port: int, connections: int, seconds: float, tag: str, pace: float | None = None) -> Measured:
    """Decide and reward, over and over; with `pace`, at that many pairs a second."""
    pools = [json.dumps(pool) for pool in bodies(0)]
    done = 0
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal done
        connection = await _Connection(port).open()
        count = 0
        due = time.perf_counter() + (0.0 if pace is None else number / pace)
        while (now := time.perf_counter()) < end:
            if pace is not None:
                if due > now:
                    await asyncio.sleep(due - now)
                due += connections / pace
            ident = f"{tag}{number}-{count}"
            count += 1
            started = time.perf_counter()
            body = f'{{"decision_id":"{ident}","arms":{pools[count % 1000]}}}'.encode()
            await connection.post("/v1/loops/x/decisions", body)
            between = time.perf_counter()
            await connection.post(f"/v1/loops/x/decisions/{ident}/reward", b'{"value":%d}' % (count % 2))
            latencies.extend((between - started, time.perf_counter() - between))
            done += 1
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(connections)))
    return Measured(done / (time.perf_counter() - started), latencies)


async def batches(port: int, connections: int, seconds: float, tag: str, size: int = 100) -> Measured:
    """The same pairs in batches."""
    pools = [json.dumps(pool) for pool in bodies(0)]
    done = 0
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal done
        connection = await _Connection(port).open()
        count = 0
        while time.perf_counter() < end:
            idents = [f"{tag}{number}-{count}-{item}" for item in range(size)]
            count += 1
            decisions = ",".join(f'{{"decision_id":"{ident}","arms":{pools[i]}}}' for i, ident in enumerate(idents))
            await connection.post("/v1/loops/x/decisions:batch", f'{{"decisions":[{decisions}]}}'.encode())
            rewards = ",".join(f'{{"decision_id":"{ident}","value":{i % 2}}}' for i, ident in enumerate(idents))
            await connection.post("/v1/loops/x/rewards:batch", f'{{"rewards":[{rewards}]}}'.encode())
            done += size
        connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(connections)))
    return Measured(done / (time.perf_counter() - started), [])


def put(port: int, path: str, body: Any) -> None:
    """Make or change something of the service."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), method="PUT")
    urllib.request.urlopen(request).read()


def set_up(port: int) -> None:
    """The loop of the measurement: dLinUCB, d = 25, arms by id, windows of two seconds."""
    rng = np.random.default_rng(1)
    put(port, "/v1/loops/x", {"policy": "dlinucb", "dim": DIM, "window": 2.0})
    features = rng.standard_normal((CATALOGUE, DIM)) / DIM**0.5
    arms = [{"id": f"a{i}", "features": row} for i, row in enumerate(features.tolist())]
    put(port, "/v1/loops/x/arms", {"arms": arms})


def measure(*, seconds: float = 3.0, turns: int = 3, connections: int = 64) -> dict[str, float]:
    """Run everything in turns; the numbers are medians over the turns."""
    core = min(os.sched_getaffinity(0)) if len(os.sched_getaffinity(0)) > 1 else None
    if core is not None:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {core})  # the client has the other cores
    found: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        server(_SERVE, core, str(Path(folder, "a.db"))) as port,
        server(_CONSTANT, core) as constant,
    ):
        set_up(port)
        asyncio.run(pairs(port, connections, 1.0, "warm"))
        for turn in range(turns):
            plain = asyncio.run(pairs(constant, connections, seconds, f"p{turn}-")).rate
            single = asyncio.run(pairs(port, connections, seconds, f"s{turn}-")).rate
            many = asyncio.run(batches(port, 4, seconds, f"b{turn}-")).rate
            half = asyncio.run(pairs(port, connections, seconds, f"h{turn}-", pace=single / 2))
            for name, value in (
                ("constant pairs/s", plain),
                ("durable pairs/s", single),
                ("durable / constant", single / plain),
                ("batched pairs/s", many),
                ("batched / single", many / single),
                ("p50 ms at half load", half.percentile(0.5) * 1e3),
                ("p99 ms at half load", half.percentile(0.99) * 1e3),
            ):
                found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:22} {value:12.2f}")
