"""Old events: out of the store, into an archive, and the log can still be repeated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app
from driftbandit.serving.engine import retention
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest
from driftbandit.serving.engine.retention import Retention
from driftbandit.serving.log import archive as archives
from driftbandit.serving.log.archive import ParquetArchive
from driftbandit.serving.log.rerun import read_exports, rerun_log
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.postgresql import PostgreSQLStore
from driftbandit.serving.stores.removals import Pruned
from driftbandit.serving.stores.rows import Batch

from ..live import live, problem
from ..world import World, export, prune, run

KEEP = 60_000
"""Milliseconds; a round of `run` takes about one second."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_LOOK_MS", 1_000)


def make(path: Path, archive: Path | None, rounds: int = 100) -> World:
    keeps = Retention(KEEP, None if archive is None else ParquetArchive(archive))
    world = World(path, snapshot_every=40, retention=keeps)
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    arms = world.arms(np.eye(2))
    run(world, rounds, arms)
    return world


def test_archive_and_store_together_are_the_whole_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_RUNS", 7)
    monkeypatch.setattr(archives, "_EVENTS", 50)
    world = make(tmp_path / "a.db", tmp_path / "archive", 80)
    before, count = world.check(), world.counts().decisions
    whole = export(world, tmp_path / "whole.ndjson").read_bytes().splitlines()
    first = prune(world)
    assert first > 10
    while prune(world) > first:  # fifty events to a file
        first = world.store.pruned(1, 0)
    left = export(world, tmp_path / "rest.ndjson").read_bytes().splitlines()
    assert left == whole[first:]
    assert len(list((tmp_path / "archive" / "1" / "0").iterdir())) > 1
    run(world, 20, ["a0", "a1"], seed=1)
    export(world, tmp_path / "rest.ndjson")
    found = rerun_log(read_exports([tmp_path / "archive" / "1", tmp_path / "rest.ndjson"]))
    assert found.identical == found.decisions == count + 20
    assert found.digest == world.check() != before, "archive and log give the state of the service"
    done = CliRunner().invoke(app, ["rerun", str(tmp_path / "archive"), str(tmp_path / "rest.ndjson")])
    assert done.exit_code == 0, done.output
    alone = CliRunner().invoke(app, ["rerun", str(tmp_path / "rest.ndjson")])
    assert "give the archive first" in " ".join(alone.output.split())
    check = CliRunner().invoke(app, ["store", "check", f"sqlite:{world.path}"])
    assert (check.exit_code, check.stdout) == (0, "")
    world.restart()
    assert world.check() == found.digest


