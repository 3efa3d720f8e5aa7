"""The HTTP API of the decision service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from driftbandit.serving import export, metrics, openapi, problems, views
from driftbandit.serving.asgi import JSON, App, Request, Response, Route, Stream
from driftbandit.serving.config import LoopConfig
from driftbandit.serving.engine import (
    MAX_BATCH,
    BatchReward,
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    Engine,
    RewardRequest,
)
from driftbandit.serving.keys import Keyring
from driftbandit.serving.loop import Refused
from driftbandit.serving.page.handlers import Page
from driftbandit.serving.problems import HTTPError, Problem
from driftbandit.serving.runner import Runner
from driftbandit.serving.stores.base import Store, StoreError

Result = TypeVar("Result")

_BATCH_BYTES = 8 << 20
_MAX_STREAMS = 200
_encode = msgspec.json.Encoder().encode


class LoopRequest(LoopConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a loop; `version` is the one that they are to replace, 0 for a new loop."""

    version: Annotated[int, Meta(ge=0)] | None = None


class DecisionBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions at once."""

    decisions: list[DecisionRequest]


class RewardBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards at once."""

    rewards: list[BatchReward]


class RewardAnswer(msgspec.Struct, frozen=True):
    """What became of a reward: 'accepted' or 'duplicate'."""

    status: str


class DecisionResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision of a batch, with the status it would have had on its own."""

    status: int
    decision: Decision | None = None
    problem: Problem | None = None


class RewardResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reward of a batch."""

    status: int
    reward: RewardAnswer | None = None
    problem: Problem | None = None


class DecisionResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[DecisionResult]


class RewardResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[RewardResult]


class _RawDecisions(msgspec.Struct, forbid_unknown_fields=True):
    decisions: list[msgspec.Raw]


class _RawRewards(msgspec.Struct, forbid_unknown_fields=True):
    rewards: list[msgspec.Raw]


_loop = msgspec.json.Decoder(LoopRequest)
_arms = msgspec.json.Decoder(CatalogueRequest)
_decision = msgspec.json.Decoder(DecisionRequest)
_reward = msgspec.json.Decoder(RewardRequest)
_decisions = msgspec.json.Decoder(DecisionBatch)
_rewards = msgspec.json.Decoder(RewardBatch)
_one_reward = msgspec.json.Decoder(BatchReward)

