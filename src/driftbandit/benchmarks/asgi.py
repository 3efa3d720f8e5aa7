"""Our ASGI application beside one made with Starlette, the framework under FastAPI: microseconds per request.

``python -m driftbandit.benchmarks.asgi`` prints the table of docs/dependencies.md. Both applications answer a constant,
so that only their own work is measured: finding the route, reading the request, sending the answer. There is no server
and no socket: a request is a call of the application. Both take turns in one run. Processor time is counted, which
other work on the machine changes less than the time on the clock. Needs the extras serve and bench.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from driftbandit.benchmarks.options import no_options
from driftbandit.evaluation.results import Table
from driftbandit.extras import pip_install
from driftbandit.serving.api.app import ASGI, App
from driftbandit.serving.api.handlers import Handlers
from driftbandit.serving.api.http import Message, Request, Response
from driftbandit.serving.api.routes import Route, api_routes
from driftbandit.serving.api.service import Service

ANSWER = b'{"status":"ok"}'
BODY = b'{"decision_id":"0123456789abcdef","arms":["a1","a2","a3"]}'
CASES = {
    "a constant": ("GET", "/healthz", b""),
    "a constant, after a parameter in the path and a body": ("POST", "/v1/loops/news/decisions", BODY),
}
"""The requests: method, path and body. Both applications know the paths of the whole API."""


def paths() -> list[tuple[str, str]]:
    """Methods and paths of the API."""
    unused: Any = lambda *given: None  # noqa: E731
    return [(route.method, route.path) for route in api_routes(Handlers(Service(unused, unused, unused)))]


def ours(table: Iterable[tuple[str, str]]) -> ASGI:
    """Our application, which answers all these routes with a constant."""

    async def plain(request: Request) -> Response:
        return Response(200, ANSWER)

    async def of_loop(request: Request, loop: str) -> Response:
        return Response(200, ANSWER)

    async def of_id(request: Request, loop: str, id: str) -> Response:
        return Response(200, ANSWER)

    @asynccontextmanager
    async def lifespan() -> Any:
        yield

    handlers = (plain, of_loop, of_id)
    routes = [
        Route(method, path, None, handlers[path.count("{")], "", {}, body=None if method == "GET" else bytes)
        for method, path in table
    ]
    return App(routes, lambda: None, lifespan)


def starlettes(table: Iterable[tuple[str, str]]) -> ASGI:
    """A Starlette application that answers all these routes with a constant."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request as StarletteRequest
        from starlette.responses import Response as StarletteResponse
        from starlette.routing import Route as StarletteRoute
    except ImportError as error:
        raise ImportError(f"the comparison needs starlette: {pip_install('bench')}") from error

    async def get(request: StarletteRequest) -> StarletteResponse:
        return StarletteResponse(ANSWER, media_type="application/json")

    async def post(request: StarletteRequest) -> StarletteResponse:
        await request.body()
        return StarletteResponse(ANSWER, media_type="application/json")

    application: ASGI = Starlette(
        routes=[StarletteRoute(path, get if method == "GET" else post, methods=[method]) for method, path in table]
    )
    return application


async def ask(app: ASGI, method: str, path: str, body: bytes) -> list[Message]:
    """One request; returns the messages of the answer."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))],
    }
    await app(scope, receive, send)
    return sent


async def _seconds(app: ASGI, case: tuple[str, str, bytes], requests: int) -> float:
    started = time.process_time()
    for _ in range(requests):
        await ask(app, *case)
    return (time.process_time() - started) / requests


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that does nothing, to measure the cost of the measurement itself."""


def measure(*, requests: int = 2000, turns: int = 15) -> dict[str, tuple[float, float]]:
    """Processor seconds per request of our application and of Starlette's, by case: medians over the turns."""
    table = paths()
    apps = (ours(table), starlettes(table), _nothing)

    async def play(case: tuple[str, str, bytes]) -> tuple[float, float]:
        rows = [[await _seconds(app, case, requests) for app in apps] for _ in range(turns + 1)][1:]  # one warms up
        own, theirs, nothing = (median(column) for column in zip(*rows, strict=True))
        return own - nothing, theirs - nothing

    return {name: asyncio.run(play(case)) for name, case in CASES.items()}


def table(found: dict[str, tuple[float, float]]) -> Table:
    """The measurement as a table."""
    rows = tuple(
        (name, f"{own * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{theirs / own:.1f}")
        for name, (own, theirs) in found.items()
    )
    return Table("ASGI", ("answer", "ours, µs per request", "Starlette, µs per request", "Starlette / ours"), rows)


if __name__ == "__main__":
    no_options(__doc__)
    print(table(measure()).markdown())
