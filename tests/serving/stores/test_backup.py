"""Copies of a store: made while it is written to, put back, compacted, counted; and PostgreSQL's own tools."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.stores import backup as copies
from driftbandit.serving.stores.postgresql import PostgreSQLStore

from ..world import START, World, run


def store(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["store", *map(str, arguments)])


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "a.db", snapshot_every=60)
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 60, world.arms(np.eye(2)))
    return world


def test_a_copy_of_a_store_in_use_has_the_same_digest(world: World, tmp_path: Path) -> None:
    before = world.check()
    done = store("backup", f"sqlite:{world.path}", tmp_path / "copy.db")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"], "one file, and nothing beside it"
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0
    assert World(tmp_path / "copy.db").check() == before
    again = store("backup", f"sqlite:{world.path}", tmp_path / "copy.db")
    assert again.exit_code != 0
    assert "copy.db exists; choose another name, or overwrite it with --force" in " ".join(again.output.split())
    assert store("backup", f"sqlite:{world.path}", tmp_path / "copy.db", "--force").exit_code == 0
    assert store("backup", f"sqlite:{world.path}", world.path, "--force").exit_code != 0
    assert world.check() == before


def test_the_service_commits_while_a_copy_is_made(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(copies, "_PAGES", _Steps(between))
    copy = threading.Thread(target=copies.backup, args=(world.path, tmp_path / "copy.db"), daemon=True)
    copy.start()
    before = world.counts().decisions
    for number in range(3):  # three commits between the steps of the copy
        between.wait()
        world.decide(f"meanwhile {number}", None, "ann")
        between.wait()
    copy.join(60)
    assert not copy.is_alive(), "commits must not make the copy start again"
    twin = World(tmp_path / "copy.db")
    assert twin.counts().decisions == before, "the store as it was when the copy began"
    twin.check()
    assert world.counts().decisions == before + 3


class _Steps:
    """How many pages to copy: one. Before each of the first steps but the first, it lets another thread commit."""

    def __init__(self, between: threading.Barrier) -> None:
        self.between = between
        self.steps = 0

    def __index__(self) -> int:
        self.steps += 1
        if 1 < self.steps <= 4:
            self.between.wait()
            self.between.wait()
        return 1


def test_a_copy_is_put_back(world: World, tmp_path: Path) -> None:
    before = world.check()
    copy = tmp_path / "copy.db"
    assert store("backup", f"sqlite:{world.path}", copy).exit_code == 0
    assert store("restore", copy, f"sqlite:{tmp_path / 'new' / 'b.db'}").exit_code == 0
    assert World(tmp_path / "new" / "b.db").check() == before
    world.decide("later", None, "ann")
    refused = store("restore", copy, f"sqlite:{world.path}")
    assert refused.exit_code != 0
    assert "overwrite it with --force" in refused.output
    assert "another process is serving" in store("restore", copy, f"sqlite:{world.path}", "--force").output
    world.store.close()
    assert store("restore", copy, f"sqlite:{world.path}", "--force").exit_code == 0
    world.open()
    assert world.check() == before


def test_commits_that_the_old_store_had_beside_it_do_not_come_back(world: World, tmp_path: Path) -> None:
    before = world.check()
    copy = tmp_path / "copy.db"
    assert store("backup", f"sqlite:{world.path}", copy).exit_code == 0
    world.decide("later", None, "ann")
    beside = {ending: Path(f"{world.path}{ending}").read_bytes() for ending in ("-wal", "-shm")}
    world.store.close()
    for ending, data in beside.items():  # as a crash leaves them
        Path(f"{world.path}{ending}").write_bytes(data)
    assert store("restore", copy, f"sqlite:{world.path}", "--force").exit_code == 0
    world.open()
    assert world.check() == before


def test_damage_is_neither_copied_nor_put_back(world: World, tmp_path: Path) -> None:
    world.store._db.execute("UPDATE events SET crc = crc + 1 WHERE first = 3")
    done = store("backup", f"sqlite:{world.path}", tmp_path / "copy.db")
    assert done.exit_code != 0
    assert "events 3 to 3: damaged" in done.output
    (tmp_path / "text.db").write_text("no database, but long enough to be taken for one" * 20)
    for file in (world.path, tmp_path / "text.db", tmp_path / "missing.db"):
        assert store("restore", file, f"sqlite:{tmp_path / 'b.db'}").exit_code != 0
    assert not list(tmp_path.glob("*copy*"))
    assert not (tmp_path / "b.db").exists()


def test_compacting_changes_nothing_but_the_size(world: World) -> None:
    world.store._db.execute("CREATE TABLE waste AS SELECT randomblob(1000000) AS x")
    world.store._db.execute("DROP TABLE waste")
    before = world.check()
    refused = store("compact", f"sqlite:{world.path}")
    assert refused.exit_code != 0
    assert "another process is serving" in refused.output
    world.store.close()
    assert store("compact", f"sqlite:{world.path}").exit_code == 0
    assert world.path.stat().st_size < 500_000
    world.open()
    assert world.check() == before
    assert store("compact", f"sqlite:{world.path}x").exit_code != 0


def test_sizes_are_those_of_the_rows(world: World) -> None:
    world.loop("another", policy="ucb1")
    world.engine.snapshot()
    sizes = {
        (row["loop"], row["kind"]): row for row in json.loads(store("sizes", f"sqlite:{world.path}", "--json").stdout)
    }
    assert sizes["another", "events"]["rows"] == 1
    assert sizes["x", "events"]["rows"] == world.engine.parts("x")[0].state.seq
    bodies = world.store._db.execute("SELECT length(bodies) FROM events WHERE loop = 1").fetchall()
    assert sizes["x", "events"]["bytes"] == sum(size for (size,) in bodies)
    assert sizes["x", "models"]["rows"] >= 5
    assert sizes["x", "closed"]["rows"] == world.counts().decisions - world.engine.parts("x")[0].waiting
    assert ("another", "closed") not in sizes
    shown = store("sizes", f"sqlite:{world.path}").stdout
    assert [line.split()[0] for line in shown.splitlines() if line.endswith(" x")] == [
        kind for loop, kind in sizes if loop == "x"
    ]


@pytest.mark.parametrize("command", [("backup", "{}", "f.db"), ("restore", "f.db", "{}"), ("compact", "{}")])
def test_for_postgresql_there_is_advice(command: tuple[str, ...]) -> None:
    done = store(*(part.format("postgresql://me@db/x") for part in command))
    assert done.exit_code != 0
    assert "for PostgreSQL" in done.output


@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="needs pg_dump and pg_restore")
def test_the_postgresql_commands_of_the_documentation(database: str, tmp_path: Path) -> None:
    writer = PostgreSQLStore(database, shards=2)
    engine = Engine(writer, lambda: START)
    engine.configure("x", LoopConfig(policy="ucb1", scoped=True), None)
    for number in range(40):
        engine.decide("x", DecisionRequest(str(number), f"user {number % 7}", ("a", "b")))
    engine.commit()
    engine.snapshot()
    before = engine.digest("x")
    dump = tmp_path / "monday.dump"
    _shell(f"pg_dump --format=custom --file={dump} '{database}'")  # while the service runs
    name = database.partition("?")[0].rpartition("/")[2] + "_restored"
    restored = database.replace("?", "_restored?", 1)
    _shell(f"psql --quiet '{database}' -c 'CREATE DATABASE {name}'")
    _shell(f"pg_restore --no-owner --dbname='{restored}' {dump}")
    assert store("check", restored).exit_code == 0
    sizes = json.loads(store("sizes", restored, "--json").stdout)
    assert sizes[0] == {**sizes[0], "loop": "x", "kind": "events", "rows": 42}
    twin = Engine(PostgreSQLStore(restored, lease=0.2), lambda: START)
    threading.Event().wait(0.5)  # the processes of the first store were copied too; their leases run out
    twin.refresh()
    assert twin.held.keys() == {0, 1}
    assert twin.digest("x") == before
    twin.store.close()
    engine.decide("x", DecisionRequest("later", "ann", ("a", "b")))
    engine.commit()  # the original must not notice the copy
    writer.close()


def _shell(command: str) -> None:
    done = subprocess.run(command, shell=True, capture_output=True, env=os.environ | {"LC_ALL": "C"}, check=False)
    assert done.returncode == 0, done.stderr.decode()
