"""Changes that a policy detects: when, and what the store keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.messages import Arm
from driftbandit.serving.loop.events import decode

from ..world import World


@pytest.mark.parametrize(
    ("config", "kind", "facts"),
    [
        ({"policy": "dlinucb", "settings": {"noise": 0.1}}, "spawned", ("miss_rate", "bound")),
        ({}, "restarted", ("log_evidence", "threshold")),
    ],
    ids=["dlinucb", "default"],
)
def test_changes_are_stored_once_with_the_weights_before(
    tmp_path: Path, config: dict[str, Any], kind: str, facts: tuple[str, str]
) -> None:
    world = World(tmp_path / "a.db", snapshot_every=100)
    world.loop(dim=3, window=1.0, **config)
    rng = np.random.default_rng(0)
    taste = np.array([0.6, 0.3, -0.4])
    for number in range(600):
        world.now += 1_500
        pool = rng.standard_normal((5, 3)) / 2
        _, answer = world.decide(f"d{number}", [Arm(f"a{i}", row.tolist()) for i, row in enumerate(pool)])
        world.reward(f"d{number}", float(pool[answer.index] @ (taste if number < 300 else -taste)))
        if number in (250, 350, 450):
            world.restart()
    number = world.engine.number("x")
    rows = world.store.changes(number, 0, 0, 100)
    assert [row.number for row in rows] == list(range(1, world.counts().changes + 1))
    assert rows
    import json

    first = json.loads(rows[0].body)
    assert first["kind"] == kind
    assert first["evidence"][facts[0]] > first["evidence"][facts[1]]
    # The model in charge had learned the taste that then flipped.
    assert np.corrcoef(first["weights_before"], taste)[0, 1] > 0.99
    world.check()


@pytest.mark.parametrize(
    "config",
    [{}, {"policy": "dlinucb"}, {"policy": "dlinucb", "settings": {"model": "logistic"}}],
    ids=["default", "dlinucb", "logistic"],
)
def test_a_change_of_clicks_is_detected_without_being_told_a_noise(world: World, config: dict[str, Any]) -> None:
    world.loop(dim=2, window=1.0, **config)
    arms = world.arms(np.eye(2))
    rng = np.random.default_rng(0)
    for number in range(1200):
        world.now += 1_500
        _, answer = world.decide(str(number), arms)
        rate = 0.9 if (answer.index == 0) == (number < 600) else 0.1
        world.reward(str(number), float(rng.random() < rate))
    found = [row.seq for row in world.store.changes(world.engine.number("x"), 0, 0, 100)]
    events = world.store.events(world.engine.number("x"), 0, 0, 10_000)
    halfway = next(seq for seq, body in events if getattr(decode(body), "id", "") == "600")
    assert found
    assert min(found) > halfway
