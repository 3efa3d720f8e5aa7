"""The table of the API: methods, paths, roles, types and errors of everything that is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftbandit.serving.api import views
from driftbandit.serving.api.app import Route
from driftbandit.serving.api.batches import DecisionResults, RewardAnswer, RewardResults
from driftbandit.serving.api.bodies import DecisionBatch, RewardBatch
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
    from driftbandit.serving.api.handlers import Service

_BATCH_BYTES = 8 << 20


def api_routes(service: Service) -> list[Route]:
    """What the handlers of a service answer."""
    resolution = {"type": "string", "enum": list(views.RESOLUTIONS), "default": "5"}
    count = {"type": "integer", "minimum": 0, "default": 0}
    exports = {"format": {"type": "string", "enum": list(export.FORMATS), "default": "ndjson"}}
    v1 = "/v1/loops/{loop}"
    anything = dict[str, Any]
    return [
        Route("GET", "/healthz", None, service.healthz, "Liveness", {200: anything}),
        Route("GET", "/readyz", None, service.readyz, "Readiness", {200: anything}),
        Route("GET", "/v1/loops", "read", service.list_loops, "All loops", {200: anything}),
        Route("GET", v1, "read", service.get_loop, "A loop's settings", {200: Configuration}),
        Route(
            *("PUT", v1, "admin", service.put_loop, "Create or change a loop"),
            answers={200: Configuration, 201: Configuration},
            body=LoopRequest,
            errors=(409, 413, 422),
        ),
        Route(
            *("PUT", f"{v1}/arms", "admin", service.put_arms, "Replace the arm catalogue"),
            answers={200: Configuration},
            body=CatalogueRequest,
            errors=(413, 422),
            limit=64 << 20,
        ),
        Route(
            *("POST", f"{v1}/decisions", "decide", service.decide, "Choose an arm"),
            answers={200: Decision, 201: Decision},
            body=DecisionRequest,
            errors=(307, 409, 413, 421, 422),
        ),
        Route(
            *("POST", f"{v1}/decisions:batch", "decide", service.decide_many, "Choose up to 1,000 arms"),
            answers={200: DecisionResults},
            body=DecisionBatch,
            errors=(413, 422),
            limit=_BATCH_BYTES,
        ),
        Route(
            *("POST", f"{v1}/rewards:batch", "decide", service.reward_many, "Report up to 1,000 rewards"),
            answers={200: RewardResults},
            body=RewardBatch,
            errors=(413, 422),
            limit=_BATCH_BYTES,
        ),
        Route(
            *("POST", f"{v1}/decisions/{{id}}/reward", "decide", service.reward, "Report a reward"),
            answers={200: RewardAnswer},
            body=RewardRequest,
            errors=(307, 409, 410, 413, 421, 422),
        ),
        Route(
            *("GET", f"{v1}/changes", "read", service.changes, "Detected changes, with their evidence"),
            answers={200: anything},
            query={"limit": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000}},
            errors=(422,),
        ),
        Route(
            "GET",
            f"{v1}/scopes",
            "read",
            service.model,
            "The shared model, or the most changed scopes",
            {200: anything},
        ),
        Route("GET", f"{v1}/scopes/{{id}}", "read", service.scope, "A scope's model", {200: anything}),
        Route(
            *("GET", f"{v1}/stats", "read", service.stats, "Counts, and rewards over time"),
            answers={200: anything},
            query={"resolution": resolution},
            errors=(422,),
        ),
        Route(
            *("GET", f"{v1}/log", "read", service.log, "Export the log"),
            answers={200: "application/octet-stream"},
            query=exports | {"after": count, "shard": count},
            errors=(422,),
        ),
        Route(
            *("GET", f"{v1}/stream", "read", service.stream, "Server-sent events; resume with Last-Event-ID"),
            answers={200: "text/event-stream"},
            errors=(422,),
        ),
    ]
