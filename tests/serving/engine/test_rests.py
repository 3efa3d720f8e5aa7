"""A snapshot takes a part of the commits only, unless there is no time."""

from __future__ import annotations

import numpy as np
import pytest

from driftbandit.serving.engine import saving

from ..world import World, run


@pytest.fixture
def saved(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The first slices of a snapshot are written, and it rests."""
    monkeypatch.setattr(saving, "_REST", 1_000_000.0)
    monkeypatch.setattr(saving, "_SLICE", 300)  # bytes: about one model
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 30, world.arms(np.eye(2)), scopes=8)
    world.engine._saver.demand(world.engine.parts("x"))
    world.engine.commit()
    world.engine.commit()
    return world


def models(world: World) -> int:
    ((count,),) = world.store._db.execute("SELECT count(*) FROM states")
    return int(count)


def test_commits_go_without_a_slice_while_it_rests(saved: World) -> None:
    before = models(saved)
    assert before > 0
    assert saved.engine.busy
    assert saved.engine.rest > 0.0
    run(saved, 5, ["a0", "a1"], seed=1)
    assert models(saved) == before
    assert saved.store.snapshot(1, 0) is None


def test_a_snapshot_that_is_asked_for_does_not_rest(saved: World) -> None:
    assert saved.engine.snapshot()
    assert not saved.engine.busy
    assert models(saved) == 8
    saved.check()
    saved.restart()
    saved.check()
