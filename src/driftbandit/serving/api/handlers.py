"""The handlers of the HTTP API, one per route, and the application made of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

import msgspec

from driftbandit.serving.api import errors as problems
from driftbandit.serving.api import metrics, openapi, views
from driftbandit.serving.api.app import App
from driftbandit.serving.api.bodies import Bodies, read_reward, read_rewards
from driftbandit.serving.api.errors import HTTPError, Problem
from driftbandit.serving.api.http import Request, Response, Stream
from driftbandit.serving.api.routes import Route, api_routes
from driftbandit.serving.api.service import Service
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import BatchReward, CatalogueRequest, DecisionRequest, LoopRequest
from driftbandit.serving.engine.thread import TooBusy, Unavailable
from driftbandit.serving.log import export
from driftbandit.serving.loop.config import LoopConfig, completed
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.model import read_model

_PAUSE_S = 0.5
"""How often an event stream looks for news."""

_encode = msgspec.json.Encoder().encode
_loop = msgspec.json.Decoder(LoopRequest)
_arms = msgspec.json.Decoder(CatalogueRequest)

_ACCEPTED = views.RewardAnswer("accepted")
_DUPLICATE = views.RewardAnswer("duplicate")
_ACCEPTED_BODY, _DUPLICATE_BODY = _encode(_ACCEPTED), _encode(_DUPLICATE)
_ACCEPTED_RESULT = views.RewardResult(200, _ACCEPTED)
_DUPLICATE_RESULT = views.RewardResult(200, _DUPLICATE)


class Handlers:
    """The API's handlers.

    Parameters
    ----------
    service : Service
        The service that the handlers write to and read from.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._bodies = Bodies()

    # Writing ---------------------------------------------------------------------------------------------------------

    async def put_loop(self, request: Request, loop: str) -> Response:
        """Create or change a loop."""
        self._service.runner.check_started()  # before anything is compiled for it
        given = _loop.decode(request.body)
        config = LoopConfig(**{name: getattr(given, name) for name in LoopConfig.__struct_fields__})
        try:
            config = await asyncio.to_thread(completed, config)
            await asyncio.to_thread(self._service.rehearse, config)
        except ValueError as error:
            raise HTTPError(422, str(error)) from error
        created, answer = await self._service.call(
            lambda engine: engine.configure(loop, config, given.version, given.arms)
        )
        return Response(201 if created else 200, _encode(answer))

    async def put_arms(self, request: Request, loop: str) -> Response:
        """Replace a loop's catalogue."""
        arms = _arms.decode(request.body)
        answer = await self._service.call(lambda engine: engine.put_arms(loop, arms))
        return Response(200, _encode(answer))

    async def put_model(self, request: Request, loop: str) -> Response:
        """Let a loop's models begin with a policy's file."""
        before = await self._service.call(lambda engine: engine.configuration(loop).config)
        try:
            config = (await asyncio.to_thread(read_model, before, request.body)).config
            await asyncio.to_thread(self._service.rehearse, config)  # the file's encoder may be new
        except ValueError as error:
            raise HTTPError(422, str(error)) from error
        answer = await self._service.call(lambda engine: engine.put_model(loop, request.body))
        return Response(200, _encode(answer))

    async def decide(self, request: Request, loop: str) -> Response:
        """Choose an arm."""
        given = self._bodies.decision(request.body)
        ids = None if given.decision_id is None else (loop, [given.decision_id])
        created, answer = await self._service.runner.submit(lambda engine: engine.decide(loop, given), ids)
        return Response(201 if created else 200, _encode(answer))

    async def reward(self, request: Request, loop: str, id: str) -> Response:
        """Take a reward."""
        given = read_reward(request.body)
        fresh = await self._service.runner.submit(lambda engine: engine.reward(loop, id, given))
        return Response(200, _ACCEPTED_BODY if fresh else _DUPLICATE_BODY)

    async def decide_many(self, request: Request, loop: str) -> Response:
        """Choose many arms."""
        given = self._bodies.decisions(request.body)
        request.spend(len(given) - 1)
        ids = [item.decision_id for item in given if isinstance(item, DecisionRequest) and item.decision_id is not None]
        # Encoded in the engine's thread, while the data is still in the processor's cache.
        answer = await self._service.runner.submit(lambda engine: _encode(_decide(engine, loop, given)), (loop, ids))
        return Response(200, answer)

    async def reward_many(self, request: Request, loop: str) -> Response:
        """Take many rewards."""
        given = read_rewards(request.body)
        request.spend(len(given) - 1)
        answer = await self._service.runner.submit(lambda engine: _encode(_reward(engine, loop, given)))
        return Response(200, answer)

    async def delete_loop(self, request: Request, loop: str) -> Response:
        """Delete a loop."""
        await self._service.call(lambda engine: engine.delete(loop, request.key))
        return Response(200, _encode(views.Deleted(loop)))

    async def erase_scope(self, request: Request, loop: str, id: str) -> Response:
        """Begin to erase a scope."""
        found = await self._service.call(lambda engine: engine.erase(loop, id, request.key))
        return Response(202, _encode(views.ErasureAnswer(loop, found)))

    # Reading ---------------------------------------------------------------------------------------------------------

    async def list_loops(self, request: Request) -> Response:
        """All loops."""
        found = await self._service.call(
            lambda engine: [engine.configuration(name) for name in engine.names() if request.may_see(name)]
        )
        return Response(200, _encode({"loops": found}))

    async def get_loop(self, request: Request, loop: str) -> Response:
        """A loop's settings."""
        return Response(200, _encode(await self._service.call(lambda engine: engine.configuration(loop))))

    async def stats(self, request: Request, loop: str) -> Response:
        """Counts and rewards over time."""
        tier = views.tier_of(request.query.get("resolution", "5"))
        return Response(200, await self._service.call(lambda engine: _encode(views.stats(engine, loop, tier))))

    async def scope(self, request: Request, loop: str, id: str) -> Response:
        """A scope's model."""
        return Response(200, await self._service.call(lambda engine: _encode(views.scope(engine, loop, id))))

    async def model(self, request: Request, loop: str) -> Response:
        """The shared model, or the most changed scopes."""
        number = await self._service.call(lambda engine: engine.number(loop))
        most = await self._service.read(lambda store: store.changed_scopes(number, 20))
        return Response(200, await self._service.call(lambda engine: _encode(views.scopes(engine, loop, most))))

    async def changes(self, request: Request, loop: str) -> Response:
        """The change history."""
        limit = views.whole_number("limit", request.query.get("limit", "1000"), 1, 10_000)
        number, names = await self._service.call(
            lambda engine: (engine.number(loop), views.feature_names(engine, loop))
        )
        rows = await self._service.read(lambda store: store.last_changes(number, limit))
        return Response(200, _encode({"loop": loop, "changes": [views.change(row) for row in rows], **names}))

    async def erasures(self, request: Request, loop: str) -> Response:
        """The scopes that were erased."""
        number = await self._service.call(lambda engine: engine.number(loop))
        rows = await self._service.read(lambda store: store.removals())
        return Response(200, _encode({"loop": loop, "erasures": views.erasures(rows, number)}))

    async def log(self, request: Request, loop: str) -> Stream:
        """Export the log."""
        query = request.query
        kind = query.get("format", "ndjson")
        if kind not in export.FORMATS:
            raise HTTPError(422, f"format: expected one of {', '.join(export.FORMATS)}, got {kind[:100]!r}")
        number, shards = await self._service.call(lambda engine: (engine.number(loop), engine.store.shards))
        after = views.whole_number("after", query.get("after", "0"), 0, 1 << 62)
        shard = views.whole_number("shard", query["shard"], 0, shards - 1) if "shard" in query else None
        if after and shard is None and shards > 1:
            raise HTTPError(422, f"after: each of the {shards} shards has numbers of its own; say which with shard=")
        if kind == "dsjson":
            await self._service.read(lambda store: views.check_whole(store, number))
        self._service.begin_export()
        pieces = export.FORMATS[kind](self._service.open_reader, export.Wanted(loop, number, shard, after))
        disposition = ((b"content-disposition", f'attachment; filename="log.{kind}"'.encode()),)
        return Stream(_in_threads(pieces), export.MEDIA_TYPES[kind], disposition, self._service.end_export)

    async def stream(self, request: Request, loop: str) -> Stream:
        """Changes and counts as they happen."""
        number = await self._service.call(lambda engine: engine.number(loop))
        self._service.check_streams()
        last = request.header(b"last-event-id")
        cursor = views.cursor_of("" if last is None else last.decode("latin-1"))
        return Stream(self._events(loop, number, cursor), b"text/event-stream")

    async def _events(self, name: str, number: int, cursor: dict[int, int]) -> AsyncGenerator[bytes]:
        service, before = self._service, b""
        with service.stream():
            yield b"retry: 1000\n\n"
            shards = await service.read(lambda store: store.shards)
            while not service.stopping:
                rows = await service.read(lambda store: views.changes_after(store, number, shards, cursor))
                for row in rows:
                    cursor[row.shard] = row.number
                    yield views.as_event("change", views.change(row), views.cursor_text(cursor))
                try:
                    now = await service.call(lambda engine: _encode(views.totals(engine, name)))
                except Exception:
                    now = before
                yield b": still here\n\n" if now == before else b"event: stats\ndata: " + now + b"\n\n"
                before = now
                await service.stops_within(_PAUSE_S)

    # The service itself ----------------------------------------------------------------------------------------------

    async def healthz(self, request: Request) -> Response:
        """Whether the process is alive."""
        return Response(200, b'{"status":"ok"}')

    async def readyz(self, request: Request) -> Response:
        """Whether decisions are taken."""
        why = self._service.unready()
        if why is not None:
            raise HTTPError(503, why, {"retry-after": "1"})
        return Response(200, b'{"status":"ready"}')


