"""Flipped bits in a store are noticed and named; what can be made again from the log is made again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app
from driftbandit.serving.engine import saving
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.base import Damaged, StoreError
from driftbandit.serving.stores.postgresql import PostgreSQLStore
from driftbandit.serving.stores.rows import Batch, Snapshot

from ..world import START, World, run

SAVED = "seq = (SELECT seq FROM snapshots WHERE loop = 2)"
"""Models that were written with the latest snapshot."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make(tmp_path)


def make(tmp_path: Path) -> World:
    """A scoped loop with a snapshot, models and events after it, and another loop."""
    world = World(tmp_path / "a.db", snapshot_every=60, memory=60_000)
    world.loop("other", policy="ucb1")
    world.decide("o", ["a"], None, "other")
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 60, world.arms(np.eye(2)), scopes=8)
    return world


def flip(world: World, column: str, table: str, where: str = "1") -> None:
    """Flip the lowest bit of a byte in the middle of one value."""
    key, data = next(
        world.store._db.execute(
            f"SELECT rowid, {column} FROM {table} WHERE loop = 2 AND {where} ORDER BY rowid LIMIT 1"
        )
    )
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    world.store._db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flipped, key))


def check(world: World) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, ["store", "check", f"sqlite:{world.path}"])
    return done.exit_code, done.stdout.splitlines()


def test_damage_of_a_model_that_counts_is_found_while_a_snapshot_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_REST", 1_000.0)
    world = make(tmp_path)
    (newer,) = world.store._db.execute(f"SELECT count(*) FROM states WHERE loop = 2 AND seq > ({SAVED[6:]})")
    assert newer[0], "models that the next snapshot will have"
    flip(world, "state", "states", SAVED)
    status, lines = check(world)
    assert status == 1
    assert any("the model of scope" in line for line in lines)


@pytest.mark.parametrize(
    "harm",
    [
        lambda world: flip(world, "core", "snapshots"),
        lambda world: flip(world, "state", "states", SAVED),
        lambda world: world.store._db.execute("UPDATE snapshots SET seq = seq - 1 WHERE loop = 2"),
        lambda world: world.store._db.execute("UPDATE snapshots SET seq = seq + 1000000 WHERE loop = 2"),
        lambda world: world.store._db.execute("UPDATE snapshots SET core = substr(core, 1, 50), crc = NULL"),
    ],
    ids=["snapshot", "model", "its number", "its number, ahead of the log", "truncated, without a checksum"],
)
def test_a_damaged_snapshot_or_model_is_made_again_from_the_log(
    world: World, caplog: pytest.LogCaptureFixture, harm: Any
) -> None:
    before = world.check()
    assert check(world) == (0, [])
    harm(world)
    status, lines = check(world)
    assert status == 1
    assert lines[0].startswith(("loop 'x', shard 0: ", "loop 'other', shard 0: "))
    caplog.set_level(logging.ERROR, "driftbandit")
    world.restart()
    for number in range(8):  # whichever of the models it is
        request = DecisionRequest(f"again {number}", f"user {number}")
        world.engine.carry_out(lambda engine, request=request: engine.decide("x", request))
        world.engine.commit()
    assert "the whole log is repeated instead" in caplog.text or "Damaged" in caplog.text
    assert "loop 'x', shard 0: the " in caplog.text
    for number in range(8):
        world.decide(f"again {number}", None, f"user {number}")
    world.check()
    assert check(world) == (0, []), "what was damaged has been replaced"
    world.restart()
    assert world.check() != before
    assert world.counts().decisions == 68


def test_a_damaged_model_is_noticed_when_its_scope_comes_back(world: World) -> None:
    world.engine.snapshot()
    world.restart()
    (scope,) = next(
        world.store._db.execute(f"SELECT scope FROM states WHERE loop = 2 AND {SAVED} ORDER BY rowid LIMIT 1")
    )
    flip(world, "state", "states", SAVED)
    request = DecisionRequest("again", scope)
    assert world.engine.carry_out(lambda engine: engine.decide("x", request)).status == 500
    world.engine.commit()
    assert world.engine.carry_out(lambda engine: engine.decide("x", request))[0] is True
    while world.engine.busy:  # a new snapshot is written
        world.engine.commit()
    assert check(world) == (0, [])
    world.check()


