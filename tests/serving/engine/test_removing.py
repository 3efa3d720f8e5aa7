"""Deleted loops: gone at once for everybody, out of the store in slices, and fresh if they are made again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest
from driftbandit.serving.engine.shards import Elsewhere
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.server import build_app
from driftbandit.serving.stores import upkeep
from driftbandit.serving.stores.postgresql import PostgreSQLStore

from ..live import live, problem
from ..world import START, World, run

TABLES = ("events", "states", "snapshots", "closed", "changes", "tallies")
SETTINGS: dict[str, Any] = {"dim": 2, "policy": "linucb", "scoped": True, "window": 5.0}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "a.db", snapshot_every=60)
    world.loop("other", policy="ucb1")
    world.decide("o", ["a"], None, "other")
    world.loop(**SETTINGS)
    run(world, 80, world.arms(np.eye(2)))
    world.engine.snapshot()
    return world


def rows(world: World, loop: int) -> dict[str, int]:
    found = world.store._db.execute
    return {table: found(f"SELECT count(*) FROM {table} WHERE loop = ?", (loop,)).fetchone()[0] for table in TABLES}


def sweep(world: World) -> int:
    commits = 0
    while world.engine.busy:
        world.engine.commit()
        commits += 1
    return commits


def test_a_deleted_loop_leaves_nothing_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_KEYS", {table: (key, 10) for table, (key, _) in upkeep._KEYS.items()})
    other = world.check("other")
    assert all(count for table, count in rows(world, 2).items() if table != "changes")
    world.engine.decide("x", DecisionRequest("not committed", "ann"))
    world.engine.delete("x", "key 1")
    with pytest.raises(Refused, match="no loop 'x'"):
        world.decide("d", None, "ann")
    assert sweep(world) > 5, "a few rows at a time"
    assert not any(rows(world, 2).values())
    assert [(row.name, row.who, row.time, row.done) for row in world.store.removals()] == [
        ("x", "key 1", world.now, None)
    ]
    world.now += 61_000  # time enough for all processes to notice
    world.engine.refresh()
    world.engine.commit()
    assert world.store.removals()[0].done == world.now
    world.restart()
    assert world.engine.names() == ["other"]
    assert world.check("other") == other


def test_a_loop_of_the_same_name_starts_fresh(world: World) -> None:
    world.engine.delete("x", "")
    world.loop(**SETTINGS)  # before anything was swept
    world.arms(np.eye(2))
    assert world.engine.number("x") == 3
    assert world.counts().decisions == 0
    run(world, 30, ["a0", "a1"])  # with ids that the deleted loop had
    assert world.counts().decisions == 30
    sweep(world)
    world.check()
    world.restart()
    assert world.counts().decisions == 30
    world.check()


def test_a_crash_while_sweeping_is_made_up_for(world: World) -> None:
    world.engine.delete("x", "")
    world.engine.commit()
    assert any(rows(world, 2).values())
    world.restart()
    assert world.engine.names() == ["other"]
    done = CliRunner().invoke(app, ["store", "check", f"sqlite:{world.path}"])
    assert (done.exit_code, done.stdout) == (0, ""), "half a deleted loop is no damage"
    sweep(world)
    assert not any(rows(world, 2).values())


def test_a_running_service_notices_the_command(world: World) -> None:
    assert CliRunner().invoke(app, ["store", "delete", f"sqlite:{world.path}", "y", "--yes"]).exit_code != 0
    assert CliRunner().invoke(app, ["store", "delete", f"sqlite:{world.path}", "x"], input="n\n").exit_code != 0
    assert world.engine.names() == ["other", "x"]
    assert CliRunner().invoke(app, ["store", "delete", f"sqlite:{world.path}", "x", "--yes"]).exit_code == 0
    world.engine.refresh()
    assert world.engine.names() == ["other"]
    sweep(world)
    assert not any(rows(world, 2).values())


def test_other_processes_notice(database: str) -> None:
    now = START
    stores = [PostgreSQLStore(database, shards=4) for _ in range(2)]
    first, second = engines = [Engine(store, lambda: now) for store in stores]
    for engine in (*engines, *engines):
        engine.refresh()
    first.configure("x", LoopConfig(policy="ucb1", scoped=True), None)
    first.commit()
    second.refresh()
    assert len(first.held) == len(second.held) == 2

    def decide(engine: Engine) -> int:
        made = 0
        for number in range(20):
            with contextlib.suppress(Elsewhere):
                made += engine.decide("x", DecisionRequest(None, f"user {number}", ("a", "b")))[0]
        engine.commit()
        return made

    assert decide(first)
    assert decide(second)
    first.delete("x", "key 1")
    first.configure("x", LoopConfig(policy="ucb1", scoped=True, window=9.0), None)
    assert decide(second), "it has not noticed yet"
    for engine in engines:
        engine.refresh()
        while engine.busy:
            engine.commit()
    assert not stores[0].has_rows(1)
    assert second.configuration("x").config.window == 9.0
    assert sum(tally.counts.decisions for tally in second.tallies("x")) == 0
    assert decide(second)
    for store in stores:
        store.close()


def test_deleting_over_http(tmp_path: Path) -> None:
    address = f"sqlite:{tmp_path / 'a.db'}"
    keys = {
        role: CliRunner().invoke(app, ["keys", "create", role, "--role", role, "--store", address]).stdout.strip()
        for role in ("decide", "admin")
    }
    with live(build_app(address)) as url, httpx.Client(base_url=url, timeout=60) as http:

        def ask(method: str, path: str, role: str = "admin", **more: Any) -> httpx.Response:
            return http.request(method, path, headers={"authorization": f"Bearer {keys[role]}"}, **more)

        assert ask("PUT", "/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        assert ask("POST", "/v1/loops/x/decisions", json={"arms": ["a"]}).status_code == 201
        problem(ask("DELETE", "/v1/loops/x", "decide"), 403)
        assert ask("DELETE", "/v1/loops/x").json() == {"loop": "x", "status": "deleted"}
        problem(ask("DELETE", "/v1/loops/x"), 404)
        problem(ask("GET", "/v1/loops/x"), 404)
        assert ask("GET", "/v1/loops").json() == {"loops": []}
        assert ask("PUT", "/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        assert ask("GET", "/v1/loops/x/stats").json()["totals"]["decisions"] == 0
