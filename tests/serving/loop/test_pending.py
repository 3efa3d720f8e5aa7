"""What policies that mind are told: how many rewards their models have yet to learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit import DriftUCB, LinUCB
from driftbandit.serving.log.export import Wanted, ndjson
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.config import LoopConfig, Plan, builder

from ..world import World

ARMS = np.random.default_rng(1).standard_normal((10, 4)) / 2
TASTE = np.array([0.6, -0.4, 0.2, 0.1])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What every DriftUCB was told, in order."""
    heard: list[int] = []
    choose = DriftUCB.choose

    def listen(self: DriftUCB, features: Any, arms: Any = None, *, pending: int) -> int:
        heard.append(pending)
        return choose(self, features, arms, pending=pending)

    monkeypatch.setattr(DriftUCB, "choose", listen)
    return heard


def serve(world: World, **config: Any) -> None:
    world.loop(**({"dim": 4, "window": 10.0, "floor": 0.0} | config))
    world.arms(ARMS)


def learn_some(world: World, count: int = 30) -> None:
    """Decisions one at a time, each learned before the next."""
    rng = np.random.default_rng(2)
    for number in range(count):
        _, answer = world.decide(f"some {number}")
        world.reward(answer.decision_id, float(ARMS[answer.index] @ TASTE + 0.5 * rng.standard_normal()))
        wait(world, 10.0)


def wait(world: World, seconds: float) -> None:
    world.now += round(1000 * seconds)
    world.engine.tick()
    world.engine.commit()


def rerun(world: World, path: Path) -> None:
    path.write_bytes(b"".join(ndjson(world.store.reader, Wanted("x", world.engine.number("x")))))
    found = rerun_log(read_export(path))
    assert (found.identical, found.differing) == (found.decisions, [])
    assert found.digest == world.check()


def test_a_batch_without_rewards_plays_several_arms_and_can_be_repeated(world: World, tmp_path: Path) -> None:
    config = LoopConfig(dim=4)
    policy: Any = builder(config, Plan())()
    serve(world)
    learn_some(world)
    policy.restore(world.engine.parts("x")[0].models.get("").state())
    played = [world.decide(f"{number}")[1].index for number in range(1000)]
    assert len(set(played[:5])) == 1, "few unanswered decisions are nothing to mind"
    assert len(set(played)) >= 3
    assert played == [policy.choose(ARMS, pending=number) for number in range(1000)]
    rerun(world, tmp_path / "log.ndjson")


@pytest.mark.parametrize("scoped", [False, True])
def test_a_crash_in_the_middle_changes_no_decision(tmp_path: Path, scoped: bool) -> None:
    played: dict[int, list[int]] = {}
    for crashes in (0, 7):
        world = World(tmp_path / f"{crashes}.db", snapshot_every=40)
        serve(world, scoped=scoped, default_reward=None)
        rng = np.random.default_rng(3)
        answers = []
        for number in range(300):
            if crashes and number % 40 == crashes:
                world.restart()
            _, answer = world.decide(f"{number}", scope=f"user {rng.integers(2)}")
            answers.append(answer.index)
            if rng.random() < 0.5:
                world.reward(f"{number}", float(ARMS[answer.index] @ TASTE + rng.standard_normal()))
            wait(world, 0.3)
        played[crashes] = answers
        rerun(world, tmp_path / "log.ndjson")
    assert played[0] == played[7]


def test_a_decision_counts_until_its_window_closes(world: World, told: list[int]) -> None:
    serve(world)
    for number in range(3):
        world.decide(f"{number}")
        wait(world, 1.0)
    world.reward("0", 1.0)  # is learned when the window closes
    world.decide("3")
    assert told == [0, 1, 2, 3]
    wait(world, 7.0)  # the first window closes
    world.decide("4")
    assert world.counts().learned == 1
    wait(world, 2.0)  # the next two
    world.reward("0", 0.0)
    world.decide("5")
    assert told[4:] == [3, 2]
    wait(world, 10.0)
    world.decide("6")
    assert told[6:] == [0]


@pytest.mark.parametrize("default", [None, 0.0])
def test_on_arrival_a_decision_counts_until_its_reward_arrives(
    world: World, told: list[int], default: float | None
) -> None:
    serve(world, learn="arrival", default_reward=default)
    for number in range(4):
        world.decide(f"{number}")
    assert world.reward("1", 1.0) == "accepted"
    assert world.reward("1", 1.0) == "duplicate"
    world.decide("4")
    assert told == [0, 1, 2, 3, 3]
    wait(world, 10.0)
    assert world.reward("2", 1.0) == "410"
    world.decide("5")
    assert told[5:] == [0]


def test_every_scope_counts_its_own(world: World, told: list[int]) -> None:
    serve(world, scoped=True)
    for number, scope in enumerate(("ann", "ann", "bob", "ann", "bob")):
        world.decide(f"{number}", scope=scope)
    assert told == [0, 1, 0, 2, 1]


def test_one_model_for_everyone_counts_all_scopes(world: World, told: list[int]) -> None:
    serve(world)
    for number, scope in enumerate(("ann", "bob", None)):
        world.decide(f"{number}", scope=scope)
    assert told == [0, 1, 2]


def test_what_is_pending_survives_restarts_settings_and_catalogues_but_not_new_models(
    world: World, told: list[int]
) -> None:
    serve(world, learn="arrival")
    for number in range(3):
        world.decide(f"{number}")
    world.reward("0", 1.0)
    world.restart()
    world.decide("3")
    world.loop(version=1, dim=4, window=10.0, floor=0.0)  # learns at the close of windows from now on
    world.arms(ARMS[::-1].copy())
    world.reward("1", 1.0)
    world.decide("4")
    assert told == [0, 1, 2, 2, 3]
    world.loop(version=2, dim=4, window=10.0, floor=0.0, seed=1)  # starts fresh models
    for number in range(5, 7):
        world.decide(f"{number}")
    wait(world, 10.0)
    world.decide("7")
    assert told[5:] == [0, 1, 0]


def test_a_shadow_counts_since_it_came(world: World, told: list[int], tmp_path: Path) -> None:
    serve(world, policy="linucb")
    world.decide("0")
    world.loop(version=1, dim=4, window=10.0, floor=0.0, policy="linucb", shadow=Plan())
    world.decide("1")
    world.decide("2")
    world.loop(version=2, dim=4, window=10.0, floor=0.0, shadow=Plan())
    world.decide("3")
    world.decide("4")
    assert told == [0, 1, 0, 2, 1, 3], "from decision 3 on the new main policy is asked first, then the shadow"
    wait(world, 10.0)
    world.decide("5")
    assert told[6:] == [0, 0]
    rerun(world, tmp_path / "log.ndjson")


@pytest.mark.parametrize("scoped", [False, True])
@pytest.mark.parametrize("shadow", [None, Plan("linucb")])
def test_a_policy_that_does_not_mind_is_told_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, scoped: bool, shadow: Plan | None
) -> None:
    keywords: list[dict[str, Any]] = []
    choose = LinUCB.choose

    def listen(self: LinUCB, features: Any, arms: Any = None, **others: Any) -> int:
        keywords.append(others)
        return choose(self, features, arms)

    monkeypatch.setattr(LinUCB, "choose", listen)
    serve(world, policy="linucb", scoped=scoped, shadow=shadow)
    for number in range(8):
        world.decide(f"{number}", scope="ann")
    asked = (8 if scoped else 1) + (8 if shadow else 0)
    assert keywords == [{}] * asked
    assert world.engine.parts("x")[0].learner.pending == ()
