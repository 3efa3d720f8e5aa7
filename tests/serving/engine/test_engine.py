"""Settings and catalogues that change under a running loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.messages import Arm
from driftbandit.serving.loop.config import LoopConfig, Plan
from driftbandit.serving.loop.events import Refused

from ..world import World, run


def test_versions_of_a_loop(world: World) -> None:
    world.loop(dim=2, policy="linucb")
    world.loop(dim=2, policy="linucb")  # the same again is fine
    for version in (None, 0, 2):
        with pytest.raises(Refused) as refusal:
            world.loop(dim=2, policy="linucb", floor=0.1, version=version)
        assert refusal.value.status == 409
    world.loop(dim=2, policy="linucb", floor=0.1, version=1)
    assert world.engine.configuration("x").version == 2
    assert world.engine.parts("x")[0].config.floor == 0.1


def test_new_settings_keep_models_unless_they_describe_others(world: World) -> None:
    world.loop(dim=2, policy="linucb", window=10.0)
    arms = world.arms(np.eye(2))
    world.decide("old", arms)
    world.reward("old", 1.0)
    world.loop(dim=2, policy="linucb", window=10.0, floor=0.5, version=1)
    run(world, 20, arms)
    assert world.engine.parts("x")[0].models.peek("").rounds > 0
    world.decide("open", arms)
    world.loop(dim=2, policy="lints", window=10.0, version=2)
    assert world.engine.parts("x")[0].models.peek("") is None
    world.now += 10_000
    world.engine.tick()  # a reward for the old models teaches nothing to the new ones
    world.engine.commit()
    assert world.engine.parts("x")[0].models.peek("") is None
    with pytest.raises(Refused, match="a change of dim needs the arms too"):
        world.loop(dim=3, policy="lints", version=3)
    wider = tuple(Arm(name, [1.0, 0.0, 0.0]) for name in arms)
    world.engine.configure("x", LoopConfig(dim=3, policy="lints"), 3, wider)
    world.engine.commit()
    world.decide("d", arms)
    world.check()
    world.restart()
    world.check()


def test_open_decisions_keep_the_features_they_were_made_with(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0)
    world.arms(np.full((1, 1), 2.0))
    world.decide("d")
    world.arms(np.full((3, 1), 7.0))
    world.reward("d", 1.0)
    world.now += 10_000
    world.restart()
    policy: Any = world.engine.parts("x")[0].models.peek("")
    assert policy is None
    world.engine.tick()
    world.engine.commit()
    policy = world.engine.parts("x")[0].models.peek("")
    assert policy.leading_row[1] == pytest.approx(2.0 / 4.1)  # x = 2, not 7, at ridge 0.1
    world.check()


@pytest.mark.parametrize(
    "config",
    [
        {"policy": "nope"},
        {"policy": "oracle"},
        {"policy": "linucb"},
        {"policy": "linucb", "dim": 2, "settings": {"nope": 1}},
        {"policy": "dlinucb", "dim": 2, "settings": {"noise": "loud"}},
        {"policy": "dlinucb", "dim": 2, "settings": {"window": 10**12}},
        {"policy": "sw-linucb", "dim": 2, "settings": {"noise": "auto"}},
        {"policy": "linucb", "dim": 2, "settings": {"dim": 3}},
        {"policy": "club", "dim": 2},
        {"policy": "ucb1", "reward_range": (1.0, 0.0)},
        {"policy": "linucb", "dim": 2, "feature_names": ["sports"]},
        {"policy": "ucb1", "feature_names": ["sports"]},
        {"dim": 2, "settings": {"noise": 0.1}},
        {"policy": "dlinucb", "dim": 2, "settings": {"model": "logistic"}, "default_reward": -3.0},
        {"policy": "linucb", "dim": 2, "shadow": Plan("nope")},
    ],
)
def test_bad_settings_are_refused(world: World, config: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refusal:
        world.loop(**config)
    assert refusal.value.status == 422
    assert world.engine.names() == []
