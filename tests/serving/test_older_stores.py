"""Stores and logs written by version 0.1.0 at commit 5967dab: they open, export and run again as they did then.

``data/store.db.gz`` holds one loop per policy, with snapshots and events after them, and ``data/*.ndjson.gz`` their
exported logs. ``data/digests.json`` says what the code of that time found: hashes of every loop's state, a hash of its
log, and how many changes it had detected. DriftUCB's choices have changed since, so its loop is only opened.

The code of that time ran on a processor with AVX-512. Sums in compiled code round differently where vectors are
shorter, so there a store has models of both kinds of processors: they must agree to 1e-9. The second hash of a state is
that of its whole log on a processor with AVX2 alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.reading import digest
from driftbandit.serving.engine.storage import load_whole
from driftbandit.serving.log.export import Wanted, ndjson
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.slab import unpack
from driftbandit.serving.stores.sqlite import SQLiteStore

from .world import World

DATA = Path(__file__).parent / "data"
FOUND: dict[str, dict[str, Any]] = json.loads((DATA / "digests.json").read_text())
HASHED = platform.machine() in ("x86_64", "AMD64")
SAME = [name for name in FOUND if name != "drift"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "store.db.gz").read_bytes()))
    return path


def models_of(loop: Loop, scopes: Iterable[str]) -> dict[tuple[int, str], dict[str, Any]]:
    """The models of these scopes, and of everyone."""
    return {
        (role, scope): unpack(packed)
        for role, models in loop.learner.roles
        for scope in sorted({"", *scopes})
        if (packed := models.packed(scope)) is not None
    }


@pytest.mark.parametrize("name", SAME)
def test_an_older_store_opens_with_the_same_state(store: Path, name: str) -> None:
    world = World(store)
    live = world.engine.parts(name)[0]
    row = next(row for row in world.store.loops() if row.name == name)
    whole = load_whole(world.store, row, live.shard, None)
    assert live.state.core() == whole.state.core()
    scopes = [scope for _, models in whole.learner.roles for scope in models.scopes()]
    found, expected = models_of(live, scopes), models_of(whole, scopes)
    assert found.keys() == expected.keys()
    assert found
    for key, state in expected.items():
        assert found[key].keys() == state.keys()
        for part, array in state.items():
            np.testing.assert_allclose(found[key][part], array, rtol=1e-9, atol=1e-9, err_msg=f"{key} {part}")
    assert not HASHED or digest([whole], None) in FOUND[name]["digests"]
    if digest([whole], None) == FOUND[name]["digests"][0]:
        assert world.check(name) == FOUND[name]["digests"][0]


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
    assert not HASHED or found.digest in FOUND[name]["digests"]
    assert found.changes == FOUND[name]["changes"]
