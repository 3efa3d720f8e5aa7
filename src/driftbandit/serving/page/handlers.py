"""Serving the page: who may see it, what it shows, and its events.

A person signs in with a key of role read or admin, and gets a session: a random token in a cookie that scripts cannot
read. It ends when the person signs out, after some hours, or with the key. The cookie opens the page and nothing else:
the API takes keys from the Authorization header only. Browsers send cookies along with requests that another site
forges, but a forged request changes nothing, and the site cannot see the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from importlib.resources import files
from urllib.parse import parse_qs, urlencode

from markupsafe import Markup

from driftbandit.serving.api.admission import COOKIE
from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.http import Request, Response, Stream
from driftbandit.serving.api.keys import Access
from driftbandit.serving.api.routes import Handler, Route
from driftbandit.serving.api.service import SESSION_S, Service
from driftbandit.serving.api.views import as_event, partial, totals
from driftbandit.serving.engine.messages import check_name
from driftbandit.serving.engine.thread import TooBusy, Unavailable
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.scopes import EVERYONE
from driftbandit.serving.page import shell
from driftbandit.serving.page.facts import MOST_EVENTS, SPANS, Facts, brief, merged, model_of
from driftbandit.serving.page.sections import all_sections
from driftbandit.serving.page.story import Event
from driftbandit.serving.stores.base import StoreError

HTML = b"text/html; charset=utf-8"
_ASSETS = {
    "page.css": b"text/css; charset=utf-8",
    "page.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_PAUSE_S = 1.0
_TURNS = 60
"""Turns after which an event stream ends. The browser then connects again, and its key is checked again."""
_FRESH_S = 0.8
_MOST_SCOPES = 10

View = tuple[str | None, str, str | None, frozenset[str] | None]
"""Loop (None for the overview), span, scope, and the loops that the overview may show (None: all)."""


class Page:
    """The page's handlers.

    Parameters
    ----------
    service : Service
        What it shows.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._drawn: dict[View, tuple[float, Facts | None, dict[str, Markup]]] = {}

    def routes(self) -> list[Route]:
        """Paths of the page; they are for people, and not part of the API's document."""
        form = {"answers": {303: "text/html"}, "body": str, "limit": 10_000, "refusal": self.refuse}
        found = [
            Route("GET", "/", "read", self.show, "The page", {200: "text/html"}, refusal=self.refuse),
            Route("GET", "/live", "read", self.live, "Its events", {200: "text/event-stream"}, refusal=self.refuse),
            Route("POST", "/login", None, self.sign_in, "Sign in", **form),  # type: ignore[arg-type]
            Route("POST", "/logout", None, self.sign_out, "Sign out", **form),  # type: ignore[arg-type]
        ]
        for name, media in _ASSETS.items():
            found.append(Route("GET", f"/page/{name}", None, _asset(name, media), name, {200: media.decode()}))
        return found

    async def show(self, request: Request) -> Response:
        """The overview, or a loop."""
        view = _view(request)
        facts, sections = await self._draw(view)
        signed_in = request.cookie(COOKIE) is not None and self._service.keyring is not None
        if facts is None:
            return _html(200, shell.overview_page(sections["loops"], signed_in=signed_in))
        live = "/live?" + request.query_string.decode("latin-1")
        return _html(200, shell.loop_page(facts, sections, live, signed_in=signed_in))

    async def live(self, request: Request) -> Stream:
        """The sections of a page as they change."""
        view = _view(request)
        await self._draw(view)
        self._service.check_streams()
        return Stream(self._events(view), b"text/event-stream")

    async def _events(self, view: View) -> AsyncGenerator[bytes]:
        service = self._service
        sent: dict[str, Markup] = {}
        with service.stream():
            yield b"retry: 1000\n\n"
            for turn in range(_TURNS):
                try:
                    now = (await self._draw(view))[1]
                except (Unavailable, StoreError, TooBusy):
                    now = sent
                news = {name: str(html) for name, html in now.items() if sent.get(name) != html}
                yield as_event("sections", news, str(turn)) if news else b": still here\n\n"
                sent = now
                if await service.stops_within(_PAUSE_S):
                    return

    async def _draw(self, view: View) -> tuple[Facts | None, dict[str, Markup]]:
        """The sections of a view. They are drawn at most about once per second, however many people look."""
        known = self._drawn.get(view)
        if known is not None and time.monotonic() - known[0] < _FRESH_S:
            return known[1:]
        facts = None if view[0] is None else await self._gather(view[0], view[1], view[2])
        if facts is None:
            sections = {"loops": await self._overview(view[3])}
        else:
            sections = await asyncio.to_thread(all_sections, facts)
        if len(self._drawn) >= 100:
            self._drawn.clear()
        self._drawn[view] = time.monotonic(), facts, sections
        return facts, sections

    async def _gather(self, name: str, span: str, scope: str | None) -> Facts:
        service, tier = self._service, SPANS[span]
        number, settings = await service.call(lambda engine: (engine.number(name), engine.configuration(name)))
        config = settings.config
        most = await service.read(lambda store: store.changed_scopes(number, _MOST_SCOPES)) if config.scoped else []
        rows = await service.read(lambda store: store.last_changes(number, MOST_EVENTS))
        if not config.scoped:
            scope, own = EVERYONE, rows
        else:
            scope = scope if scope is not None or not most else most[0][0]
            own = await service.read(lambda store: store.last_changes(number, MOST_EVENTS, scope)) if scope else []
        model, buckets, counts, part = await service.call(
            lambda engine: (
                None if scope is None else model_of(engine, name, scope),
                merged(engine, name, tier),
                totals(engine, name),
                partial(engine, name),
            )
        )
        events, everyone = [Event.of(row) for row in own], [Event.of(row) for row in rows]
        now = time.time_ns() // 1_000_000
        return Facts(
            *(name, config, settings.version, now, tier, buckets, counts),
            *(scope, model, events, everyone, most, part),
        )

    async def _overview(self, shown: frozenset[str] | None) -> Markup:
        service = self._service
        numbers = await service.call(
            lambda engine: {name: engine.number(name) for name in engine.names() if shown is None or name in shown}
        )
        last = {}
        for name, number in numbers.items():
            rows = await service.read(lambda store, number=number: store.last_changes(number, 1))  # type: ignore[misc]
            last[name] = Event.of(rows[0]) if rows else None
        now = time.time_ns() // 1_000_000
        briefs = await service.call(lambda engine: [brief(engine, name, now, event) for name, event in last.items()])
        return await asyncio.to_thread(shell.overview, briefs)

    # Sessions --------------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """Begin a session with a good key."""
        form = parse_qs(request.body.decode("latin-1"))
        key, back = form.get("key", [""])[0].strip(), form.get("back", [""])[0]
        target = "/?" + back if back else "/"
        keyring = self._service.keyring
        if keyring is None:
            return _see(target)
        if not key:
            return _html(422, shell.sign_in("A key is needed.", back))
        found = keyring.find(f"Bearer {key}".encode())
        if found is None:
            return _html(401, shell.sign_in("No such key, or it was ended.", back))
        if found.role not in ("read", "admin"):
            return _html(403, shell.sign_in(f"This key is of role {found.role}, which may not look.", back))
        token = await self._service.begin_session(found.id)
        return _see(target, _cookie(token, request, SESSION_S))

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        if (token := request.cookie(COOKIE)) is not None:
            await self._service.end_session(token)
        return _see("/", _cookie("", request, 0))

    def refuse(self, request: Request, status: int, detail: str) -> Response:
        """An error as a page; without a key, or with the wrong one, the sign-in form."""
        if self._service.keyring is not None and status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            asks = status == HTTPStatus.UNAUTHORIZED and request.cookie(COOKIE) is None
            why = "This service asks for a key." if asks else detail
            return _html(status, shell.sign_in(why, request.query_string.decode("latin-1")))
        return _html(status, shell.refusal(HTTPStatus(status).phrase, detail))


