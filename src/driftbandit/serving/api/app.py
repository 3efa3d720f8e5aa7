"""A small ASGI application around a table of routes.

The table says everything that a web framework would have to be told: method, path, role, types. The OpenAPI document is
made from it as well. docs/dependencies.md compares its cost with that of a framework.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec

from driftbandit.serving.api import errors as problems
from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import Allowance, Keyring
from driftbandit.serving.api.routes import Route, RoutingTable
from driftbandit.serving.engine.thread import TooBusy, Unavailable
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.base import StoreError

logger = logging.getLogger("driftbandit")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Message, Receive, Send], Awaitable[None]]

JSON = b"application/json"
COOKIE = "driftbandit_key"
"""Cookie in which a browser keeps the key of a person who signed in to the page."""

_EMPTY: dict[str, str] = {}
_RETRY = {"retry-after": "1"}


class Request:
    """What a handler gets besides the parameters of the path: query, headers and the whole body."""

    __slots__ = ("body", "headers", "key", "query_string", "secure")

    def __init__(self, query_string: bytes, headers: list[tuple[bytes, bytes]], secure: bool) -> None:
        self.query_string = query_string
        self.headers = headers
        self.secure = secure
        """Whether the request came over TLS."""
        self.body = b""
        self.key = ""
        """Id of the access key; empty if none was asked for."""

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; if a name repeats, its last value counts."""
        pairs = parse_qs(self.query_string.decode("latin-1"), keep_blank_values=True, errors="replace")
        return {name: values[-1] for name, values in pairs.items()}

    def header(self, name: bytes) -> bytes | None:
        """A header by its lower-case name."""
        return _header(self.headers, name)

    def cookie(self, name: str) -> str | None:
        """A cookie by its name."""
        for part in (self.header(b"cookie") or b"").decode("latin-1").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces."""

    pieces: AsyncIterator[bytes]
    media_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class App:
    """Dispatches requests to routes.

    Parameters
    ----------
    routes : iterable of Route
        The table; `add_routes` adds more.
    keyring : callable
        Returns the keys that are let in, or None, which lets everybody do everything.
    lifespan : callable
        Asynchronous context manager around the application's life.
    rate : float, optional
        Requests per second that one key may make, after a burst of as many.
    stop : callable, optional
        Closes open event streams. A server calls it when it stops, before it waits for the answers under way.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        keyring: Callable[[], Keyring | None],
        lifespan: Callable[[], Any],
        rate: float | None = None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.stop = stop
        self.routes: list[Route] = []
        self._table = RoutingTable()
        self._keyring = keyring
        self._lifespan = lifespan
        self._allowance = None if rate is None else Allowance(rate)
        self.answered: dict[tuple[str, int], int] = {}
        """Answers by route and status."""
        self.seconds: dict[str, float] = {}
        """Time to answer, by route."""
        self.add_routes(routes)

    def add_routes(self, routes: Iterable[Route]) -> None:
        """Add routes to the table."""
        for route in routes:
            self._table.add(route)
            self.routes.append(route)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            started = time.perf_counter()
            label, status = await self._answer(scope, receive, send)
            self.answered[label, status] = self.answered.get((label, status), 0) + 1
            self.seconds[label] = self.seconds.get(label, 0.0) + time.perf_counter() - started
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> tuple[str, int]:
        label = "other"
        head = scope["method"] == "HEAD"
        route: Route | None = None
        try:
            route, parameters = self._find(scope)
            label = route.path
            request = Request(scope["query_string"], scope["headers"], scope.get("scheme") == "https")
            self._admit(route, request)
            if route.body is not None:
                request.body = await _read(receive, request.headers, route.limit)
            answer = await route.handler(request, *parameters)
        except HTTPError as error:
            answer = _error(error.status, error.detail, error.headers)
        except Refused as error:
            address = getattr(error, "address", None)
            headers = {"location": address + scope["path"]} if address else _RETRY if error.status == 503 else _EMPTY
            answer = _error(307 if address else error.status, str(error), headers)
        except (msgspec.DecodeError, RecursionError) as error:
            answer = _error(422, str(error)[:1000] or type(error).__name__)
        except (Unavailable, StoreError) as error:
            answer = _error(503, f"not durable: {error}", _RETRY)
        except TooBusy:
            answer = _error(429, "too many requests are waiting", _RETRY)
        except _Gone:
            return label, 499
        except Exception:
            logger.exception("%s %s", scope["method"], scope["path"])
            answer = _error(500, "an error of the service; its log says more")
        if isinstance(answer, Stream):
            await _send_stream(answer, receive, send, head)
            return label, 200
        if route is not None and route.refusal is not None and answer.media_type == problems.MEDIA_TYPE:
            shown = route.refusal(request, answer.status, problems.detail_of(answer.body))
            answer = replace(shown, headers=(*shown.headers, *answer.headers))
        body = answer.body
        fields = [(b"content-type", answer.media_type), (b"content-length", b"%d" % len(body)), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if head else body})
        return label, answer.status

    def _find(self, scope: Message) -> tuple[Route, list[str]]:
        """The route of a request, and its parameters."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        try:
            if b"%" in raw:
                segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
            else:
                segments = raw.decode().split("/")
        except UnicodeDecodeError as error:
            raise HTTPError(404, "the path is not UTF-8") from error
        methods, parameters = self._table.find(segments)
        if not methods:
            raise HTTPError(404, "there is nothing here")
        method = scope["method"]
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise HTTPError(405, f"{method} is not for this path", {"allow": ", ".join(sorted(methods))})
        return route, parameters

    def _admit(self, route: Route, request: Request) -> None:
        """Raise HTTPError unless the request's key may use the route."""
        keyring = self._keyring()
        if route.role is None or keyring is None:
            return
        given = request.header(b"authorization")
        if given is None and route.refusal is not None and (key := request.cookie(COOKIE)) is not None:
            given = b"Bearer " + key.encode()
        request.key = keyring.admit(given, route.role)
        if self._allowance is not None:
            self._allowance.spend(request.key)

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


class _Gone(Exception):
    """The client went away before its request was whole."""


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


def _error(status: int, detail: str, headers: dict[str, str] = _EMPTY) -> Response:
    extra = tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items())
    return Response(status, problems.encode(status, detail), problems.MEDIA_TYPE, extra)


async def _read(receive: Receive, headers: list[tuple[bytes, bytes]], limit: int) -> bytes:
    length = _header(headers, b"content-length")
    if length is not None and (not length.isdigit() or int(length) > limit):
        raise HTTPError(413, f"the body may have at most {limit:,} bytes", {"connection": "close"})
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Gone
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        if len(body) > limit:
            break
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        body += message.get("body", b"")
    if len(body) > limit:
        raise HTTPError(413, f"the body may have at most {limit:,} bytes", {"connection": "close"})
    return body


async def _send_stream(stream: Stream, receive: Receive, send: Send, head: bool) -> None:
    headers = [(b"content-type", stream.media_type), (b"cache-control", b"no-store"), *stream.headers]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if head:
        await send({"type": "http.response.body", "body": b""})
        return

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def pump() -> None:
        async for piece in stream.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    tasks = {asyncio.ensure_future(gone()), asyncio.ensure_future(pump())}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    for task in done:
        if (error := task.exception()) is not None:
            logger.error("a stream ended early: %r", error)
