"""Routes: what one is, how a path finds it, and the table of the API with methods, paths, roles, types and errors."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driftbandit.serving.api import views
from driftbandit.serving.api.bodies import DecisionBatch, RewardBatch
from driftbandit.serving.api.keys import Role
from driftbandit.serving.engine.messages import (
    CatalogueRequest,
    Configuration,
    Decision,
    DecisionRequest,
    LoopRequest,
    RewardRequest,
)
from driftbandit.serving.log import export

if TYPE_CHECKING:
    from driftbandit.serving.api.handlers import Handlers
    from driftbandit.serving.api.http import Request, Response, Stream

Handler = Callable[..., Awaitable["Response | Stream"]]
"""Answers a `Request`; after it come the parameters of the path, each a str."""

_BATCH_BYTES = 8 << 20
_CATALOGUE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table.

    Attributes
    ----------
    method, path : str
        ``{name}`` in the path stands for one segment, which the handler gets as the argument `name`.
    role : 'decide', 'read', 'admin' or None
        Who may call it, besides 'admin'; None is everyone.
    handler : callable
        Answers a `Request` and the parameters of its path.
    summary : str
        One line for the OpenAPI document.
    body, answers :
        Type of the body, and of the answers by status; a str is a media type.
    errors : tuple of int
        Statuses beyond 401, 403, 404, 429 and 503.
    query : dict
        Parameters of the query, as OpenAPI schemas.
    limit : int
        Largest body, in bytes.
    refusal : callable, optional
        Shows an error (request, status, detail) to a person. A route with a refusal takes the session of a cookie
        too, so it must change nothing: a browser also sends cookies with requests that other sites forge.
    whole_service : bool
        Whether the answer tells of all loops, so that a key for some of them may not have it.
    parameters : tuple of str
        Names of the path's parameters, in their order.
    """

    method: str
    path: str
    role: Role | None
    handler: Handler
    summary: str
    answers: dict[int, Any]
    body: Any = None
    errors: tuple[int, ...] = ()
    query: dict[str, dict[str, Any]] | None = None
    limit: int = 1 << 20
    refusal: Callable[[Request, int, str], Response] | None = None
    whole_service: bool = False

    parameters: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = tuple(part[1:-1] for part in self.path.split("/") if _is_parameter(part))
        object.__setattr__(self, "parameters", found)


class RoutingTable:
    """Finds routes by their path: a tree with one level for each segment.

    A level either knows its segments by name or takes any segment as a parameter, so a path matches in one way only.

    >>> async def show(request, loop): ...
    >>> table = RoutingTable([Route("GET", "/loops/{loop}", None, show, "", {})])
    >>> methods, values = table.find(["", "loops", "a b"])
    >>> list(methods), values
    (['GET'], ['a b'])
    >>> table.find(["", "pools", "a b"])
    ({}, [])
    """

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._root = _Level()
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        """Add a route; raises ValueError if its path is taken, ambiguous, or not what its handler takes."""
        taken = tuple(inspect.signature(route.handler).parameters)[1:]
        if taken != route.parameters:
            raise ValueError(f"{route.path}: its handler takes the parameters {taken}, expected {route.parameters}")
        level = self._root
        for part in route.path.split("/"):
            level = level.below(part, route.path)
        if route.method in level.methods:
            raise ValueError(f"{route.method} {route.path}: there is such a route already")
        level.methods[route.method] = route

    def find(self, segments: list[str]) -> tuple[dict[str, Route], list[str]]:
        """Routes of a path by method (none if the path is unknown), and the values of its parameters."""
        level, values = self._root, []
        for segment in segments:
            below = level.any
            if below is not None:
                values.append(segment)
            else:
                below = level.named.get(segment)
                if below is None:
                    return {}, []
            level = below
        return level.methods, values


class _Level:
    """One level of the tree: the segments that may follow, and the routes that end here."""

    __slots__ = ("any", "methods", "named")

    def __init__(self) -> None:
        self.named: dict[str, _Level] = {}
        self.any: _Level | None = None
        self.methods: dict[str, Route] = {}

    def below(self, part: str, path: str) -> _Level:
        """The next level; made if missing."""
        if _is_parameter(part):
            if self.named:
                raise ValueError(f"{path}: {part} could also be one of {', '.join(self.named)}")
            self.any = self.any or _Level()
            return self.any
        if self.any is not None:
            raise ValueError(f"{path}: {part!r} could also be a parameter")
        return self.named.setdefault(part, _Level())


