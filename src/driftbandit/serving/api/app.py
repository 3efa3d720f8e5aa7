"""A small ASGI application around a table of routes.

The table says everything that a web framework would have to be told: method, path, role, types. The OpenAPI document is
made from it as well. docs/dependencies.md compares its cost with that of a framework.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from driftbandit.serving.api import errors as problems
from driftbandit.serving.api.admission import Admission
from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.http import (
    Gone,
    Message,
    Receive,
    Request,
    Response,
    Send,
    Stream,
    read_body,
    send_response,
    send_stream,
)
from driftbandit.serving.api.keys import Keyring
from driftbandit.serving.api.logs import access, begin_request, log_answer
from driftbandit.serving.api.routes import Route, RoutingTable
from driftbandit.serving.engine.messages import check_name
from driftbandit.serving.engine.thread import Starting, TooBusy, Unavailable
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.base import StoreError

if TYPE_CHECKING:
    from driftbandit.serving.api.connections import Door
    from driftbandit.serving.api.tracing import Tracing

logger = logging.getLogger("driftbandit")

ASGI = Callable[[Message, Receive, Send], Awaitable[None]]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the classes into which times to answer are counted, in seconds."""

_EMPTY: dict[str, str] = {}
_RETRY = {"retry-after": "1"}


class Timing:
    """Times to answer: how many fell into each class of `BUCKETS` and beyond, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one answer."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class App:
    """Dispatches requests to routes.

    Parameters
    ----------
    routes : iterable of Route
        The table; `add_routes` adds more.
    keyring, rate, hosts, session :
        Who may use it: see `Admission`.
    lifespan : callable
        Asynchronous context manager around the application's life.
    stop : callable, optional
        Closes open event streams. A server calls it when it stops, before it waits for the answers under way.
    begun : callable, optional
        Waits until requests can be answered, which may be some time after the server listens.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        keyring: Callable[[], Keyring | None],
        lifespan: Callable[[], Any],
        rate: float | None = None,
        stop: Callable[[], None] = lambda: None,
        hosts: frozenset[str] | None = None,
        session: Callable[[str], Awaitable[str | None]] | None = None,
        begun: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.stop = stop
        self.begun = begun
        self._admission = Admission(keyring, hosts, session, rate)
        self.routes: list[Route] = []
        self._table = RoutingTable()
        self._lifespan = lifespan
        self.answered: dict[tuple[str, int], int] = {}
        """Answers by route and status."""
        self.timings: dict[str, Timing] = {}
        """Times to answer, by route; of streams, until their first byte."""
        self.door: Door | None = None
        """The connections, if a server of ours has opened them."""
        self.tracing: Tracing | None = None
        """Makes spans of requests, if asked for."""
        self.add_routes(routes)

    def add_routes(self, routes: Iterable[Route]) -> None:
        """Add routes to the table."""
        for route in routes:
            self._table.add(route)
            self.routes.append(route)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            ident = begin_request(scope["headers"]).encode()
            if self.tracing is None:
                await self._answer(scope, receive, send, ident)
            else:
                with self.tracing.request(scope) as note:
                    note(*await self._answer(scope, receive, send, ident))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Message, receive: Receive, send: Send, ident: bytes) -> tuple[Route | None, int]:
        """Answer a request; returns its route, if there is one, and the status."""
        started = time.perf_counter()
        extra = [(b"x-request-id", ident)]
        request = Request(scope["query_string"], scope["headers"], scope.get("scheme") == "https")
        route, answer = await self._ask(scope, request, receive)
        label, status = "other" if route is None else route.path, 200
        seconds = time.perf_counter() - started
        self.timings.setdefault(label, Timing()).add(seconds)
        if answer is None:
            status = 499
        elif isinstance(answer, Stream):
            await send_stream(answer, receive, send, extra, scope["method"] == "HEAD")
        else:
            status = answer.status
            await send_response(answer, send, extra, scope["method"] == "HEAD")
        self.answered[label, status] = self.answered.get((label, status), 0) + 1
        if access.isEnabledFor(logging.INFO):
            key = None if request.access is None else request.access.id
            log_answer(scope["method"], _target(scope), status, seconds, scope.get("client"), key)
        return route, status

    async def _ask(
        self, scope: Message, request: Request, receive: Receive
    ) -> tuple[Route | None, Response | Stream | None]:
        """The route of a request, if there is one, and its answer; no answer if the client has gone."""
        route: Route | None = None
        answer: Response | Stream
        try:
            route, parameters = self._find(scope)
            await self._admission.admit(route, request, parameters)
            if route.body is not None:
                request.body = await read_body(receive, request.headers, route.limit)
            answer = await route.handler(request, *parameters)
        except HTTPError as error:
            answer = _error(error.status, error.detail, error.headers)
        except Refused as error:
            address = getattr(error, "address", None)
            headers = {"location": address + _target(scope)} if address else _RETRY if error.status == 503 else _EMPTY
            answer = _error(307 if address else error.status, str(error), headers)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            answer = _error(422, str(error)[:1000] or type(error).__name__)
        except Starting as error:
            answer = _error(503, str(error), _RETRY)
        except (Unavailable, StoreError) as error:
            answer = _error(503, f"not durable: {error}", _RETRY)
        except TooBusy:
            answer = _error(429, "too many requests are waiting", _RETRY)
        except Gone:
            return route, None
        except Exception:
            logger.exception("%s %s", scope["method"], scope["path"])
            answer = _error(500, "an error of the service; its log says more")
        if route is not None and route.refusal is not None and answer.media_type == problems.MEDIA_TYPE:
            assert isinstance(answer, Response)
            shown = route.refusal(request, answer.status, problems.detail_of(answer.body))
            answer = replace(shown, headers=(*shown.headers, *answer.headers))
        return route, answer

    def _find(self, scope: Message) -> tuple[Route, list[str]]:
        """The route of a request, and its parameters."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        try:
            if b"%" in raw:
                segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
            else:
                segments = raw.decode().split("/")
        except UnicodeDecodeError as error:
            raise HTTPError(422, "the path is not UTF-8") from error
        methods, parameters = self._table.find(segments)
        if not methods:
            raise HTTPError(404, "there is nothing here")
        method = scope["method"]
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise HTTPError(405, f"{method} is not for this path", {"allow": ", ".join(sorted(methods))})
        for name, value in zip(route.parameters, parameters, strict=True):
            check_name(name, value)
        return route, parameters

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self._lifespan():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})  # the server logs it
            return
        await send({"type": "lifespan.shutdown.complete"})


def _target(scope: Message) -> str:
    """Path and query as the client wrote them: decoded, a name with a slash would lead elsewhere."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return (raw + b"?" + query if query else raw).decode("latin-1")


def _error(status: int, detail: str, headers: dict[str, str] = _EMPTY) -> Response:
    extra = tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items())
    return Response(status, problems.encode(status, detail), problems.MEDIA_TYPE, extra)
