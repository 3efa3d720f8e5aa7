"""Mutation testing: does a test fail when one sign or number is changed where that costs most?

`targets.toml` names the files and the tests that must notice; `survivors.toml` lists the mutants that no test notices,
each with the reason why that is right. The command fails when fewer than 90 % of all mutants are killed, when one
survives that is not on the list, and when one on the list no longer survives.

What was found is kept in runs/mutants, so that a run that was interrupted goes on where it stopped, as long as neither
the file nor its tests have changed. With --survivors, killed mutants stay killed when only tests have changed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.serving.postgres import server

from .fork import BROKEN, ROOT, Baseline, Job, baseline, clean_up, import_all, start
from .mutants import Mutant, Source

HERE = Path(__file__).parent
KEPT = ROOT / "runs" / "mutants"
LEAST = 0.9
_READS = ("file", "function", "was", "became")


class Target:
    """A file, the tests that must notice its mutants, and what is known of each."""

    def __init__(self, entry: dict[str, Any], *, trust_killed: bool) -> None:
        self.file: str = entry["file"]
        self.path = ROOT / "src" / "driftbandit" / self.file
        self.tests: list[str] = entry["tests"]
        self.skip: list[str] = entry.get("skip", [])
        self.compiled: bool = entry.get("compiled", False)
        self.only: list[str] = entry.get("only", [])
        self.source = Source(self.path, self.file, sql=entry.get("sql", False))
        self._hash = _hash(self.path, HERE / "operators.py")
        self.key = _hash(
            self.path, HERE / "operators.py", *(file for test in self.tests for file in _files(ROOT / test))
        )
        self._base: Baseline | None = None
        self._store = KEPT / (self.file.replace("/", "-") + ".jsonl")
        self.found: dict[str, str] = {}
        for line in self._store.read_text().splitlines() if self._store.exists() else ():
            note = json.loads(line)
            same_file, same = note["file"] == self._hash, note["key"] == self.key
            if same or (trust_killed and same_file and note["outcome"] == "killed"):
                self.found[note["mutant"]] = note["outcome"]

    @property
    def mutants(self) -> list[Mutant]:
        """All mutants, or those of the functions named."""
        every = self.source.mutants
        return [m for m in every if not self.only or self.source.function_of(m.line) in self.only]

    @property
    def base(self) -> Baseline:
        """What the tests do without a mutation."""
        if self._base is None:
            kept = self._store.with_suffix(".base.json")
            if kept.exists() and (note := json.loads(kept.read_text()))["key"] == self.key:
                lines = {int(line): tests for line, tests in note["lines"].items()}
                self._base = Baseline(note["seconds"], lines, note["modules"])
            else:
                self._base = baseline(Job(self.tests, self.skip, self.path, self.compiled, 0.0))
                KEPT.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps({"key": self.key, **vars(self._base)}))
        return self._base

    def job(self, mutant: Mutant) -> Job | None:
        """What tells whether a mutant is noticed; None where no test runs its line."""
        tests = self.base.tests_of(self.source.lines_of(mutant))
        seconds = sum(self.base.seconds[test] for test in tests)
        text = self.source.mutate(mutant)
        return Job(tests, [], self.path, self.compiled, seconds, text) if tests else None

    def note(self, mutant: Mutant, outcome: str) -> None:
        """Keep what became of a mutant."""
        self.found[mutant.name] = outcome
        note = {"file": self._hash, "key": self.key, "mutant": mutant.name, "outcome": outcome}
        with open(self._store, "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _hash(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def run(targets: list[Target], jobs: int, console: Console) -> None:
    """Try all mutants of which nothing is known yet."""
    todo = [(target, mutant) for target in targets for mutant in target.mutants if mutant.name not in target.found]
    running: dict[int, tuple[Target, Mutant]] = {}
    with Progress(console=console, auto_refresh=False) as progress:
        bar = progress.add_task("mutants", total=len(todo))
        try:
            while todo or running:
                while todo and len(running) < jobs:
                    target, mutant = todo.pop(0)
                    progress.update(bar, description=f"{target.file}:{mutant.line}", refresh=True)
                    import_all(target.base.modules)
                    job = target.job(mutant)
                    if job is None:
                        target.note(mutant, "survived")
                        progress.advance(bar)
                    else:
                        running[start(job)] = target, mutant
                if running:
                    pid, status = os.wait()
                    target, mutant = running.pop(pid)
                    clean_up(pid)
                    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
                        raise SystemExit(f"{target.file}:{mutant.line}: {mutant.name} could not be tried")
                    target.note(mutant, "survived" if status == 0 else "killed")
                    progress.advance(bar)
        finally:
            for pid in running:
                clean_up(pid)


def report(targets: list[Target], listed: list[dict[str, str]], console: Console) -> bool:
    """Print what was found; whether it is enough."""
    table = Table("file", "mutants", "killed", "survivors", "share")
    total: Counter[str] = Counter()
    unlisted, alive = [], set()
    reasons = {tuple(entry[name] for name in _READS) for entry in listed}
    for target in targets:
        count = Counter(target.found[mutant.name] for mutant in target.mutants)
        total += count
        _row(table, target.file, count)
        for mutant in target.mutants:
            if target.found[mutant.name] == "survived":
                read = target.source.read(mutant)
                alive.add(tuple(read.values()))
                if tuple(read.values()) not in reasons:
                    unlisted.append((mutant, read))
    _row(table, "all", total)
    console.print(table)
    with open(KEPT / "unlisted.toml", "w", encoding="utf-8") as file:  # ready for the list, but for the reason
        for mutant, read in unlisted:
            console.print(
                f"{read['file']}:{mutant.line} survives, not on the list: {read['became']}",
                markup=False,
                soft_wrap=True,
            )
            entry = [f"{name} = {json.dumps(read[name], ensure_ascii=False)}" for name in _READS]
            print("[[survivor]]", *entry, 'reason = ""', "", sep="\n", file=file)
    files = {target.file for target in targets}
    gone = [entry for entry in listed if entry["file"] in files and tuple(entry[n] for n in _READS) not in alive]
    for entry in gone:
        console.print(f"no longer survives: {[entry[name] for name in _READS]}", markup=False)
    share = total["killed"] / max(total.total(), 1)
    if share < LEAST:
        console.print(f"killed {share:.1%} of all mutants, expected at least {LEAST:.0%}")
    return share >= LEAST and not unlisted and not gone


def _row(table: Table, name: str, count: Counter[str]) -> None:
    share = f"{count['killed'] / max(count.total(), 1):.1%}"
    table.add_row(name, str(count.total()), str(count["killed"]), str(count["survived"]), share)


def main() -> None:
    """Run the mutants of all targets, or of those whose file contains one of the words given."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only files whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants tried at once")
    parser.add_argument("--survivors", action="store_true", help="believe earlier kills though tests have changed")
    given = parser.parse_args()
    for name, value in (("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"), ("OPENBLAS_NUM_THREADS", "1")):
        os.environ[name] = value
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # as by Ctrl-C: end the forks
    console = Console()
    entries = tomllib.loads((HERE / "targets.toml").read_text())["target"]
    if given.words:
        entries = [entry for entry in entries if any(word in entry["file"] for word in given.words)]
    targets = [Target(entry, trust_killed=given.survivors) for entry in entries]
    listed = tomllib.loads((HERE / "survivors.toml").read_text()).get("survivor", [])
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if any(entry.get("postgresql") for entry in entries):  # one server for all mutants
            os.environ["DRIFTBANDIT_POSTGRESQL"] = stack.enter_context(server())
        run(targets, given.jobs, console)
    enough = report(targets, listed, console)
    console.print(f"{time.monotonic() - started:.0f} s")
    raise SystemExit(0 if enough else 1)


if __name__ == "__main__":
    main()
