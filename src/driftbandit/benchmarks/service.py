"""How much of the HTTP server's speed the decision service keeps, measured in one run on one core.

The yardstick is a route of the same server and the same parsing that answers a constant. Both get the same bodies over
the same number of connections, in turns.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.benchmarks.load import Load, drive, post, resident_bytes

DIM = 25
ARMS = 10
CATALOGUE = 100
BATCH = 100

CONSTANT = """
import msgspec, sys
from contextlib import asynccontextmanager
from driftbandit.serving.api.app import App, Response
from driftbandit.serving.api.routes import Route
from driftbandit.serving.engine.messages import BatchReward, Decision, DecisionRequest, RewardRequest
from driftbandit.serving.server import serve
one = msgspec.json.encode(Decision("0123456789abcdef", "a1", 1, 0.955, "1.100", "2026-01-01T00:00:00.000Z"))
results = msgspec.json.encode({"results": [{"status": 201, "decision": msgspec.json.decode(one)}] * 100})
rewards = msgspec.json.encode({"results": [{"status": 200, "result": "accepted"}] * 100})
def route(path, kind, answer):
    decode = msgspec.json.Decoder(kind).decode
    async def of_loop(request, loop):
        decode(request.body)
        return Response(200, answer)
    async def of_decision(request, loop, id):
        return await of_loop(request, loop)
    handler = of_decision if "{id}" in path else of_loop
    return Route("POST", path, None, handler, "", {}, body=kind)
@asynccontextmanager
async def life():
    yield
loop = "/v1/loops/{loop}"
routes = [
    route(loop + "/decisions", DecisionRequest, one),
    route(loop + "/decisions/{id}/reward", RewardRequest, b'{"status":"accepted"}'),
    route(loop + "/decisions:batch", dict[str, list[DecisionRequest]], results),
    route(loop + "/rewards:batch", dict[str, list[BatchReward]], rewards),
]
serve(App(routes, lambda: None, life), "127.0.0.1", int(sys.argv[1]))
"""
SERVE = """
import sys
from driftbandit.serving.server import build_app, serve
serve(build_app("sqlite:" + sys.argv[2], secure=False), "127.0.0.1", int(sys.argv[1]))
"""


@contextmanager
def server(
    script: str, core: int | None, *arguments: str, env: Mapping[str, str] | None = None
) -> Iterator[tuple[int, int]]:
    """Run a server on one core; yields its port and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    pin = ["taskset", "-c", str(core)] if core is not None else []
    process = subprocess.Popen([*pin, sys.executable, "-c", script, str(port), *arguments], env=env)
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
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def pools(seed: int = 0, count: int = 1000) -> list[str]:
    """Pools of arms from the catalogue, as JSON."""
    rng = np.random.default_rng(seed)
    return [json.dumps([f"a{arm}" for arm in rng.permutation(CATALOGUE)[:ARMS]]) for _ in range(count)]


POOLS = pools()


def _walk(tag: str) -> Iterator[str]:
    """All pools over and over; every connection begins with another pool."""
    first = zlib.crc32(tag.encode()) % len(POOLS)
    return itertools.islice(itertools.cycle(POOLS), first, None)


def pairs(tag: str, *, loop: str = "x", scopes: int = 0) -> Iterator[bytes]:
    """Decide and reward, over and over; with `scopes`, each time for one of so many."""
    users = _users(tag, scopes)
    for count, pool in enumerate(_walk(tag)):
        ident = f"{tag}-{count}"
        yield post(f"/v1/loops/{loop}/decisions", f'{{"decision_id":"{ident}",{next(users)}"arms":{pool}}}'.encode())
        yield post(f"/v1/loops/{loop}/decisions/{ident}/reward", b'{"value":0.%d}' % (1 + count % 9))


def batches(tag: str, *, loop: str = "x", scopes: int | Sequence[int] = 0) -> Iterator[bytes]:
    """The same pairs, many per request; `scopes` may also be a list of them."""
    pools, users = _walk(tag), _users(tag, scopes)
    for count in itertools.count():
        idents = [f"{tag}-{count}-{item}" for item in range(BATCH)]
        decisions = ",".join(f'{{"decision_id":"{ident}",{next(users)}"arms":{next(pools)}}}' for ident in idents)
        yield post(f"/v1/loops/{loop}/decisions:batch", f'{{"decisions":[{decisions}]}}'.encode())
        rewards = ",".join(f'{{"decision_id":"{ident}","value":0.{1 + i % 9}}}' for i, ident in enumerate(idents))
        yield post(f"/v1/loops/{loop}/rewards:batch", f'{{"rewards":[{rewards}]}}'.encode())


