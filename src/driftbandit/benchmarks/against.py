"""This checkout beside another one, in one run: did a change make anything slower?

``python -m driftbandit.benchmarks.against ../other-checkout`` times the same work with both, in turns and in separate
processes, by processor time, and prints this checkout's time as a multiple of the other's. There are many short turns,
so that other work on the machine affects both alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from driftbandit.benchmarks.load import drive
from driftbandit.benchmarks.service import SERVE, batches, pairs, server, set_up

_HERE = Path(__file__).parents[2]

_ROUNDS = """
import sys, time
import numpy as np
import driftbandit
name, dim, arms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
build = {"LinUCB": lambda: driftbandit.LinUCB(dim), "DLinUCB": lambda: driftbandit.DLinUCB(dim, 0.1),
         "DriftUCB": lambda: driftbandit.DriftUCB(dim),
         "UCB1": lambda: driftbandit.UCB1(reward_range=(-9.0, 9.0))}[name]
theta = rng.standard_normal(dim) / dim**0.5
count = 2_000_000 // (dim * arms)
pools = rng.standard_normal((count, arms, dim)) / dim**0.5
rewards = (pools @ theta + 0.1 * rng.standard_normal((count, arms))).tolist()
ids = np.arange(arms)
pools = list(pools)
def play():
    policy = build()
    for pool, reward in zip(pools, rewards):
        arm = policy.choose(pool, ids)
        policy.learn(pool[arm], reward[arm], arm)
play()
while sys.stdin.readline():
    start = time.process_time()
    play()
    print((time.process_time() - start) / count * 1e6, flush=True)
"""
_COMPARE = """
import sys, time, tempfile
from driftbandit import World, compare
def play():
    with tempfile.TemporaryDirectory() as out:
        compare(["driftucb", "dlinucb", "adts", "linucb", "meta-bandit", "ucb1"], {"w": World(horizon=2000)}, range(3),
                out=out, processes=1)
play()
while sys.stdin.readline():
    start = time.process_time()
    play()
    print((time.process_time() - start) * 1e6, flush=True)
"""
SIZES = ((6, 10), (25, 25), (25, 1000))
POLICIES = ("LinUCB", "DLinUCB", "DriftUCB", "UCB1")


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source)}


@contextmanager
def _worker(source: Path, script: str, *arguments: str) -> Iterator[Callable[[], float]]:
    """A process that works on demand; yields a function that runs one turn of work and returns its microseconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=_environment(source),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def turn() -> float:
        stdin.write("\n")
        stdin.flush()
        return float(stdout.readline())

    try:
        yield turn
    finally:
        process.communicate()


def ratio(other: Path, script: str, *arguments: str, turns: int = 15) -> tuple[float, float, float]:
    """Microseconds of this checkout and of the other, the least of all turns, and the median ratio of paired turns."""
    with _worker(_HERE, script, *arguments) as mine, _worker(other, script, *arguments) as theirs:
        found = [(mine(), theirs()) for _ in range(turns)]
    return min(a for a, _ in found), min(b for _, b in found), statistics.median(a / b for a, b in found)


def service_ratios(other: Path, *, seconds: float = 1.5, turns: int = 6) -> dict[str, tuple[float, float, float]]:
    """The same comparison for the service: microseconds of the server's processor time per decision with its reward."""
    found: dict[str, list[tuple[float, float]]] = {"service, single": [], "service, batched": []}
    with tempfile.TemporaryDirectory() as folder:
        stores = [str(Path(folder, name)) for name in ("mine.db", "theirs.db")]
        with (
            server(SERVE, None, stores[0], env=_environment(_HERE)) as (port, pid),
            server(SERVE, None, stores[1], env=_environment(other)) as (other_port, other_pid),
        ):
            both = ((port, pid), (other_port, other_pid))
            for address, _ in both:
                set_up(address)
            for turn in range(turns + 1):
                for name, make, connections, per in (
                    ("service, single", pairs, 64, 2.0),
                    ("service, batched", batches, 16, 0.02),
                ):
                    costs = []
                    for address, process in both:
                        load = drive(address, process, [make(f"{turn}-{n}") for n in range(connections)], seconds)
                        costs.append(load.cpu / load.requests * per * 1e6)
                    if turn:  # the first turn warms up
                        found[name].append((costs[0], costs[1]))
    return {
        name: (min(a for a, _ in costs), min(b for _, b in costs), statistics.median(a / b for a, b in costs))
        for name, costs in found.items()
    }


def main(other: Path) -> None:
    """Print a line per kind of work."""
    source = other / "src"
    if not (source / "driftbandit").is_dir():
        sys.exit(f"error: {other} is no checkout of driftbandit")
    print(f"{'':24} {'here us':>10} {'there us':>10} {'ratio':>7}")
    for name in POLICIES:
        for dim, arms in SIZES:
            _print(f"{name} ({dim}, {arms})", ratio(source, _ROUNDS, name, str(dim), str(arms)))
    _print("compare", ratio(source, _COMPARE, turns=7))
    for name, found in service_ratios(source).items():
        _print(name, found)


def _print(name: str, found: tuple[float, float, float]) -> None:
    print(f"{name:24} {found[0]:10.2f} {found[1]:10.2f} {found[2]:7.3f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m driftbandit.benchmarks.against OTHER_CHECKOUT")
    main(Path(sys.argv[1]).resolve())
