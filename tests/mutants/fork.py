"""Run tests in a fork of this process, which has imported everything but the package and its tests.

A mutant lives in the memory of its fork alone: there one module of the package is made from other text. No file is
touched, so that nothing has to be put back after an interruption.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

import coverage
import numba
import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[2]
_OURS = ("driftbandit", "tests", "conftest", "test_", "serving")
_MEMORY = 8 << 30
"""Bytes that a fork may take: a loop that does not end may also grow."""
BROKEN = 99
"""Exit status of a fork that could not try its mutant."""
_OPTIONS = ("-x", "-q", "--tb=no", "--no-header", "--no-summary", "-p", "no:cacheprovider")


@dataclass(frozen=True)
class Job:
    """Tests to run, with a module of the package read from a text of ours where one is given."""

    tests: list[str]
    skip: list[str]
    path: Path
    compiled: bool
    seconds: float
    text: str | None = None


@dataclass
class Baseline:
    """What the tests of a file do while it is whole: seconds of each, and which tests run a line."""

    seconds: dict[str, float]
    lines: dict[int, list[str]]
    modules: list[str]

    def tests_of(self, lines: range) -> list[str]:
        """Tests that run any of these lines, quick ones first; all of them for lines that run on import."""
        found = {test for line in lines for test in self.lines.get(line, ())}
        tests = self.seconds if "" in found else found
        return sorted(tests, key=lambda test: self.seconds[test])


def import_all(names: list[str]) -> None:
    """Import here what forks need, so that they need not."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def start(job: Job) -> int:
    """Start a fork; its exit status is 0 if all tests passed."""
    pid = os.fork()
    if pid == 0:
        try:
            _limit(job.seconds)
            os._exit(_run(job, [_Quick(job.skip)]))
        except BaseException:
            os._exit(BROKEN)
    return pid


def folder_of(pid: int) -> Path:
    """Temporary files of a fork's tests."""
    return Path(tempfile.gettempdir(), f"mutant-{pid}")


def clean_up(pid: int) -> None:
    """End what a fork has left running, and remove its files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder_of(pid), ignore_errors=True)


def baseline(job: Job) -> Baseline:
    """Run the tests with nothing changed and note what they do."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        _observe(job, send)
    os.close(send)
    with os.fdopen(receive) as answer:
        told = answer.read()
    os.waitpid(pid, 0)
    clean_up(pid)
    if not told:
        raise SystemExit(f"{job.path}: the tests fail without any mutation: pytest {' '.join(job.tests)}")
    found = json.loads(told)
    return Baseline(found["seconds"], {int(line): tests for line, tests in found["lines"].items()}, found["modules"])


def _observe(job: Job, send: int) -> NoReturn:
    try:
        os.setsid()
        watch = coverage.Coverage(data_file=None, include=[str(job.path)], config_file=False)
        notes = _Notes(watch)
        watch.start()
        status = _run(job, [_Quick(job.skip), notes])
        watch.stop()
        if status == 0:
            lines = watch.get_data().contexts_by_lineno(str(job.path))
            modules = [name for name in sys.modules if not name.startswith(_OURS)]
            with os.fdopen(send, "w") as answer:
                json.dump({"seconds": notes.seconds, "lines": lines, "modules": modules}, answer)
    finally:
        os._exit(0)


def _run(job: Job, plugins: list[object]) -> int:
    numba.config.DISABLE_JIT = not job.compiled
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    name = ".".join(job.path.relative_to(ROOT / "src").with_suffix("").parts)
    if job.text is not None:
        sys.meta_path.insert(0, _Finder(name, job.path, job.text))  # type: ignore[arg-type]
        try:
            importlib.import_module(name)  # now: pytest finds modules that have doctests in ways of its own
        except Exception:
            return 1  # a mutant that cannot be imported is noticed
    # Compiled kernels are silent about overflow and NaN; the same lines in NumPy warn, which would count as noticed.
    quiet = () if job.compiled else ("-W", "ignore::RuntimeWarning")
    folder = f"--basetemp={folder_of(os.getpid())}"
    try:
        status = int(pytest.main([*_OPTIONS, *quiet, folder, *job.tests], plugins=plugins))
    except Exception:  # a warning about something left open, which pytest raises when it is done
        status = 1
    assert job.text is None or isinstance(sys.modules[name].__loader__, _Loader)
    return status


def _limit(seconds: float) -> None:
    """End this process long after its tests should have; it leads a group that can be ended."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    signal.setitimer(signal.ITIMER_PROF, 5.0 + 5.0 * seconds)  # of work
    signal.alarm(30 + int(10.0 * seconds))  # with waiting


class _Finder:
    """Makes one module from a text of ours."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self._name, self._path, self._text = name, str(path), text

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != self._name:
            return None
        loader = _Loader(name, self._path)
        loader.text = self._text
        return spec_from_file_location(name, self._path, loader=loader)


class _Loader(SourceFileLoader):
    text: str

    def get_code(self, fullname: str) -> Any:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Quick:
    """Leaves out what is too slow, and lets hypothesis stop at the first failure instead of making it small."""

    def __init__(self, skip: list[str]) -> None:
        self._skip = skip

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(name in item.nodeid for name in self._skip)]

    def pytest_collection(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), phases=phases, database=None)
        settings.load_profile("mutants")


class _Notes:
    """Notes how long every test takes, and tells the coverage which one runs."""

    def __init__(self, watch: coverage.Coverage) -> None:
        self._watch = watch
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.perf_counter()
        self._watch.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._watch.switch_context("")
            self.seconds[item.nodeid] = round(time.perf_counter() - started, 3)
