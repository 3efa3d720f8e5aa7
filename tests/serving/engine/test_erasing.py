"""Erased scopes: no trace of them in models, log and index, and everything else as it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from driftbandit.serving.engine import erasing
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest
from driftbandit.serving.engine.shards import shard_of
from driftbandit.serving.log.export import FORMATS, Wanted
from driftbandit.serving.log.rerun import LogRerun, read_export, rerun_log
from driftbandit.serving.loop.config import LoopConfig, Plan
from driftbandit.serving.loop.erasing import scope_hash
from driftbandit.serving.loop.events import Erased, Refused, decode
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.backup import compact
from driftbandit.serving.stores.postgresql import PostgreSQLStore

from ..live import live, problem
from ..world import START, World, run

WHO = "user 3"
TABLES = ("events", "states", "snapshots", "closed", "changes", "tallies", "removals")
LOOPS: dict[str, dict[str, Any]] = {
    "scoped": {"policy": "dlinucb", "scoped": True},
    "on arrival": {"policy": "linucb", "scoped": True, "learn": "arrival"},
    "random, with a shadow": {"policy": "lints", "scoped": True, "shadow": Plan("linucb", {}), "floor": 0.1},
    "shared": {"policy": "linucb", "scoped": False},
    "shared, with a shadow": {"policy": "linucb", "scoped": False, "shadow": Plan("lints", {})},
}


def make(path: Path, rounds: int = 40, **config: Any) -> World:
    world = World(path, snapshot_every=30)
    world.loop(dim=2, window=5.0, default_reward=0.0, **config)
    run(world, rounds, world.arms(np.eye(2)))
    return world


def own(world: World) -> set[str]:
    """Ids of the scope's decisions."""
    bodies = [body for _, body in world.store.events(1, 0, 0, 10_000)]
    return {event.id for event in map(decode, bodies) if getattr(event, "scope", None) == WHO}  # type: ignore[union-attr]


def traces(world: World, ids: set[str]) -> list[str]:
    """Where the scope's name or one of its ids is still written."""
    found = []
    names = [WHO.encode(), *(b"\xa4" + ident.encode() if len(ident) == 4 else ident.encode() for ident in ids)]
    for table in TABLES:
        for row in world.store._db.execute(f"SELECT * FROM {table}"):
            data = b"\n".join(value if isinstance(value, bytes) else b"|" + str(value).encode() + b"|" for value in row)
            if any(name in data for name in names if len(name) > 3):
                found.append(table)
    return found


def finish(world: World) -> int:
    commits = 0
    while world.engine.busy:
        world.engine.commit()
        commits += 1
    return commits


def again(world: World, path: Path, kind: str) -> LogRerun:
    file = path / f"log.{kind}"
    file.write_bytes(b"".join(FORMATS[kind](world.store.reader, Wanted("x", 1))))
    return rerun_log(read_export(file))


@pytest.mark.parametrize("config", LOOPS.values(), ids=LOOPS)
def test_an_erased_scope_leaves_no_trace_and_changes_nothing_else(config: dict[str, Any], tmp_path: Path) -> None:
    world, twin = make(tmp_path / "a.db", **config), make(tmp_path / "b.db", **config)
    for each in (world, twin):  # nothing is open, so that both learn the same
        each.now += 60_000
        each.engine.tick()
        each.engine.commit()
    ids = own(world)
    assert len(ids) > 4
    assert traces(world, ids)
    world.engine.erase("x", WHO, "key 1")
    finish(world)
    assert traces(world, ids) == []
    assert world.counts() == twin.counts()
    for scope in [f"user {number}" for number in range(5)]:
        for (_, models), (_, others) in zip(
            world.engine.parts("x")[0].learner.roles, twin.engine.parts("x")[0].learner.roles, strict=True
        ):
            expected = None if scope == WHO else others.packed(scope)
            assert models.packed(scope) == expected
    digest = world.check()
    world.restart()
    assert world.check() == digest
    for each in (world, twin):
        run(each, 15, ["a0", "a1"], seed=1, scopes=3)
    assert world.counts() == twin.counts()
    last = [store.events(1, 0, store.last(1, 0) - 15, 15) for store in (world.store, twin.store)]
    assert [body for _, body in last[0]] == [body for _, body in last[1]], "the others' decisions are the same"
    for kind in ("ndjson", "parquet"):
        found = again(world, tmp_path, kind)
        assert found.digest == world.check()
        assert found.identical == found.decisions
        assert found.erased >= len(ids)
        assert (found.unchecked > 0) == (not config["scoped"])
        assert found.decisions + found.unchecked + len(ids) == 55


@pytest.mark.parametrize("config", [LOOPS["scoped"], LOOPS["shared, with a shadow"]], ids=["scoped", "shared"])
def test_each_commit_on_the_way_can_be_the_last(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "_EVENTS", 20)
    world = make(tmp_path / "a.db", 25, **config)
    world.decide("open", None, WHO)
    world.decide("rewarded", None, WHO)
    world.reward("rewarded", 1.0)
    ids, commits = own(world), 0
    waiting = world.engine.parts("x")[0].waiting
    world.engine.erase("x", WHO, "key 1")
    while world.engine.busy:
        world.engine.commit()
        world.check()
        copy = World.__new__(World)
        copy.now, copy.vfs, copy.options, copy.path = world.now, None, {}, tmp_path / f"copy{commits}.db"
        world.store._db.execute(f"VACUUM INTO '{copy.path}'")
        copy.open()  # after a crash
        copy.check()
        finish(copy)
        assert traces(copy, ids) == []
        assert copy.counts() == world.counts()
        assert copy.engine.parts("x")[0].waiting < waiting
        copy.check()
        copy.store.close()
        commits += 1
    assert commits > 8
    assert traces(world, ids) == []


