from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from driftbandit.serving.log.rerun import read_export, rerun_log

from ..live import play


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
