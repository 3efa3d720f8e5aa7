"""Errors as RFC 9457 problem details."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

MEDIA_TYPE = b"application/problem+json"


class Problem(msgspec.Struct, frozen=True):
    """Problem details: `title` names the kind of error, `detail` says what went wrong this time."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class HTTPError(Exception):
    """Raised to answer a request with an error."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}


def problem(status: int, detail: str) -> Problem:
    """Describe an error.

    >>> problem(404, "no loop 'x'").title
    'Not Found'
    """
    return Problem(HTTPStatus(status).phrase, status, detail)


def encode(status: int, detail: str) -> bytes:
    """Describe an error, as JSON."""
    return msgspec.json.encode(problem(status, detail))


def detail_of(body: bytes) -> str:
    """The detail of an encoded error."""
    return msgspec.json.decode(body, type=Problem).detail