def make_app(service: Service, *, rate: float | None = None, hosts: frozenset[str] | None = None) -> App:
    """The application of the API: its routes, metrics and OpenAPI document."""
    routes = api_routes(Handlers(service))

    async def show_metrics(request: Request) -> Response:
        try:
            loops = await service.call(views.loop_counts)
        except (Unavailable, TooBusy):
            loops = {}
        page = metrics.render(app, service, loops)
        return Response(200, page, metrics.MEDIA_TYPE)

    async def show_openapi(request: Request) -> Response:
        return Response(200, document)

    plain = {200: metrics.MEDIA_TYPE.decode()}
    routes.append(Route("GET", "/metrics", "read", show_metrics, "Prometheus metrics", plain, whole_service=True))
    document = _encode(openapi.document(routes))
    routes.append(Route("GET", "/openapi.json", None, show_openapi, "This document", {200: dict[str, Any]}))
    app = App(
        *(routes, lambda: service.keyring, service.lifespan, rate, service.stop_streams),
        hosts=hosts,
        session=service.session,
        begun=service.begun,
    )
    return app


def _decide(engine: Engine, name: str, given: list[DecisionRequest | Problem]) -> views.DecisionResults:
    """Carry out a batch of decisions, all at one time."""
    made = iter(engine.at_once(name).decide_all([item for item in given if isinstance(item, DecisionRequest)]))
    results = []
    for item in given:
        found = next(made) if isinstance(item, DecisionRequest) else item
        if isinstance(found, tuple):
            created, decision = found
            results.append(views.DecisionResult(201 if created else 200, decision))
        else:
            problem = problems.problem(found.status, str(found)) if isinstance(found, Refused) else found
            results.append(views.DecisionResult(problem.status, None, problem))
    return views.DecisionResults(results)


def _reward(engine: Engine, name: str, given: list[BatchReward | Problem]) -> views.RewardResults:
    """Carry out a batch of rewards, all at one time."""
    commands = engine.at_once(name)
    results = []
    for item in given:
        if isinstance(item, BatchReward):
            try:
                accepted = commands.reward(item.decision_id, item)
                results.append(_ACCEPTED_RESULT if accepted else _DUPLICATE_RESULT)
                continue
            except Refused as refusal:
                problem = problems.problem(refusal.status, str(refusal))
        else:
            problem = item
        results.append(views.RewardResult(problem.status, None, problem))
    return views.RewardResults(results)


async def _in_threads(pieces: Generator[bytes]) -> AsyncGenerator[bytes]:
    """Iterate over a generator whose steps may block, and close it at the end, when its last step is over."""
    steps: list[asyncio.Task[bytes | None]] = []
    try:
        while True:
            steps = [asyncio.create_task(asyncio.to_thread(next, pieces, None))]
            piece = await asyncio.shield(steps[0])
            if piece is None:
                return
            yield piece
    finally:
        await asyncio.gather(*steps, return_exceptions=True)  # a generator cannot be closed while it runs
        await asyncio.to_thread(pieces.close)
