"""Two service processes on one PostgreSQL store with a long log: they start, share the shards, and one is killed.

``python -m driftbandit.benchmarks.failover postgresql://user@host/database`` fills an empty database, starts the
processes, sends load to both, kills one, and starts it again. It says how long each step took, and how long decisions
took meanwhile. By default the log has no snapshots, which is the worst case: every process repeats its part of the log.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from driftbandit.client import Client, ServiceError
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.server import open_store

_LOOP = "trial"
_TOGETHER = 500
_PATIENCE_S = 600.0
_SERVE = "from driftbandit.cli import app; app()"


@dataclass(frozen=True, slots=True)
class Trial:
    """How large the trial is.

    Attributes
    ----------
    store : str
        Address of an empty PostgreSQL database.
    events, scopes : int
        Length of the log, and among how many scopes it is divided.
    policy, dim : str, int
        The loop's policy and its number of features.
    seconds : float
        How long load is sent in each phase.
    clients : int
        Connections that send it.
    snapshot_every : int or None
        Events between snapshots while the log is written; None for no snapshots.
    """

    store: str
    events: int = 1_000_000
    scopes: int = 10_000
    policy: str = "linucb"
    dim: int = 5
    seconds: float = 20.0
    clients: int = 4
    snapshot_every: int | None = None


def fill(trial: Trial) -> None:
    """Write the log."""
    store = open_store(trial.store)
    now = wall()
    engine = Engine(store, lambda: now, snapshot_every=trial.snapshot_every or sys.maxsize)
    rng = np.random.default_rng(0)
    engine.configure(_LOOP, LoopConfig(policy=trial.policy, dim=trial.dim, scoped=True, window=1.0), None)
    arms = [Arm(f"a{i}", row) for i, row in enumerate((rng.standard_normal((10, trial.dim)) / 2).tolist())]
    engine.put_arms(_LOOP, CatalogueRequest(tuple(arms)))
    for start in range(0, trial.events // 2, _TOGETHER):
        now += 10
        commands = engine.at_once(_LOOP)
        for number in range(start, start + _TOGETHER):
            scope = f"user {rng.integers(trial.scopes)}"
            commands.decide(DecisionRequest(f"d{number}", scope))
            commands.reward(f"d{number}", RewardRequest(float(rng.random() < 0.5), None, scope))
        engine.commit()
    store.close()


class Process:
    """One service process."""

    def __init__(self, store: str, log: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-c", _SERVE, "serve", "--insecure-local", "--store", store]
        self._command = [*command, "--port", str(self.port), "--advertise", self.url]
        self._log = log
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start; returns the seconds until it is ready."""
        started = time.perf_counter()
        with open(self._log, "ab") as log:
            self._running = subprocess.Popen(self._command, stdout=log, stderr=log)
        _wait(self._is_ready, f"{self.url} is ready")
        return time.perf_counter() - started

    def _is_ready(self) -> bool:
        if self._running is None or self._running.poll() is not None:
            raise RuntimeError("the service ended: " + Path(self._log).read_text()[-2000:])
        return self.asks("/readyz") is not None

    def asks(self, path: str) -> str | None:
        """What it answers, or None if that is an error."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return None

    def holds(self, loop: str, scope: str) -> bool:
        """Whether it decides for a scope itself, and does not redirect."""
        body, headers = f'{{"scope":"{scope}"}}'.encode(), {"content-type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", f"/v1/loops/{loop}/decisions", body, headers)
            return connection.getresponse().status < 300
        except OSError:
            return False
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._running is not None, "it was started"
        return self._running.pid

    def recoveries(self) -> int:
        """How often it had to recover."""
        lines = (self.asks("/metrics") or "").splitlines()
        return next(
            (int(float(line.split()[1])) for line in lines if line.startswith("driftbandit_failures_total")), -1
        )

    def end(self, how: signal.Signals) -> None:
        """End it, if it runs."""
        if self._running is not None:
            os.kill(self._running.pid, how)
            self._running.wait()
            self._running = None


@dataclass(slots=True)
class Phase:
    """What clients saw: seconds of each decision, and how many were refused or not answered."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    def __str__(self) -> str:
        if not self.latencies:
            return f"no decision, {self.refused:,} refused"
        middle, high = 1000.0 * np.quantile(self.latencies, [0.5, 0.99])
        count = len(self.latencies)
        return f"{count:,} decisions, median {middle:.1f} ms, p99 {high:.1f} ms, {self.refused:,} refused"


