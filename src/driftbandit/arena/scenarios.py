"""The worlds of the arena. Each name has a version; a scenario whose rounds change gets a new version."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from driftbandit.core import as_count
from driftbandit.environments import World
from driftbandit.environments.delicious import Delicious
from driftbandit.environments.hetrec import HybridUser
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.rounds import Environment

Kind = Literal["shifts", "still", "drift", "real"]

_REAL_SEEDS = 3
_PER_COORDINATE = 1.0 / math.sqrt(10.0)  # Brownian steps are given as lengths, `World` takes them per coordinate


@dataclass(frozen=True)
class Scenario:
    """One world of the arena.

    Attributes
    ----------
    title : str
        Description in a few words.
    kind : {'shifts', 'still', 'drift', 'real'}
        Sudden shifts, nothing changes, slow drift, or a real data set.
    environment : Environment
        Where its rounds come from.
    most_seeds : int
        Seeds beyond this many are not played.
    """

    title: str
    kind: Kind
    environment: Environment
    most_seeds: int = 1000

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        as_count("most_seeds", self.most_seeds)


def kind_of(environment: Environment) -> Kind:
    """Kind of an environment that is not a `Scenario`.

    >>> kind_of(World(path="rotation")), kind_of(World()), kind_of(World(share=0.0))
    ('drift', 'shifts', 'still')
    """
    if isinstance(environment, HybridUser):
        return "real"
    shifts = len(environment.rounds(0).shifts) > 0
    if isinstance(environment, World) and not shifts:
        pace = {"rotation": environment.turns, "brownian": environment.step}
        return "drift" if pace.get(environment.path) else "still"
    if shifts:
        return "shifts"
    raise ValueError("kind: without shifts it may be 'still' or 'drift'; expected a Scenario that says which")


def _table1() -> dict[str, Scenario]:
    columns = (
        (0.1, 0.9, 800),
        (0.05, 0.9, 800),
        (0.01, 0.9, 800),
        (0.01, 0.5, 800),
        (0.01, 0.1, 800),
        (0.01, 0.9, 400),
    )
    return {
        f"table1-{number}-v1": Scenario(
            f"Table 1, column {number}: noise {noise:g}, shift {shift:g}, period {period}",
            "shifts",
            World(noise=noise, shift=shift, period=period),
        )
        for number, (noise, shift, period) in enumerate(columns, 1)
    }


_LONG = 20_000
_CLICKS = World(reward="click", clicks=(0.05, 0.20), horizon=_LONG)

SCENARIOS: dict[str, Scenario] = _table1() | {
    "odd-period-v1": Scenario("noise 0.1, shifts at odd rounds", "shifts", World(noise=0.1, period=797)),
    "uniform-arms-v1": Scenario("arms from U(0, 1)", "shifts", World(features="uniform")),
    "dim5-v1": Scenario("5 features", "shifts", World(dim=5)),
    "dim25-v1": Scenario("25 features, shift 0.7", "shifts", World(dim=25, shift=0.7)),
    "sphere-v1": Scenario("thetas anywhere on the sphere", "shifts", World(thetas="sphere", noise=0.1)),
    "fixed-arms-v1": Scenario("the same 10 arms always", "shifts", World(arms=10, noise=0.1)),
    "noise.02-v1": Scenario("noise 0.02", "shifts", World(noise=0.02)),
    "noise.2-v1": Scenario("noise 0.2", "shifts", World(noise=0.2)),
    "noise.5-v1": Scenario("noise 0.5", "shifts", World(noise=0.5)),
    "recurring2-v1": Scenario("2 regimes in turn", "shifts", World(path="recurring", regimes=2, period=500, noise=0.1)),
    "recurring3-v1": Scenario("3 regimes in turn", "shifts", World(path="recurring", regimes=3, period=500, noise=0.1)),
    "clicks-v1": Scenario("clicks, 5 to 20 %, linear", "shifts", replace(_CLICKS, period=4000)),
    "clicks-logit-v1": Scenario(
        "clicks, 3 to 30 %, logistic",
        "shifts",
        World(reward="logit", clicks=(0.03, 0.30), period=2500, horizon=10_000),
    ),
    "student-v1": Scenario("t noise, 3 degrees of freedom", "shifts", World(noise=0.1, tails="student")),
    "outliers-v1": Scenario("1 % outliers of 20 sigma", "shifts", World(tails="outliers")),
    "noise-up-v1": Scenario("noise grows fivefold halfway", "shifts", World(noise_jump=5.0)),
    "noise-down-v1": Scenario("noise falls to a fifth halfway", "shifts", World(noise=0.25, noise_jump=0.2)),
    "rescaled-v1": Scenario(
        "features times 1,024, rewards times 64", "shifts", World(feature_scale=1024.0, reward_scale=64.0)
    ),
    "still.1-v1": Scenario("nothing changes, noise 0.1", "still", World(path="still", noise=0.1, horizon=_LONG)),
    "still.5-v1": Scenario("nothing changes, noise 0.5", "still", World(path="still", noise=0.5, horizon=_LONG)),
    "still-clicks-v1": Scenario("nothing changes, clicks", "still", replace(_CLICKS, path="still")),
    "still-student-v1": Scenario("nothing changes, t noise", "still", World(path="still", noise=0.1, tails="student")),
    "still-outliers-v1": Scenario("nothing changes, outliers", "still", World(path="still", tails="outliers")),
    "still-noise-up-v1": Scenario(
        "nothing changes but the noise, fivefold", "still", World(path="still", noise_jump=5.0)
    ),
    "still-noise-down-v1": Scenario(
        "nothing changes but the noise, to a fifth", "still", World(path="still", noise=0.25, noise_jump=0.2)
    ),
    "rotation-slow-v1": Scenario("a quarter turn", "drift", World(path="rotation", turns=0.25, noise=0.1)),
    "rotation-fast-v1": Scenario("a full turn", "drift", World(path="rotation", turns=1.0, noise=0.1)),
    "brownian-slow-v1": Scenario(
        "Brownian steps of 0.005", "drift", World(path="brownian", step=0.005 * _PER_COORDINATE, noise=0.1)
    ),
    "brownian-fast-v1": Scenario(
        "Brownian steps of 0.02", "drift", World(path="brownian", step=0.02 * _PER_COORDINATE, noise=0.1)
    ),
}
SCENARIOS |= {
    f"lastfm-{order}-v1": Scenario(f"LastFM, user order {order}", "real", LastFM(order=order), _REAL_SEEDS)
    for order in range(3)
}
SCENARIOS["lastfm-groups-v1"] = Scenario("LastFM, ten groups", "real", LastFM(by="group"), _REAL_SEEDS)
SCENARIOS |= {
    f"delicious-{order}-v1": Scenario(f"Delicious, user order {order}", "real", Delicious(order=order), _REAL_SEEDS)
    for order in range(3)
}

QUICK = ("table1-2-v1", "sphere-v1", "noise.5-v1", "outliers-v1", "still.1-v1", "rotation-fast-v1", "clicks-logit-v1")
"""Scenarios of every kind, for a first look."""
