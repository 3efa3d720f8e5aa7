from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs driftbandit[serve]")
pytest.importorskip("apsw", reason="needs driftbandit[serve]")
pytest.importorskip("uvicorn", reason="needs driftbandit[serve]")


class Server:
    """A real `driftbandit serve` process."""

    def __init__(self, store: str, log: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            sys.executable,
            "-c",
            "from driftbandit.cli import app; app()",
            "serve",
            "--port",
            str(self.port),
            "--store",
            store,
        ]
        self.command += options
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        import http.client

        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
                connection.request("GET", "/readyz")
                status = connection.getresponse().status
                connection.close()
            except OSError:
                status = 0
            if status == 200:
                return
            time.sleep(0.02)
        raise AssertionError("the service did not start: " + self.log.read_text())

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(store: str, *options: str) -> Server:
        server = Server(store, tmp_path / f"server{len(servers)}.log", *options)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()
