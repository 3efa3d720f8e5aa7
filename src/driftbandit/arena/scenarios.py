"""The worlds of the arena. Each name has a version; a scenario whose rounds change gets a new version."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from driftbandit.core import as_count
from driftbandit.environments import PRESETS, World
from driftbandit.environments.delicious import Delicious
from driftbandit.environments.hetrec import HybridUser
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.rounds import Environment

Kind = Literal["shifts", "still", "drift", "clicks", "units", "late", "people", "real"]
Changes = Literal["shifts", "still", "drift"]

_SEEDS = 20
_FEWER_SEEDS = 10  # where 20 would take too long
_FEW_SEEDS = 5
_PEOPLE_SEEDS = 3
_REAL_SEEDS = 3
_PER_COORDINATE = 1.0 / math.sqrt(10.0)  # Brownian steps are given as lengths, `World` takes them per coordinate


@dataclass(frozen=True)
class Scenario:
    """One world of the arena.

    Attributes
    ----------
    title : str
        Description in a few words.
    kind : {'shifts', 'still', 'drift', 'clicks', 'units', 'late', 'people', 'real'}
        Sudden shifts, nothing changes, slow drift; clicks, awkward units, late rewards, many users; or a real data set.
    environment : Environment
        Where its rounds come from.
    most_seeds : int
        Seeds beyond this many are not played.
    changes : {'shifts', 'still', 'drift'}, optional
        What happens to tastes; by default what the kind says, with shifts in real data.
    seeds : int
        Seeds that are played unless the caller says how many.
    long : bool
        Whether it is played only if asked for.
    """

    title: str
    kind: Kind
    environment: Environment
    most_seeds: int = 1000
    changes: Changes | None = None
    seeds: int = _SEEDS
    long: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if self.changes is None:
            object.__setattr__(self, "changes", "shifts" if self.kind == "real" else self.kind)
        if self.changes not in get_args(Changes):
            raise ValueError(
                f"changes: expected one of {', '.join(get_args(Changes))} in a scenario of kind {self.kind!r}, "
                f"got {self.changes!r}"
            )
        as_count("most_seeds", self.most_seeds)
        as_count("seeds", self.seeds)


def kind_of(environment: Environment) -> Kind:
    """Kind of an environment that is not a `Scenario`.

    >>> kind_of(World(path="rotation")), kind_of(World()), kind_of(World(share=0.0))
    ('drift', 'shifts', 'still')
    """
    if isinstance(environment, HybridUser):
        return "real"
    shifts = len(environment.rounds(0).shifts) > 0
    if isinstance(environment, World) and not shifts:
        pace = {"rotation": environment.turns, "seasons": environment.turns, "brownian": environment.step}
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


def _preset(
    name: str, title: str, kind: Kind, changes: Changes | None = None, seeds: int = _FEWER_SEEDS, *, long: bool = False
) -> dict[str, Scenario]:
    """A preset as a scenario of the same name and version."""
    full = f"{name}-v1"
    return {full: Scenario(title, kind, PRESETS[full], changes=changes, seeds=seeds, long=long)}


def _both(name: str, title: str, kind: Kind, seeds: int = _FEWER_SEEDS) -> dict[str, Scenario]:
    """A preset with shifts, and without them."""
    return {
        **_preset(name, title, kind, "shifts", seeds),
        **_preset(f"{name}-still", f"{title}, nothing changes", kind, "still", seeds),
    }


def _more() -> dict[str, Scenario]:
    """Changes of other kinds than sudden shifts alone, features in blocks, and other noise."""
    return {
        **_preset("seasons", "back and forth between two tastes, smoothly", "drift"),
        **_preset("day-night", "two tastes in turn, every 200 rounds", "shifts"),
        **_preset("jolts", "Brownian steps of 0.002 per coordinate, and shifts", "shifts"),
        **_preset("blocks", "one block of features per arm, labels", "shifts"),
        **_preset("blocks-still", "one block of features per arm, labels, nothing changes", "still"),
        **_preset("blocks-gaussian", "one block of features per arm", "shifts"),
        **_preset("blocks-gaussian-still", "one block of features per arm, nothing changes", "still"),
        **_preset("noise-times20", "noise grows twentyfold halfway", "shifts", seeds=_SEEDS),
        **_preset("noise-times20-still", "nothing changes but the noise, twentyfold", "still", seeds=_SEEDS),
        **_preset("noiseless-still", "nothing changes, no noise", "still", seeds=_SEEDS),
        **_preset("stationary-long", "500,000 rounds, noise 0.1", "still", seeds=_FEW_SEEDS, long=True),
        **_preset("stationary-noisy-long", "500,000 rounds, noise 0.5", "still", seeds=_FEW_SEEDS, long=True),
    }


def _clicks() -> dict[str, Scenario]:
    """Click rates from .3 to 15 %."""
    found: dict[str, Scenario] = {}
    for pair in ("0.3to1", "1to3", "2to8", "5to15"):
        name, title = f"clicks{pair}", f"clicks, {pair.replace('to', ' to ')} %"
        slow, fast, still = f"{title}, every 20,000", f"{title}, every 5,000", f"{title}, nothing changes"
        found |= _preset(f"{name}-still", still, "clicks", "still")
        found |= _preset(f"{name}-still-long", still, "clicks", "still", _FEW_SEEDS, long=True)
        found |= _preset(f"{name}-long", slow, "clicks", "shifts", _FEW_SEEDS, long=True)
        found |= _preset(f"{name}-fast-long", fast, "clicks", "shifts", _FEW_SEEDS, long=True)
        for dim in (6, 25):
            taller = f"{slow}, {dim} features"
            found |= _preset(f"{name}-d{dim}-long", taller, "clicks", "shifts", _FEW_SEEDS, long=True)
    for name, title in {
        "1to3": "1 to 3 %, every 20,000",
        "2to8": "2 to 8 %, every 20,000",
        "2to8-fast": "2 to 8 %, every 5,000",
        "2to8-fast-d6": "2 to 8 %, every 5,000, 6 features",
        "2to8-fast-d25": "2 to 8 %, every 5,000, 25 features",
        "5to15-fast": "5 to 15 %, every 5,000",
    }.items():
        found |= _preset(f"clicks{name}", f"clicks, {title}", "clicks", "shifts")
    found |= _preset("clicks5to15-still-longest", "clicks, 500,000 rounds", "clicks", "still", _FEW_SEEDS, long=True)
    return found


def _units() -> dict[str, Scenario]:
    """Columns of other sizes, rewards with an offset, and the same rounds in sensible units."""
    return {
        **_both("reference", "arms and thetas on the sphere", "units"),
        **_both("mixed", "columns of sizes from .01 to 100", "units"),
        **_both("column-large", "one column times 2^20", "units"),
        **_both("column-small", "one column times 2^-20", "units"),
        **_both("price-sensible", "flags beside a price of about 1", "units"),
        **_both("price", "flags beside a price in cents", "units"),
        **_both("plus20-constant", "rewards + 20, with a constant", "units"),
        **_both("plus20", "rewards + 20", "units"),
        **_both("minus3-constant", "rewards - 3, with a constant", "units"),
        **_both("minus3", "rewards - 3", "units"),
    }


def _late() -> dict[str, Scenario]:
    """Rewards in batches and with delays."""
    found: dict[str, Scenario] = {}
    for name, title in (
        ("batch1000", "batches of 1,000"),
        ("delay100", "delay of 100"),
        ("delay1000", "delay of 1,000"),
    ):
        found |= _both(name, title, "late", _FEW_SEEDS)
        found |= _both(f"{name}-fixed", f"{title}, the same 10 arms always", "late", _FEW_SEEDS)
    return found


def _people() -> dict[str, Scenario]:
    """1,000 users with 50 rounds each."""
    titles = {
        "people-alone": "1,000 users, nothing shared",
        "people-half": "1,000 users, half shared",
        "people-alike": "1,000 users of one taste",
        "people-half-noisy": "1,000 users, half shared, noise 0.5",
        "people-groups": "1,000 users in five groups",
    }
    return {
        full: scenario
        for name, title in titles.items()
        for full, scenario in _preset(name, title, "people", "still", _PEOPLE_SEEDS).items()
    }


SCENARIOS |= _more() | _clicks() | _units() | _late() | _people()

QUICK = ("table1-2-v1", "sphere-v1", "noise.5-v1", "outliers-v1", "still.1-v1", "rotation-fast-v1", "clicks-logit-v1")
"""A few scenarios, for a first look."""
