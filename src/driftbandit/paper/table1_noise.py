"""Why the paper's LinUCB and adTS lose more where rewards are noisier, and ours do not.

In Table 1 the paper's LinUCB has regret 437, 386 and 347 at noise 0.1, 0.05 and 0.01, ours nearly the same at all
three: what it loses comes from tastes that have gone, which noise does not change. Every line here is a setting under
which it might.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from driftbandit.core import Floats
from driftbandit.environments.drawing import draw_rounds
from driftbandit.environments.rounds import Rounds
from driftbandit.environments.world import World
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.models.ridge import Radius
from driftbandit.paper.cells import spread
from driftbandit.paper.table1_columns import COLUMNS, PAPER
from driftbandit.policies.registry import REGISTRY, Builder

_NOISY = COLUMNS[:3]
"""The columns that differ in noise only."""

_WORLDS, _RUNS = 12, 5
"""Worlds, and runs in each, that tell how much of the spread of LinUCB is the world's."""


@dataclass(frozen=True)
class ClippedRewards:
    """A world whose rewards are cut off below 0 and above 1."""

    world: World

    def rounds(self, seed: int) -> Rounds:
        """The world's rounds, with the rewards cut off."""
        rounds = draw_rounds(self.world, seed)
        return replace(rounds, rewards=np.clip(rounds.rewards, 0.0, 1.0))


@dataclass(frozen=True)
class SameTastes:
    """A world whose arms and tastes are those of one seed, whatever the seed of the pools and the noise."""

    world: World
    tastes: int

    def rounds(self, seed: int) -> Rounds:
        """Rounds with pools and noise of their own."""
        return draw_rounds(self.world, seed, tastes=self.tastes)


def _linucb(**settings: Any) -> Builder:
    return partial(REGISTRY["linucb"].build, **settings)


def _tries(noise: float) -> dict[str, Builder]:
    """What LinUCB and adTS might have been told at this noise, by description."""
    radius = Radius.released(10, noise=noise, ridge=0.1, delta=0.01)
    return {
        "LinUCB as in Table 1: exploration 0.6": _linucb(),
        "LinUCB, exploration alpha_t as printed": _linucb(explore=Radius.paper(10, noise=noise, ridge=0.1, delta=0.01)),
        "LinUCB, exploration alpha_t as released": _linucb(explore=radius),
        "LinUCB, exploration 6 times the noise": _linucb(explore=6.0 * noise),
        "LinUCB, exploration 100 times the noise": _linucb(explore=100.0 * noise),
        "LinUCB, ridge equal to the noise": _linucb(ridge=noise),
        "LinUCB, ridge 100 times the noise": _linucb(ridge=100.0 * noise),
        "adTS as in Table 1: exploration 0.1": partial(REGISTRY["adts"].build),
        "adTS, exploration 5 times the noise": partial(REGISTRY["adts"].build, explore=5.0 * noise),
    }


_CLIPPED = "LinUCB, rewards clipped to 0 and 1"
_TENFOLD = "LinUCB, true noise ten times the stated"
_TENFOLD_DLINUCB = "dLinUCB, true and told noise ten times the stated"


def play_noise(seeds: Sequence[int], **options: Unpack[CompareOptions]) -> dict[tuple[str, str], list[Result]]:
    """Play every try at the three noises, and LinUCB in several worlds many times each."""
    places = {}
    for column in _NOISY:
        world = column.world
        louder = replace(world, noise=10.0 * world.noise)
        places[f"noise {column.noise:g}"] = Place(world, seeds, _tries(column.noise))
        places[f"clipped {column.noise:g}"] = Place(ClippedRewards(world), seeds, {_CLIPPED: _linucb()})
        places[f"tenfold {column.noise:g}"] = Place(
            louder, seeds, {_TENFOLD: _linucb(), _TENFOLD_DLINUCB: REGISTRY["dlinucb"].build}
        )
    for tastes in range(seeds[0], seeds[0] + _WORLDS):
        one = SameTastes(_NOISY[0].world, tastes)
        places[f"world {tastes}"] = Place(one, range(_RUNS), {"LinUCB": _linucb()})
    return play_study(places, **options)


def tried(found: Mapping[tuple[str, str], Sequence[Result]]) -> dict[str, list[float]]:
    """Mean regret at the three noises by description, the paper's first."""
    means = {name: [mean for mean, _ in PAPER[key][:3]] for name, key in _PRINTED.items()}
    for (place, name), results in found.items():
        if not place.startswith("world"):
            means.setdefault(name, []).append(float(np.mean([result.regret for result in results])))
    return means


_PRINTED = {"LinUCB, paper": "linucb", "adTS, paper": "adts"}


def noise_table(found: Mapping[tuple[str, str], Sequence[Result]]) -> Table:
    """Regret at the three noises under every try, and how much of it the noise makes."""
    lines = [
        (name, *(f"{mean:,.0f}" for mean in means), f"{means[0] / means[2]:.2f}")
        for name, means in tried(found).items()
    ]
    between, within = world_spread(found)
    return Table(
        "What would make LinUCB and adTS depend on the noise",
        ("setting", *(f"noise {column.noise:g}" for column in _NOISY), "first / last"),
        tuple(lines),
        f"Shift 0.9, period 800. A run's regret depends on the world more than on anything else: in {_WORLDS} worlds, "
        f"played {_RUNS} times each at noise 0.1, LinUCB's mean regret differs from world to world by a standard "
        f"deviation of {between:.0f}, and from run to run in one world by {within:.0f}.",
    )


def world_spread(found: Mapping[tuple[str, str], Sequence[Result]]) -> tuple[float, float]:
    """Standard deviation of LinUCB's regret between worlds, and between runs in one world."""
    runs: Floats = np.array(
        [[result.regret for result in results] for (place, _), results in found.items() if place.startswith("world")]
    )
    return spread(runs.mean(axis=1)), float(np.sqrt(runs.var(axis=1, ddof=1).mean()))
