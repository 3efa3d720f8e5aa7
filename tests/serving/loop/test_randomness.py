"""Arms are drawn with the probabilities that the log says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from driftbandit.serving.log.export import probabilities

from ..world import World


@pytest.mark.parametrize(
    "config",
    [{"policy": "linucb", "floor": 0.2}, {"policy": "lints", "settings": {"explore": 1.0}}, {"policy": "random"}],
    ids=lambda config: config["policy"],
)
def test_arms_are_drawn_with_the_logged_probabilities(world: World, config: dict[str, Any]) -> None:
    """Chi-square over 100,000 draws (20,000 where the policy is asked 20 times a draw); p above 0.001, seed fixed."""
    draws = 20_000 if config["policy"] == "lints" else 100_000
    world.loop(dim=3, window=3600.0, **config)
    rng = np.random.default_rng(0)
    arms = world.arms(rng.standard_normal((5, 3)))
    loop = world.engine.parts("x")[0]
    expected = np.zeros(5)
    seen = np.zeros(5)
    for number in range(draws):
        event = loop.decide(world.now, f"d{number}", None, loop.pools.of(arms))
        chances = probabilities(event, loop.config, 5)
        assert event.propensity == chances[event.index]
        expected += chances
        seen[event.index] += 1
        if loop.waiting > 1000:
            world.now += 3_600_000
            loop.tick(world.now)
    assert expected.sum() == pytest.approx(draws)
    assert stats.chisquare(seen, expected).pvalue > 0.001


def test_inverse_propensity_recovers_the_mean_reward(world: World) -> None:
    """IPS of the logging policy is its own mean; IPS of 'always arm 0' is arm 0's mean, within 4 standard errors."""
    world.loop(dim=2, policy="linucb", floor=0.4, window=5.0)
    means = np.array([0.2, 0.6, 0.4])
    arms = world.arms(np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]))
    rng = np.random.default_rng(3)
    loop = world.engine.parts("x")[0]
    index, chance, reward = [], [], []
    for number in range(20_000):
        world.now += 10
        loop.tick(world.now)
        event = loop.decide(world.now, f"d{number}", None, loop.pools.of(arms))
        value = float(rng.random() < means[event.index])
        loop.reward(world.now, event.id, value, None)
        index.append(event.index)
        chance.append(probabilities(event, loop.config, 3))
        reward.append(value)
    played, p, r = np.array(index), np.array(chance), np.array(reward)
    mine = p[np.arange(len(p)), played]
    on_policy = (p[np.arange(len(p)), played] / mine) * r
    assert on_policy.mean() == r.mean()
    for arm in range(3):
        estimate = (played == arm) / mine * r
        assert abs(estimate.mean() - means[arm]) < 4 * estimate.std() / np.sqrt(len(r))
