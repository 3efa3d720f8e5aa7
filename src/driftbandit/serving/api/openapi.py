"""The OpenAPI document, made from the table of routes and the types in it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from driftbandit.serving.api.errors import Problem
from driftbandit.serving.api.routes import Route

_REF = "#/components/schemas/{name}"
_PARAMETER = {"type": "string", "minLength": 1, "maxLength": 200}


def document(routes: list[Route]) -> dict[str, Any]:
    """Describe all routes."""
    types: list[Any] = [Problem]
    for route in routes:
        types += [
            kind
            for kind in (route.body, *route.answers.values())
            if kind is not None and not isinstance(kind, str | tuple)
        ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "driftbandit decision service",
            "version": "1",
            "description": "Contextual bandits for a world that changes, behind HTTP.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, by_type: dict[int, Any]) -> dict[str, Any]:
    errors = set(route.errors)
    if route.parameters:
        errors |= {404, 422}
    errors.add(403)
    if route.role is not None:
        errors |= {401, 403, 429, 503}
    if route.body is not None and not isinstance(route.body, str):
        errors.add(415)
    if route.path == "/readyz":
        errors.add(503)
    parameters = [{"name": name, "in": "path", "required": True, "schema": _PARAMETER} for name in route.parameters]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in (route.query or {}).items()]
    if route.path.endswith("/stream"):
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}})
    answers: dict[str, Any] = {}
    for status, kind in route.answers.items():
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": _content(kind, by_type)}
    for status in sorted(errors):
        problem = {"application/problem+json": {"schema": by_type[id(Problem)]}}
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    operation: dict[str, Any] = {"summary": route.summary, "parameters": parameters, "responses": answers}
    if route.role is not None:
        operation["security"] = [{"key": []}]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body, by_type)}
    return operation


def _content(kind: Any, by_type: dict[int, Any]) -> dict[str, Any]:
    """What a body or an answer may be: a type as JSON, or anything of a media type or one of several."""
    if isinstance(kind, str | tuple):
        return {media: {"schema": {"type": "string"}} for media in ([kind] if isinstance(kind, str) else kind)}
    return {"application/json": {"schema": by_type[id(kind)]}}