def test_only_old_events_behind_a_snapshot_go(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", None, rounds=30)  # younger than a minute
    assert prune(world) == 0, "a tenth longer than asked for, so that few archives are written"
    world.now += KEEP * 2
    world.decide("open", ["a0"], "ann")
    last = world.engine.parts("x")[0].outbox.saved_at
    assert 0 < prune(world) <= last, "what no snapshot has stays"
    world.engine.snapshot()
    world.now += KEEP * 2
    oldest = next(iter(world.engine.parts("x")[0].state.recent.values())).seq
    gone = prune(world)
    assert last < gone < oldest, "a decision that may be asked for again stays"
    assert not world.decide("open", ["a0"], "ann")[0]
    with pytest.raises(Refused, match="another body"):
        world.decide("open", ["a1"], "ann")
    world.restart()
    assert not world.decide("open", ["a0"], "ann")[0]


def log_size(world: World) -> int:
    return sum(row.bytes for row in world.store.sizes() if row.kind == "events")


@pytest.mark.parametrize("archived", [True, False])
def test_a_log_that_is_too_large_loses_its_oldest_events(tmp_path: Path, archived: bool) -> None:
    size, folder = 8_000, tmp_path / "archive"
    keeps = Retention(None, ParquetArchive(folder) if archived else None, size)
    world = World(tmp_path / "a.db", snapshot_every=40, retention=keeps)
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    arms = world.arms(np.eye(2))
    run(world, 30, arms)
    assert log_size(world) < size
    assert prune(world) == 0
    run(world, 120, arms, seed=1)
    assert log_size(world) > 1.2 * size
    world.engine.snapshot()
    whole = export(world, tmp_path / "whole.ndjson").read_bytes().splitlines()
    gone = prune(world)
    assert 0.8 * size < log_size(world) <= 0.9 * size
    left = export(world, tmp_path / "rest.ndjson").read_bytes().splitlines()
    assert left == whole[gone:]
    assert prune(world) == gone, "it is small enough now"
    assert world.store.closed(1, ["1/100"])
    assert not world.store.closed(1, ["0/0"])
    if archived:
        found = rerun_log(read_exports([folder, tmp_path / "rest.ndjson"]))
        assert found.digest == world.check()


def test_by_age_and_by_size(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", snapshot_every=40, retention=Retention(KEEP, None, 8_000))
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 40, world.arms(np.eye(2)))
    world.engine.snapshot()
    assert prune(world) == 0, "neither too old nor too many"
    world.now += KEEP
    by_age = prune(world)
    assert by_age > 0
    run(world, 120, ["a0", "a1"], seed=1)
    world.engine.snapshot()
    assert log_size(world) > 8_000
    assert prune(world) > by_age
    assert log_size(world) <= 7_200


def test_what_is_needed_stays_however_large(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", retention=Retention(None, None, 100))
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 30, world.arms(np.eye(2)))
    assert prune(world) == 0, "no snapshot has these events"
    world.check()


def test_ids_go_with_their_events(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", None)
    world.engine.snapshot()
    assert world.store.closed(1, ["0/0"])
    assert world.reward("0/0", 0.25) in ("409", "410")
    assert prune(world)
    assert not world.store.closed(1, ["0/0"])
    assert world.reward("0/0", 0.25) == "404"
    assert world.store.closed(1, ["0/90"]), "the id of an event that is still there"
    counts = {row.kind: row.rows for row in world.store.sizes()}
    decisions = export(world, tmp_path / "log").read_text().count('"kind":"decision"')
    assert counts["closed"] <= decisions


def damage(world: World) -> None:
    world.store._db.execute("UPDATE snapshots SET crc = crc + 1")
    world.restart()


def test_damage_needs_the_archive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make(tmp_path / "a.db", tmp_path / "archive")
    assert prune(world)
    before = world.check()
    damage(world)
    assert world.check() == before, "the archive was repeated"
    while world.engine.busy:
        world.engine.commit()
    (file,) = (tmp_path / "archive" / "1" / "0").iterdir()
    file.rename(tmp_path / "elsewhere.parquet")
    damage(world)
    with pytest.raises(Refused, match=r"archive: events 1 to .* of loop 1, shard 0 are missing") as refused:
        world.decide("new", None, "ann")
    assert refused.value.status == 503


def test_damage_without_an_archive_is_named(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", None)
    gone = prune(world)
    assert gone
    damage(world)
    with pytest.raises(Refused, match=f"events 1 to {gone} went out of the log .* restore a backup") as refused:
        world.decide("new", None, "ann")
    assert refused.value.status == 503


def test_an_archive_that_cannot_be_written_keeps_the_events(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "archive").write_text("a file where the folder should be")
    world = make(tmp_path / "a.db", tmp_path / "archive")
    assert prune(world) == 0
    assert "old events stay in the store" in caplog.text
    world.check()


def test_a_crash_between_archive_and_store(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", tmp_path / "archive")
    world.now += retention._LOOK_MS
    world.engine.refresh()  # archived, not removed yet
    assert world.store.pruned(1, 0) == 0
    assert ParquetArchive(tmp_path / "archive").upto(1, 0) > 20
    world.restart()
    assert prune(world) > 20
    export(world, tmp_path / "rest.ndjson")
    found = rerun_log(read_exports([tmp_path / "archive", tmp_path / "rest.ndjson"]))
    assert found.digest == world.check()


def test_a_scope_is_erased_from_log_and_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_EVENTS", 50)
    world = make(tmp_path / "a.db", tmp_path / "archive")
    first = 0
    while prune(world) > first:
        first = world.store.pruned(1, 0)
    ids = ParquetArchive(tmp_path / "archive").ids_of(1, 0, "user 3")
    assert len(ids) > 3
    partial = tmp_path / "archive" / "1" / "0" / ".1.partial"
    partial.write_text("user 3, half-written when the process was killed")
    world.engine.erase("x", "user 3", "")
    while world.store.removals()[0].done is None:
        world.engine.commit()
    assert not partial.exists()
    assert "user 3" not in export(world, tmp_path / "rest.ndjson").read_text()
    left = [row for row, _ in read_exports([tmp_path / "archive"])]
    assert len(left) >= first, "the numbering stays whole"
    assert sum(row["kind"] == "erased" for row in left) >= len(ids)
    assert not any(row["scope"] == "user 3" or row["id"] in ids for row in left)
    found = rerun_log(read_exports([tmp_path / "archive", tmp_path / "rest.ndjson"]))
    assert found.digest == world.check()
    assert found.identical == found.decisions


def test_a_hole_is_damage_wherever_the_log_begins(tmp_path: Path) -> None:
    world = make(tmp_path / "a.db", None)
    gone = prune(world)
    world.store._db.execute("DELETE FROM events WHERE first = ?", (gone + 1,))
    done = CliRunner().invoke(app, ["store", "check", f"sqlite:{world.path}"])
    assert done.stdout.startswith(f"loop 'x', shard 0: events {gone + 1} to ")


@pytest.mark.parametrize("retention_", [Retention(KEEP), Retention(None, None, 1_000)], ids=["age", "size"])
def test_postgresql_prunes_too(database: str, retention_: Retention) -> None:
    store, now = PostgreSQLStore(database, shards=2), [1_700_000_000_000]
    engine = Engine(store, lambda: now[0], retention=retention_)
    engine.configure("x", LoopConfig(policy="ucb1", scoped=True, window=1.0), None)
    for number in range(20):
        now[0] += 10_000
        engine.tick()
        engine.decide("x", DecisionRequest(f"d{number}", f"user {number % 11}", ("a", "b")))
        engine.commit()
    engine.snapshot()
    now[0] += retention._LOOK_MS
    for _ in range(3):  # one shard after the other
        engine.refresh()
        while engine.busy:
            engine.commit()
    assert all(store.pruned(1, shard) > 2 for shard in range(2))
    assert store.closed(1, ["d1"]) == []
    assert list(store.damage()) == []
    store.commit(Batch(pruned=[Pruned(1, 0, store.pruned(1, 0), [])]))
    before = engine.digest("x")
    engine.recover()
    assert engine.digest("x") == before
    store.close()


def test_options_of_the_command(tmp_path: Path) -> None:
    for options, message in (
        (["--keep", "long"], "--keep: expected a length of time such as 90d"),
        (["--keep", "0d"], "--keep: expected a length of time such as 90d"),
        (["--keep", "1PB"], "--keep: expected a size such as 512MB"),
        (["--keep", "0GB"], "--keep: expected a size above 0"),
        (["--keep", "1GB", "--keep", "2GB"], "--keep: expected one length of time and one size at most, got 1GB and"),
        (["--archive", "a"], "--archive: expected --keep too"),
    ):
        done: Any = CliRunner().invoke(app, ["serve", "--store", f"sqlite:{tmp_path / 'a.db'}", *options])
        assert done.exit_code != 0
        assert message in " ".join(done.output.split())


def test_a_running_service_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_LOOK_MS", 100)
    address, folder = f"sqlite:{tmp_path / 'a.db'}", tmp_path / "archive"
    service = build_app(address, secure=False, snapshot_every=20, keep=500, archive=folder)
    with live(service) as url, httpx.Client(base_url=url, timeout=60) as http:
        http.put("/v1/loops/x", json={"policy": "ucb1", "window": 0.1})
        for _ in range(40):
            http.post("/v1/loops/x/decisions", json={"arms": ["a", "b"]})
        deadline = time.monotonic() + 30
        while http.get("/v1/loops/x/log").text.count("\n") > 40:
            assert time.monotonic() < deadline, "old events must leave the store"
            http.post("/v1/loops/x/decisions", json={"arms": ["a", "b"]})
            time.sleep(0.1)
        assert "needs the whole log" in problem(http.get("/v1/loops/x/log?format=dsjson"), 422)
        (tmp_path / "rest.parquet").write_bytes(http.get("/v1/loops/x/log?format=parquet").content)
        assert http.get("/readyz").status_code == 200
    found = rerun_log(read_exports([folder / "1", tmp_path / "rest.parquet"]))
    assert found.identical == found.decisions >= 40