def _users(tag: str, scopes: int | Sequence[int]) -> Iterator[str]:
    """The scope of each decision as a field of its body; nothing if there are none."""
    rng = np.random.default_rng(zlib.crc32(tag.encode()))
    while True:
        yield from (f'"scope":"user {user}",' for user in rng.choice(scopes, size=1_000)) if scopes else [""]


def put(port: int, path: str, body: Any) -> None:
    """Send a PUT request to the service."""
    url, headers = f"http://127.0.0.1:{port}{path}", {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")).read()


def set_up(port: int) -> None:
    """The loop of the measurement: dLinUCB with a noise that is given, d = 25, arms by id, windows of two seconds."""
    rng = np.random.default_rng(1)
    put(port, "/v1/loops/x", {"policy": "dlinucb", "settings": {"noise": 0.5}, "dim": DIM, "window": 2.0})
    features = rng.standard_normal((CATALOGUE, DIM)) / DIM**0.5
    arms = [{"id": f"a{i}", "features": row} for i, row in enumerate(features.tolist())]
    put(port, "/v1/loops/x/arms", {"arms": arms})


def measure(*, seconds: float = 4.0, turns: int = 3, connections: int = 256, batchers: int = 64) -> dict[str, float]:
    """Run all kinds of load in turns, and sum up the turns.

    Ratios are given by the clock, and by processor time of the server, which other work on the machine hardly changes.

    Parameters
    ----------
    seconds, turns : float, int
        How long a turn of each kind of load lasts, and how many turns it has.
    connections, batchers : int
        How many connections send single requests, and how many send batches. Each sends its next request when the last
        was answered, and a commit takes milliseconds on most disks: few connections would measure the latency of the
        disk.
    """
    core = min(os.sched_getaffinity(0)) if len(os.sched_getaffinity(0)) > 1 else None
    if core is not None:
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {core})  # the client uses the other cores
    plain, single, many, half = Load(), Load(), Load(), Load()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(SERVE, core, str(Path(folder, "a.db"))) as (port, pid),
        server(CONSTANT, core) as (constant, constant_pid),
    ):
        set_up(port)
        drive(port, pid, [pairs(f"w{number}") for number in range(connections)], 1.0)
        drive(port, pid, [batches(f"v{number}") for number in range(batchers)], 1.0)
        for turn in range(turns):
            plain += drive(constant, constant_pid, [pairs(f"p{turn}-{n}") for n in range(connections)], seconds)
            single += drive(port, pid, [pairs(f"s{turn}-{n}") for n in range(connections)], seconds)
            many += drive(port, pid, [batches(f"b{turn}-{n}") for n in range(batchers)], seconds)
            pace = single.requests / single.seconds / 2
            half += drive(port, pid, [pairs(f"h{turn}-{n}") for n in range(connections)], seconds, pace)
    rates = [load.requests / 2 / load.seconds for load in (plain, single, many)]
    costs = [load.cpu / load.requests * 2 * 1e6 for load in (plain, single, many)]
    rates[2] *= BATCH
    costs[2] /= BATCH
    return {
        "constant: pairs/s": rates[0],
        "durable: pairs/s": rates[1],
        "durable / constant, by the clock": rates[1] / rates[0],
        "batched: pairs/s": rates[2],
        "batched / single, by the clock": rates[2] / rates[1],
        "constant: server's CPU us per pair": costs[0],
        "durable: server's CPU us per pair": costs[1],
        "durable / constant, by CPU": costs[0] / costs[1],
        "batched: server's CPU us per pair": costs[2],
        "batched / single, by CPU": costs[1] / costs[2],
        "p50 ms at half load": half.percentile(0.5) * 1e3,
        "p99 ms at half load": half.percentile(0.99) * 1e3,
    }


def memory(decisions: int = 1_000_000, *, steps: int = 10) -> list[float]:
    """Resident megabytes of the service after each tenth of this many decisions, each with its reward."""
    found = []
    with tempfile.TemporaryDirectory() as folder, server(SERVE, None, str(Path(folder, "a.db"))) as (port, pid):
        set_up(port)
        for step in range(steps):
            count = decisions // steps // BATCH // 2
            parts: list[Iterator[bytes]] = [itertools.islice(batches(f"m{step}-{n}"), count) for n in range(4)]
            drive(port, pid, parts, float("inf"))
            found.append(resident_bytes(pid) / 1e6)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["memory"], help="measure memory instead of speed")
    if parser.parse_args().what:
        print("MB after each 100,000 decisions:", " ".join(f"{value:.0f}" for value in memory()))
    else:
        for name, value in measure().items():
            print(f"{name:34} {value:12.2f}")
