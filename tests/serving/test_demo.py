"""`driftbandit demo` shows a change, and ends as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

DEMO = [sys.executable, "-c", "from driftbandit.cli import app; app()", "demo", "--period", "5", "--rate", "40"]
IGNORING = ["sh", "-c", 'trap "" INT; exec "$0" "$@"']
"""What a shell's script does to a command that it runs in the background."""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_detects_a_change_and_leaves_nothing_behind(tmp_path: Path, how: signal.Signals) -> None:
    with demo(tmp_path, DEMO) as running:
        assert running.stdout is not None
        url = running.stdout.readline().split("/  ")[0]
        assert url.startswith("http://127.0.0.1:")
        assert list(tmp_path.iterdir())
        with httpx.Client(base_url=url, timeout=30) as client:
            deadline = time.monotonic() + 120
            while not client.get("/v1/loops/front-page/changes").json()["changes"]:
                assert time.monotonic() < deadline
                time.sleep(0.5)
            marks = client.get("/v1/loops/front-page").json()["config"]["marks"]
            assert {mark["label"] for mark in marks} == {"tastes shift"}
            page = client.get("/?loop=front-page").text
            assert page.count('<li class="note">') >= len(marks), "later ones may have joined them"
            with client.stream("GET", "/live?loop=front-page") as answer:  # somebody still looks
                next(answer.iter_lines())
                assert end(running, how) == "stopped\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [DEMO, IGNORING + DEMO], ids=["plain", "ignoring"])
def test_the_demo_ends_cleanly_before_it_has_begun(tmp_path: Path, command: list[str], how: signal.Signals) -> None:
    with demo(tmp_path, command) as running:
        assert end(running, how).splitlines()[-1] == "stopped"  # it may have got as far as to say where it is
    assert list(tmp_path.iterdir()) == []


@contextmanager
def demo(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A demo that keeps its files in this folder, and has said that it starts."""
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)}
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("starting")
        yield running
    finally:
        running.kill()
        running.wait()


def end(running: subprocess.Popen[str], how: signal.Signals) -> str:
    """Send a signal; returns what the demo still says."""
    running.send_signal(how)
    out, err = running.communicate(timeout=60)
    assert err in ("", "driftbandit: compiling what this needs, once; this may take half a minute\n")
    assert running.returncode == 0
    return out