def test_damaged_events_are_named_and_stop_only_their_loop(world: World, caplog: pytest.LogCaptureFixture) -> None:
    flip(world, "bodies", "events", "first > 1")
    status, lines = check(world)
    assert (status, lines) == (1, ["loop 'x', shard 0: events 2 to 2: damaged, not what was written"])
    with pytest.raises(Damaged, match="loop 'x', shard 0: events 2 to 2"):
        world.store.events(2, 0, 0, 10)
    world.restart()  # the snapshot stands for the damaged event
    world.decide("new", None, "ann")
    flip(world, "core", "snapshots")
    world.restart()
    assert "events 2 to 2" in caplog.text
    with pytest.raises(Refused, match="events 2 to 2: damaged") as refused:
        world.decide("newer", None, "ann")
    assert refused.value.status == 503
    assert not world.decide("o", ["a"], None, "other")[0]


def test_missing_and_mixed_up_rows_are_noticed(world: World) -> None:
    db = world.store._db
    db.execute("DELETE FROM events WHERE loop = 2 AND first = 3")
    assert check(world) == (1, ["loop 'x', shard 0: events 3 to 3 are missing"])
    (one, two) = db.execute("SELECT rowid, bodies, crc FROM events WHERE loop = 2 AND first IN (5, 6)").fetchall()
    db.execute("UPDATE events SET bodies = ?, crc = ? WHERE rowid = ?", (two[1], two[2], one[0]))
    assert check(world)[1][1:] == ["loop 'x', shard 0: events 5 to 5: damaged, not what was written"]


def test_rows_without_checksums_are_of_an_older_version(world: World) -> None:
    before = world.check()
    for table in ("events", "snapshots"):
        world.store._db.execute(f"ALTER TABLE {table} DROP COLUMN crc")
    world.restart()
    assert world.check() == before
    assert check(world) == (0, [])
    world.decide("new", None, "user 1")
    checked = "SELECT count(*) FROM events WHERE crc IS NOT NULL"
    assert world.store._db.execute(checked).fetchall() == [(1,)]
    world.engine.snapshot()
    assert world.store._db.execute("SELECT count(*) FROM snapshots WHERE crc IS NULL").fetchall() == [(0,)]


def test_postgresql_notices_damage_and_takes_older_stores(database: str) -> None:
    store = PostgreSQLStore(database, shards=1)
    engine = Engine(store, lambda: START)
    engine.configure("x", LoopConfig(policy="ucb1"), None)
    engine.decide("x", DecisionRequest("d", None, ("a", "b")))
    engine.commit()
    engine.snapshot()
    assert list(store.damage()) == []
    store._do("UPDATE snapshots SET core = set_byte(core, 5, get_byte(core, 5) # 1)")
    store._do("UPDATE events SET bodies = set_byte(bodies, 9, get_byte(bodies, 9) # 1)")
    assert [line.partition(", not")[0] for line in store.damage()] == [
        "loop 'x', shard 0: events 1 to 2: damaged",
        "loop 'x', shard 0: the snapshot at event 2: damaged",
    ]
    for table in ("events", "snapshots"):
        store._do(f"ALTER TABLE {table} DROP COLUMN crc")
    store.reopen()
    store.hold()
    with pytest.raises(StoreError, match="a snapshot at event 1 cannot replace the later one at event 2"):
        store.commit(Batch(snapshots=[Snapshot(1, 0, 1, b"core")]))
    store.commit(Batch(snapshots=[Snapshot(1, 0, 2, b"core")]))
    assert store.snapshot(1, 0) == (2, b"core")
    store.close()
