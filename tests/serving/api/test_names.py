"""Names that cannot be: refused with 422 wherever they enter, before anything else, and nobody else is harmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from driftbandit.serving.server import build_app

from ..live import live, problem

NUL = "a\x00b"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tmp_path_factory.mktemp("names") / "a.db"
    store = f"sqlite:{path}" if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with live(build_app(store, secure=False)) as url, httpx.Client(base_url=url, timeout=30) as client:
        assert client.put("/v1/loops/x", json={"policy": "ucb1", "scoped": True}).status_code < 300
        yield client


def unharmed(client: httpx.Client) -> None:
    """The engine runs, and has not had to recover."""
    assert client.get("/readyz").status_code == 200
    assert "driftbandit_failures_total 0.0" in client.get("/metrics").text


BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/loops/x/decisions", {"decision_id": NUL, "scope": "s", "arms": ["a"]}),
    ("POST", "/v1/loops/x/decisions", {"decision_id": "d", "scope": NUL, "arms": ["a"]}),
    ("POST", "/v1/loops/x/decisions", {"decision_id": "d", "scope": "line\n", "arms": ["a"]}),
    ("POST", "/v1/loops/x/decisions", {"decision_id": "d\x7f", "scope": "s", "arms": ["a"]}),
    ("POST", "/v1/loops/x/decisions", {"decision_id": "d", "scope": "\ud800", "arms": ["a"]}),
    ("POST", "/v1/loops/x/decisions", {"decision_id": "d", "scope": "s", "arms": [NUL]}),
    ("POST", "/v1/loops/x/decisions/d/reward", {"value": 1, "reward_id": NUL}),
    ("POST", "/v1/loops/x/decisions/d/reward", {"value": 1, "scope": NUL}),
    ("PUT", "/v1/loops/x/arms", {"arms": [NUL]}),
    ("PUT", "/v1/loops/y", {"policy": "linucb", "dim": 1, "feature_names": [NUL]}),
]


def test_in_bodies(client: httpx.Client) -> None:
    assert client.post("/v1/loops/x/decisions", json={"decision_id": "d", "scope": "s", "arms": ["a"]}).is_success
    for method, path, body in BODIES:
        problem(
            client.request(method, path, content=json.dumps(body), headers={"content-type": "application/json"}), 422
        )
        unharmed(client)
    assert client.get("/v1/loops/x/stats").json()["totals"]["decisions"] == 1, "nothing was decided under such a name"


def test_in_batches_beside_good_ones(client: httpx.Client) -> None:
    good = {"decision_id": "e", "scope": "s", "arms": ["a", "b"]}
    for _ in range(2):  # once with a new pool, once with a known one
        items = [good, good | {"decision_id": NUL}, good | {"scope": NUL}]
        results = client.post("/v1/loops/x/decisions:batch", json={"decisions": items}).json()["results"]
        assert [result["status"] // 100 for result in results] == [2, 4, 4]
        assert {result["status"] for result in results[1:]} == {422}
        assert "1 to 200 printable" in results[1]["problem"]["detail"]
    reward = {"decision_id": "e", "value": 1, "scope": "s"}
    rewards = [reward | {"decision_id": NUL}, reward | {"reward_id": NUL}, reward | {"scope": NUL}, reward]
    results = client.post("/v1/loops/x/rewards:batch", json={"rewards": rewards}).json()["results"]
    assert [result["status"] for result in results] == [422, 422, 422, 200]
    unharmed(client)


@pytest.mark.parametrize("bad", ["%00", "a%00", "%0A", "%7F", "%ED%A0%80", "%C2%85", "x" * 201])
def test_in_paths(client: httpx.Client, bad: str) -> None:
    for method, path in (
        ("PUT", f"/v1/loops/{bad}"),
        ("GET", f"/v1/loops/{bad}"),
        ("GET", f"/v1/loops/{bad}/log"),
        ("POST", f"/v1/loops/{bad}/decisions"),
        ("POST", f"/v1/loops/x/decisions/{bad}/reward"),
        ("GET", f"/v1/loops/x/scopes/{bad}"),
    ):
        body = {"json": {"value": 1}} if method != "GET" else {}
        problem(client.request(method, path, **body), 422)  # type: ignore[arg-type]
    for query in (f"loop={bad}", f"loop=x&scope={bad}"):
        assert client.get(f"/?{query}").status_code == 422
        assert client.get(f"/live?{query}").status_code == 422
    unharmed(client)


@pytest.mark.parametrize("where", ["decisions", "decisions:batch", "rewards:batch", "decisions/d/reward"])
def test_json_that_is_not_utf_8(client: httpx.Client, where: str) -> None:
    json_type = {"content-type": "application/json"}
    for body in (
        b'{"scope": "\xff"}',
        b'{"decisions": [{"scope": "\xc3"}]}',
        b'{"rewards": [{"decision_id": "\xff"}]}',
    ):
        problem(client.post(f"/v1/loops/x/{where}", content=body, headers=json_type), 422)
    problem(client.put("/v1/loops/y", content=b'{"policy": "\xed\xa0\x80"}', headers=json_type), 422)
    problem(client.put("/v1/loops/x/arms", content=b'{"arms": ["\xff"]}', headers=json_type), 422)
    unharmed(client)


@pytest.mark.parametrize(
    "place", ["0:99999999999999999999", "0:" + "9" * 5000, "7:x", "0:-5", "99999999999999999999:1"]
)
def test_a_stream_that_resumes_at_no_place_begins_at_the_beginning(client: httpx.Client, place: str) -> None:
    with client.stream("GET", "/v1/loops/x/stream", headers={"last-event-id": place}) as answer:
        lines = answer.iter_lines()
        assert "event: stats" in (next(lines) for _ in range(6))