_ACCEPTED = RewardAnswer("accepted")
_DUPLICATE = RewardAnswer("duplicate")
_ACCEPTED_BODY = _encode(_ACCEPTED)
_DUPLICATE_BODY = _encode(_DUPLICATE)
_ACCEPTED_RESULT = RewardResult(200, _ACCEPTED)
_DUPLICATE_RESULT = RewardResult(200, _DUPLICATE)


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
        given, name = _decision.decode(request.body), request.loop
        ids = None if given.decision_id is None else (name, [given.decision_id])
        created, answer = await self.runner.submit(lambda engine: engine.decide(name, given), ids)
        return Response(201 if created else 200, _encode(answer))

    async def reward(self, request: Request) -> Response:
        """Take a reward."""
        given, name, ident = _reward.decode(request.body), request.loop, request.id
        fresh = await self.runner.submit(lambda engine: engine.reward(name, ident, given), (name, [ident]))
        return Response(200, _ACCEPTED_BODY if fresh else _DUPLICATE_BODY)

    async def decide_many(self, request: Request) -> Response:
        """Choose many arms."""
        name = request.loop
        given = _many(request.body, _decisions, _RawDecisions, "decisions", _decision)
        ids = [item.decision_id for item in given if type(item) is DecisionRequest and item.decision_id is not None]

        def carry_out(engine: Engine) -> list[DecisionResult]:
            results = engine.decide_many(name, [item for item in given if type(item) is DecisionRequest])
            return _merge(given, map(_decision_result, results), DecisionResult)

        return Response(200, _encode(DecisionResults(await self.runner.submit(carry_out, (name, ids)))))

    async def reward_many(self, request: Request) -> Response:
        """Take many rewards."""
        name = request.loop
        given = _many(request.body, _rewards, _RawRewards, "rewards", _one_reward)
        ids = [item.decision_id for item in given if type(item) is BatchReward]

        def carry_out(engine: Engine) -> list[RewardResult]:
            results = engine.reward_many(name, [item for item in given if type(item) is BatchReward])
            return _merge(given, map(_reward_result, results), RewardResult)

        return Response(200, _encode(RewardResults(await self.runner.submit(carry_out, (name, ids)))))

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
        after = views.whole_number("after", query.get("after", "0"), 0, 1 << 62)
        shard = views.whole_number("shard", query.get("shard", "0"), 0, 1 << 20)
        name = request.loop
        number = await self.call(lambda engine: engine.number(name))
        pieces = export.FORMATS[kind](self._open_reader, name, number, shard, after)
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
        resolution = {"type": "string", "enum": list(views.RESOLUTIONS), "default": "5"}
        count = {"type": "integer", "minimum": 0, "default": 0}
        exports = {"format": {"type": "string", "enum": list(export.FORMATS), "default": "ndjson"}}
        v1 = "/v1/loops/{loop}"
        anything = dict[str, Any]
        return [
            Route("GET", "/healthz", None, self.healthz, "Liveness", {200: anything}),
            Route("GET", "/readyz", None, self.readyz, "Readiness", {200: anything}),
            Route("GET", "/v1/loops", "read", self.list_loops, "All loops", {200: anything}),
            Route("GET", v1, "read", self.get_loop, "A loop's settings", {200: Configuration}),
            Route(
                *("PUT", v1, "admin", self.put_loop, "Create or change a loop"),
                answers={200: Configuration, 201: Configuration},
                body=LoopRequest,
                errors=(409, 413, 422),
            ),
            Route(
                *("PUT", f"{v1}/arms", "admin", self.put_arms, "Replace the arm catalogue"),
                answers={200: Configuration},
                body=CatalogueRequest,
                errors=(413, 422),
                limit=64 << 20,
            ),
            Route(
                *("POST", f"{v1}/decisions", "decide", self.decide, "Choose an arm"),
                answers={200: Decision, 201: Decision},
                body=DecisionRequest,
                errors=(307, 409, 413, 421, 422),
            ),
            Route(
                *("POST", f"{v1}/decisions:batch", "decide", self.decide_many, "Choose up to 1,000 arms"),
                answers={200: DecisionResults},
                body=DecisionBatch,
                errors=(413, 422),
                limit=_BATCH_BYTES,
            ),
            Route(
                *("POST", f"{v1}/rewards:batch", "decide", self.reward_many, "Report up to 1,000 rewards"),
                answers={200: RewardResults},
                body=RewardBatch,
                errors=(413, 422),
                limit=_BATCH_BYTES,
            ),
            Route(
                *("POST", f"{v1}/decisions/{{id}}/reward", "decide", self.reward, "Report a reward"),
                answers={200: RewardAnswer},
                body=RewardRequest,
                errors=(307, 409, 410, 413, 421, 422),
            ),
            Route(
                *("GET", f"{v1}/changes", "read", self.changes, "Detected changes, with their evidence"),
                answers={200: anything},
                query={"limit": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000}},
                errors=(422,),
            ),
            Route(
                "GET",
                f"{v1}/scopes",
                "read",
                self.model,
                "The shared model, or the most changed scopes",
                {200: anything},
            ),
            Route("GET", f"{v1}/scopes/{{id}}", "read", self.scope, "A scope's model", {200: anything}),
            Route(
                *("GET", f"{v1}/stats", "read", self.stats, "Counts, and rewards over time"),
                answers={200: anything},
                query={"resolution": resolution},
                errors=(422,),
            ),
            Route(
                *("GET", f"{v1}/log", "read", self.log, "Export the log"),
                answers={200: "application/octet-stream"},
                query=exports | {"after": count, "shard": count},
                errors=(422,),
            ),
            Route(
                *("GET", f"{v1}/stream", "read", self.stream, "Server-sent events; resume with Last-Event-ID"),
                answers={200: "text/event-stream"},
                errors=(422,),
            ),
        ]


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


def _many(body: bytes, whole: Any, raw: Any, field: str, one: Any) -> list[Any]:
    """Read a batch; where it has bad items, those become problems and the others stay."""
    try:
        items: list[Any] = getattr(whole.decode(body), field)
    except msgspec.ValidationError:
        items = []
        for item in getattr(msgspec.json.decode(body, type=raw), field):
            try:
                items.append(one.decode(item))
            except msgspec.ValidationError as error:
                items.append(problems.problem(422, str(error)))
    if len(items) > MAX_BATCH:
        raise HTTPError(413, f"a batch may have at most {MAX_BATCH:,} items, got {len(items):,}")
    return items


def _decision_result(result: tuple[bool, Decision] | Refused) -> DecisionResult:
    if isinstance(result, Refused):
        return DecisionResult(result.status, None, problems.problem(result.status, str(result)))
    created, decision = result
    return DecisionResult(201 if created else 200, decision)


def _reward_result(result: bool | Refused) -> RewardResult:
    if isinstance(result, Refused):
        return RewardResult(result.status, None, problems.problem(result.status, str(result)))
    return _ACCEPTED_RESULT if result else _DUPLICATE_RESULT


def _merge(given: list[Any], results: Iterator[Result], bad: Callable[[int, None, Problem], Result]) -> list[Result]:
    """Results in the order of what was given, in which items that could not be read are problems already."""
    return [bad(item.status, None, item) if type(item) is Problem else next(results) for item in given]


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Iterate over a generator whose steps may block."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


__all__ = ["JSON", "LoopRequest", "Service", "make_app"]
