"""What every answer has: a request id, a place in the metrics, a line in the log; and what is refused, and how."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from driftbandit.serving.api import logs
from driftbandit.serving.api.metrics import MOST_LOOPS
from driftbandit.serving.server import check_tls, open_store
from driftbandit.serving.stores.base import StoreError, without_password
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import problem

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_every_answer_has_an_id(http: httpx.Client) -> None:
    ids = [http.get(path).headers["x-request-id"] for path in ("/healthz", "/nothing", "/", "/v1/loops", "/healthz")]
    assert len(set(ids)) == 5
    assert {len(ident) for ident in ids} == {32}
    for given, expected in ((f"00-{TRACE}-b7ad6b7169203331-01", True), (f"00-{'0' * 32}-b7ad6b7169203331-01", False)):
        answer = http.get("/v1/loops/nope", headers={"traceparent": given})
        assert (answer.headers["x-request-id"] == given.split("-")[1]) == expected
    for nonsense in (
        "x",
        f"00-{TRACE}",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
        "00-" + "z" * 32 + "-b7ad6b7169203331-01",
    ):
        assert http.get("/healthz", headers={"traceparent": nonsense}).headers["x-request-id"] not in nonsense


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], list[str]]]:
    """Configures the logs, and returns what was logged."""
    names = ("driftbandit", "uvicorn", "driftbandit.access")
    kept = [(log, log.handlers, log.propagate, log.level) for log in map(logging.getLogger, names)]

    def logged(marker: str) -> list[str]:
        deadline, found = time.monotonic() + 10, ""
        while marker not in found and time.monotonic() < deadline:
            found += capsys.readouterr().err
            time.sleep(0.01)
        return found.splitlines()

    yield logged
    for log, log.handlers, log.propagate, level in kept:
        log.setLevel(level)


def test_answers_are_logged_as_json(http: httpx.Client, lines: Callable[[str], list[str]]) -> None:
    logs.configure("json", answers=True)
    http.get("/v1/loops/no%0Ape?x=1", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    (found,) = [row for row in map(json.loads, lines(TRACE)) if row["logger"] == "driftbandit.access"]
    assert found.pop("time").endswith("Z")
    assert found.pop("ms") > 0.0
    assert found.pop("message").startswith("127.0.0.1 GET /v1/loops/no%0Ape?x=1 422 ")
    assert found == {
        **{"level": "info", "logger": "driftbandit.access", "request_id": TRACE, "method": "GET"},
        **{"path": "/v1/loops/no%0Ape?x=1", "status": 422, "client": "127.0.0.1", "key": None},
    }


def test_errors_are_logged_with_the_request(
    http: httpx.Client, lines: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbandit.serving.api.handlers.views.tier_of", lambda text: 1 / 0)
    logs.configure("text", answers=False)
    problem(http.get("/v1/loops/x/stats", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}), 500)
    text = "\n".join(lines(TRACE))
    assert " ERROR GET /v1/loops/x/stats\nTraceback" in text
    assert f"ZeroDivisionError: division by zero [{TRACE}]" in text
    assert "127.0.0.1" not in text, "answers are not logged"


def metrics(http: httpx.Client) -> dict[tuple[str, ...], float]:
    """Values by the name and labels of a sample."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(http.get("/metrics").text)
        for sample in family.samples
    }


def test_times_to_answer_are_a_histogram(http: httpx.Client) -> None:
    before = metrics(http)
    for _ in range(7):
        http.get("/healthz")
    after = metrics(http)
    name = "driftbandit_request_seconds"

    def more(*key: str) -> float:
        return after[key] - before.get(key, 0.0)

    assert more(f"{name}_count", "/healthz") == more(f"{name}_bucket", "+Inf", "/healthz") == 7
    ends = [key for key in after if (key[0], key[-1]) == (f"{name}_bucket", "/healthz")]
    counts = [after[key] for key in sorted(ends, key=lambda key: float(key[1]))]
    assert len(counts) == 14
    assert counts == sorted(counts)
    assert after[f"{name}_sum", "/healthz"] > before.get((f"{name}_sum", "/healthz"), 0.0)
    assert ("driftbandit_requests_total", "/healthz", "200") in after


