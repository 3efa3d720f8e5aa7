"""Limits on connections: how many there are, how long a request may take to arrive and an answer to be taken, and how
large a head may be.

uvicorn's parser has none of these. When all places are taken, a new connection gets the place of the one that has
waited longest for the rest of its request, so that many half requests do not keep whole ones out.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from driftbandit.serving.api import errors as problems

BODY_RATE = 16 << 10
"""Bytes per second that a body must bring to get more time than the head."""
STALLED_S = 60.0
"""How long a client may take nothing of an answer that waits for it, in seconds."""
_SPARE_FILES = 64
"""Open files that the service needs besides its connections."""


@dataclass(slots=True)
class Door:
    """Who may come in, and who did not get far.

    Attributes
    ----------
    most : int
        How many connections may be open at once.
    seconds : float
        How long a request may take to arrive; a body gets one second more for every `BODY_RATE` bytes.
    head : int
        Bytes that the head of a request (its first line and headers) may have.
    open : int
        How many connections are open.
    closed : Counter
        Connections that the service ended, by reason: 'head' (too large), 'slow', 'crowded' (another one got their
        place), 'full' (all places were taken by whole requests) and 'stalled' (the client took nothing of its answer).
    stalled : float
        Seconds for which a client may take nothing of an answer.
    """

    most: int = 1000
    seconds: float = 10.0
    head: int = 16 << 10
    open: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    stalled: float = STALLED_S
    waiting: dict[Connection, None] = field(default_factory=dict)
    """Connections that wait for a request or the rest of one, the longest first."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with the limits of a `Door`."""

    door: Door

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or be turned away."""
        super().connection_made(transport)
        door = self.door
        self._timer: asyncio.TimerHandle | None = None
        self._stalling: asyncio.TimerHandle | None = None
        self._head = 0
        self._body = 0
        self._in_head = True
        door.open += 1
        if door.open > door.most:
            if door.waiting:
                next(iter(door.waiting))._end("crowded", 0, "")
            else:
                self._end("full", 503, "too many connections are open")
                return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.door.open -= 1
        self._stop_waiting()
        self._stop_stalling()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes its answer slower than it is made, or not at all; give it some time."""
        super().pause_writing()
        self._stalling = self.loop.call_later(self.door.stalled, self._stalled)

    def resume_writing(self) -> None:
        """The client has taken what waited for it."""
        self._stop_stalling()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take the next piece of a request."""
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._head > self.door.head:
            self._refuse_head()
        elif self._timer is None and (self._head or not self._in_head):  # most requests come in one piece
            self._await_request()

    def on_message_begin(self) -> None:
        """Know that a request has begun, also if it came in one piece with the end of the one before."""
        self._head = self._head or 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large."""
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.door.head:
            self._refuse_head()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body += len(body)
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole: it may take its time from now on."""
        self._stop_waiting()
        self._in_head, self._head, self._body = True, 0, 0
        if self.transport.is_closing():
            return
        super().on_message_complete()
        if (
            self.cycle.response_complete
        ):  # it was answered before it was whole; its last piece ended uvicorn's own timer
            self.door.waiting[self] = None
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Wait for the next request; another connection may get this place meanwhile."""
        super().on_response_complete()
        if self._in_head and not self.pipeline and not self.transport.is_closing():
            self.door.waiting[self] = None

    # Waiting -----------------------------------------------------------------------------------------------------

    def _await_request(self) -> None:
        self.door.waiting.pop(self, None)
        self.door.waiting[self] = None
        self._began = self.loop.time()
        self._timer = self.loop.call_later(self.door.seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        self.door.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        """End a connection whose request did not arrive in time, unless its body keeps coming."""
        left = self._began + self.door.seconds + self._body / BODY_RATE - self.loop.time()
        if self.flow.read_paused:  # the service is slow, not the client
            left = max(left, 1.0)
        if left > 0.0:
            self._timer = self.loop.call_later(left, self._too_slow)
        else:
            self._end("slow", 408, "the request took too long to arrive")

    def _stop_stalling(self) -> None:
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    def _stalled(self) -> None:
        """End a connection whose client takes nothing; what waits for it is thrown away."""
        self.door.closed["stalled"] += 1
        self.transport.abort()

    def _refuse_head(self) -> None:
        self._end("head", 431, f"the head of a request may have at most {self.door.head:,} bytes")

    def _end(self, why: str, status: int, detail: str) -> None:
        """Close the connection, with a last word where the client can still take one."""
        self._stop_waiting()
        self.door.closed[why] += 1
        cycle = self.cycle
        answered = cycle is not None and cycle.response_started and not (cycle.response_complete and self._in_head)
        if status and not answered:
            body = problems.encode(status, detail)
            lines = (
                b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
                b"content-type: " + problems.MEDIA_TYPE,
                b"content-length: %d" % len(body),
                b"retry-after: 1",
                b"connection: close",
            )
            self.transport.write(b"\r\n".join((*lines, b"", body)))
        self.transport.close()


def connections_of(door: Door) -> type[Any]:
    """The class of connections through a door, as uvicorn wants it."""
    return type("Connection", (Connection,), {"door": door})


def allow_files(door: Door) -> None:
    """Let the process open as many files as its connections need; where it may not, allow fewer connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = door.most + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        door.most = min(door.most, max(allowed - _SPARE_FILES, 1))
