"""Exports of logs: few at once, and none for clients that do not take what they asked for."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from driftbandit.serving import server
from driftbandit.serving.api.connections import STALLED_S, Door
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, DecisionRequest
from driftbandit.serving.log import export, tables
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.stores.base import Store
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live, problem
from ..world import World, run

ARMS, DIM, DECISIONS = 100, 100, 80
"""The export has about 15 MB, more than the buffers of a connection hold."""


class Readers:
    """Counts the stores that are open for reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = 0
        open_store = server.open_store

        def counted(address: str, *, writer: bool = True, **options: Any) -> Store:
            store = open_store(address, writer=writer, **options)
            if not writer:
                self.open += 1
                close = store.close

                def closed() -> None:
                    self.open -= 1
                    close()

                monkeypatch.setattr(store, "close", closed)
            return store

        monkeypatch.setattr(server, "open_store", counted)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exports") / "a.db"
    opened = SQLiteStore(path)
    engine = Engine(opened, wall)
    engine.configure("x", LoopConfig(policy="random", dim=DIM, window=600.0), None)
    pools = np.random.default_rng(0).standard_normal((DECISIONS, ARMS, DIM)) / DIM
    for number, pool in enumerate(pools.tolist()):
        engine.decide("x", DecisionRequest(str(number), None, [Arm(f"a{k}", row) for k, row in enumerate(pool)]))
        engine.commit()
    opened.close()
    return path


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    return Readers(monkeypatch)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def client(store: Path, readers: Readers, door: Door) -> Iterator[httpx.Client]:
    app = server.build_app(f"sqlite:{store}", secure=False)
    with live(app, door=door) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def stalled(client: httpx.Client) -> socket.socket:
    """A connection that has asked for an export and takes only its beginning."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(30)
    made.connect(("127.0.0.1", urlsplit(str(client.base_url)).port))
    made.sendall(b"GET /v1/loops/x/log HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert made.recv(100).startswith(b"HTTP/1.1 200")
    return made


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_stalled_exports_leave_room_for_others(client: httpx.Client, readers: Readers, door: Door) -> None:
    wait(lambda: readers.open == 1)  # the service's own
    slow = [stalled(client) for _ in range(4)]
    answer = client.get("/v1/loops/x/log")
    assert "too many logs are being exported" in problem(answer, 429)
    assert answer.headers["retry-after"] == "10"
    wait(lambda: readers.open == 5)
    assert "driftbandit_exports 4.0" in client.get("/metrics").text
    slow.pop().close()  # a client that goes away gives its place back at once
    wait(lambda: readers.open == 4)
    wait(lambda: client.get("/v1/loops/x/log").status_code == 200)
    assert client.get("/v1/loops/x/stats").json()["totals"]["decisions"] == DECISIONS
    assert door.closed["stalled"] == 0
    for connection in slow:
        connection.close()
    wait(lambda: readers.open == 1)
    wait(lambda: "driftbandit_exports 0.0" in client.get("/metrics").text)


def test_a_client_that_takes_nothing_is_cut_off(client: httpx.Client, readers: Readers, door: Door) -> None:
    assert (STALLED_S, door.stalled) == (60.0, 60.0)
    door.stalled = 0.3
    with stalled(client) as connection:
        wait(lambda: door.closed["stalled"] == 1)
        wait(lambda: readers.open == 1)
        taken = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    assert taken
    assert not taken.endswith(b"\r\n0\r\n\r\n"), "the client can tell that it is not all"
    assert 'driftbandit_connections_closed_total{why="stalled"} 1.0' in client.get("/metrics").text
    wait(lambda: "driftbandit_exports 0.0" in client.get("/metrics").text)


def test_a_client_that_takes_its_time_gets_everything(client: httpx.Client, door: Door) -> None:
    """Each pause is short, and all together are longer than what a client may take nothing for."""
    whole = client.get("/v1/loops/x/log").content
    door.stalled = 1.0
    found, paused = [], 0.0
    with client.stream("GET", "/v1/loops/x/log") as answer:
        for piece in answer.iter_raw(1 << 20):
            found.append(piece)
            if paused < 2.0:
                time.sleep(0.2)
                paused += 0.2
    assert b"".join(found) == whole
    assert (paused >= 2.0, door.closed["stalled"]) == (True, 0)


def test_every_end_gives_its_place_back(client: httpx.Client, readers: Readers) -> None:
    for number in range(12):
        if number % 3 == 0:
            assert client.head("/v1/loops/x/log").status_code == 200
        elif number % 3 == 1:
            problem(client.get("/v1/loops/x/log?format=nonsense"), 422)
        else:
            assert client.get(f"/v1/loops/x/log?format=parquet&after={DECISIONS}").status_code == 200
    wait(lambda: readers.open == 1)
    assert "driftbandit_exports 0.0" in client.get("/metrics").text


@pytest.mark.parametrize("kind", export.FORMATS)
def test_an_export_that_is_given_up_leaves_no_store_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(export, "_PIECE", 1)
    monkeypatch.setattr(tables, "_GROUP_BYTES", 1)
    monkeypatch.setattr(export, "_READ", 5)
    world = World(tmp_path / "a.db")
    world.loop(policy="random", dim=3, window=1.0)
    run(world, 40, world.arms(np.eye(3)))
    reader, closed = world.store.reader(), []
    monkeypatch.setattr(reader, "close", lambda: closed.append(True))
    pieces = export.FORMATS[kind](lambda: reader, export.Wanted("x", world.engine.number("x")))
    assert next(pieces)
    assert not closed
    gc.disable()  # whoever refers to what is open must not wait for the collector
    try:
        pieces.close()
        assert closed
    finally:
        gc.enable()
    monkeypatch.undo()
    reader.close()
    world.store.close()
