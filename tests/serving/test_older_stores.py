"""Stores and logs written by version 0.1.0 at commit 5967dab: they open, export and run again as they did then.

``data/store.db.gz`` holds one loop per policy, with snapshots and events after them, and ``data/*.ndjson.gz`` their
exported logs. ``data/digests.json`` says what the code of that time found: a hash of every loop's state, a hash of its
log, and how many changes it had detected. DriftUCB's choices have changed since, so its loop is only opened.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from driftbandit.serving.log.export import Wanted, ndjson
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.stores.sqlite import SQLiteStore

from .world import World

DATA = Path(__file__).parent / "data"
FOUND: dict[str, dict[str, Any]] = json.loads((DATA / "digests.json").read_text())
SAME = [name for name in FOUND if name != "drift"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "store.db.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", SAME)
def test_an_older_store_opens_with_the_same_state(store: Path, name: str) -> None:
    assert World(store).check(name) == FOUND[name]["digest"]


def test_a_loop_of_driftucb_opens_and_goes_on(store: Path) -> None:
    world = World(store)
    _, answer = world.decide("next", None, "user 1", "drift")
    assert world.reward("next", 1.0, "drift") == "accepted"
    assert answer.propensity > 0.0


@pytest.mark.parametrize("name", FOUND)
def test_an_older_store_exports_the_same_log(store: Path, name: str) -> None:
    reader = SQLiteStore(store, writer=False)
    number = next(row.number for row in reader.loops() if row.name == name)
    reader.close()
    log = b"".join(ndjson(lambda: SQLiteStore(store, writer=False), Wanted(name, number)))
    assert hashlib.sha256(log).hexdigest() == FOUND[name]["log"]


@pytest.mark.parametrize("name", SAME)
def test_an_older_log_runs_again_to_the_same_state(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(gzip.decompress((DATA / f"{name}.ndjson.gz").read_bytes()))
    found = rerun_log(read_export(path))
    assert found.identical == found.decisions == 160
    assert (found.digest, found.changes) == (FOUND[name]["digest"], FOUND[name]["changes"])
