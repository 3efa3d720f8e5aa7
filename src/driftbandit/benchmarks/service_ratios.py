"""How fast is the service beside a trivial route? ``python -m driftbandit.benchmarks.service_ratios``.

DriftUCB with 25 features, 10 arms by id: decisions and their rewards one by one and in batches of 100, in a loop with
one model and in one with 10,000 scopes. The trivial route parses the same bodies and answers a constant. Ratios are
given by the clock, and by processor time of the server, which other work on the machine hardly changes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from driftbandit.benchmarks.load import Load, drive
from driftbandit.benchmarks.service import CATALOGUE, CONSTANT, DIM, SERVE, batches, pairs, put, server

SCOPES = 10_000
Traffic = Callable[[str], Iterator[bytes]]


KINDS: dict[str, Traffic] = {
    "one by one": pairs,
    "one by one, 10,000 scopes": partial(pairs, loop="y", scopes=SCOPES),
    "batches of 100": batches,
    "batches of 100, 10,000 scopes": partial(batches, loop="y", scopes=SCOPES),
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
        server(CONSTANT, core) as (trivial, trivial_process),
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