def _is_parameter(part: str) -> bool:
    return part.startswith("{") and part.endswith("}")


def api_routes(handlers: Handlers) -> list[Route]:
    """The routes of the API."""
    resolution = {"type": "string", "enum": list(views.RESOLUTIONS), "default": "5"}
    count = {"type": "integer", "minimum": 0, "default": 0}
    exports = {"format": {"type": "string", "enum": list(export.FORMATS), "default": "ndjson"}}
    v1 = "/v1/loops/{loop}"
    anything = dict[str, Any]
    return [
        Route("GET", "/healthz", None, handlers.healthz, "Liveness", {200: anything}),
        Route("GET", "/readyz", None, handlers.readyz, "Readiness", {200: anything}),
        Route("GET", "/v1/loops", "read", handlers.list_loops, "All loops", {200: anything}),
        Route("GET", v1, "read", handlers.get_loop, "A loop's settings", {200: Configuration}),
        Route(
            *("PUT", v1, "admin", handlers.put_loop, "Create or change a loop"),
            answers={200: Configuration, 201: Configuration},
            body=LoopRequest,
            errors=(409, 413, 422),
            limit=_CATALOGUE_BYTES,
        ),
        Route(
            *("PUT", f"{v1}/arms", "admin", handlers.put_arms, "Replace the arm catalogue"),
            answers={200: Configuration},
            body=CatalogueRequest,
            errors=(413, 422),
            limit=_CATALOGUE_BYTES,
        ),
        Route(
            *("PUT", f"{v1}/model", "admin", handlers.put_model, "Begin again with a policy's file"),
            answers={200: Configuration},
            body="application/octet-stream",
            errors=(409, 413, 422),
            limit=64 << 20,
        ),
        Route(
            *("POST", f"{v1}/decisions", "decide", handlers.decide, "Choose an arm"),
            answers={200: Decision, 201: Decision},
            body=DecisionRequest,
            errors=(307, 409, 413, 421, 422),
        ),
        Route(
            *("POST", f"{v1}/decisions:batch", "decide", handlers.decide_many, "Choose up to 1,000 arms"),
            answers={200: views.DecisionResults},
            body=DecisionBatch,
            errors=(413, 422),
            limit=_BATCH_BYTES,
        ),
        Route(
            *("POST", f"{v1}/rewards:batch", "decide", handlers.reward_many, "Report up to 1,000 rewards"),
            answers={200: views.RewardResults},
            body=RewardBatch,
            errors=(413, 422),
            limit=_BATCH_BYTES,
        ),
        Route(
            *("POST", f"{v1}/decisions/{{id}}/reward", "decide", handlers.reward, "Report a reward"),
            answers={200: views.RewardAnswer},
            body=RewardRequest,
            errors=(307, 409, 410, 413, 421, 422),
        ),
        Route(
            *("GET", f"{v1}/changes", "read", handlers.changes, "Detected changes, with their evidence"),
            answers={200: anything},
            query={"limit": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000}},
            errors=(422,),
        ),
        Route(
            "GET",
            f"{v1}/scopes",
            "read",
            handlers.model,
            "The shared model, or the most changed scopes",
            {200: anything},
        ),
        Route("GET", f"{v1}/scopes/{{id}}", "read", handlers.scope, "A scope's model", {200: anything}),
        Route(
            *("GET", f"{v1}/stats", "read", handlers.stats, "Counts, and rewards over time"),
            answers={200: anything},
            query={"resolution": resolution},
            errors=(422,),
        ),
        Route(
            *("GET", f"{v1}/log", "read", handlers.log, "Export the log"),
            answers={200: tuple(kind.decode() for kind in export.MEDIA_TYPES.values())},
            query=exports | {"after": count, "shard": count},
            errors=(422,),
        ),
        Route(
            *("GET", f"{v1}/stream", "read", handlers.stream, "Server-sent events; resume with Last-Event-ID"),
            answers={200: "text/event-stream"},
            errors=(422,),
        ),
        Route("DELETE", v1, "admin", handlers.delete_loop, "Delete a loop and all its data", {200: views.Deleted}),
        Route(
            *("DELETE", f"{v1}/scopes/{{id}}", "admin", handlers.erase_scope, "Erase a scope from models and log"),
            answers={202: views.ErasureAnswer},
            errors=(422,),
        ),
        Route("GET", f"{v1}/erasures", "read", handlers.erasures, "Scopes that were erased", {200: anything}),
    ]