def _view(request: Request) -> View:
    query = request.query
    span = query.get("span", "hour")
    if span not in SPANS:
        raise Refused(422, f"span: expected one of {', '.join(SPANS)}, got {span[:100]!r}")
    for name in ("loop", "scope"):
        if name in query:
            check_name(name, query[name])
    loop, access = query.get("loop"), request.access or Access("", "read")
    if loop is not None and not access.may_see(loop):
        raise HTTPError(403, f"the given key is not for loop {loop!r}")
    return loop, span, query.get("scope"), None if loop is not None else access.loops


def _html(status: int, body: bytes) -> Response:
    return Response(status, body, HTML, _HEADERS)


def _see(target: str, cookie: str | None = None) -> Response:
    """Redirect the browser, but only within the page, whatever the form said."""
    query = parse_qs(target.partition("?")[2])
    kept = {name: values[0] for name, values in query.items() if name in ("loop", "span", "scope")}
    place = "/" + ("?" + urlencode(kept) if kept else "")
    extra = () if cookie is None else ((b"set-cookie", cookie.encode("latin-1", "ignore")),)
    return Response(303, b"", HTML, (*_HEADERS, (b"location", place.encode()), *extra))


def _cookie(token: str, request: Request, seconds: int) -> str:
    kept = f"{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"
    return kept + ("; Secure" if request.secure else "")


def _asset(name: str, media: bytes) -> Handler:
    body = files("driftbandit.serving.page").joinpath("assets", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(200, body, media, (*_HEADERS[:2], (b"cache-control", b"no-cache")))

    return answer
