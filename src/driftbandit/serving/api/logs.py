"""What the service logs: a request id in every line, one line per answer on request, and JSON on request."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from driftbandit.serving.api.http import Headers, header

Format = Literal["text", "json"]

access = logging.getLogger("driftbandit.access")
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that is being answered."""

_TRACE = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


def begin_request(headers: Headers) -> str:
    """The id of a request: the trace id of its `traceparent` header, or a new one.

    >>> begin_request([(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
    '0af7651916cd43dd8448eb211c80319c'
    >>> len(begin_request([]))
    32
    """
    given = header(headers, b"traceparent")
    found = None if given is None else _TRACE.fullmatch(given)
    ident = os.urandom(16).hex() if found is None else found[1].decode()
    request_id.set(ident)
    return ident


class _Lines(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        ident = request_id.get()
        return f"{_time(record)} {record.levelname} {super().format(record)}" + (f" [{ident}]" if ident else "")


class _Objects(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        found["message"] = record.getMessage()
        if ident := request_id.get():
            found["request_id"] = ident
        found |= getattr(record, "fields", {})
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure(form: Format, *, answers: bool) -> None:
    """Send the logs of the service and of its server to standard error; `answers` adds a line for every answer."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Objects() if form == "json" else _Lines())
    for name in ("driftbandit", "uvicorn", "opentelemetry"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    access.setLevel(logging.INFO if answers else logging.CRITICAL)


def log_answer(method: str, path: str, status: int, seconds: float, client: Any, key: str | None) -> None:
    """Log one answer."""
    milliseconds = round(seconds * 1000.0, 3)
    where = None if client is None else client[0]
    fields = {"method": method, "path": path, "status": status, "ms": milliseconds, "client": where, "key": key}
    access.info("%s %s %s %d %.1f ms", where or "-", method, path, status, milliseconds, extra={"fields": fields})
