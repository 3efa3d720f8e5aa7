from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from .postgres import server as postgresql_server

pytest.importorskip("msgspec", reason="needs driftbandit[serve]")
pytest.importorskip("apsw", reason="needs driftbandit[serve]")
pytest.importorskip("uvicorn", reason="needs driftbandit[serve]")


class Forks:
    """The process of forks.py, from which service processes are forked."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("forks.py")
        self.process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **order: Any) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


class Server:
    """A real service process.

    It is started by the command `driftbandit serve` the first time. Later starts are forks, without what takes most of
    the time of a start: imports.
    """

    def __init__(self, forks: Forks, store: str, log: Path, **options: Any) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.pid = 0
        self.options = options
        self._forks = forks
        self._store = store
        self._log = log
        self._first: subprocess.Popen[bytes] | None = None
        self._running = False

    def start(self) -> None:
        if self._first is None:
            with open(self._log, "ab") as log:
                self._first = subprocess.Popen(self._command(), stdout=log, stderr=log)
            self.pid = self._first.pid
        else:
            self.pid = self._forks.ask(store=self._store, port=self.port, log=str(self._log), options=self.options)
        self._running = True
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert not self._ended(), self._log.read_text()
            try:
                with closing(HTTPConnection("127.0.0.1", self.port, timeout=2)) as connection:
                    connection.request("GET", "/readyz")
                    status = connection.getresponse().status
            except OSError:
                status = 0
            if status == 200:
                return
            time.sleep(0.02)
        raise AssertionError("the service did not start: " + self._log.read_text())

    def _command(self) -> list[str]:
        command = [sys.executable, "-c", "from driftbandit.cli import app; app()", "serve", "--insecure-local"]
        command += ["--port", str(self.port), "--store", self._store]
        for name, value in self.options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        return command

    def _ended(self) -> bool:
        if self._first is not None and self._first.pid == self.pid:
            return self._first.poll() is not None
        return bool(self._forks.ask(ended=self.pid))

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, how)
        deadline = time.monotonic() + 60
        while not self._ended():
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(0.002)
        self._running = False

    def stop(self) -> None:
        if self._running:
            os.kill(self.pid, signal.SIGCONT)  # a test may have stopped it and failed
            self.kill(signal.SIGTERM)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Address of a PostgreSQL server of its own, or of the one that runs already."""
    if "DRIFTBANDIT_POSTGRESQL" in os.environ:
        yield os.environ["DRIFTBANDIT_POSTGRESQL"]
        return
    try:
        with postgresql_server() as postgres:
            yield postgres.address
    except RuntimeError as reason:
        pytest.skip(str(reason))


_databases = itertools.count()


@pytest.fixture
def database(postgresql: str) -> str:
    """Address of an empty database."""
    psycopg = pytest.importorskip("psycopg", reason="needs driftbandit[serve]")
    name = f"test{os.getpid()}_{next(_databases)}"
    with psycopg.connect(postgresql, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return postgresql.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of engines in this process go on with every commit: what is in the store does not depend on time."""
    from driftbandit.serving.engine import saving

    monkeypatch.setattr(saving, "_REST", 0.0)


@pytest.fixture
def make_server(tmp_path: Path, forks: Forks) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(store: str, **options: Any) -> Server:
        server = Server(forks, store, tmp_path / f"server{len(servers)}.log", **options)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a service of its own, open to everybody."""
    from driftbandit.serving.server import build_app

    from .live import live

    with live(build_app(f"sqlite:{tmp_path_factory.mktemp('open') / 'a.db'}", secure=False)) as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    """A client of that service."""
    headers = {"content-type": "application/json"}
    with httpx.Client(base_url=url, timeout=180, headers=headers) as client:  # policies are compiled first
        yield client


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """An engine on a file, with a clock that the test turns."""
    from .world import World

    return World(tmp_path / "a.db")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of a certificate for 127.0.0.1, and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem"
    try:
        subprocess.run(
            [*command.split(), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("needs openssl")
    return folder / "cert.pem", folder / "key.pem"