def test_metrics_of_loops_are_bounded(http: httpx.Client, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = loop.rpartition("/")[2]
    http.post(f"{loop}/decisions", json={"decision_id": "d"})
    assert metrics(http)["driftbandit_loop_decisions", name] == 1
    assert metrics(http)["driftbandit_loop_open", name] == 1
    assert MOST_LOOPS == 100
    whole = sum(value for key, value in metrics(http).items() if key[0] == "driftbandit_loop_decisions")
    monkeypatch.setattr("driftbandit.serving.api.metrics.MOST_LOOPS", 1)
    http.put("/v1/loops/another", json={"policy": "ucb1"})
    found = {key: value for key, value in metrics(http).items() if key[0] == "driftbandit_loop_decisions"}
    assert len(found) == 2
    assert sum(found.values()) == whole
    assert ("driftbandit_loop_decisions", "(all others)") in found


def test_the_log_answers_what_its_document_says(http: httpx.Client, loop: str) -> None:
    document = http.get("/openapi.json").json()
    said = set(document["paths"]["/v1/loops/{loop}/log"]["get"]["responses"]["200"]["content"])
    for kind in ("ndjson", "parquet", "dsjson"):
        assert http.get(f"{loop}/log?format={kind}").headers["content-type"] in said
    metrics_said = document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]
    assert list(metrics_said) == [http.get("/metrics").headers["content-type"]]


def test_a_large_body_is_refused_not_reset(http: httpx.Client, loop: str) -> None:
    port = http.base_url.port
    for size, chunked in ((2 << 20, False), (2 << 20, True), (40 << 20, False)):
        head = b"POST %b/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % loop.encode()
        head += b"transfer-encoding: chunked\r\n\r\n" if chunked else b"content-length: %d\r\n\r\n" % size
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size) if chunked else b"x" * size
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(head + body)  # all of it, before the answer is read
            assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    waiting = b"POST %b/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % loop.encode()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(waiting + b"expect: 100-continue\r\ncontent-length: 2000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 "), "and no 100, which would call for the body"


def test_late_rewards_are_logged_once(http: httpx.Client, new_path: Callable[[], str]) -> None:
    path = new_path()
    http.put(path, json={"policy": "ucb1", "window": 0.05})
    http.post(f"{path}/decisions", json={"decision_id": "d", "arms": ["a", "b"]})
    time.sleep(0.2)
    same = [{"value": 1}, {"value": 1, "scope": "x"}, {"value": 1.0}]
    other = [{"value": 0.5}, {"value": 1, "reward_id": "r"}, {"value": 0, "reward_id": "r"}]
    for body in same + other + same + other:
        assert "has closed; logged" in problem(http.post(f"{path}/decisions/d/reward", json=body), 410)
    batch = [{"decision_id": "d", "value": 1}] * 3
    results = http.post(f"{path}/rewards:batch", json={"rewards": batch}).json()["results"]
    assert [result["status"] for result in results] == [410] * 3
    rows = map(json.loads, http.get(f"{path}/log").text.splitlines())
    late = [(row["value"], row["reward_id"]) for row in rows if row["kind"] == "late"]
    assert late == [(1.0, None), (0.5, None), (1.0, "r")]
    assert http.get(f"{path}/stats").json()["totals"]["late"] == 3


def test_settings_and_arms_change_in_one_step(http: httpx.Client, loop: str) -> None:
    wide = [{"id": name, "features": [1, 0, n]} for n, name in enumerate("ab")]
    other = {"dim": 3, "policy": "linucb", "version": 1}
    assert "a change of dim needs the arms too" in problem(http.put(loop, json=other), 422)
    narrow = [{"id": "a", "features": [1, 0]}]
    assert "dim is 3" in problem(http.put(loop, json=other | {"arms": narrow}), 422)
    assert "expected version 7" in problem(http.put(loop, json=other | {"arms": wide, "version": 7}), 409)
    assert http.get(loop).json()["arms_version"] == 1
    answer = http.put(loop, json=other | {"arms": wide}).json()
    assert (answer["version"], answer["arms_version"], answer["config"]["dim"]) == (2, 2, 3)
    assert http.post(f"{loop}/decisions", json={"arms": ["a", "b"]}).status_code == 201
    assert http.put(loop, json={"dim": 3, "policy": "linucb", "arms": wide[:1]}).json()["arms_version"] == 3
    assert http.post(f"{loop}/decisions", json={}).json()["arm"] == "a"
    kinds = [json.loads(line)["kind"] for line in http.get(f"{loop}/log").text.splitlines()]
    assert kinds == ["config", "arms", "config", "arms", "decision", "arms", "decision"]


