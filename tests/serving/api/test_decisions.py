from __future__ import annotations

import json
import time
from collections.abc import Callable

import httpx
import pytest

from ..live import problem


def test_a_decision_and_its_reward(http: httpx.Client, loop: str) -> None:
    answer = http.post(f"{loop}/decisions", json={"decision_id": "x/ü 1", "scope": "ann", "arms": ["a", "ü c"]})
    assert answer.status_code == 201
    body = answer.json()
    assert set(body) == {"decision_id", "arm", "index", "propensity", "policy_version", "expires_at"}
    assert body["arm"] == ["a", "ü c"][body["index"]]
    again = http.post(f"{loop}/decisions", json={"decision_id": "x/ü 1", "scope": "ann", "arms": ["a", "ü c"]})
    assert (again.status_code, again.json()) == (200, body)
    other = http.post(f"{loop}/decisions", json={"decision_id": "x/ü 1", "scope": "bob", "arms": ["a", "ü c"]})
    assert "another body" in problem(other, 409)
    reward = f"{loop}/decisions/x%2F%C3%BC%201/reward"
    for value, status, text in ((1, 200, "accepted"), (1.0, 200, "duplicate"), (0, 409, "has the reward 1 already")):
        answer = http.post(reward, json={"value": value})
        assert answer.status_code == status
        assert text in answer.text
    problem(http.post(f"{loop}/decisions/nope/reward", json={"value": 1}), 404)


def test_versions(http: httpx.Client, loop: str) -> None:
    assert http.get(loop).json()["version"] == 1
    problem(http.put(loop, json={"dim": 2, "policy": "lints"}), 409)
    problem(http.put(loop, json={"dim": 2, "policy": "lints", "version": 7}), 409)
    answer = http.put(loop, json={"dim": 2, "policy": "lints", "version": 1})
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    assert loop.rpartition("/")[2] in [found["loop"] for found in http.get("/v1/loops").json()["loops"]]


def test_the_window_closes(http: httpx.Client, new_path: Callable[[], str]) -> None:
    path = new_path()
    http.put(path, json={"policy": "ucb1", "window": 0.05})
    ident = http.post(f"{path}/decisions", json={"arms": ["a", "b"]}).json()["decision_id"]
    time.sleep(0.2)
    assert "logged, not learned" in problem(http.post(f"{path}/decisions/{ident}/reward", json={"value": 1}), 410)
    totals = http.get(f"{path}/stats").json()["totals"]
    assert (totals["learned"], totals["missing"], totals["late"]) == (1, 1, 1)


def test_batches(http: httpx.Client, loop: str) -> None:
    items = [{"decision_id": f"b{i}", "arms": ["a", "b"]} for i in range(5)]
    items[1] = {"decision_id": "b1", "arms": ["nope"]}
    items[2] = {"decision_id": "b2", "arms": 7}  # type: ignore[dict-item]
    items[4] = items[0]
    results = http.post(f"{loop}/decisions:batch", json={"decisions": items}).json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 201, 200]
    assert results[4]["decision"] == results[0]["decision"]
    assert "not in the catalogue" in results[1]["problem"]["detail"]
    rewards = [{"decision_id": ident, "value": 1} for ident in ("b0", "b0", "b3", "nope")]
    rewards.append({"decision_id": "b0", "value": "much"})
    results = http.post(f"{loop}/rewards:batch", json={"rewards": rewards}).json()["results"]
    assert [result["status"] for result in results] == [200, 200, 200, 404, 422]
    assert [result["reward"]["status"] for result in results[:3]] == ["accepted", "duplicate", "accepted"]
    problem(http.post(f"{loop}/decisions:batch", json={"decisions": [{}] * 1001}), 413)
    problem(http.post("/v1/loops/nope/decisions:batch", json={"decisions": [{}]}), 404)
    assert http.post(f"{loop}/decisions:batch", json={"decisions": []}).json() == {"results": []}


BAD = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"arms": NaN}',
    b'{"arms": [{"id": "a", "features": [NaN, 1]}]}',
    b'{"arms": [{"id": "a", "features": [Infinity, 1]}]}',
    b'{"arms": [{"id": "a", "features": [1e999, 1]}]}',
    b'{"arms": [{"id": "a", "features": [1e300, 1]}]}',
    b'{"arms": [{"id": "a", "features": [1, 2, 3]}]}',
    b'{"arms": [{"id": "a", "features": []}]}',
    b'{"arms": [{"id": "a", "features": [1, "2"]}]}',
    b'{"arms": [{"id": "a"}]}',
    b'{"arms": ["a", {"id": "b", "features": [1, 2]}]}',
    b'{"arms": []}',
    b'{"arms": ["a", "a"]}',
    b'{"arms": ["a"], "decision_id": ""}',
    b'{"arms": ["a"], "decision_id": 7}',
    b'{"arms": ["a"], "decision_id": "\\u0000"}',
    b'{"arms": ["a"], "decision_id": "\\ud800"}',
    b'{"arms": ["a"], "scope": "line\\nbreak"}',
    b'{"arms": ["a"], "surprise": 1}',
    b"\xff\xfe",
    b"[" * 100_000,
    json.dumps({"arms": ["a"], "decision_id": "i" * 10_000}).encode(),
    json.dumps({"arms": [f"a{i}" for i in range(100_000)]}).encode()[: 1 << 20],
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:40]))
def test_bad_decisions_are_refused(http: httpx.Client, loop: str, body: bytes) -> None:
    problem(http.post(f"{loop}/decisions", content=body), 422)
    assert http.get(f"{loop}/stats").json()["totals"]["decisions"] == 0


def test_too_much_is_refused(http: httpx.Client, loop: str) -> None:
    problem(http.post(f"{loop}/decisions", content=b"x" * 10_000_000), 413)
    problem(http.post(f"{loop}/decisions", content=iter([b"x" * 600_000] * 2)), 413)  # without a content-length
    arms = json.dumps({"arms": [f"a{i}" for i in range(100_000)]}).encode()
    problem(http.post(f"{loop}/decisions", content=arms), 413 if len(arms) > 1 << 20 else 422)
    problem(http.put(f"{loop}/arms", json={"arms": [{"id": str(i), "features": [0, 0]} for i in range(10_001)]}), 422)


def test_bad_rewards_and_queries(http: httpx.Client, loop: str) -> None:
    http.post(f"{loop}/decisions", json={"decision_id": "d"})
    for body in (b"{}", b'{"value": NaN}', b'{"value": "1"}', b'{"value": null}', b'{"value": 1e101}'):
        problem(http.post(f"{loop}/decisions/d/reward", content=body), 422)
    problem(http.get(f"{loop}/log?format=xml"), 422)
    problem(http.get(f"{loop}/log?after=-1"), 422)
    problem(http.get(f"{loop}/stats?resolution=7"), 422)
    problem(http.get(f"{loop}/scopes/never-met"), 404)
