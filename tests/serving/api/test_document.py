"""What the OpenAPI document allows, and what it does not, asked of the service by schemathesis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from driftbandit.serving.api import openapi
from driftbandit.serving.api.handlers import make_app
from driftbandit.serving.api.keys import create_key
from driftbandit.serving.api.service import Service
from driftbandit.serving.server import build_app, open_store

from ..live import live

schemathesis = pytest.importorskip("schemathesis", reason="needs driftbandit[dev]")
from schemathesis.specs.openapi.checks import response_schema_conformance  # noqa: E402 - only where it is installed

_service = Service(lambda: None, lambda *given: None, lambda: None)  # type: ignore[arg-type,return-value]
ROUTES = [route for route in make_app(_service).routes if route.path != "/openapi.json"]
DOCUMENT = openapi.document(ROUTES)
SCHEMA = schemathesis.openapi.from_dict(json.loads(msgspec.json.encode(DOCUMENT)))
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]


@dataclass
class Keyed:
    """A service that asks for keys, and a key of each role."""

    url: str
    keys: dict[str, str]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    address = f"sqlite:{tmp_path_factory.mktemp('document') / 'a.db'}"
    store = open_store(address, writer=False)
    keys = {role: create_key(store, role, role)[1] for role in ("admin", "decide", "read")}
    store.close()
    with live(build_app(address)) as url:
        headers = {"authorization": f"Bearer {keys['admin']}"}
        with httpx.Client(base_url=url, timeout=60, headers=headers) as client:  # something to find
            for loop in ("0", "x"):
                assert client.put(f"/v1/loops/{loop}", json={"policy": "ucb1"}).status_code == 201
                assert client.put(f"/v1/loops/{loop}/arms", json={"arms": ["a", "b"]}).status_code == 200
                client.post(f"/v1/loops/{loop}/decisions", json={"decision_id": "0"})
        yield Keyed(url, keys)


@pytest.fixture(scope="module", autouse=True)
def _streams_that_end() -> Iterator[None]:
    """Event streams end after their first turn; otherwise there is no whole answer to look at."""
    turns = [False]

    async def stops_within(service: Service, seconds: float) -> bool:
        turns.append(True)
        return True

    def stopping(service: Service) -> bool:
        return turns.pop() if len(turns) > 1 else turns[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Service, "stops_within", stops_within)
        patch.setattr(Service, "stopping", property(stopping))
        yield


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_are_as_documented(keyed: Keyed, path: str, method: str, mode: str) -> None:
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
            case.headers = {**(case.headers or {}), "authorization": f"Bearer {keyed.keys['admin']}"}
            answer = case.call(base_url=keyed.url, timeout=60)
            assert answer.status_code not in (401, 403), answer.text
            assert answer.status_code < 500, answer.text
            documented = DOCUMENT["paths"][path][method]["responses"]
            assert str(answer.status_code) in documented or answer.status_code in (404, 405), answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == ["application/problem+json"]
                assert set(answer.json()) == {"title", "status", "detail", "type"}
            elif path.endswith("/stream"):
                assert answer.headers["content-type"] == ["text/event-stream"]
                assert b"event: stats\n" in answer.content
            elif path.startswith("/v1") and not path.endswith("/log"):
                case.validate_response(answer, checks=[response_schema_conformance])

        ask()
    except Unsatisfiable:
        assert mode == "negative"  # an operation without anything to get wrong


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_other_keys_are_refused_as_documented(keyed: Keyed, path: str, method: str) -> None:
    """Without a key, with a wrong one and with one of another role, before anything else is looked at."""
    documented = DOCUMENT["paths"][path][method]
    where = path.replace("{loop}", "x").replace("{id}", "0")
    role = next(route.role for route in ROUTES if (route.path, route.method) == (path, method.upper()))
    for whose, key in {"no key": None, "a wrong key": "dbk_wrong", **keyed.keys}.items():
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        answer = httpx.request(method.upper(), keyed.url + where, content=b"{", headers=headers, timeout=60)
        if role is None:
            assert answer.status_code == 200
            assert "security" not in documented
            continue
        assert documented["security"] == [{"key": []}]
        expected = 401 if whose not in keyed.keys else 403 if whose not in (role, "admin") else None
        if expected is None:
            assert answer.status_code not in (401, 403), whose
        else:
            assert answer.status_code == expected, whose
            assert str(expected) in documented["responses"]
            assert answer.headers["content-type"] == "application/problem+json"