def test_a_new_loop_may_bring_its_arms(http: httpx.Client, new_path: Callable[[], str]) -> None:
    path = new_path()
    answer = http.put(path, json={"policy": "ucb1", "arms": ["a", "b"]})
    assert (answer.status_code, answer.json()["arms_version"]) == (201, 1)
    assert http.post(f"{path}/decisions", json={}).status_code == 201


@pytest.mark.parametrize("policy", ["linucb", "driftucb", "dlinucb", "ucb1"])
def test_a_dim_in_the_settings_must_be_the_loops(http: httpx.Client, new_path: Callable[[], str], policy: str) -> None:
    path = new_path()
    problem(http.put(path, json={"policy": policy, "dim": 2, "settings": {"dim": 3}}), 422)
    problem(http.put(path, json={"dim": 2, "shadow": {"policy": policy, "settings": {"dim": 3}}}), 422)
    problem(http.get(path), 404)


# ---- files and addresses --------------------------------------------------------------------------------------------


def test_the_database_is_its_owners(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    store.put_loop("x", 0, b"y")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes) == {"a.db", "a.db-wal", "a.db-shm", "a.db.lock"}
    assert set(modes.values()) == {0o600}
    store.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@db/x",
        "postgressql://me:hunter2@db/x",
        "postgresql//me:hunter2@db/x",
        "postgres:me:hunter2@db",
        "postgresql://me:hun/ter2@db/x",
        "postgresql://me:hunter2@db@127.0.0.1:1/x",
        "postgresql://me:hun?ter2@127.0.0.1:1/x",
        "postgresql://me:hun%ter2@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=me&password=hunter2&bogus=1",
        "postgresql://127.0.0.1:1/x?user=me&password=hunter2",
        "host=127.0.0.1 user=me password=hunter2",
        "host=127.0.0.1 user=me password='hun ter2'",
        "me:hunter2@db",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    assert "ter2" not in without_password(address)
    with pytest.raises((ValueError, StoreError)) as refused:
        open_store(address)
    assert "ter2" not in str(refused.value)
    assert "hun" not in str(refused.value)


# ---- TLS ------------------------------------------------------------------------------------------------------------


def test_over_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from driftbandit.cli import app; app()", "serve", "--port", str(port)]
    command += ["--store", f"sqlite:{tmp_path / 'a.db'}", "--tls-cert", str(certificate[0]), "--tls-key"]
    command += [str(certificate[1]), "--access-log", "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            while not (line := server.stderr.readline()).startswith("serving "):
                assert line, "it ended"
            assert line.strip().endswith(f"on https://127.0.0.1:{port}")
            trusting = ssl.create_default_context(cafile=str(certificate[0]))
            with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting) as client:
                assert client.get("/healthz").json() == {"status": "ok"}
                problem(client.get("/v1/loops"), 401)
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/healthz")
            rows = [json.loads(server.stderr.readline()) for _ in range(2)]
            assert [(row["path"], row["status"]) for row in rows] == [("/healthz", 200), ("/v1/loops", 401)]
        finally:
            server.terminate()
            server.communicate()


def test_certificates_that_cannot_be_used(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    check_tls(*certificate)
    for cert, key in (
        (certificate[1], certificate[1]),
        (tmp_path / "none", certificate[1]),
        (certificate[0], tmp_path),
    ):
        with pytest.raises(ValueError, match="--tls-cert, --tls-key: expected a certificate and its private key"):
            check_tls(cert, key)
