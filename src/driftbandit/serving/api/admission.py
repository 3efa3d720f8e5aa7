"""Who may use a route: hosts and origins where no keys are asked for, keys, the loops they are for, and their rate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from urllib.parse import urlsplit

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.http import JSON, Request
from driftbandit.serving.api.keys import Access, Allowance, Keyring
from driftbandit.serving.api.routes import Route

COOKIE = "driftbandit_session"
"""Cookie with the session of a person who signed in to the page."""

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Admission:
    """Lets requests in, or raises HTTPError.

    Parameters
    ----------
    keyring : callable
        Returns the keys that are let in, or None, which lets everybody do everything.
    hosts : frozenset of str, optional
        Without keys: names under which a browser may call the service. A page of another site that has made its own
        name lead here says that name, and is refused. None stands for every name.
    session : callable, optional
        Finds the id of the key with which a session began, or None.
    rate : float, optional
        Requests per second that one key may make, unless the key has a rate of its own.
    """

    def __init__(
        self,
        keyring: Callable[[], Keyring | None],
        hosts: frozenset[str] | None = None,
        session: Callable[[str], Awaitable[str | None]] | None = None,
        rate: float | None = None,
    ) -> None:
        self._keyring = keyring
        self._hosts = hosts
        self._session = session
        self._allowance = Allowance(rate)

    async def admit(self, route: Route, request: Request, parameters: list[str]) -> None:
        """Raise HTTPError unless the request may use the route."""
        keyring = self._keyring()
        if keyring is None:
            if self._hosts is not None:
                _check_sender(route, request, self._hosts)
            return
        if route.method != "GET":
            _check_origin(request)
        if route.role is None:
            return
        header = request.header(b"authorization")
        known, found = header is not None, None if header is None else keyring.find(header)
        if header is None and route.refusal is not None and (token := request.cookie(COOKIE)) is not None:
            known, found = True, await self._of_session(keyring, token)
        request.access = access = keyring.check(found, route.role, known)
        if access.loops is not None:
            _check_loop(access, route, parameters)
        if self._allowance.limits(access):
            self._allowance.spend(access)
            request.spend = lambda count: self._allowance.spend(access, count)

    async def _of_session(self, keyring: Keyring, token: str) -> Access | None:
        ident = None if self._session is None else await self._session(token)
        return None if ident is None else keyring.of_id(ident)


def _check_loop(access: Access, route: Route, parameters: list[str]) -> None:
    if route.whole_service:
        raise HTTPError(403, "this is about all loops, and the given key is for some of them")
    for name, value in zip(route.parameters, parameters, strict=True):
        if name == "loop" and not access.may_see(value):
            raise HTTPError(403, f"the given key is not for loop {value!r}")


def _check_sender(route: Route, request: Request, hosts: frozenset[str]) -> None:
    """Refuse what a foreign page in a browser could send to a service that asks for no keys."""
    host = _place(b"http://" + (request.header(b"host") or b""))[0]
    if host not in hosts:
        raise HTTPError(403, f"host: without keys, expected one of {', '.join(sorted(hosts))}, got {host[:200]!r}")
    _check_origin(request)
    if route.body is not None and not isinstance(route.body, str) and route.body is not str:
        kind = (request.header(b"content-type") or b"").partition(b";")[0].strip().lower()
        if kind != JSON:
            raise HTTPError(
                415, f"content-type: without keys, expected application/json, got {kind.decode('latin-1')!r}"
            )


def _check_origin(request: Request) -> None:
    origin = request.header(b"origin")
    if origin is None:
        return
    page = _place(origin)
    if not page[0] or page != _place(b"//" + (request.header(b"host") or b""), origin):
        raise HTTPError(
            403,
            f"origin: a page of {origin.decode('latin-1')[:200]} may not use this service; "
            "if that is its own address, let the proxy in front of it pass the Host header on",
        )


@lru_cache(maxsize=256)
def _place(url: bytes, like: bytes = b"") -> tuple[str, int | None]:
    """Host and port of a URL; a missing port is that of the scheme, which may be that of another URL.

    >>> _place(b"https://A.example"), _place(b"//a.example:443", b"https://a.example"), _place(b"null")
    (('a.example', 443), ('a.example', 443), ('', None))
    """
    try:
        parts = urlsplit(url.decode("latin-1"))
        scheme = parts.scheme or urlsplit(like.decode("latin-1")).scheme
        return parts.hostname or "", parts.port or _DEFAULT_PORTS.get(scheme)
    except ValueError:
        return "", None
