"""How the cost of a round grows with features, arms, scopes, members and workers, beside what the machine allows.

``python -m driftbandit.benchmarks.growth --out docs/images`` draws the picture of docs/performance.md and prints its
figures. The floor of a round is the time in which this machine copies as many bytes as the round must at least read and
write once: the candidates' features, and the model, which is read and written. It is measured on arrays of the same
total size, so that what fits into a cache is copied at the cache's speed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.batch import ManyScopes
from driftbandit.benchmarks.growth_picture import draw
from driftbandit.benchmarks.many_scopes import World, at_once
from driftbandit.benchmarks.numpy_linucb import NumpyLinUCB
from driftbandit.benchmarks.speed import ByRow, Stream, play
from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.linucb import LinUCB

Curve = list[tuple[int, float]]
"""Sizes, and microseconds per round."""

FLOOR = "floor: a copy of the same bytes"
_DIMS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_ARMS = (1, 3, 10, 30, 100, 300, 1000, 3000)
_SCOPES = (100, 1_000, 10_000, 100_000, 400_000)
_MEMBERS = (1, 2, 4, 8, 16, 32)
_WORKERS = (1, 2)
_DIM, _POOL = 25, 20
_SECONDS = 0.25
_REPEATS = 3
_TASK_ROUNDS = 100_000


def _best(builds: dict[str, Callable[[], Any]], stream: Stream) -> dict[str, float]:
    """Microseconds per choose + learn of each policy, the best of a few runs taken in turns."""
    best = dict.fromkeys(builds, float("inf"))
    for build in builds.values():
        play(ByRow(build()), stream, 5)
    for _ in range(_REPEATS):
        for name, build in builds.items():
            best[name] = min(best[name], play(ByRow(build()), stream, 5_000, _SECONDS))
    return {name: 1e6 * seconds for name, seconds in best.items()}


def copy_time(moved: float, total: float) -> float:
    """Microseconds in which `moved` bytes are read or written, if the same `total` bytes are used again and again."""
    half = max(int(total) // 16, 8)  # numbers in each of two arrays
    source, target = np.ones(half), np.ones(half)
    times = max(3, int(2e7 // (16 * half)))
    _copy(source, target, 1)
    best = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        _copy(source, target, times)
        best = min(best, (time.perf_counter() - started) / times)
    return 1e6 * best * moved / (16 * half)


@jit
def _copy(source: Floats, target: Floats, times: int) -> None:
    for t in range(times):
        source[0] = float(t)  # so that no copy is like the one before
        for i in range(len(source)):
            target[i] = source[i]


def _round_bytes(dim: int, arms: int) -> tuple[float, float]:
    """Bytes that a round of LinUCB moves at least, and bytes that it uses."""
    model, pool = 8 * (1 + dim + dim * (dim + 1) // 2), 8 * dim * arms
    return 2.0 * model + pool, float(model + pool)


def by_size(sizes: Sequence[tuple[int, int]], along: Sequence[int]) -> dict[str, Curve]:
    """Curves of NumPy, LinUCB and DriftUCB over some sizes (features, arms); `along` is the axis."""
    curves: dict[str, Curve] = {}
    for at, (dim, arms) in zip(along, sizes, strict=True):
        builds: dict[str, Callable[[], Any]] = {
            "NumPy LinUCB": partial(NumpyLinUCB, dim),
            "LinUCB": partial(LinUCB, dim),
            "DriftUCB": partial(DriftUCB, dim),
        }
        for name, value in _best(builds, Stream.make(dim, arms, 0)).items():
            curves.setdefault(name, []).append((at, value))
        curves.setdefault(FLOOR, []).append((at, copy_time(*_round_bytes(dim, arms))))
    return curves


def by_scopes(scopes: Sequence[int] = _SCOPES) -> dict[str, Curve]:
    """LinUCB for many scopes at once, on one and two threads."""
    curves: dict[str, Curve] = {}
    moved, used = _round_bytes(_DIM, 10)
    for count in scopes:
        world = World(_DIM, 10, count, 0)
        for threads in (1, 2):
            store = ManyScopes(LinUCB(_DIM), count, threads=threads)
            took, arms = float("inf"), np.zeros(count, dtype=np.int64)
            for _ in range(2 + _REPEATS):
                seconds, arms = at_once(store, world.round(arms))
                took = min(took, seconds)
            name = f"LinUCB, {threads} thread{'s' * (threads > 1)}"
            curves.setdefault(name, []).append((count, 1e6 * took / count))
        curves.setdefault(FLOOR, []).append((count, copy_time(moved, min(used * count, 1e9))))
    return curves


def by_members(members: Sequence[int] = _MEMBERS) -> dict[str, Curve]:
    """DLinUCB with several members, which all see every reward."""
    curves: dict[str, Curve] = {}
    stream = Stream.make(_DIM, _POOL, 0)
    for count in members:

        def build(count: int = count) -> DLinUCB:
            policy = DLinUCB(_DIM, 0.1)
            for _ in range(count - 1):
                policy._add_member()
            return policy

        took = _best({"DLinUCB": build}, stream)["DLinUCB"]
        curves.setdefault("DLinUCB", []).append((count, took))
        model, pool = 8 * (1 + _DIM + _DIM * (_DIM + 1) // 2), 8 * _DIM * _POOL
        curves.setdefault(FLOOR, []).append((count, copy_time(2.0 * count * model + pool, count * model + pool)))
    return curves


def _task(seed: int) -> float:
    """Play a fixed number of rounds; the seconds that they took."""
    return play(ByRow(LinUCB(_DIM)), Stream.make(_DIM, 10, seed), _TASK_ROUNDS) * _TASK_ROUNDS


def by_workers(workers: Sequence[int] = _WORKERS) -> dict[str, Curve]:
    """Rounds of independent runs on several processes: microseconds of the clock per round, all workers together."""
    curves: dict[str, Curve] = {}
    tasks = 2 * max(workers)
    for count in workers:
        with get_context("spawn").Pool(count) as pool:
            pool.map(_task, range(count))  # imports, and compiles
            started = time.perf_counter()
            pool.map(_task, range(tasks), chunksize=1)
            took = 1e6 * (time.perf_counter() - started) / (tasks * _TASK_ROUNDS)
        curves.setdefault("LinUCB", []).append((count, took))
    first = curves["LinUCB"][0][1]
    curves["floor: no time lost"] = [(count, first / count) for count in workers]
    return curves


def measure() -> dict[str, dict[str, Curve]]:
    """All curves, by what they grow with."""
    return {
        f"features (K = {_POOL})": by_size([(dim, _POOL) for dim in _DIMS], _DIMS),
        f"arms (d = {_DIM})": by_size([(_DIM, arms) for arms in _ARMS], _ARMS),
        f"scopes at once (d = {_DIM}, K = 10)": by_scopes(),
        f"members (d = {_DIM}, K = {_POOL})": by_members(),
        f"worker processes (d = {_DIM}, K = 10)": by_workers(),
    }


def table(title: str, curves: dict[str, Curve]) -> str:
    """The curves of a panel as Markdown.

    >>> print(table("features", {"LinUCB": [(4, 1.234), (1000, 2345.6)]}))
    | microseconds by features | 4 | 1,000 |
    |---|---:|---:|
    | LinUCB | 1.23 | 2,346 |
    """
    sizes = [size for size, _ in next(iter(curves.values()))]
    lines = [f"| microseconds by {title} | " + " | ".join(f"{size:,}" for size in sizes) + " |"]
    lines.append("|---" + "|---:" * len(sizes) + "|")
    for name, curve in curves.items():
        lines.append(f"| {name} | " + " | ".join(_short(value) for _, value in curve) + " |")
    return "\n".join(lines)


def _short(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Measure, print, and draw if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, help="folder for cost.png")
    out = parser.parse_args().out
    panels = measure()
    print("\n\n".join(table(title, curves) for title, curves in panels.items()))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw(panels).savefig(out / "cost.png", dpi=130)


if __name__ == "__main__":
    main()
