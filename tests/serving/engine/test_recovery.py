"""What memory holds equals what the store gives back, after restarts, snapshots and failures of the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.log.export import Wanted, ndjson, parquet
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.config import SERVED, Plan
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.stores.base import StoreError

from ..world import FailingVFS, World, run


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"scoped": True, "learn": "arrival"},
        {"policy": "linucb", "shadow": Plan()},
        {"policy": "dlinucb"},
        {"policy": "dlinucb", "scoped": True},
        {"policy": "lints", "scoped": True, "learn": "arrival"},
        {"policy": "adts", "settings": {"per_arm": False}},
        {"policy": "ucb1", "dim": None},
        {"policy": "meta-bandit", "scoped": True, "dim": None},
        {"policy": "random"},
        {"policy": "linucb", "settings": {"explore": 0.3}, "shadow": Plan("lints"), "default_reward": None},
        {"policy": "linucb", "shadow": Plan("ucb1"), "floor": 0.5, "scoped": True},
    ],
    ids=lambda config: "-".join(str(value) for value in config.values() if isinstance(value, str | Plan | bool)),
)
def test_recovery_is_byte_equal_to_running_the_whole_log_again(tmp_path: Path, config: dict[str, Any]) -> None:
    world = World(tmp_path / "a.db", snapshot_every=40)
    config = {"dim": 4, "window": 10.0} | config
    world.loop(**config)
    arms = [f"a{i}" for i in range(10)]
    if config["dim"] is not None:
        arms = world.arms(np.random.default_rng(1).standard_normal((10, 4)) / 2)
    for seed in range(3):
        run(world, 60, arms, seed)
        before = world.check()
        world.restart()
        assert world.check() == before
    assert world.counts().decisions == 180
    assert world.counts().learned > 50
    for kind, write in (("ndjson", ndjson), ("parquet", parquet)):
        exported = tmp_path / f"log.{kind}"
        wanted = Wanted("x", world.engine.number("x"))
        exported.write_bytes(b"".join(write(world.store.reader, wanted)))
        again = rerun_log(read_export(exported))
        assert (again.decisions, again.identical, again.differing) == (180, 180, [])
        assert again.digest == world.check()


@pytest.mark.parametrize("policy", SERVED)
def test_every_policy_can_be_served(world: World, policy: str) -> None:
    world.loop(policy=policy, dim=3, window=2.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((6, 3)) / 3)
    run(world, 25, arms)
    world.check()
    world.restart()
    assert world.counts().learned > 10
    world.check()


@pytest.mark.parametrize("policy", ["driftucb", "dlinucb"])
@pytest.mark.parametrize("every", [20, 100_000])
def test_scopes_spill_and_come_back_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, every: int
) -> None:
    """With memory for a few scopes, with or without snapshots meanwhile, everything is as with plenty of it."""
    monkeypatch.setattr("driftbandit.serving.engine.saving._SLICE", 3_000)  # so that a snapshot takes several commits
    monkeypatch.setattr("driftbandit.serving.engine.storage.INDEXED", 4)  # so that models take the memory
    digests = []
    for memory in (15_000, 700_000, 1 << 40):
        world = World(tmp_path / f"{memory}.db", memory=memory, snapshot_every=every)
        world.loop(dim=12, policy=policy, scoped=True, window=1.0)
        run(world, 150, world.arms(np.random.default_rng(1).standard_normal((10, 12))), scopes=20)
        loop = world.engine.parts("x")[0]
        stored = world.store.model_scopes(loop.number, 0, 0, 1)
        assert (len(loop.models) < 20) == (memory == 15_000)
        assert bool(stored) == (memory == 15_000 or every == 20)
        digests.append(world.check())
        world.restart()
        assert world.check() == digests[-1]
    assert len(set(digests)) == 1


def test_a_crash_in_the_middle_of_a_snapshot_leaves_the_one_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.loop(dim=4, policy="driftucb", scoped=True, window=1.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((10, 4)))
    run(world, 60, arms, scopes=20)
    assert world.engine.snapshot()
    loop = world.engine.parts("x")[0]
    first = loop.outbox.saved_at
    run(world, 60, arms, seed=1, scopes=20)
    monkeypatch.setattr("driftbandit.serving.engine.saving._SLICE", 1)
    world.engine._saver.begin(loop)
    for number in range(9):  # slices, and between them decisions about scopes that are not written yet
        world.decide(f"between {number}", arms, f"user {number}")
        world.now += 1_000
    assert world.engine.busy
    assert world.store.snapshot(loop.number, 0)[0] == first
    before = world.check()
    world.restart()
    assert world.check() == before
    assert world.engine.parts("x")[0].outbox.saved_at == first


def test_a_snapshot_is_of_the_moment_it_began(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftbandit.serving.engine.saving._SLICE", 1)
    world.loop(dim=4, policy="driftucb", scoped=True, learn="arrival", window=60.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((10, 4)))
    run(world, 60, arms, scopes=20)
    loop = world.engine.parts("x")[0]
    world.engine._saver.begin(loop)
    seq = loop.state.seq
    while loop.outbox.saved_at != seq:
        _, answer = world.decide(None, arms, f"user {loop.state.seq % 20}")
        world.reward(answer.decision_id, 1.0)
    before = world.check()
    world.restart()
    assert world.engine.parts("x")[0].outbox.saved_at == seq
    assert world.check() == before


def test_stopping_does_not_wait_for_a_long_snapshot(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftbandit.serving.engine.saving._SLICE", 1)
    world.loop(dim=4, policy="driftucb", scoped=True, window=1.0)
    run(world, 60, world.arms(np.random.default_rng(1).standard_normal((10, 4))), scopes=20)
    before = world.check()
    assert not world.engine.snapshot(0.0)
    world.restart()
    assert world.check() == before


def test_decisions_are_refused_when_memory_is_full_of_open_ones(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", memory=100_000)
    world.loop(dim=2, policy="linucb", window=60.0)
    arms = world.arms(np.eye(2))
    refused: list[int] = []
    while not refused:
        try:
            world.decide(None, arms)
        except Refused as refusal:
            refused.append(refusal.status)
    assert refused == [429]
    assert 50 < world.counts().decisions < 200
    assert not world.engine.busy, "nothing can be written that would help"
    world.now += 60_000
    world.engine.tick()
    world.engine.commit()
    world.engine.snapshot()  # closed decisions are left to the store
    world.engine.tick()
    world.engine.commit()
    world.decide(None, arms)
    world.check()


def test_models_of_earlier_settings_go_a_few_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftbandit.serving.engine.saving._SWEPT", 3)
    world.loop(dim=2, policy="linucb", scoped=True, window=1.0)
    arms = world.arms(np.eye(2))
    run(world, 40, arms, scopes=10)
    assert world.engine.snapshot()
    number = world.engine.number("x")
    assert len(world.store.model_scopes(number, 0, 0, 1)) == 10
    world.loop(dim=2, policy="lints", scoped=True, window=1.0, version=1)
    run(world, 40, arms, seed=1, scopes=10)
    assert world.engine.snapshot()
    assert world.store.model_scopes(number, 0, 0, 1) == []
    assert len(world.store.model_scopes(number, 0, 0, 2)) == 10
    world.restart()
    world.check()


@pytest.mark.parametrize("policy", ["dlinucb", "linucb", "lints", "driftucb"])
def test_closed_decisions_are_indexed_between_snapshots(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A crash after that brings them back into memory as well, which must make no difference."""
    monkeypatch.setattr("driftbandit.serving.engine.storage.INDEXED", 4)
    world.loop(dim=3, policy=policy, window=4.0)
    arms = world.arms(np.random.default_rng(1).standard_normal((10, 3)) / 2)
    _, answer = world.decide("first", arms)
    run(world, 60, arms)
    loop = world.engine.parts("x")[0]
    assert loop.outbox.saved_at == 0
    assert "first" not in loop.state.recent
    assert [row.reward for row in world.store.closed(1, ["first"])] == [None]
    for _ in range(2):
        assert world.decide("first", arms) == (False, answer)
        assert world.reward("first", 0.5) == "410"
        before = world.check()
        world.restart()
        assert world.check() == before
    assert "first" in world.engine.parts("x")[0].state.recent
    run(world, 20, arms, seed=1)
    world.check()


@pytest.fixture(scope="module")
def disk() -> Iterator[FailingVFS]:
    vfs = FailingVFS()
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("kind", ["full", "sync"])
def test_nothing_acknowledged_is_lost_when_the_disk_fails(tmp_path: Path, disk: FailingVFS, kind: str) -> None:
    world = World(tmp_path / "a.db", vfs="failing", snapshot_every=30)
    world.loop(dim=2, policy="linucb", window=5.0)
    arms = world.arms(np.eye(2))
    run(world, 40, arms)
    _, kept = world.decide("kept", arms)
    before = world.check()
    disk.broken = kind
    with contextlib.suppress(StoreError), pytest.raises(StoreError):
        world.decide("lost", arms)
    with pytest.raises(StoreError):
        world.engine.commit()
    disk.broken = None
    world.engine.recover()
    world.engine.commit()
    # What failed may or may not have reached the disk; what was acknowledged has.
    assert world.decide("kept", arms) == (False, kept)
    if world.counts().decisions == 41:
        assert world.check() == before
    _, answer = world.decide("lost", arms)  # the client tries again
    assert answer.decision_id == "lost"
    assert world.counts().decisions == 42
    world.check()
    world.store.close()
