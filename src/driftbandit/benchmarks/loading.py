"""Time and memory of reading, converting and replaying data, each in a fresh interpreter; ratios from the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftbandit.environments.datasets import locate
from driftbandit.evaluation.results import Table

LINES = 50_000
"""Lines of the made-up log, which is read alone and four times in a row."""
TIMES = 4
REPEATS = 3

_NOISE = 0.25
_NAIVE_SHARE = 0.04
"""Share of the lines and events that the slow alternatives are given."""
_READY = ("lastfm", "delicious")


@dataclass(frozen=True)
class Figure:
    """One thing measured.

    Attributes
    ----------
    name : str
        What was done.
    seconds, busy : float
        Time by the clock and processor time, each the best of some repeats. Other work on the machine makes `seconds`
        longer and hardly changes `busy`.
    count : int
        Lines or events; 0 if they are not counted.
    memory : int or None
        Peak memory in bytes: beyond the result, or in all for a data set made ready; None if it is unknown.
    against : str
        Name of the figure that it is compared with; empty for none.
    """

    name: str
    seconds: float
    busy: float
    count: int = 0
    memory: int | None = None
    against: str = ""

    @property
    def rate(self) -> float:
        """Lines or events per second; runs per second if nothing is counted."""
        return (self.count or 1) / self.seconds


def measure_loading(data: str | os.PathLike[str] | None = None, *, lines: int = LINES, seed: int = 0) -> list[Figure]:
    """Measure everything; data sets that are not there are left out."""
    with tempfile.TemporaryDirectory(prefix="driftbandit-bench-") as scratch:
        figures = _hetrec(data, scratch)
        _child("write", scratch, lines, seed)
        days = {"plain": str(Path(scratch, "day")), "gz": str(Path(scratch, "day.gz"))}
        slow = _child("naive", days["plain"], int(lines * _NAIVE_SHARE))
        naive = Figure("R6A by split and float", **slow)
        figures.append(naive)
        for kind, file in days.items():
            for times in (1, TIMES):
                found = _child("read", [file] * times)
                figures.append(Figure(f"R6A {kind}, {lines * times:,} lines", **found, against=naive.name))
        reading = f"R6A plain, {lines * TIMES:,} lines"
        saved = str(Path(scratch, "log.arrow"))
        figures.append(
            Figure("R6A plain, read and saved", **_child("save", [days["plain"]] * TIMES, saved), against=reading)
        )
        figures.append(Figure("saved log, opened", **_child("open", saved), against=reading))
        base = Figure("replay, NumPy LinUCB", **_child("replay", saved, "numpy", _NAIVE_SHARE))
        figures += [base, Figure("replay, dLinUCB", **_child("replay", saved, "dlinucb", 1.0), against=base.name)]
    return figures


def _hetrec(data: str | os.PathLike[str] | None, scratch: str) -> list[Figure]:
    figures = []
    for name in _READY:
        try:
            folder = str(locate(name, data))
        except FileNotFoundError:
            continue
        source = Figure(f"{name} ready, from its files", **_child("ready", name, folder, ""))
        _child("convert", name, folder, scratch)
        kept = Figure(f"{name} ready, converted", **_child("ready", name, folder, scratch), against=source.name)
        figures += [source, kept]
    return figures


def loading_table(figures: Sequence[Figure]) -> Table:
    """Times, rates, memory, and how many times faster each is than the figure it is compared with."""
    by_name = {figure.name: figure for figure in figures}

    def cells(figure: Figure) -> tuple[str, ...]:
        base = by_name.get(figure.against)
        return (
            figure.name,
            _duration(figure.seconds),
            _duration(figure.busy),
            f"{figure.rate:,.0f}" if figure.count else "–",
            "–" if figure.memory is None else f"{figure.memory / 2**20:,.0f} MB",
            "–" if base is None else f"{_short(figure.rate / base.rate)}× {base.name}",
        )

    return Table(
        "Reading, converting and replaying data",
        ("what", "time", "processor time", "lines or events per second", "peak memory", "how many times as fast as"),
        tuple(cells(figure) for figure in figures),
        f"Each in a fresh interpreter; the best of {REPEATS} runs, except for 'ready', which covers imports, reading, "
        "features and 25 arms per round. Memory is the total for 'ready', and the memory beyond the log for others. "
        "Replay: d=6, 20 candidates.",
        numbers=False,
    )


def _duration(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 0.01 else f"{1000 * seconds:,.1f} ms"


def _short(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}"


def _child(task: str, *args: Any) -> dict[str, Any]:
    """Run a task in a fresh interpreter, which may repeat it and report the best time."""
    code = "import sys; from driftbandit.benchmarks.loading import run_task; run_task(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps([task, *args])], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"{task}: {(done.stderr.strip().splitlines() or ['ended without a word'])[-1]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# What the fresh interpreters do. Imports are part of the measurement, so they are inside the functions.


def run_task(text: str) -> None:
    """Carry out a task and print what it measured as JSON."""
    task, *args = json.loads(text)
    json.dump(TASKS[task](*args), sys.stdout)


def _status(name: str) -> int | None:
    """A number of bytes from Linux; None elsewhere."""
    try:
        rows = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(row.split()[1]) for row in rows if row.startswith(f"{name}:")), None)


@dataclass(frozen=True)
class _Run:
    """The result of an action, its seconds by the clock and of the processor, and how far memory rose."""

    result: Any
    seconds: float
    busy: float
    memory: int | None


def _watched(action: Callable[[], Any]) -> _Run:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # start a new peak
    before = _status("VmRSS")
    started, worked = time.perf_counter(), time.process_time()
    result = action()
    seconds, busy = time.perf_counter() - started, time.process_time() - worked
    peak = _status("VmHWM")
    return _Run(result, seconds, busy, None if before is None or peak is None else max(0, peak - before))


def _best(action: Callable[[], Any]) -> dict[str, Any]:
    runs = [_watched(action) for _ in range(REPEATS)]
    return {"seconds": min(run.seconds for run in runs), "busy": min(run.busy for run in runs)}


def _ready(name: str, folder: str, cache: str) -> dict[str, Any]:
    def make() -> Any:
        from driftbandit.environments.hetrec import hybrid_user

        module = _module(name)
        if cache:
            os.environ["DRIFTBANDIT_CACHE"] = cache
        interactions = (module.load if cache else module.read)(Path(folder))
        return hybrid_user(interactions, by="user")

    run = _watched(make)
    return {"seconds": run.seconds, "busy": run.busy, "memory": run.memory}


def _module(name: str) -> Any:
    from importlib import import_module

    return import_module(f"driftbandit.environments.{name}")


def _convert(name: str, folder: str, cache: str) -> dict[str, Any]:
    module = _module(name)
    module.read(Path(folder)).convert(module.form(Path(folder)), cache)
    return {}


def _write(folder: str, lines: int, seed: int) -> dict[str, Any]:
    from driftbandit.environments.yahoo_synthetic import write_synthetic

    for name in ("day", "day.gz"):
        write_synthetic(Path(folder, name), lines, seed=seed)
    return {}


def _naive(file: str, lines: int) -> dict[str, Any]:
    """Parse the numbers of the lines in plain Python, and discard them."""

    def read() -> None:
        with open(file, encoding="ascii") as text:
            for _, line in zip(range(lines), text, strict=False):
                head, *blocks = line.split("|")
                for word in head.split():
                    int(word)
                for block in blocks:
                    for pair in block.split()[1:]:
                        which, value = pair.split(":")
                        int(which), float(value)

    return {**_best(read), "count": lines}


def _read(files: list[str]) -> dict[str, Any]:
    from driftbandit.environments.log import Log
    from driftbandit.environments.yahoo import read_yahoo

    read_yahoo(files[0])  # compile
    first = _watched(lambda: read_yahoo(files))  # later runs reuse memory
    log, report = first.result
    size = sum(getattr(log, name).nbytes for name in Log._TYPES)
    beyond = None if first.memory is None else max(0, first.memory - size)
    del first, log
    return {**_best(lambda: read_yahoo(files)), "count": report.lines, "memory": beyond}


def _save(files: list[str], target: str) -> dict[str, Any]:
    from driftbandit.environments.log import Log
    from driftbandit.environments.yahoo import read_yahoo

    read_yahoo(files[0])[0].save(target)  # compile

    def convert() -> None:
        read_yahoo(files)[0].save(target)

    return {**_best(convert), "count": len(Log.load(target))}


def _open(saved: str) -> dict[str, Any]:
    from driftbandit.environments.log import Log

    count = len(Log.load(saved))  # import what reading files needs
    return {**_best(lambda: Log.load(saved)), "count": count}


class _Numpy:
    """NumPy's LinUCB with the arguments that `replay` gives."""

    def __init__(self, dim: int) -> None:
        from driftbandit.benchmarks.numpy_linucb import NumpyLinUCB

        self._policy = NumpyLinUCB(dim)

    def choose(self, features: Any, arms: Any = None) -> int:
        return self._policy.choose(features)

    def learn(self, features: Any, reward: float, arm: Any = None) -> tuple[()]:
        self._policy.learn(features, reward)
        return ()


def _replay(saved: str, which: str, share: float) -> dict[str, Any]:
    from driftbandit.environments.log import Log
    from driftbandit.evaluation.replay import replay
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

    log = Log.load(saved)
    log = log.slice(0, int(share * len(log)))

    def play() -> None:
        replay(DLinUCB(log.dim, _NOISE) if which == "dlinucb" else _Numpy(log.dim), log)

    play()  # compile
    return {**_best(play), "count": len(log)}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "ready": _ready,
    "convert": _convert,
    "write": _write,
    "naive": _naive,
    "read": _read,
    "save": _save,
    "open": _open,
    "replay": _replay,
}
