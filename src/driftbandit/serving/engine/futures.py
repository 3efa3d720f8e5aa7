"""Results of the engine's thread for futures of the event loop. These functions are called in the event loop."""

from __future__ import annotations

import asyncio
from typing import Any


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