@contextmanager
def load(trial: Trial, urls: Sequence[str], phase: Phase) -> Iterator[None]:
    """Send decisions and rewards of random scopes to random processes, which redirect them."""
    stopping = threading.Event()

    def run(number: int) -> None:
        rng = random.Random(number)
        clients = [Client(url, _LOOP, timeout=30, retries=0) for url in urls]
        while not stopping.is_set():
            scope, client = f"user {rng.randrange(trial.scopes)}", rng.choice(clients)
            started = time.perf_counter()
            try:
                choice = client.decide(scope=scope)
                phase.latencies.append(time.perf_counter() - started)
                client.reward(choice, 1.0)
            except ServiceError:
                phase.refused += 1
                time.sleep(0.01)
        for client in clients:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(trial.clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def served(process: Process, trial: Trial) -> bool:
    """Whether a process decides for a sample of scopes, or knows who does."""
    client = Client(process.url, _LOOP, timeout=30, retries=0)
    try:
        for number in range(0, trial.scopes, max(1, trial.scopes // 100)):
            client.decide(scope=f"user {number}")
    except ServiceError:
        return False
    finally:
        client.close()
    return True


def run(trial: Trial, say: Callable[[str], object] = print) -> tuple[int, int]:
    """Carry out a trial; returns how often each process had to recover, which must be 0."""
    started = time.perf_counter()
    fill(trial)
    say(f"{trial.events:,} events of {trial.scopes:,} scopes written in {time.perf_counter() - started:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Process(trial.store, f"{folder}/{name}.log") for name in ("first", "second"))
        try:
            say(f"first process ready after {first.start():.1f} s")
            say(f"second process ready after {second.start():.1f} s")
            say(f"all shards served after {_until(first, second, trial):.1f} s more")
            _phase(trial, [first.url, second.url], "both serve", say)
            recoveries = first.recoveries()
            first.end(signal.SIGKILL)
            phase = Phase()
            with load(trial, [second.url], phase):
                say(f"first process killed; the second serves all after {_until(second, second, trial):.1f} s")
                time.sleep(trial.seconds)
            say(f"  meanwhile: {phase}")
            say(f"first process ready again after {first.start():.1f} s")
            say(f"all shards served after {_until(first, second, trial):.1f} s more")
            _phase(trial, [first.url, second.url], "both serve again", say)
            found = recoveries + first.recoveries(), second.recoveries()
            say(f"recoveries: {found[0]} and {found[1]}")
            return found
        finally:
            for process in (first, second):
                process.end(signal.SIGTERM)


def _phase(trial: Trial, urls: Sequence[str], what: str, say: Callable[[str], object]) -> None:
    phase = Phase()
    with load(trial, urls, phase):
        time.sleep(trial.seconds)
    say(f"  {what}: {phase}")


def _until(first: Process, second: Process, trial: Trial) -> float:
    started = time.perf_counter()
    _wait(lambda: served(first, trial) and served(second, trial), "all shards are served")
    return time.perf_counter() - started


def _wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain until {what}")
        time.sleep(0.05)


def main() -> None:
    """Read the options, and carry out the trial."""
    defaults = Trial("")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="address of an empty PostgreSQL database")
    for name in ("events", "scopes", "dim", "clients"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--policy", default=defaults.policy)
    parser.add_argument("--seconds", type=float, default=defaults.seconds)
    parser.add_argument("--snapshot-every", type=int, default=None)
    trial = Trial(**vars(parser.parse_args()))
    if any(run(trial)):
        raise SystemExit("a process had to recover")


if __name__ == "__main__":
    main()
