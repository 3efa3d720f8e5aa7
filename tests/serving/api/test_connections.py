"""Half requests, large heads and too many connections: a real server keeps answering whole requests."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from driftbandit.serving.api.connections import Door, allow_files

from ..conftest import Forks, Server
from ..live import rest

HALVES = [
    b"",
    b"G",
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
    b"POST /v1/loops/x/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: 99\r\n\r\n{",
    b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n",
]
"""Beginnings of requests; the last is answered before it is whole."""
PLACES, SECONDS = 60, 1.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("connections")
    options = {"max_connections": PLACES, "request_timeout": SECONDS}
    server = Server(forks, f"sqlite:{folder / 'a.db'}", folder / "log", **options)
    server.start()
    yield server
    server.stop()


def connect(server: Server) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def metric(server: Server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=20).text
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def test_many_half_requests_keep_no_whole_one_out(server: Server) -> None:
    with ExitStack() as stack:
        halves = []
        for number in range(5 * PLACES):
            half = stack.enter_context(connect(server))
            half.sendall(HALVES[number % len(HALVES)])
            halves.append(half)
            if number % PLACES == 0:
                assert httpx.get(f"{server.url}/healthz", timeout=20).status_code == 200
        for _ in range(20):
            assert httpx.get(f"{server.url}/readyz", timeout=20).status_code == 200
        assert metric(server, "driftbandit_connections ") <= PLACES + 1
        assert metric(server, 'driftbandit_connections_closed_total{why="crowded"}') >= 4 * PLACES - 25
        ends = [rest(half) for half in halves]  # each of them ends, or this waits for ever
    assert not any(end.startswith(b"HTTP/1.1 2") for end in ends)
    assert metric(server, 'driftbandit_connections_closed_total{why="slow"}') > 0


@pytest.mark.parametrize("half", HALVES, ids=lambda half: half[:12].decode())
def test_a_half_request_is_ended_in_time(server: Server, half: bytes) -> None:
    with connect(server) as connection:
        began = time.monotonic()
        for byte in half:
            connection.sendall(bytes([byte]))
        answer = rest(connection)
        assert time.monotonic() - began >= SECONDS * 0.9
    head, _, body = answer.rpartition(b"\r\n\r\n")
    assert answer.count(b"HTTP/1.1") == 1
    if b"nowhere" in half:
        assert head.startswith(b"HTTP/1.1 404 ")
    else:
        assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert json.loads(body)["detail"] == "the request took too long to arrive"


@pytest.mark.parametrize("pause", [0.0, SECONDS / 4])
def test_a_second_request_has_the_same_time(server: Server, pause: float) -> None:
    """Whether or not its beginning comes in one piece with the first request."""
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n")
        if pause:
            time.sleep(pause)
            connection.sendall(b"x-")
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 408" in answer


def test_a_body_that_keeps_coming_gets_more_time(server: Server) -> None:
    with connect(server) as connection:
        head = b"PUT /v1/loops/x/arms HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        connection.sendall(head + b"connection: close\r\ncontent-length: 131072\r\n\r\n")
        for _ in range(8):  # 16 KiB at a time, for longer than a half request may take
            time.sleep(SECONDS / 6)
            connection.sendall(b" " * 16384)
        assert rest(connection).startswith(b"HTTP/1.1 422")


@pytest.mark.parametrize("large", [b"x-a: " + b"a" * 20_000, b"\r\n".join(b"x-%d: a" % n for n in range(3000))])
@pytest.mark.parametrize("whole", [True, False])
def test_a_large_head_is_refused(server: Server, large: bytes, whole: bool) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + large + (b"\r\n\r\n" if whole else b""))
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"at most 16,384 bytes" in answer


def test_when_every_place_is_at_work_the_next_is_told_so(server: Server) -> None:
    httpx.put(f"{server.url}/v1/loops/x", json={"policy": "ucb1"}, timeout=60)
    with ExitStack() as stack:
        for _ in range(PLACES):
            busy = stack.enter_context(connect(server))
            busy.sendall(b"GET /v1/loops/x/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert busy.recv(100).startswith(b"HTTP/1.1 200")
        with connect(server) as late:
            assert rest(late).startswith(b"HTTP/1.1 503")
    deadline = time.monotonic() + 20
    while True:
        try:
            assert metric(server, 'driftbandit_connections_closed_total{why="full"}') >= 1
            break
        except (httpx.HTTPError, StopIteration):  # the places are given back as soon as the server sees that they went
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_connections_that_may_not_be_are_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: limits.update(now=pair))
    door = Door(2000)
    allow_files(door)
    assert (door.most, limits["now"]) == (2000, (2064, 4096))
    door = Door(10_000)
    allow_files(door)
    assert (door.most, limits["now"]) == (4032, (4096, 4096))
