"""How fast is the service beside a trivial route? ``python -m driftbandit.benchmarks.service_ratios``.

DriftUCB with 25 features, 10 arms by id: decisions and their rewards one by one and in batches of 100, in a loop with
one model and in one with 10,000 scopes. The trivial route parses the same bodies and answers a constant. Ratios are
given by the clock, and by processor time of the server, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from driftbandit.benchmarks.load import Load, drive, post
from driftbandit.benchmarks.service import BATCH, CATALOGUE, DIM, POOLS, SERVE, put, server

SCOPES = 10_000
_TRIVIAL = """
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
Traffic = Callable[[str], Iterator[bytes]]


def singles(tag: str, *, scoped: bool) -> Iterator[bytes]:
    """Decide and reward, over and over."""
    loop = "y" if scoped else "x"
    rng = np.random.default_rng(abs(int.from_bytes(tag.encode(), "little")) % (1 << 32))
    for count, pool in enumerate(itertools.cycle(POOLS)):
        scope = f'"scope":"user {rng.integers(SCOPES)}",' if scoped else ""
        ident = f"{tag}-{count}"
        yield post(f"/v1/loops/{loop}/decisions", f'{{"decision_id":"{ident}",{scope}"arms":{pool}}}'.encode())
        yield post(f"/v1/loops/{loop}/decisions/{ident}/reward", b'{"value":0.%d}' % (1 + count % 9))


def batches(tag: str, *, scoped: bool) -> Iterator[bytes]:
    """The same, 100 at a time."""
    loop = "y" if scoped else "x"
    rng = np.random.default_rng(abs(int.from_bytes(tag.encode(), "little")) % (1 << 32))
    pools = itertools.cycle(POOLS)
    for count in itertools.count():
        idents = [f"{tag}-{count}-{item}" for item in range(BATCH)]
        scopes = [f'"scope":"user {user}",' if scoped else "" for user in rng.integers(SCOPES, size=BATCH)]
        decisions = ",".join(
            f'{{"decision_id":"{ident}",{scope}"arms":{next(pools)}}}'
            for ident, scope in zip(idents, scopes, strict=True)
        )
        yield post(f"/v1/loops/{loop}/decisions:batch", f'{{"decisions":[{decisions}]}}'.encode())
        rewards = ",".join(f'{{"decision_id":"{ident}","value":0.{1 + i % 9}}}' for i, ident in enumerate(idents))
        yield post(f"/v1/loops/{loop}/rewards:batch", f'{{"rewards":[{rewards}]}}'.encode())


KINDS: dict[str, Traffic] = {
    "one by one": lambda tag: singles(tag, scoped=False),
    "one by one, 10,000 scopes": lambda tag: singles(tag, scoped=True),
    "batches of 100": lambda tag: batches(tag, scoped=False),
    "batches of 100, 10,000 scopes": lambda tag: batches(tag, scoped=True),
}


def measure(seconds: float, turns: int, connections: int) -> dict[str, tuple[Load, Load]]:
    """The service's load and the trivial route's, by kind of traffic."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[0] if len(cores) > 1 else None
    if core is not None:
        os.sched_setaffinity(0, cores[1:])  # the client uses the other cores
    found = {kind: (Load(), Load()) for kind in KINDS}
    with (
        tempfile.TemporaryDirectory() as folder,
        server(SERVE, core, str(Path(folder, "a.db"))) as (port, process),
        server(_TRIVIAL, core) as (trivial, trivial_process),
    ):
        features = np.random.default_rng(1).standard_normal((CATALOGUE, DIM)) / DIM**0.5
        arms = [{"id": f"a{i}", "features": row} for i, row in enumerate(features.tolist())]
        for loop, scoped in (("x", False), ("y", True)):
            put(port, f"/v1/loops/{loop}", {"dim": DIM, "window": 2.0, "scoped": scoped})
            put(port, f"/v1/loops/{loop}/arms", {"arms": arms})
        for number, traffic in enumerate(KINDS.values()):
            drive(port, process, [traffic(f"w{number}-{n}") for n in range(connections)], 3.0)
        for turn in range(turns):
            for number, (kind, traffic) in enumerate(KINDS.items()):
                ours, theirs = found[kind]
                tags = [f"{turn}-{number}-{n}" for n in range(connections)]
                ours += drive(port, process, [traffic(tag) for tag in tags], seconds)
                theirs += drive(trivial, trivial_process, [traffic(tag) for tag in tags], seconds)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    given = parser.parse_args()
    print(f"{'':32} {'requests/s':>10} {'trivial':>10} {'by clock':>9} {'by CPU':>7} {'p99 ms':>7}")
    for kind, (ours, theirs) in measure(given.seconds, given.turns, given.connections).items():
        rate, most = (load.requests / load.seconds for load in (ours, theirs))
        cpu = (theirs.cpu / theirs.requests) / (ours.cpu / ours.requests)
        late = 1e3 * ours.percentile(0.99)
        print(f"{kind:32} {rate:10,.0f} {most:10,.0f} {rate / most:9.2f} {cpu:7.2f} {late:7.1f}")


if __name__ == "__main__":
    main()
