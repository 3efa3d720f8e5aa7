"""Rivals against an independent prototype's regret in the same worlds: mean of 20 seeds, tuned and told the noise."""

import numpy as np
import pytest

from driftbandit import simulate
from driftbandit.arena.entrants import tuned
from driftbandit.arena.scenarios import SCENARIOS
from driftbandit.policies.registry import REGISTRY, Brief

SEEDS = range(3)
FORGETTING = {"rotation-slow-v1": 11.1, "rotation-fast-v1": 21.9, "brownian-fast-v1": 29.6, "brownian-slow-v1": 10.5}
DLINUCB = {"rotation-slow-v1": 77.0, "rotation-fast-v1": 147.0, "brownian-fast-v1": 119.0, "brownian-slow-v1": 29.0}


def regret(scenario, build):
    """Mean regret and its standard error."""
    found = []
    for seed in SEEDS:
        rounds = SCENARIOS[scenario].environment.rounds(seed)
        found.append(simulate(build(Brief(dim=rounds.dim, noise=rounds.noise)), rounds).regret.sum())
    return np.mean(found), np.std(found) / len(found) ** 0.5


@pytest.mark.parametrize("scenario", FORGETTING)
def test_the_best_that_forgets_by_the_clock_is_no_worse(scenario):
    variants = {
        f"{name} {label}": build
        for name in ("discounted-tuned", "sw-tuned")
        for label, build in tuned()[name].variants.items()
        if label.endswith("noise")
    }
    assert len(variants) == 10
    best, error = min(regret(scenario, build) for build in variants.values())
    assert best <= 1.1 * FORGETTING[scenario] + error


@pytest.mark.parametrize("scenario", DLINUCB)
def test_dlinucb_is_the_same_policy(scenario):
    mean, error = regret(scenario, REGISTRY["dlinucb"].build)
    assert mean == pytest.approx(DLINUCB[scenario], rel=0.1, abs=error)
