from __future__ import annotations

import io
import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from driftbandit.client import Client, ServiceError
from driftbandit.serving.api.handlers import Service, make_app
from driftbandit.serving.api.keys import create_key
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.server import build_app, milliseconds
from driftbandit.serving.stores.sqlite import SQLiteStore

from .live import live
from .world import FailingVFS

_names = itertools.count()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live(build_app(f"sqlite:{tmp_path_factory.mktemp('open') / 'a.db'}", secure=False)) as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture
def loop(http: httpx.Client) -> str:
    """A loop of its own for every test: two features, a catalogue of three arms."""
    path = f"/v1/loops/loop{next(_names)}"
    assert http.put(path, json={"dim": 2, "policy": "linucb", "window": 600}).status_code == 201
    arms = [{"id": name, "features": [x, y]} for name, x, y in (("a", 1, 0), ("b", 0, 1), ("ü c", 0.5, 0.5))]
    assert http.put(f"{path}/arms", json={"arms": arms}).status_code == 200
    return path


def problem(answer: httpx.Response, status: int) -> str:
    """Every error is a problem document; returns its detail."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    return str(body["detail"])


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


def test_the_window_closes(http: httpx.Client) -> None:
    path = f"/v1/loops/loop{next(_names)}"
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


def test_bad_rewards_and_paths(http: httpx.Client, loop: str) -> None:
    http.post(f"{loop}/decisions", json={"decision_id": "d"})
    for body in (b"{}", b'{"value": NaN}', b'{"value": "1"}', b'{"value": null}', b'{"value": 1e101}'):
        problem(http.post(f"{loop}/decisions/d/reward", content=body), 422)
    problem(http.get("/nothing"), 404)
    problem(http.get("/v1/loops/%ff"), 404)
    answer = http.delete(loop)
    problem(answer, 405)
    assert answer.headers["allow"] == "GET, PUT"
    for path in ("changes", "stats", "scopes", "scopes/ann", "log", "stream"):
        problem(http.get(f"/v1/loops/nope/{path}"), 404)
    problem(http.get(f"{loop}/log?format=xml"), 422)
    problem(http.get(f"{loop}/log?after=-1"), 422)
    problem(http.get(f"{loop}/stats?resolution=7"), 422)
    problem(http.get(f"{loop}/scopes/never-met"), 404)
    assert http.head("/healthz").status_code == 200


def play(http: httpx.Client, path: str, rounds: int, flip: int, seed: int = 0) -> None:
    """Rewards that follow a taste, which flips after so many rounds."""
    rng = np.random.default_rng(seed)
    taste = np.array([0.6, -0.5, 0.3])
    for start in range(0, rounds, 100):
        pools = rng.standard_normal((100, 5, 3)) / 2
        decisions = [
            {
                "decision_id": f"{seed}-{start + i}",
                "arms": [{"id": f"a{k}", "features": x} for k, x in enumerate(pool.tolist())],
            }
            for i, pool in enumerate(pools)
        ]
        results = http.post(f"{path}/decisions:batch", json={"decisions": decisions}).json()["results"]
        rewards = []
        for i, result in enumerate(results):
            x = pools[i, result["decision"]["index"]]
            value = float(x @ (taste if start + i < flip else -taste))
            rewards.append({"decision_id": f"{seed}-{start + i}", "value": value})
        http.post(f"{path}/rewards:batch", json={"rewards": rewards})


@pytest.fixture(scope="module")
def changed(http: httpx.Client) -> str:
    """A loop whose policy has seen its world flip."""
    path = f"/v1/loops/loop{next(_names)}"
    config = {"dim": 3, "policy": "dlinucb", "settings": {"noise": 0.1}, "learn": "arrival"}
    http.put(path, json=config | {"shadow": {"policy": "linucb"}})
    play(http, path, 800, 400)
    return path


def test_changes_members_and_series_are_shown(http: httpx.Client, changed: str) -> None:
    changes = http.get(f"{changed}/changes").json()["changes"]
    assert [change["kind"] for change in changes[:2]] == ["spawned", "retired"]
    assert changes[0]["evidence"]["miss_rate"] > changes[0]["evidence"]["bound"]
    assert len(changes[0]["weights_before"]) == 3
    shared = http.get(f"{changed}/scopes").json()["shared"]
    assert shared["members"][0]["retire_bound"] > shared["members"][0]["spawn_bound"]
    stats = http.get(f"{changed}/stats").json()
    assert stats["totals"]["changes"] == len(changes)
    assert sum(bucket["decisions"] for bucket in stats["series"]) == stats["totals"]["decisions"] == 800
    assert stats["totals"]["shadow"]["decisions"] == 800
    for resolution in ("60", "3600"):
        series = http.get(f"{changed}/stats?resolution={resolution}").json()["series"]
        assert sum(bucket["decisions"] for bucket in series) == 800


def test_exports_replay_to_the_same_decisions(http: httpx.Client, changed: str, tmp_path: Path) -> None:
    digests = set()
    for kind in ("ndjson", "parquet"):
        answer = http.get(f"{changed}/log?format={kind}")
        path = tmp_path / f"log.{kind}"
        path.write_bytes(answer.content)
        found = rerun_log(read_export(path))
        assert (found.decisions, found.identical) == (800, 800)
        digests.add(found.digest)
    assert len(digests) == 1
    assert pq.read_table(io.BytesIO(answer.content)).num_rows == found.events
    last = http.get(f"{changed}/log?after={found.events - 1}").text.splitlines()
    assert [json.loads(line)["seq"] for line in last] == [found.events]


def test_dsjson_joins_decisions_and_rewards(http: httpx.Client, changed: str) -> None:
    lines = [json.loads(line) for line in http.get(f"{changed}/log?format=dsjson").text.splitlines()]
    assert len(lines) == 800
    for line in lines:
        assert sum(line["p"]) == pytest.approx(1.0)
        assert line["p"][0] == line["_label_probability"]
        assert line["a"][0] == line["_label_Action"] == line["_labelIndex"] + 1
        assert len(line["c"]["_multi"]) == 5
    rewards = {
        event["id"]: event["value"]
        for event in map(json.loads, http.get(f"{changed}/log").text.splitlines())
        if event["kind"] == "reward"
    }
    assert {line["EventId"]: -line["_label_cost"] for line in lines} == rewards


def read_stream(url: str, path: str, count: int, last: str | None = None) -> list[tuple[str, Any]]:
    """(id, data) of the first changes of a stream."""
    headers = {} if last is None else {"last-event-id": last}
    found: list[tuple[str, Any]] = []
    with httpx.stream("GET", url + path + "/stream", headers=headers, timeout=20) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        ident = kind = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                ident = value
            elif name == "event":
                kind = value
            elif name == "data" and kind == "change":
                found.append((ident, json.loads(value)))
                if len(found) == count:
                    break
    return found


def test_the_stream_resumes_where_it_was(http: httpx.Client, url: str, changed: str) -> None:
    total = len(http.get(f"{changed}/changes").json()["changes"])
    everything = read_stream(url, changed, total)
    assert [data["number"] for _, data in everything] == list(range(1, total + 1))
    rest = read_stream(url, changed, total - 1, last=everything[0][0])
    assert rest == everything[1:]
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(read_stream(url, changed, 1, last=everything[-1][0])))
    waiting.start()
    play(http, changed, 800, 400, seed=1)
    waiting.join(20)
    assert found[0][1]["number"] == total + 1


def test_metrics_and_document(http: httpx.Client, loop: str) -> None:
    http.post(f"{loop}/decisions", json={})
    text = http.get("/metrics").text
    assert 'driftbandit_requests_total{route="/v1/loops/{loop}/decisions",status="201"}' in text
    assert "driftbandit_ready 1.0" in text
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "/v1/loops/{loop}/decisions/{id}/reward" in document["paths"]


def test_roles(tmp_path: Path) -> None:
    """Every route with every kind of key: what is not allowed is 401 or 403, what is allowed is neither."""
    path = tmp_path / "a.db"
    store = SQLiteStore(path, writer=False)
    secrets = {role: create_key(store, role, role)[1] for role in ("decide", "read", "admin")}
    revoked, dead = create_key(store, "gone", "admin")
    store.revoke_key(revoked.id, 1)
    app = build_app(f"sqlite:{path}")
    may: dict[str, set[str]] = {
        "none": set(),
        "decide": {"decide"},
        "read": {"read"},
        "admin": {"decide", "read", "admin"},
    }
    checked = 0
    with live(app) as url, httpx.Client(base_url=url, timeout=10) as client:
        admin = {"authorization": f"Bearer {secrets['admin']}"}
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}, headers=admin).status_code == 201
        for route in app.routes:
            target = route.path.replace("{loop}", "x").replace("{id}", "d")
            for role, roles in may.items():
                headers = {} if role == "none" else {"authorization": f"Bearer {secrets[role]}"}
                with client.stream(route.method, target, headers=headers) as answer:
                    allowed = route.role is None or route.role in roles
                    status = answer.status_code
                    assert (status not in (401, 403)) == allowed, (route.method, target, role, status)
                    if not allowed:
                        assert status == (401 if role == "none" else 403)
                    assert status < 500
                checked += 1
            if route.role is not None:
                for wrong in ("Bearer nonsense", f"Bearer {dead}", f"Basic {secrets['admin']}", "Bearer", ""):
                    with client.stream(route.method, target, headers={"authorization": wrong}) as answer:
                        assert answer.status_code == 401
                        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert checked == 4 * len(app.routes) >= 60
        key = next(key for key in store.access_keys() if key.revoked is None)
        store.revoke_key(key.id, 2)
        deadline = time.monotonic() + 10
        headers = {"authorization": f"Bearer {secrets[key.role]}"}
        while client.post("/v1/loops/x/decisions", json={}, headers=headers).status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert all(secret.encode() not in path.read_bytes() for secret in secrets.values())


def test_a_key_may_ask_only_so_often(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db", writer=False)
    _, secret = create_key(store, "busy", "read")
    with live(build_app(f"sqlite:{tmp_path / 'a.db'}", rate=5)) as url, httpx.Client(base_url=url) as client:
        client.headers["authorization"] = f"Bearer {secret}"
        statuses = [client.get("/v1/loops").status_code for _ in range(8)]
        assert statuses[:5] == [200] * 5
        assert 429 in statuses


@pytest.mark.parametrize("kind", ["full", "sync"])
def test_a_failing_disk_is_a_503_and_then_over(tmp_path: Path, kind: str) -> None:
    vfs = FailingVFS()
    path = tmp_path / "a.db"
    service = Service(
        lambda: SQLiteStore(path, vfs="failing"),
        lambda store: Engine(store, milliseconds),
        lambda: SQLiteStore(path, writer=False),
        secure=False,
    )
    with live(make_app(service)) as url, httpx.Client(base_url=url, timeout=10) as client:
        client.put("/v1/loops/x", json={"policy": "ucb1"})
        kept = client.post("/v1/loops/x/decisions", json={"decision_id": "kept", "arms": ["a", "b"]})
        assert kept.status_code == 201
        vfs.broken = kind
        for number in range(5):
            body = {"decision_id": f"lost{number}", "arms": ["a", "b"]}
            problem(client.post("/v1/loops/x/decisions", json=body), 503)
        problem(client.get("/readyz"), 503)
        assert client.get("/healthz").status_code == 200
        vfs.broken = None
        deadline = time.monotonic() + 10
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        again = client.post("/v1/loops/x/decisions", json={"decision_id": "kept", "arms": ["a", "b"]})
        assert (again.status_code, again.json()) == (200, kept.json())
        assert client.post("/v1/loops/x/decisions", json={"decision_id": "lost0", "arms": ["a", "b"]}).status_code < 300
    vfs.unregister()


def test_the_client(url: str, http: httpx.Client) -> None:
    client = Client(url, f"loop{next(_names)}", timeout=10)
    client.put_loop({"policy": "ucb1"})
    choice = client.decide(["a", "b"], scope="ann", fallback="b")
    assert not choice.fallback
    assert client.reward(choice, 1.0) == "accepted"
    assert client.reward(choice, 1.0) == "duplicate"
    again = client.decide(["a", "b"], scope="ann", decision_id=choice.decision_id)
    assert again == choice
    with pytest.raises(ServiceError, match="409"):
        client.reward(choice, 0.0)
    with pytest.raises(ServiceError, match="422"):
        client.decide([])
    assert client.stats()["totals"]["decisions"] == 1
    assert client.changes() == []
    client.close()
    nobody = Client("http://127.0.0.1:9", "x", retries=1, timeout=0.5)
    lost = nobody.decide(["a", "b"], fallback="b")
    assert (lost.arm, lost.index, lost.fallback, lost.decision_id) == ("b", 1, True, None)
    assert nobody.reward(lost, 1.0) == "ignored"
    with pytest.raises(ServiceError):
        nobody.decide(["a"])
    with pytest.raises(ValueError, match="url"):
        Client("ftp://x", "x")
