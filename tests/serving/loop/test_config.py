"""Settings of a loop: how they become policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.config import LoopConfig, Plan, builder

from ..world import World


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"window": 100}, SWLinUCB(2, 0.5, window=100, ridge=0.1, explore=0.5)),
        ({"window": 100, "noise": 0.2}, SWLinUCB(2, 0.2, window=100, ridge=0.1, explore=0.2)),
        ({"explore": 0.3}, SWLinUCB(2, 0.5, ridge=0.1, explore=0.3)),
    ],
)
def test_settings_go_over_the_registrys(settings: dict[str, Any], expected: SWLinUCB) -> None:
    policy: Any = builder(LoopConfig(dim=2), Plan("sw-linucb", settings))()
    rng = np.random.default_rng(0)
    for _ in range(300):
        pool = rng.standard_normal((5, 2))
        index = policy.choose(pool)
        assert index == expected.choose(pool)
        reward = float(pool[index] @ [0.5, -0.5] + 0.3 * rng.standard_normal())
        assert policy.learn(pool[index], reward) == expected.learn(pool[index], reward)
    assert all(policy.state()[name].tobytes() == array.tobytes() for name, array in expected.state().items())


def test_presets_of_dlinucb_keep_their_settings_and_estimate_a_noise_that_nobody_told() -> None:
    config = LoopConfig(dim=2)
    for name in ("dlinucb", "dlinucb-paper", "dlinucb-released", "dlinucb-auto"):
        assert builder(config, Plan(name, {"window": 50}))().noise == "auto"  # type: ignore[attr-defined]
        assert builder(config, Plan(name, {"noise": 0.2}))().noise == 0.2  # type: ignore[attr-defined]


@pytest.mark.parametrize(("policy", "asked"), [("denband", 1), ("lints", 20)])
def test_only_a_policy_that_draws_is_asked_more_than_once(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str, asked: int
) -> None:
    kind = REGISTRY[policy].policy
    calls = []
    choose = kind.choose
    world.loop(policy=policy, dim=2, floor=0.0)
    arms = world.arms(np.eye(2))
    monkeypatch.setattr(kind, "choose", lambda *given: calls.append(given) or choose(*given))
    world.decide("d", arms)
    assert len(calls) == asked
