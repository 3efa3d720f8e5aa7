"""A made-up log as long as Yahoo!'s: read day by day on all cores, and replayed.

``python -m driftbandit.benchmarks.r6a --lines 500000`` writes ten compressed day files with 20 candidates per line to a
temporary folder, reads them in a fresh process with `read_days`, replays LinUCB and dLinUCB on the log, and prints
lines per second, seconds and memory. R6A itself has 45,811,883 lines; their day files take 2.1 GB, the temporary
files of the reader and the log itself 3.3 GB each. With ``--folder`` the day files stay, and are not written again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftbandit.core import Policy
from driftbandit.environments.yahoo import day_files
from driftbandit.evaluation.results import Table

LINES = 500_000
DAYS = 10
NOISE = 0.25


def measure(folder: str, processes: int | None) -> dict[str, Any]:
    """Read the day files of a folder and replay the log, in this process."""
    from driftbandit import DLinUCB, LinUCB
    from driftbandit.evaluation.replay import replay
    from driftbandit.evaluation.yahoo_days import read_days

    started, busy = time.perf_counter(), _processor_time()
    log, report = read_days(folder, processes=processes)
    found: dict[str, Any] = {"lines": report.lines, "read": time.perf_counter() - started}
    found["read busy"] = _processor_time() - busy
    found["log"] = sum(getattr(log, name).nbytes for name in log._TYPES)
    found["worker"] = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    makers: dict[str, Callable[[], Policy]] = {
        "LinUCB": lambda: LinUCB(log.dim),
        "dLinUCB": lambda: DLinUCB(log.dim, noise=NOISE),
    }
    for name, make in makers.items():
        replay(make(), log.slice(0, 1000))  # compiles, if need be
        busy = _processor_time()
        result = replay(make(), log)
        found[f"{name} busy"] = _processor_time() - busy
        found[name] = result.seconds
        found[f"{name} matched"] = len(result.matched)
    found["peak"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found


def _processor_time() -> float:
    """Seconds that this process and those that it waited for have kept processors busy."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def table(found: dict[str, Any], processes: int | None) -> Table:
    """What was measured."""
    lines = found["lines"]
    steps = {"read": f"read, {processes or 'all'} processes"}
    steps |= {name: f"replay, {name}: {found[f'{name} matched']:,} agree" for name in ("LinUCB", "dLinUCB")}
    cells = tuple(
        (title, f"{found[step]:,.1f}", f"{found[f'{step} busy']:,.1f}", f"{lines / found[step]:,.0f}")
        for step, title in steps.items()
    )
    note = (
        f"{lines:,} lines; the log takes {found['log'] / 1e9:.2f} GB. Peak memory: {found['peak'] / 1e9:.2f} GB in the "
        f"process that joins and replays, pages of mapped files included, and {found['worker'] / 1e9:.2f} GB in the "
        "largest reader."
    )
    headings = ("what", "seconds", "processor seconds", "lines per second")
    return Table("A log as long as R6A", headings, cells, note)


def main() -> None:
    """Write the files unless they are there, measure in a fresh process, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m driftbandit.benchmarks.r6a", description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--processes", type=int, default=None, help="readers; one per core by default")
    parser.add_argument("--folder", default=None, help="where the day files are, or are to stay")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.folder, given.processes)))
        return
    with tempfile.TemporaryDirectory(prefix="driftbandit-bench-") as scratch:
        folder = Path(given.folder or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "plan.npz").exists():
            from driftbandit.environments.yahoo_synthetic import write_synthetic

            started = time.perf_counter()
            write_synthetic(folder, given.lines, days=DAYS, compress=True)
            size = sum(file.stat().st_size for file in day_files(folder))
            print(f"wrote {given.lines:,} lines, {size / 1e9:.2f} GB, in {time.perf_counter() - started:,.0f} s")
        command = [sys.executable, "-m", __spec__.name, "--measure", "--folder", str(folder)]
        command += ["--processes", str(given.processes)] if given.processes else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        shown = table(json.loads(done.stdout), given.processes)
        print(shown.markdown(), shown.note, sep="\n\n")


if __name__ == "__main__":
    main()
