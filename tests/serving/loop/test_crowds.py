"""Rewards of many scopes that are learned at once, on threads, leave what one after the other leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.batch import objects
from driftbandit.serving.api import views
from driftbandit.serving.engine.messages import Arm, DecisionRequest, RewardRequest
from driftbandit.serving.loop import learner
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.scopes import Models

from ..world import World

ARMS = np.random.default_rng(5).standard_normal((8, 3))


@pytest.fixture
def crowds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rewards were learned together, each time; every thread takes a single one."""
    sizes: list[int] = []

    def counting(policies: list[Any], *rest: Any) -> Any:
        sizes.append(len(policies))
        return objects.learn_each(policies, *rest, threads=3)

    monkeypatch.setattr(learner, "learn_each", counting)
    monkeypatch.setattr("driftbandit.batch.threads._PART", 1)
    monkeypatch.setattr(objects, "_REWARDS", 0)
    return sizes


def play(path: Path, memory: int, **config: Any) -> tuple[str, dict[str, Any], list[Any]]:
    """What a loop knows after tastes have flipped and its settings have changed: digest, totals, changes."""
    config = {"dim": 3, "scoped": True, "window": 5.0, "default_reward": -0.5, **config}
    world = World(path, memory=memory, snapshot_every=150)
    world.loop(**config)
    ids = world.arms(ARMS)
    rng = np.random.default_rng(1)
    for turn in range(40):
        if turn == 5:  # models start afresh, while decisions of the earlier ones are open
            world.loop(version=1, **{**config, "settings": {"explore": 0.7}})
        for number in range(60):
            ident, scope = f"{turn}/{number}", f"user {rng.integers(10)}"
            arm = world.engine.decide("x", DecisionRequest(ident, scope, ids))[1].arm
            if rng.random() < 0.95:
                mean = float(ARMS[ids.index(arm)].sum()) * (1 if turn < 28 else -1)
                world.engine.reward("x", ident, RewardRequest(mean + 0.1 * float(rng.standard_normal())))
        world.engine.commit()
        world.now += 3_000
    world.now += 10_000
    world.engine.tick()
    world.engine.commit()
    digest = world.check()
    found = world.store.changes(world.engine.number("x"), 0, 0, 1000)
    totals = views.totals(world.engine, "x")
    world.restart()
    assert world.check() == digest
    return digest, {name: totals[name] for name in totals if name != "scopes_in_memory"}, list(found)


@pytest.mark.parametrize("memory", [1 << 62, 500_000])
@pytest.mark.parametrize("policy", ["driftucb", "linucb", "lints"])
def test_as_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowds: list[int], policy: str, memory: int
) -> None:
    together = play(tmp_path / "a.db", memory, policy=policy)
    assert len(crowds) > 40
    assert (min(crowds) < 15) == (memory == 500_000), "with little memory, few policies are objects at a time"
    crowds.clear()
    monkeypatch.setattr(objects, "_REWARDS", 1 << 62)
    assert play(tmp_path / "b.db", memory, policy=policy) == together
    assert not crowds
    _, totals, changes = together
    assert (totals["learned"], totals["changes"]) == (totals["closed"] - open_at_the_change(totals), len(changes))
    assert (len(changes) >= 8) == (policy == "driftucb")


def open_at_the_change(totals: dict[str, Any]) -> int:
    """Decisions that were open when models started afresh, whose rewards nobody learned."""
    assert totals["open"] == totals["refused"] == 0
    return int(totals["decisions"] - totals["learned"])


def test_rewards_that_cannot_be_learned_are_counted(world: World, crowds: list[int]) -> None:
    world.loop(dim=1, policy="driftucb", scoped=True, window=5.0, default_reward=1.0)
    for number in range(
        40
    ):  # features that a policy cannot use beside those it learns first, which it does not know yet
        for part, size in (("first", 1.0), ("second", 1e150 if number in (3, 5) else 1.0)):
            world.decide(f"{number} {part}", [Arm("a", [size])], f"user {number}")
    world.now += 6_000
    world.engine.tick()
    assert crowds == [80]
    counts = world.counts()
    assert (counts.closed, counts.learned, counts.refused) == (80, 78, 2)


def test_many_policies_are_objects_only_as_far_as_there_is_room() -> None:
    def build() -> Any:
        return builder(LoopConfig(policy="linucb", dim=25), Plan("linucb"))()

    one = Models(build, {}.get, 0)._cost
    models = Models(build, {}.get, 3 * one + one // 2)
    found = models.get_many(["a", "b", "a", "c", "d"])
    assert found[0] is found[2] is models.get("a")
    assert [models.get(scope) for scope in "aba"] == found
    assert len(models.get_many(["x"])) == 1
    assert len(Models(build, {}.get, 0).get_many(["a", "b"])) == 1
    models._largest = 10 * one  # as after a larger one was packed
    assert len(models.get_many(["a", "b"])) == 1
