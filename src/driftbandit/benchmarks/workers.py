"""How much of a second worker arrives: the arena with one worker and with two, on this machine and on Ray.

``python -m driftbandit.benchmarks.workers`` plays a few policies in two of the arena's worlds, with many seeds. It
prints seconds with one worker and with two, and the efficiency: time(1) / (2 time(2)), 1 if the second worker halves
the time. All are taken in turns in one run, after a first turn that starts Ray and compiles; the medians count. BLAS
gets one thread, so that one worker does not use both cores. The machine needs two cores that nobody else uses. Ray is
left out if it is not installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

from driftbandit.arena.entrants import entrants
from driftbandit.arena.league import play_all
from driftbandit.arena.scenarios import SCENARIOS
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.workers import On

WORLDS = ("table1-2-v1", "clicks-logit-v1")
POLICIES = ("driftucb", "dlinucb", "linucb", "discounted-linucb")
SEEDS = 16
TURNS = 3
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def seconds(on: On, processes: int, seeds: int) -> float:
    """Time that the arena takes."""
    known = entrants("driftucb")
    with tempfile.TemporaryDirectory(prefix="driftbandit-bench-") as out:
        started = time.perf_counter()
        play_all(
            {name: SCENARIOS[name] for name in WORLDS},
            {name: known[name] for name in POLICIES},
            range(seeds),
            out=out,
            processes=processes,
            on=on,
        )
        return time.perf_counter() - started


def measure(places: Sequence[On], seeds: int, turns: int) -> dict[tuple[On, int], float]:
    """Median time by place and number of workers."""
    found: dict[tuple[On, int], list[float]] = {(on, workers): [] for on in places for workers in (1, 2)}
    for on in places:
        seconds(on, 2, 2)
    for _ in range(turns):
        for (on, workers), times in found.items():
            times.append(seconds(on, workers, seeds))
    return {place: median(times) for place, times in found.items()}


def table(found: dict[tuple[On, int], float]) -> Table:
    """Seconds and efficiency by place."""
    cells = tuple(
        (on, f"{found[on, 1]:.1f}", f"{found[on, 2]:.1f}", f"{found[on, 1] / (2 * found[on, 2]):.2f}")
        for on in dict.fromkeys(place for place, _ in found)
    )
    return Table(
        "The arena with one worker and with two", ("where", "1 worker, s", "2 workers, s", "efficiency"), cells
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m driftbandit.benchmarks.workers", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):  # read when NumPy is imported, which has happened
        command = [sys.executable, "-m", __spec__.name, *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | dict.fromkeys(THREADS, "1"))
    places: list[On] = ["local"]
    try:
        from driftbandit.evaluation.on_ray import connected

        connected()
        places.append("ray")
    except ImportError as error:
        print(error)
    print(table(measure(places, given.seeds, given.turns)).markdown())


if __name__ == "__main__":
    main()
