"""Who is asked for a decision, how often, and what of it must survive a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.api import views
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm
from driftbandit.serving.loop.config import Plan, builder
from driftbandit.serving.loop.events import decode
from driftbandit.serving.stores.sqlite import SQLiteStore

from .test_closing import ARMS, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "a.db")


def play(world: World, rounds: int, scopes: int = 1) -> list[Any]:
    answers = []
    for number in range(rounds):
        answer = world.decide(f"{len(world.shown)}", scope=f"user {number % scopes}")
        world.reward(answer.decision_id, float(world.features(answer.decision_id)[0]))
        world.wait(1.0)
        answers.append(answer)
    return answers


def test_a_policy_that_draws_is_asked_as_often_as_the_settings_say(world: World) -> None:
    world.configure(policy="lints", draws=4)
    world.catalogue()
    chances = [answer.propensity for answer in play(world, 30)]
    assert set(chances) <= {0.25, 0.5, 0.75, 1.0}
    assert len(set(chances)) > 2


@pytest.mark.parametrize("scoped", [False, True])
def test_a_policy_that_does_not_draw_has_one_vote(world: World, scoped: bool) -> None:
    world.configure(policy="linucb", scoped=scoped)
    world.catalogue()
    assert [answer.propensity for answer in play(world, 12)] == [1.0] * 12


def test_a_policy_that_plays_all_alike_is_not_asked(world: World) -> None:
    world.configure(policy="random")
    world.catalogue()
    answers = play(world, 40)
    assert [answer.propensity for answer in answers] == [1 / 6] * 40
    assert len({answer.arm for answer in answers}) == 6


def test_every_scope_learns_for_itself(world: World) -> None:
    config = world.configure(policy="linucb", scoped=True)
    world.catalogue()
    policies = {scope: builder(config, Plan(config.policy, config.settings))() for scope in ("ann", "bob")}
    for number in range(40):
        scope = "ann" if number % 3 else "bob"
        answer = world.decide(f"{number}", scope=scope)
        assert answer.index == policies[scope].choose(ARMS)
        value = float(ARMS[answer.index][0]) * (1.0 if scope == "ann" else -1.0)
        world.reward(f"{number}", value)
        world.wait(5.0)
        policies[scope].learn(ARMS[answer.index], value)
    assert world.totals["scopes_in_memory"] == 2
    assert [each["miss_rate"] for each in views.stats(world.engine, "x", 0)["series"]][-1] is None
    with pytest.raises(ValueError, match="scope"):
        world.decide("nobody's")


def test_a_vote_holds_until_something_is_learned(world: World) -> None:
    config = world.configure(policy="linucb")
    world.catalogue()
    policy = builder(config, Plan(config.policy, config.settings))()
    for number in range(30):
        answers = [world.decide(f"{number}/{again}") for again in range(2)]
        assert [answer.index for answer in answers] == [policy.choose(ARMS)] * 2
        world.reward(f"{number}/0", 0.5)
        world.wait(5.0)
        for answer, value in zip(answers, (0.5, 0.0), strict=True):
            policy.learn(ARMS[answer.index], value)


def test_what_a_policy_cannot_use_is_refused_and_what_its_shadow_cannot_use_is_not(world: World) -> None:
    world.configure(policy="random", shadow=Plan("linucb"))
    arms = [Arm("a", [1e9, 0.0, 0.0]), Arm("b", [0.0, 0.0, 0.0])]
    for number in range(8):
        world.decide(f"{number}", arms)
    assert world.totals["shadow"] == {"decisions": 8, "agreed": 0, "ips": None, "snips": None, "interval": None}
    for version, scoped in ((1, False), (2, True)):
        world.configure(version, policy="linucb", scoped=scoped)
        with pytest.raises(ValueError, match="too large beside the ridge") as refused:
            world.decide(f"refused {version}", arms, scope="ann")
        assert refused.value.status == 422  # type: ignore[attr-defined]
    world.engine.commit()
    events = [decode(body) for _, body in world.store.events(world.engine.number("x"), 0, 0, 99)]
    assert [event.shadow for event in events if hasattr(event, "shadow")] == [-1] * 8, "the shadow had no choice"


def test_without_a_shadow_there_is_no_choice_of_one(world: World) -> None:
    world.configure(policy="linucb")
    world.catalogue()
    world.decide("a")
    world.engine.commit()
    events = [decode(body) for _, body in world.store.events(world.engine.number("x"), 0, 0, 99)]
    assert [event.shadow for event in events if hasattr(event, "shadow")] == [-1]


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "lints"},
        {"policy": "lints", "scoped": True, "learn": "arrival"},
        {"policy": "random"},
        {"policy": "dlinucb", "scoped": True},
        {"policy": "dlinucb", "settings": {"noise": 0.3}},
        {"policy": "linucb", "shadow": Plan("lints")},
        {"policy": "lints", "shadow": Plan("linucb"), "scoped": True},
        {"policy": "random", "shadow": Plan("lints")},
    ],
    ids=str,
)
def test_being_asked_is_remembered(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Snapshots and the log must give the state that is in memory, generators of policies included."""
    world = World(tmp_path / "a.db")
    world.engine = Engine(world.store, lambda: world.now, snapshot_every=25)
    world.configure(**settings, default_reward=0.1)
    world.catalogue()
    for _ in range(3):
        play(world, 10, scopes=2)
        world.engine.commit()
        live = world.engine.digest("x")
        assert live == world.engine.digest("x", whole_log=True)
        world.store.close()
        world.store = SQLiteStore(tmp_path / "a.db")
        world.engine = Engine(world.store, lambda: world.now, snapshot_every=25)
        world.engine.commit()
        assert world.engine.digest("x") == live
    assert np.isfinite(world.totals["reward_sum"])


@pytest.mark.parametrize("scoped", [False, True])
def test_being_asked_is_remembered_without_a_reward(tmp_path: Path, scoped: bool) -> None:
    """A policy that draws has moved on, though it has learned nothing."""
    world = World(tmp_path / "a.db")
    world.configure(policy="lints", scoped=scoped, default_reward=None)
    world.catalogue()
    for number in range(7):
        world.decide(f"{number}", scope="ann")
    world.engine.commit()
    world.engine.snapshot()
    world.engine.commit()
    live = world.engine.digest("x")
    world.store.close()
    world.store = SQLiteStore(tmp_path / "a.db")
    world.engine = Engine(world.store, lambda: world.now)
    world.engine.commit()
    assert world.engine.digest("x") == live == world.engine.digest("x", whole_log=True)


def miss_rates(world: World) -> list[float | None]:
    return [each["miss_rate"] for each in views.stats(world.engine, "x", 0)["series"]]


def test_the_miss_test_is_noted_in_the_bucket_of_the_lesson(world: World) -> None:
    world.configure(policy="dlinucb", settings={"noise": 0.1}, learn="arrival", window=30.0)
    world.catalogue()
    for number in range(2):
        world.decide(f"{number}")
    assert miss_rates(world) == [None]
    world.now += 5000  # the first moment of the next bucket
    world.reward("0", 0.1)
    assert miss_rates(world) == [None, 0.0]
    world.now += 8000
    world.reward("1", 0.1)
    assert miss_rates(world) == [None, 0.0, 0.0]


def test_there_is_no_miss_test_of_all_scopes(world: World) -> None:
    world.configure(policy="dlinucb", settings={"noise": 0.1}, scoped=True)
    world.catalogue()
    play(world, 12, scopes=2)
    assert set(miss_rates(world)) == {None}
