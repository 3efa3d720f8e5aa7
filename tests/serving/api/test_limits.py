"""The table of limits in docs/service.md, row by row: each is tried, answered as it says, and seen in its metric."""

from __future__ import annotations

import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftbandit.serving.api import service
from driftbandit.serving.api.app import App
from driftbandit.serving.api.connections import Door
from driftbandit.serving.api.keys import create_key
from driftbandit.serving.engine import thread
from driftbandit.serving.log import export
from driftbandit.serving.server import build_app, open_store
from driftbandit.serving.stores.base import Store

from ..conftest import Forks, Server
from ..live import live, rest

PAGE = Path(__file__).parents[3] / "docs" / "service.md"
JSON = {"content-type": "application/json"}
PLACES, SECONDS, MEMORY = 20, 0.5, 2_000_000


@dataclass
class Row:
    limit: str
    answer: str
    metric: str


def rows() -> list[Row]:
    table = PAGE.read_text(encoding="utf-8").split("<!-- begin limits -->")[1].split("<!-- end limits -->")[0]
    cells = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    return [Row(limit, answer, metric) for limit, _, _, answer, metric in cells]


@dataclass
class Services:
    """One without keys and one with keys, in this process, and one process with few places for connections."""

    open: httpx.Client
    keyed: httpx.Client
    store: Store
    admin: dict[str, str]
    small: Server
    app: App
    patch: pytest.MonkeyPatch

    def key(self, **limits: Any) -> dict[str, str]:
        """A new key, which the service knows at once."""
        made = {"authorization": f"Bearer {create_key(self.store, 'x', 'read', **limits)[1]}"}
        keyring = self.app._admission._keyring()
        assert keyring is not None
        keyring.refresh(self.store)
        return made

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.small.port), timeout=20)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("limits")
    small = Server(forks, f"sqlite:{folder / 'c.db'}", folder / "log", max_connections=PLACES, request_timeout=SECONDS)
    store = open_store(f"sqlite:{folder / 'b.db'}", writer=False)
    admin = {"authorization": f"Bearer {create_key(store, 'me', 'admin')[1]}"}
    apps = build_app(f"sqlite:{folder / 'a.db'}", secure=False, memory=MEMORY), build_app(f"sqlite:{folder / 'b.db'}")
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                httpx.Client(base_url=stack.enter_context(live(app, door=Door(stalled=SECONDS))), timeout=60)
            )
            for app in apps
        ]
        small.start()
        stack.callback(small.stop)
        found = Services(*clients, store, admin, small, apps[1], stack.enter_context(pytest.MonkeyPatch.context()))
        for client, headers in ((found.open, {}), (found.keyed, admin)):
            assert client.put("/v1/loops/x", json={"policy": "ucb1"}, headers=headers).status_code == 201
        assert httpx.put(f"{small.url}/v1/loops/x", json={"policy": "ucb1"}, timeout=60).status_code == 201
        yield found
    store.close()


def over_the_wire(services: Services, sent: bytes) -> int | None:
    """The status that a connection ends with."""
    with services.connect() as connection:
        connection.sendall(sent)
        status = re.match(rb"HTTP/1.1 (\d+)", rest(connection))
    return None if status is None else int(status[1])


