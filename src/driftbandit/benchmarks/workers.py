"""How much of a second worker arrives: the arena with one worker and with two, on this machine and on Ray.

``python -m driftbandit.benchmarks.workers`` plays a few policies in two of the arena's worlds, with many seeds. It
prints seconds with one worker and with two, and the efficiency: time(1) / (2 time(2)), 1 if the second worker halves
the time. All are taken in turns in one run, after a first turn that starts Ray and compiles; the medians count. BLAS
gets one thread, so that one worker does not use both cores. Ray is left out if it is not installed.

The last row is the most that the machine can give: two programs that know nothing of each other do the work of one
worker each at the same time, and 'two workers' is half of what they take. On two free cores its efficiency is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

from driftbandit.arena.entrants import entrants
from driftbandit.arena.league import play_all
from driftbandit.arena.scenarios import SCENARIOS
from driftbandit.benchmarks.options import at_least_one
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.workers import On

WORLDS = ("table1-2-v1", "clicks-logit-v1")
POLICIES = ("driftucb", "dlinucb", "linucb", "discounted-linucb")
SEEDS = 16
PROGRAMS = "two programs"
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


def measure(places: Sequence[On], seeds: int, turns: int) -> dict[str, tuple[float, float]]:
    """Median times with one worker and with two, by place, and of two programs."""
    runs: dict[str, list[list[float]]] = {name: [[], []] for name in (*places, PROGRAMS)}
    with ProcessPoolExecutor(2, get_context("spawn")) as programs:

        def alone(on: On, count: int, seeds: int) -> float:
            # not here: where Ray is connected, local workers begin as new processes instead of forks
            return programs.submit(seconds, on, count, seeds).result() if on == "local" else seconds(on, count, seeds)

        def together(count: int, seeds: int) -> float:
            each = list(programs.map(seconds, *zip(*[("local", 1, seeds)] * count, strict=True)))
            return sum(each) / count**2

        together(2, 2)
        for on in places:
            alone(on, 2, 2)
        for _ in range(turns):
            for count in (1, 2):
                for on in places:
                    runs[on][count - 1].append(alone(on, count, seeds))
                runs[PROGRAMS][count - 1].append(together(count, seeds))
    return {name: (median(one), median(two)) for name, (one, two) in runs.items()}


def table(found: dict[str, tuple[float, float]]) -> Table:
    """Seconds and efficiency by place."""
    cells = tuple((name, f"{one:.1f}", f"{two:.1f}", f"{one / (2 * two):.2f}") for name, (one, two) in found.items())
    return Table(
        "The arena with one worker and with two", ("where", "1 worker, s", "2 workers, s", "efficiency"), cells
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m driftbandit.benchmarks.workers", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=SEEDS)
    parser.add_argument("--turns", type=at_least_one, default=TURNS)
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
