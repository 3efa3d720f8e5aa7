"""Results of the engine's thread for futures of the event loop. All of this is called in the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol


class Turn(NamedTuple):
    """When some commands were taken, had been carried out, and were durable: nanoseconds since 1970."""

    taken: int
    carried_out: int
    committed: int


class Observer(Protocol):
    """Is told of commands, for traces."""

    def submitted(self, future: asyncio.Future[Any], time: int) -> None:
        """A command was queued, at so many nanoseconds since 1970."""
        ...

    def delivered(self, futures: list[asyncio.Future[Any]], turn: Turn | None) -> None:
        """Commands are about to get their results; without a turn, none of them was carried out."""
        ...


def deliver(futures: list[asyncio.Future[Any]], results: list[Any]) -> None:
    """Give each future its result, or the exception that is its result."""
    for future, result in zip(futures, results, strict=True):
        if future.done():  # its client has gone
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def settle(future: asyncio.Future[None], error: Exception | None = None) -> None:
    """Say that something has happened, or why it never will; only the first time counts."""
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # asked for, so that nothing is logged if nobody else asks
