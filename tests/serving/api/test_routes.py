"""How a path finds its route, and what is answered if it finds none."""

from __future__ import annotations

import string
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.serving.api.handlers import Handlers
from driftbandit.serving.api.routes import Route, RoutingTable, api_routes
from driftbandit.serving.api.service import Service

from ..live import problem


async def plain(request: Any) -> Any: ...
async def of_loop(request: Any, loop: str) -> Any: ...
async def of_decision(request: Any, loop: str, id: str) -> Any: ...


def route(method: str, path: str, handler: Any) -> Route:
    return Route(method, path, None, handler, "", {})


TABLE = [
    route("GET", "/", plain),
    route("GET", "/loops", plain),
    route("GET", "/loops/{loop}", of_loop),
    route("PUT", "/loops/{loop}", of_loop),
    route("POST", "/loops/{loop}/decisions:batch", of_loop),
    route("POST", "/loops/{loop}/decisions/{id}/reward", of_decision),
]


def found(path: str) -> tuple[list[str], list[str]]:
    methods, values = RoutingTable(TABLE).find(path.split("/"))
    return sorted(methods), values


@pytest.mark.parametrize(
    ("path", "methods", "values"),
    [
        ("/", ["GET"], []),
        ("/loops", ["GET"], []),
        ("/loops/a", ["GET", "PUT"], ["a"]),
        ("/loops/", ["GET", "PUT"], [""]),
        ("/loops/{loop}", ["GET", "PUT"], ["{loop}"]),
        ("/loops/loops/decisions:batch", ["POST"], ["loops"]),
        ("/loops/a/decisions/b/reward", ["POST"], ["a", "b"]),
        ("/loops/a/decisions/b", [], ["a", "b"]),
        ("/loops/a/nope", [], []),
        ("/loops/a/decisions/b/reward/", [], []),
        ("loops", [], []),
        ("*", [], []),
        ("//", [], []),
    ],
)
def test_a_path_finds_its_routes_and_parameters(path: str, methods: list[str], values: list[str]) -> None:
    assert found(path) == (methods, values)


@given(st.text(string.printable), st.text())
def test_parameters_come_as_they_are(loop: str, ident: str) -> None:
    methods, values = RoutingTable(TABLE).find(["", "loops", loop, "decisions", ident, "reward"])
    assert (list(methods), values) == (["POST"], [loop, ident])


def test_parameters_are_named() -> None:
    assert TABLE[-1].parameters == ("loop", "id")
    assert TABLE[0].parameters == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (route("GET", "/loops/{name}", of_loop), "takes the parameters"),
        (route("GET", "/loops/{loop}/x", plain), "takes the parameters"),
        (route("GET", "/loops", plain), "already"),
        (route("GET", "/loops/list", plain), "could also be a parameter"),
        (route("GET", "/{loop}", of_loop), "could also be one of"),
    ],
    ids=lambda value: value.path if isinstance(value, Route) else "",
)
def test_a_table_that_cannot_be_right_is_refused(wrong: Route, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RoutingTable([*TABLE, wrong])


def test_every_route_of_the_api_is_found_by_its_own_path() -> None:
    service = Service(lambda: None, lambda store: None, lambda: None)  # type: ignore[arg-type,return-value]
    routes = api_routes(Handlers(service))
    table = RoutingTable(routes)
    for one in routes:
        methods, values = table.find(one.path.split("/"))
        assert methods[one.method] is one
        assert values == [f"{{{name}}}" for name in one.parameters]


def test_paths_over_http(http: httpx.Client, loop: str) -> None:
    problem(http.get("/nothing"), 404)
    assert "not UTF-8" in problem(http.get("/v1/loops/%ff"), 422)
    for path in ("changes", "stats", "scopes", "scopes/ann", "log", "stream"):
        problem(http.get(f"/v1/loops/nope/{path}"), 404)
    for method, path, allow in (("POST", loop, "DELETE, GET, PUT"), ("GET", f"{loop}/decisions", "POST")):
        answer = http.request(method, path)
        problem(answer, 405)
        assert answer.headers["allow"] == allow
    answer = http.head("/healthz")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(http.get("/healthz").content))


@pytest.mark.parametrize("name", ["a/b", "../x", "%2F", "*", "{loop}", "ü ", "<script>", "decisions"])
def test_a_name_is_one_segment_whatever_is_in_it(http: httpx.Client, loop: str, name: str) -> None:
    path = f"/v1/loops/{quote(name, safe='')}"
    assert http.put(path, json={"policy": "ucb1"}).json()["loop"] == name
    ident = quote(f"id of {name}", safe="")
    assert http.post(f"{path}/decisions", json={"decision_id": f"id of {name}", "arms": ["a"]}).status_code == 201
    assert http.post(f"{path}/decisions/{ident}/reward", json={"value": 1}).json() == {"status": "accepted"}
