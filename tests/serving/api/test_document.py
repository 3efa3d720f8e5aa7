"""What the OpenAPI document allows, and what it does not, asked of the service by schemathesis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from driftbandit.serving.api import openapi
from driftbandit.serving.api.handlers import Handlers
from driftbandit.serving.api.routes import api_routes
from driftbandit.serving.api.service import Service
from driftbandit.serving.server import build_app

from ..live import live

schemathesis = pytest.importorskip("schemathesis", reason="needs driftbandit[dev]")
from schemathesis.specs.openapi.checks import response_schema_conformance  # noqa: E402 - only where it is installed

_service = Service(lambda: None, lambda store: None, lambda: None)  # type: ignore[arg-type,return-value]
DOCUMENT = openapi.document(api_routes(Handlers(_service)))
SCHEMA = schemathesis.openapi.from_dict(json.loads(msgspec.json.encode(DOCUMENT)))
OPERATIONS = [
    (path, method)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if not path.endswith("/stream")  # it never ends
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live(build_app(f"sqlite:{tmp_path_factory.mktemp('document') / 'a.db'}", secure=False)) as address:
        with httpx.Client(base_url=address, timeout=60) as client:  # something to find
            for loop in ("0", "x"):
                assert client.put(f"/v1/loops/{loop}", json={"policy": "ucb1"}).status_code == 201
                assert client.put(f"/v1/loops/{loop}/arms", json={"arms": ["a", "b"]}).status_code == 200
                client.post(f"/v1/loops/{loop}/decisions", json={"decision_id": "0"})
        yield address


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_are_as_documented(url: str, path: str, method: str, mode: str) -> None:
    operation = SCHEMA[path][method.upper()]
    try:
        cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

        @given(case=cases)
        @settings(
            max_examples=20,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        def ask(case: Any) -> None:
            answer = case.call(base_url=url, timeout=60)
            assert answer.status_code < 500, answer.text
            documented = DOCUMENT["paths"][path][method]["responses"]
            assert str(answer.status_code) in documented or answer.status_code in (404, 405), answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == ["application/problem+json"]
                assert set(answer.json()) == {"title", "status", "detail", "type"}
            elif path.startswith("/v1") and not path.endswith("/log"):
                case.validate_response(answer, checks=[response_schema_conformance])

        ask()
    except Unsatisfiable:
        assert mode == "negative"  # an operation without anything to get wrong
