"""Load for an HTTP service on this machine: many connections, each of which sends a request when the last is answered.

Written on bare protocols, because the client must cost less than what it measures.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np


@dataclass(slots=True)
class Load:
    """What was measured while load was sent.

    Attributes
    ----------
    seconds, cpu : float
        How long the load lasted, and how much of a core the server used meanwhile.
    requests : int
        How many requests were answered.
    latencies : list of float
        Seconds that each request took.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    requests: int = 0
    latencies: list[float] = field(default_factory=list)

    def __iadd__(self, other: Load) -> Self:
        self.seconds += other.seconds
        self.cpu += other.cpu
        self.requests += other.requests
        self.latencies += other.latencies
        return self

    def percentile(self, share: float) -> float:
        """The latency below which this share of the requests were answered."""
        return float(np.quantile(self.latencies, share)) if self.latencies else float("nan")


def post(path: str, body: bytes) -> bytes:
    """A request as it goes over the wire.

    >>> post("/x", b"{}")
    b'POST /x HTTP/1.1\\r\\nhost: localhost\\r\\ncontent-type: application/json\\r\\ncontent-length: 2\\r\\n\\r\\n{}'
    """
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % path.encode()
    return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class _Connection(asyncio.Protocol):
    """Sends the requests of an iterator one after the other."""

    def __init__(self, requests: Iterator[bytes], load: Load, end: float, gap: float | None, due: float) -> None:
        self._requests = requests
        self._load = load
        self._end = end
        self._gap = gap
        self._due = due
        self._received = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]
        self._next()

    def _next(self) -> None:
        now = time.perf_counter()
        if self._gap is not None:
            if self._due > now:
                asyncio.get_running_loop().call_later(self._due - now, self._next)
                return
            self._due += self._gap
        if now >= self._end:
            self._transport.close()
            return
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._sent = now
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.index(b"content-length: ") + 16
        if len(body) < int(head[at:].split(b"\r", 1)[0]):
            return
        self._received = b""
        if head[9:10] != b"2" or b'"problem":' in body:
            error = RuntimeError(f"{head[:40]!r}: {body[:300]!r}")
            if not self.done.done():
                self.done.set_exception(error)
            self._transport.abort()
            return
        self._load.requests += 1
        self._load.latencies.append(time.perf_counter() - self._sent)
        self._next()

    def connection_lost(self, reason: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def drive(port: int, pid: int, requests: Sequence[Iterator[bytes]], seconds: float, pace: float | None = None) -> Load:
    """Send the requests of each iterator over its own connection, for some seconds.

    Parameters
    ----------
    pid : int
        The server's process.
    pace : float, optional
        Requests per second, all connections together; by default as many as are answered.
    """
    load = Load()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        gap = None if pace is None else len(requests) / pace
        connections = []
        for number, own in enumerate(requests):
            due = started + (0.0 if gap is None else gap * number / len(requests))
            connection = _Connection(own, load, started + seconds, gap, due)
            await loop.create_connection(lambda made=connection: made, "127.0.0.1", port)  # type: ignore[misc]
            connections.append(connection)
        await asyncio.gather(*(connection.done for connection in connections))
        load.seconds = time.perf_counter() - started

    before = cpu_seconds(pid)
    import uvloop

    uvloop.run(run())
    load.cpu = cpu_seconds(pid) - before
    return load


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of a process; Linux only."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