@contextmanager
def busy(services: Services, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(services.connect())
            connection.sendall(b"GET /v1/loops/x/stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        yield


def full(services: Services) -> int | None:
    with busy(services, PLACES):
        return over_the_wire(services, b"")


def crowded(services: Services) -> str:
    with ExitStack() as stack:
        first = stack.enter_context(services.connect())
        first.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")  # idle from now on, and for longer than all others
        for _ in range(PLACES):
            stack.enter_context(services.connect()).sendall(b"G")
        return "closed: the one that waits longest" if b"HTTP/1.1" not in rest(first)[200:] else "answered"


def idle(services: Services) -> str:
    with services.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        began = time.monotonic()
        assert rest(connection).endswith(b'{"status":"ok"}')
        assert time.monotonic() - began > 4.0
    return "closed"


def streams(services: Services) -> int:
    assert service._MAX_STREAMS == 200
    with ExitStack() as stack:
        stack.enter_context(services.patch.context()).setattr(service, "_MAX_STREAMS", 3)  # 200 would keep it busy
        for _ in range(3):
            answer = stack.enter_context(services.open.stream("GET", "/v1/loops/x/stream"))
            assert answer.status_code == 200
        return services.open.get("/v1/loops/x/stream").status_code


def exports(services: Services) -> int:
    with services.patch.context() as patch:
        patch.setattr(service, "_MAX_EXPORTS", service._MAX_EXPORTS - 4)
        return services.open.get("/v1/loops/x/log").status_code


def stalled(services: Services) -> str:
    """Endless lines, of which nothing is taken."""
    assert Door().stalled == 60.0
    with (
        services.patch.context() as patch,
        socket.create_connection(("127.0.0.1", services.open.base_url.port or 0), timeout=20) as connection,
    ):
        patch.setitem(export.FORMATS, "ndjson", lambda *wanted: (b" " * (1 << 20) for _ in iter(int, 1)))
        connection.sendall(b"GET /v1/loops/x/log HTTP/1.1\r\nhost: localhost\r\n\r\n")
        deadline = time.monotonic() + 20
        while not measured(services, 'driftbandit_connections_closed_total{why="stalled"}'):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return "closed"


def waiting(services: Services) -> int:
    assert thread.MAX_WAITING == 20_000
    with services.patch.context() as patch:
        patch.setattr(thread, "MAX_WAITING", 0)
        return services.open.get("/v1/loops/x").status_code


def post(services: Services, where: str, body: Any = None, method: str = "POST", **kind: Any) -> int:
    given = kind or ({"json": body} if not isinstance(body, bytes) else {"content": body, "headers": JSON})
    return services.open.request(method, f"/v1/loops/x{where}", **given).status_code


def with_session(services: Services) -> int:
    services.store.add_session(hashlib.sha256(b"over").digest(), services.store.access_keys()[0].id, 1, 0)
    return services.keyed.get("/", headers={"cookie": "driftbandit_session=over"}).status_code


def too_often(services: Services) -> int:
    key = services.key(rate=1.0)
    return max(services.keyed.get("/v1/loops", headers=key).status_code for _ in range(3))


def too_much(services: Services) -> int:
    """Open decisions fill the memory."""
    for _ in range(10):
        services.open.post("/v1/loops/x/decisions:batch", json={"decisions": [{"arms": ["a", "b"]}] * 1_000})
    return int(services.open.post("/v1/loops/x/decisions", json={"arms": ["a", "b"]}).status_code)


LARGE = b" " * (65 << 20)
TRIES: dict[str, Callable[[Services], Any]] = {
    "characters of a name": lambda s: post(s, "/decisions", {"decision_id": "d" * 201}),
    "body": lambda s: post(s, "/decisions", LARGE[: (1 << 20) + 1]),
    "body of a batch": lambda s: post(s, "/decisions:batch", LARGE[: (8 << 20) + 1]),
    "body of settings, a catalogue or a model": lambda s: post(s, "/arms", LARGE[: (64 << 20) + 1], "PUT"),
    "items of a batch": lambda s: post(s, "/decisions:batch", {"decisions": [{}] * 1001}),
    "arms of a pool or a catalogue": lambda s: post(s, "/arms", {"arms": [str(n) for n in range(10_001)]}, "PUT"),
    "features of an arm": lambda s: post(s, "", {"dim": 2001, "version": 1}, "PUT"),
    "head of a request": lambda s: over_the_wire(s, b"GET /healthz HTTP/1.1\r\nx: " + b"a" * 16384),
    "time for a request to arrive": lambda s: over_the_wire(s, b"GET /healthz HTTP/1.1\r\nx: "),
    "connections, some of them idle or half-way": crowded,
    "connections, all at work": full,
    "idle connection": idle,
    "event streams": streams,
    "exports of logs at once": exports,
    "time in which a client takes nothing of its answer": stalled,
    "commands that wait": waiting,
    "requests of a key per second": too_often,
    "life of a key": lambda s: s.keyed.get("/v1/loops", headers=s.key(seconds=-1.0)).status_code,
    "loops of a key": lambda s: s.keyed.get("/v1/loops/x", headers=s.key(loops=["y"])).status_code,
    "life of a session of the page": with_session,
    "names of the host, without keys": lambda s: s.open.get("/healthz", headers={"host": "evil"}).status_code,
    "content type, without keys": lambda s: post(s, "/decisions", content=b"{}"),
    "origin of a page": lambda s: s.open.get("/healthz", headers={"origin": "http://evil"}).status_code,
    "memory of models and open decisions": too_much,
}


def measured(services: Services, metric: str) -> float:
    """Sum of a metric over all services and all other labels."""
    name, _, label = metric.rstrip("}").partition("{")
    total = 0.0
    for url, headers in (
        (services.open.base_url, {}),
        (services.keyed.base_url, services.admin),
        (services.small.url, {}),
    ):
        for line in httpx.get(f"{url}".rstrip("/") + "/metrics", headers=headers, timeout=20).text.splitlines():
            if line.startswith(name + "{") and label in line:
                total += float(line.rpartition(" ")[2])
    return total


def test_every_row_is_tried() -> None:
    assert [row.limit for row in rows()] == list(TRIES)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.limit)
def test_the_limit_holds(services: Services, row: Row) -> None:
    before = measured(services, row.metric) if row.metric else 0.0
    assert str(TRIES[row.limit](services)) == row.answer
    if row.metric:
        deadline = time.monotonic() + 20
        while True:
            try:
                assert measured(services, row.metric) > before
                return
            except httpx.HTTPError:  # the places are given back as soon as the server sees that they went
                assert time.monotonic() < deadline
                time.sleep(0.05)
