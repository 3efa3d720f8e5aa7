"""Shards are read while others are served, and however long that takes, their lease is kept."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest, RewardRequest
from driftbandit.serving.engine.shards import shard_of
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.postgresql import SHARDS, PostgreSQLStore
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live
from ..world import World

SCOPES = [f"user {number}" for number in range(40)]


@pytest.fixture
def filled(database: str) -> str:
    """A store whose 16 shards all have a few events."""
    store = PostgreSQLStore(database)
    engine = Engine(store, wall)
    engine.configure("x", LoopConfig(policy="ucb1", scoped=True, window=60.0), None)
    for scope in SCOPES:
        engine.decide("x", DecisionRequest(None, scope, ("a", "b")))
    engine.commit()
    store.close()
    return database


def test_two_processes_whose_reading_takes_longer_than_the_lease(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They start, share the shards and fail over, and neither is ended by the other."""
    monkeypatch.setitem(PostgreSQLStore.__init__.__kwdefaults__, "lease", 0.8)
    events = PostgreSQLStore.events

    def slowly(store: PostgreSQLStore, *wanted: Any) -> Any:
        time.sleep(0.15)  # for 16 shards that is three times the lease
        return events(store, *wanted)

    monkeypatch.setattr(PostgreSQLStore, "events", slowly)
    with ExitStack() as stack, httpx.Client(timeout=30) as client:
        first = stack.enter_context(live(build_app(filled, secure=False), ready=False))
        both = set()
        deadline = time.monotonic() + 60
        while both != {201, 503}:  # some shards are served while others are still being read
            both = {status(client, first, scope) for scope in SCOPES}
            assert both <= {201, 503}
            assert time.monotonic() < deadline
        assert re.search(r"\d+ of 16 shards of loops are being read", client.get(f"{first}/readyz").text)
        with live(build_app(filled, secure=False)) as second:
            while {status(client, second, scope) for scope in SCOPES} != {201, 421}:
                assert time.monotonic() < deadline
            for scope in SCOPES:
                while sorted(found := [status(client, url, scope) for url in (first, second)]) != [201, 421]:
                    assert set(found) <= {201, 421, 503}
                    assert time.monotonic() < deadline, scope
            for url in (first, second):
                assert "driftbandit_failures_total 0.0" in client.get(f"{url}/metrics").text
                assert client.get(f"{url}/readyz").status_code == 200
        for scope in SCOPES:
            while status(client, first, scope) != 201:
                assert time.monotonic() < deadline, scope
        assert "driftbandit_failures_total 0.0" in client.get(f"{first}/metrics").text


def status(client: httpx.Client, url: str, scope: str) -> int:
    body = {"scope": scope, "arms": ["a", "b"]}
    return client.post(f"{url}/v1/loops/x/decisions", json=body).status_code


class Gate:
    """Stops the reading of events in other threads until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.open.set()
        events, here = SQLiteStore.events, threading.current_thread()

        def wait(store: SQLiteStore, *wanted: Any) -> Any:
            assert threading.current_thread() is here or self.open.wait(60)
            return events(store, *wanted)

        monkeypatch.setattr(SQLiteStore, "events", wait)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


def test_commands_for_a_shard_that_is_being_read(tmp_path: Path, gate: Gate) -> None:
    world = World(tmp_path / "a.db")
    world.loop(policy="ucb1", window=60.0, scoped=True)
    _, answer = world.decide("known", ["a", "b"], "ann")
    world.store.close()
    gate.open.clear()
    read = threading.Event()
    world.options = {"background": True, "wake": read.set}
    world.open()
    engine = world.engine
    assert engine.loading == 1
    for command in (
        lambda: engine.decide("x", DecisionRequest("new", "ann", ("a", "b"))),
        lambda: engine.decide("x", DecisionRequest("known", "ann", ("a", "b"))),
        lambda: engine.reward("x", "known", RewardRequest(1.0)),
        lambda: engine.reward("x", "known", RewardRequest(1.0, None, "ann")),
        lambda: engine.reward("x", "-", RewardRequest(1.0)),
    ):
        with pytest.raises(Refused, match="shard 0 is being read") as refused:
            command()
        assert refused.value.status == 503
    world.loop("new", policy="ucb1")  # a new loop can be used at once
    assert world.decide("new", ["a"], None, "new")[0]
    world.loop(policy="ucb1", window=90.0, scoped=True, version=1)  # and one that is being read can be changed
    gate.open.set()
    assert read.wait(30)
    assert engine.adopt()
    engine.commit()
    assert engine.loading == 0
    assert world.decide("known", ["a", "b"], "ann") == (False, answer)
    assert world.reward("known", 1.0) == "accepted"
    assert engine.parts("x")[0].config.window == 90.0
    world.check()
    world.store.close()


def test_what_was_read_before_a_recovery_is_not_used_after_it(tmp_path: Path, gate: Gate) -> None:
    world = World(tmp_path / "a.db")
    world.loop(policy="ucb1")
    world.store.close()
    gate.open.clear()
    world.options = {"background": True}
    world.open()
    world.engine.recover()
    gate.open.set()
    deadline = time.monotonic() + 30
    while world.engine.loading:
        world.engine.adopt()
        assert time.monotonic() < deadline
    world.engine.commit()
    assert world.decide("d", ["a"])[0]
    world.check()
    world.store.close()


def test_a_shard_that_cannot_be_read_stops_only_its_loop(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db")
    for name in ("bad", "good"):
        world.loop(name, policy="ucb1")
        world.decide("d", ["a"], None, name)
    world.store._db.execute("UPDATE events SET bodies = x'91c1' WHERE loop = 1 AND first = 2")
    world.restart()
    assert not world.decide("d", ["a"], None, "good")[0]
    with pytest.raises(Refused, match="shard 0 failed and is to be read again") as refused:
        world.decide("d", ["a"], None, "bad")
    assert refused.value.status == 503


def test_snapshots_count_the_events_of_all_shards(filled: str) -> None:
    """With few events per shard and many in all, restarts must not repeat them all."""
    now = wall()
    store = PostgreSQLStore(filled)
    engine = Engine(store, lambda: now, snapshot_every=100)
    for number in range(400):
        now += 1_000
        engine.decide("x", DecisionRequest(f"d{number}", SCOPES[number % 40], ("a", "b")))
        engine.commit()
    assert sum(loop.state.seq for loop in engine.parts("x")) > 500
    assert all(loop.state.seq < 100 for loop in engine.parts("x"))
    assert sum(loop.state.seq - loop.outbox.saved_at for loop in engine.parts("x")) < 200
    assert engine.digest("x") == engine.digest("x", whole_log=True)
    store.close()


def test_scopes_are_on_all_shards() -> None:
    assert {shard_of("x", scope, SHARDS) for scope in SCOPES} == set(range(SHARDS))
