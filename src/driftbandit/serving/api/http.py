"""Requests and answers: what a handler gets and gives, reading a body, and sending an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import Access

logger = logging.getLogger("driftbandit")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
_DISCARDED = 64 << 20
"""Bytes of a body over its limit that are read and dropped. The client sees the answer only once it has sent its
body."""


class Request:
    """What a handler gets besides the parameters of the path: query, headers and the whole body.

    Attributes
    ----------
    secure : bool
        Whether the request came over TLS.
    access : Access or None
        The key that it came with; None where no keys are asked for.
    spend : callable
        ``spend(count)`` takes so many more tokens of the key's rate.
    """

    __slots__ = ("access", "body", "headers", "query_string", "secure", "spend")

    def __init__(self, query_string: bytes, headers: Headers, secure: bool) -> None:
        self.query_string = query_string
        self.headers = headers
        self.secure = secure
        self.body = b""
        self.access: Access | None = None
        self.spend: Callable[[int], None] = _free

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; if a name repeats, its last value counts."""
        pairs = parse_qs(self.query_string.decode("latin-1"), keep_blank_values=True, errors="strict")
        return {name: values[-1] for name, values in pairs.items()}

    def header(self, name: bytes) -> bytes | None:
        """A header by its lower-case name."""
        return header(self.headers, name)

    def cookie(self, name: str) -> str | None:
        """A cookie by its name."""
        for part in (self.header(b"cookie") or b"").decode("latin-1").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return None

    @property
    def key(self) -> str:
        """Id of its key; empty where no keys are asked for."""
        return "" if self.access is None else self.access.id

    def may_see(self, loop: str) -> bool:
        """Whether its key is for this loop."""
        return self.access is None or self.access.may_see(loop)


def _free(count: int) -> None:
    """Tokens cost nothing without a rate."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces; `ended` is called after the last one, or when the client has gone."""

    pieces: AsyncGenerator[bytes]
    media_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    ended: Callable[[], None] = lambda: None


class Gone(Exception):
    """The client went away before its request was whole."""


def header(headers: Headers, name: bytes) -> bytes | None:
    """A header by its lower-case name."""
    for key, value in headers:
        if key == name:
            return value
    return None


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body.

    Raises
    ------
    HTTPError
        413 if it is larger than the limit. The rest of it, up to 64 MiB, is read first.
    Gone
        If the client went away.
    """
    length = header(headers, b"content-length")
    if length is not None and not length.isdigit():
        raise HTTPError(422, "content-length: expected a number", {"connection": "close"})
    announced = 0 if length is None else int(length)
    if announced > limit and header(headers, b"expect") is not None:
        raise _too_large(limit)  # the client waits for a word before it sends its body
    body, size, more = b"", 0, announced <= _DISCARDED
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        body = body + piece if max(size, announced) <= limit else b""
        more = message.get("more_body", False) and size <= _DISCARDED
    if max(size, announced) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> HTTPError:
    return HTTPError(413, f"the body may have at most {limit:,} bytes", {"connection": "close"})


async def send_response(answer: Response, send: Send, extra: Headers, head: bool) -> None:
    """Send a whole answer; to HEAD, without its body."""
    body = answer.body
    fields = [(b"content-type", answer.media_type), (b"content-length", b"%d" % len(body)), *answer.headers, *extra]
    await send({"type": "http.response.start", "status": answer.status, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if head else body})


async def send_stream(stream: Stream, receive: Receive, send: Send, extra: Headers, head: bool) -> None:
    """Send an answer in pieces, until it ends or the client goes away."""
    headers = [(b"content-type", stream.media_type), (b"cache-control", b"no-store"), *stream.headers, *extra]
    headers.append((b"x-accel-buffering", b"no"))  # tells nginx to pass pieces on as they come
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if head:
            await send({"type": "http.response.body", "body": b""})
        else:
            await _send_pieces(stream.pieces, receive, send)
    finally:
        stream.ended()


async def _send_pieces(pieces: AsyncGenerator[bytes], receive: Receive, send: Send) -> None:
    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def pump() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
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
