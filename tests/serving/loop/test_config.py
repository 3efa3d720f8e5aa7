"""Settings of a loop: how they become policies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.config import LoopConfig, Mark, Plan, builder, check

from ..world import World, run


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


MARK = Mark(datetime(2026, 3, 1, 12, tzinfo=UTC), "release 4.2")


def test_a_mark_is_kept_and_disturbs_nothing(tmp_path: Path) -> None:
    plain, marked = World(tmp_path / "plain.db"), World(tmp_path / "marked.db")
    config: dict[str, Any] = {"policy": "lints", "dim": 3, "scoped": True, "window": 5.0}
    features = np.random.default_rng(0).standard_normal((8, 3))
    for world in (plain, marked):
        world.loop(**config)
        arms = world.arms(features)
        run(world, 40, arms)
    marked.loop(version=1, **config, marks=[MARK])
    marked.restart()
    for world in (plain, marked):
        run(world, 40, arms, seed=1)
        world.check()
    parts = [world.engine.parts("x")[0] for world in (plain, marked)]
    one, other = ({scope: part.models.get(scope).state() for scope in ("user 0", "user 1")} for part in parts)
    for scope in one:
        assert all(array.tobytes() == other[scope][name].tobytes() for name, array in one[scope].items())
    kept = marked.engine.configuration("x")
    assert (kept.version, kept.config.marks) == (2, [MARK])


def test_settings_without_marks_are_written_as_ever() -> None:
    assert b"marks" not in msgspec.json.encode(LoopConfig(dim=2))


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ([{"time": "2026-03-01T12:00:00", "label": "no zone"}], "timezone"),
        ([{"time": "2026-03-01T12:00:00Z"}], "label"),
        ([{"time": "2026-03-01T12:00:00Z", "label": ""}], "length"),
        ([{"time": "0001-01-01T00:00:00+01:00", "label": "long ago"}], "marks: expected times since 1970"),
        ([{"time": "2026-03-01T12:00:00Z", "label": "a"}] * 1001, "length"),
    ],
)
def test_bad_marks_are_refused(marks: list[dict[str, str]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(msgspec.convert({"dim": 2, "marks": marks}, LoopConfig))


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