def test_open_and_closed_decisions_are_unknown_afterwards(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", policy="linucb", scoped=True)
    world.decide("open", ["a0", "a1"], WHO)
    world.decide("open too", ["a0", "a1"], "user 4")
    closed = min(own(world))
    world.engine.erase("x", WHO, "")
    finish(world)
    assert world.reward("open", 1.0) == "404"
    assert world.reward(closed, 1.0) == "404"
    assert world.reward("open too", 1.0) == "accepted"
    assert world.decide("open", ["a0"], "user 4")[0], "the id is free again"
    world.decide("back", ["a0", "a1"], WHO)
    assert world.reward("back", 1.0) == "accepted"
    world.now += 10_000
    world.engine.tick()
    world.engine.commit()
    world.check()
    policy: Any = world.engine.parts("x")[0].models.get(WHO)
    assert policy.rounds == 1, "a scope that comes back starts fresh"
    world.engine.erase("x", WHO, "")
    world.engine.erase("x", "nobody", "")
    last = world.store.last(1, 0)
    finish(world)
    assert world.store.last(1, 0) == last + 1, "an unknown scope leaves no event"
    assert not traces(world, {"back"})
    world.check()
    with pytest.raises(Refused, match="scope"):
        world.engine.erase("x", "a\nb", "")


def test_the_record_stays_and_the_file_can_be_cleaned(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", policy="linucb", scoped=True)
    world.engine.erase("x", WHO, "key 1")
    assert world.store.removals()[0].scope == WHO
    finish(world)
    (row,) = world.store.removals()
    assert (row.name, row.scope, row.scope_hash, row.who) == ("x", None, scope_hash("x", WHO), "key 1")
    assert row.done == world.now
    world.store.close()
    compact(world.path)
    assert WHO.encode() not in world.path.read_bytes()
    assert b"user 4" in world.path.read_bytes()


def test_a_damaged_log_is_not_rewritten(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", policy="linucb", scoped=True)
    world.store._db.execute("UPDATE events SET crc = crc + 1 WHERE first = 5")
    world.engine.erase("x", WHO, "")
    finish(world)
    assert world.store.removals()[0].done is None
    world.decide("goes on", None, "user 1")


def test_all_processes_erase_their_shards(database: str) -> None:
    stores = [PostgreSQLStore(database, shards=4) for _ in range(2)]
    engines = [Engine(store, lambda: START) for store in stores]
    for engine in (*engines, *engines):
        engine.refresh()
    engines[0].configure("x", LoopConfig(policy="ucb1", scoped=True), None)
    for engine in engines:
        engine.refresh()
        engine.commit()
    shard = shard_of("x", WHO, 4)
    holder, other = sorted(engines, key=lambda engine: shard not in engine.held)
    assert shard not in other.held
    for number in range(5):
        holder.decide("x", DecisionRequest(f"d {number}", WHO, ("a", "b")))
    holder.commit()
    other.erase("x", WHO, "key 1")
    for engine in engines:
        engine.refresh()
        while engine.busy:
            engine.commit()
    assert all(row.done is not None and row.scope is None for row in stores[0].removals())
    bodies = [body for _, body in stores[0].events(1, shard, 0, 100)]
    assert [type(decode(body)) for body in bodies].count(Erased) == 5
    assert not any(WHO.encode() in body for body in bodies)
    assert holder.digest("x") == holder.digest("x", whole_log=True)
    for store in stores:
        store.close()


def test_erasing_over_http(tmp_path: Path) -> None:
    app = build_app(f"sqlite:{tmp_path / 'a.db'}", secure=False)
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        http.put("/v1/loops/x", json={"policy": "ucb1", "scoped": True})
        for number in range(20):
            http.post("/v1/loops/x/decisions", json={"scope": f"user {number % 4}", "arms": ["a", "b"]})
        answer = http.delete("/v1/loops/x/scopes/user%203")
        assert answer.status_code == 202
        assert answer.json() == {"loop": "x", "scope_hash": scope_hash("x", WHO), "status": "erasing"}
        problem(http.delete("/v1/loops/y/scopes/ann"), 404)
        deadline = time.monotonic() + 30
        while (record := http.get("/v1/loops/x/erasures").json()["erasures"][0])["done_at"] is None:
            assert time.monotonic() < deadline
        assert record["scope_hash"] == scope_hash("x", WHO)
        assert "user 3" not in http.get("/v1/loops/x/log").text
        assert http.get("/v1/loops/x/log").text.count('"kind":"erased"') == 5
        assert http.get("/v1/loops/x/log?format=dsjson").text.count("\n") == 15
        problem(http.get("/v1/loops/x/scopes/user%203"), 404)
