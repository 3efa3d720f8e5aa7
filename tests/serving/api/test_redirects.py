"""Two servers share a store: a request that comes to the wrong one is sent to the right one, whatever its names are."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import httpx

from driftbandit.client import Client
from driftbandit.serving.server import build_app

from ..live import free_port, live
from ..stores.test_leases import wait_for

IDS = ["a/b", "a/b/reward", "a?b", "a#b", "a%2Fb", "x?y=1", "ü ñ 語", "...", "a;b", "%", "a+b", "a&b"]


def test_a_reward_reaches_its_own_decision(database: str) -> None:
    ports = free_port(), free_port()
    first, second = (build_app(database, secure=False, advertise=f"http://127.0.0.1:{port}") for port in ports)
    with live(first, ports[0]) as one, live(second, ports[1]) as two, httpx.Client(timeout=60) as http:
        path = "/v1/loops/a%20b%2F"
        assert http.put(f"{one}{path}", json={"policy": "ucb1", "scoped": True}).json()["loop"] == "a b/"
        wait_for(database, 2, "shards are shared out")
        for url in (one, two):  # the second hears of the loop within a second or so
            deadline = time.monotonic() + 30
            while http.get(f"{url}{path}").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        client = Client(one, "a b/", timeout=30)
        sent_on = 0
        for number, ident in enumerate(IDS):
            scope = f"scope {number}"
            assert client.decide(["a", "b"], decision_id=ident, scope=scope).decision_id == ident
            for url, other in ((one, two), (two, one)):
                place = f"{path}/decisions/{quote(ident, safe='')}/reward?n=1"
                answer = http.post(f"{url}{place}", json={"value": number / 16, "scope": scope})
                if answer.status_code == 307:
                    sent_on += 1
                    assert answer.headers["location"] == f"{other}{place}"
                    answer = http.post(answer.headers["location"], json={"value": number / 16, "scope": scope})
                assert answer.status_code == 200, answer.text
            assert client.reward(ident, number / 16, scope=scope) == "duplicate"
        client.close()
        assert sent_on == len(IDS), "each reward came to one server that has its decision and to one that has not"
        rows = [json.loads(line) for line in http.get(f"{one}{path}/log").text.splitlines()]
        assert {row["id"]: row["value"] for row in rows if row["kind"] == "reward"} == dict(
            zip(IDS, (n / 16 for n in range(12)), strict=True)
        )
