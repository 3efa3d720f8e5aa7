"""The HTTP API of the decision service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from driftbandit.serving.api import batches, metrics, openapi, views
from driftbandit.serving.api.app import App, Request, Response, Route, Stream
from driftbandit.serving.api.bodies import Bodies, read_reward, read_rewards
from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import Keyring
from driftbandit.serving.api.routes import api_routes
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import CatalogueRequest, DecisionRequest, LoopRequest
from driftbandit.serving.engine.thread import Runner
from driftbandit.serving.log import export
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.page.handlers import Page
from driftbandit.serving.stores.base import Store, StoreError

Result = TypeVar("Result")

_MAX_STREAMS = 200
_encode = msgspec.json.Encoder().encode


_loop = msgspec.json.Decoder(LoopRequest)
_arms = msgspec.json.Decoder(CatalogueRequest)

_ACCEPTED = _encode(batches.ACCEPTED)
_DUPLICATE = _encode(batches.DUPLICATE)


class Service:
    """The API's handlers and what they share.

    Parameters
    ----------
    open_store : callable
        Opens the store for writing; called in the engine's thread.
    make_engine : callable
        Makes an engine from that store.
    open_reader : callable
        Opens the store for reading.
    rehearse : callable
        Called with new settings, in a thread, before the engine gets them: whatever takes long the first time.
    secure : bool
        Whether keys are asked for.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        make_engine: Callable[[Store], Engine],
        open_reader: Callable[[], Store],
        *,
        rehearse: Callable[[LoopConfig], None] = lambda config: None,
        secure: bool = True,
    ) -> None:
        self._open_store = open_store
        self._make_engine = make_engine
        self._open_reader = open_reader
        self._rehearse = rehearse
        self._secure = secure
        self.runner: Runner
        self.keyring: Keyring | None = None
        self._reader: Store
        self._reader_lock = threading.Lock()
        self._bodies = Bodies()
        self.streams = 0
        self.stopping = asyncio.Event()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Start the engine, and stop it at the end."""
        self.stopping = asyncio.Event()
        self.runner = Runner(lambda: self._make_engine(self._open_store()), asyncio.get_running_loop())
        self.runner.start()
        await self.runner.started
        self._reader = self._open_reader()
        if self._secure:
            self.keyring = Keyring(self._reader)
        chores = asyncio.create_task(self._refresh_keys())
        try:
            yield
        finally:
            self.stopping.set()
            chores.cancel()
            self.runner.stop()
            await asyncio.to_thread(self.runner.join)
            self._reader.close()

    async def _refresh_keys(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.keyring is not None:
                try:
                    await self.read(lambda _: self.keyring.refresh())  # type: ignore[union-attr]
                except StoreError:
                    continue

    async def read(self, question: Callable[[Store], Result]) -> Result:
        """Ask the store, away from the event loop."""

        def ask() -> Result:
            with self._reader_lock:
                return question(self._reader)

        return await asyncio.to_thread(ask)

    async def call(self, command: Callable[[Engine], Result]) -> Result:
        """Have the engine's thread carry out a command."""
        result: Result = await self.runner.submit(command)
        return result

    # Writing ---------------------------------------------------------------------------------------------------------

    async def put_loop(self, request: Request) -> Response:
        """Create or change a loop."""
        given = _loop.decode(request.body)
        fields = {name: getattr(given, name) for name in LoopConfig.__struct_fields__}
        config, version, name = LoopConfig(**fields), given.version, request.loop
        try:
            await asyncio.to_thread(self._rehearse, config)
        except ValueError as error:
            raise HTTPError(422, str(error)) from error
        created, answer = await self.call(lambda engine: engine.configure(name, config, version))
        return Response(201 if created else 200, _encode(answer))

    async def put_arms(self, request: Request) -> Response:
        """Replace a loop's catalogue."""
        arms, name = _arms.decode(request.body), request.loop
        answer = await self.call(lambda engine: engine.put_arms(name, arms))
        return Response(200, _encode(answer))

    async def decide(self, request: Request) -> Response:
        """Choose an arm."""
        given, name = self._bodies.decision(request.body), request.loop
        ids = None if given.decision_id is None else (name, [given.decision_id])
        created, answer = await self.runner.submit(lambda engine: engine.decide(name, given), ids)
        return Response(201 if created else 200, _encode(answer))

    async def reward(self, request: Request) -> Response:
        """Take a reward."""
        given, name, ident = read_reward(request.body), request.loop, request.id
        fresh = await self.runner.submit(lambda engine: engine.reward(name, ident, given))
        return Response(200, _ACCEPTED if fresh else _DUPLICATE)

    async def decide_many(self, request: Request) -> Response:
        """Choose many arms."""
        name, given = request.loop, self._bodies.decisions(request.body)
        ids = [item.decision_id for item in given if isinstance(item, DecisionRequest) and item.decision_id is not None]
        # Encoded at once, while what they are made of is in the processor's cache.
        answer = await self.runner.submit(lambda engine: _encode(batches.decide(engine, name, given)), (name, ids))
        return Response(200, answer)

    async def reward_many(self, request: Request) -> Response:
        """Take many rewards."""
        name, given = request.loop, read_rewards(request.body)
        answer = await self.runner.submit(lambda engine: _encode(batches.reward(engine, name, given)))
        return Response(200, answer)

    # Reading ---------------------------------------------------------------------------------------------------------

    async def list_loops(self, request: Request) -> Response:
        """All loops."""
        found = await self.call(lambda engine: [engine.configuration(name) for name in engine.names()])
        return Response(200, _encode({"loops": found}))

    async def get_loop(self, request: Request) -> Response:
        """A loop's settings."""
        name = request.loop
        return Response(200, _encode(await self.call(lambda engine: engine.configuration(name))))

    async def stats(self, request: Request) -> Response:
        """Counts and rewards over time."""
        name = request.loop
        tier = views.tier_of(request.query.get("resolution", "5"))
        return Response(200, await self.call(lambda engine: _encode(views.stats(engine, name, tier))))

    async def scope(self, request: Request) -> Response:
        """A scope's model."""
        name, scope = request.loop, request.id
        return Response(200, await self.call(lambda engine: _encode(views.scope(engine, name, scope))))

    async def model(self, request: Request) -> Response:
        """The shared model, or the most changed scopes."""
        name = request.loop
        number = await self.call(lambda engine: engine.number(name))
        most = await self.read(lambda store: store.changed_scopes(number, 20))
        return Response(200, await self.call(lambda engine: _encode(views.scopes(engine, name, most))))

    async def changes(self, request: Request) -> Response:
        """The change history."""
        name = request.loop
        limit = views.whole_number("limit", request.query.get("limit", "1000"), 1, 10_000)
        number = await self.call(lambda engine: engine.number(name))
        rows = await self.read(lambda store: store.last_changes(number, limit))
        return Response(200, _encode({"loop": name, "changes": [views.change(row) for row in rows]}))

    async def log(self, request: Request) -> Stream:
        """Export the log."""
        query = request.query
        kind = query.get("format", "ndjson")
        if kind not in export.FORMATS:
            raise HTTPError(422, f"format: expected one of {', '.join(export.FORMATS)}, got {kind[:100]!r}")
        name = request.loop
        number, shards = await self.call(lambda engine: (engine.number(name), engine.store.shards))
        after = views.whole_number("after", query.get("after", "0"), 0, 1 << 62)
        shard = views.whole_number("shard", query["shard"], 0, shards - 1) if "shard" in query else None
        if after and shard is None and shards > 1:
            raise HTTPError(422, f"after: each of the {shards} shards has numbers of its own; say which with shard=")
        pieces = export.FORMATS[kind](self._open_reader, export.Wanted(name, number, shard, after))
        disposition = f'attachment; filename="log.{kind}"'.encode()
        return Stream(_in_threads(pieces), export.MEDIA_TYPES[kind], ((b"content-disposition", disposition),))

    async def stream(self, request: Request) -> Stream:
        """Changes and counts as they happen."""
        name = request.loop
        number = await self.call(lambda engine: engine.number(name))
        self.check_streams()
        last = request.header(b"last-event-id")
        cursor = views.cursor_of("" if last is None else last.decode("latin-1"))
        return Stream(self._events(name, number, cursor), b"text/event-stream")

    def stop_streams(self) -> None:
        """End all streams, and let no new one begin."""
        self.stopping.set()

    def check_streams(self) -> None:
        """Refuse one stream too many."""
        if self.streams >= _MAX_STREAMS:
            raise HTTPError(429, "too many streams are open", {"retry-after": "10"})

    async def _events(self, name: str, number: int, cursor: dict[int, int]) -> AsyncIterator[bytes]:
        self.streams += 1
        before = b""
        try:
            yield b"retry: 1000\n\n"
            shards = await self.read(lambda store: store.shards)
            while not self.stopping.is_set():
                rows = await self.read(lambda store: views.changes_after(store, number, shards, cursor))
                for row in rows:
                    cursor[row.shard] = row.number
                    yield views.as_event("change", views.change(row), views.cursor_text(cursor))
                try:
                    now = await self.call(lambda engine: _encode(views.totals(engine, name)))
                except Exception:
                    now = before
                if now != before:
                    yield b"event: stats\ndata: " + now + b"\n\n"
                    before = now
                else:
                    yield b": still here\n\n"
                try:
                    await asyncio.wait_for(self.stopping.wait(), 0.5)
                except TimeoutError:
                    continue
        finally:
            self.streams -= 1

    # The service itself ----------------------------------------------------------------------------------------------

    async def healthz(self, request: Request) -> Response:
        """Whether the process lives."""
        return Response(200, b'{"status":"ok"}')

    async def readyz(self, request: Request) -> Response:
        """Whether decisions are taken."""
        if not self.runner.ready:
            raise HTTPError(503, self.runner.error or "starting", {"retry-after": "1"})
        return Response(200, b'{"status":"ready"}')

    def routes(self) -> list[Route]:
        """The table of the API."""
        return api_routes(self)


def make_app(service: Service, *, rate: float | None = None) -> App:
    """Put routes, keys, metrics, the OpenAPI document and the page together."""
    routes = service.routes()

    async def show_metrics(request: Request) -> Response:
        return Response(200, metrics.render(app, service.runner, service.streams), metrics.MEDIA_TYPE)

    async def show_openapi(request: Request) -> Response:
        return Response(200, document)

    routes.append(Route("GET", "/metrics", "read", show_metrics, "Prometheus metrics", {200: "text/plain"}))
    document = _encode(openapi.document(routes))
    routes.append(Route("GET", "/openapi.json", None, show_openapi, "This document", {200: dict[str, Any]}))
    routes += Page(service).routes()
    app = App(routes, lambda: service.keyring, service.lifespan, rate, service.stop_streams)
    return app


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Iterate over a generator whose steps may block."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
