"""Without keys: what a foreign page in the browser of the person who runs the service could send is refused."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from driftbandit.serving.server import build_app

from ..live import live, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    app = build_app(f"sqlite:{tmp_path_factory.mktemp('local') / 'a.db'}", secure=False, host="Mybox.example")
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        assert client.post("/v1/loops/x/decisions", json={"decision_id": "d", "arms": ["a", "b"]}).status_code == 201
        yield client


REWARD = "/v1/loops/x/decisions/d/reward"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8080", "localhost.", "", "[::2]", "a b", "[", "1:x"]
)
def test_foreign_hosts(client: httpx.Client, host: str) -> None:
    for path in ("/", "/healthz", "/v1/loops", "/v1/loops/x/log"):
        assert client.get(path, headers={"host": host}).status_code == 403
    assert "host: without keys" in problem(client.post(REWARD, json={"value": 1}, headers={"host": host}), 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST:8080", "[::1]:8080", "mybox.example:8080"])
def test_own_hosts(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/loops/x", headers={"host": host}).status_code == 200
    assert client.get("/", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"]
)
def test_bodies_that_a_form_can_send(client: httpx.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    assert "content-type" in problem(client.post(REWARD, content=b'{"value": 1}', headers=headers), 415)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://", "https://[", "x"])
def test_foreign_origins(client: httpx.Client, origin: str) -> None:
    for method, path in (("GET", "/"), ("GET", "/v1/loops/x/stats"), ("POST", REWARD), ("POST", "/logout")):
        answer = client.request(
            method, path, json={"value": 1} if method == "POST" else None, headers={"origin": origin}
        )
        assert answer.status_code == 403
        assert "origin" in answer.text


def test_nothing_of_this_was_learned_and_what_is_right_is(client: httpx.Client) -> None:
    assert client.get("/v1/loops/x/stats").json()["totals"]["rewards"] == 0
    own = {"origin": str(client.base_url).rstrip("/"), "content-type": "Application/JSON; charset=utf-8"}
    assert client.post(REWARD, content=b'{"value": 1}', headers=own).json() == {"status": "accepted"}
