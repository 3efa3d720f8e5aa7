"""Simulated worlds by name and version. A preset whose draws change gets a new version, so that old results hold."""

from __future__ import annotations

from dataclasses import replace

from driftbandit.environments.blocks import Blocks
from driftbandit.environments.drawing import MEDIAN_PRICE
from driftbandit.environments.people import People
from driftbandit.environments.world import World

Simulated = World | Blocks | People
"""Settings of a simulated environment."""

PRESETS: dict[str, Simulated] = {}
TWINS: dict[str, str] = {}
"""Worlds in awkward units, and the same rounds in sensible ones: columns of like size, a constant beside an offset."""


def _with_clicks() -> dict[str, World]:
    """The paper's world and its relatives, each also with clicks."""
    gaussian = {
        "table1-v1": World(),
        "exact-v1": World(rule="exact"),
        "text-v1": World(features="uniform", rule="arms"),
        "stationary-v1": World(path="still", noise=0.1, horizon=20_000),
        "rotation-v1": World(path="rotation", noise=0.1),
        "brownian-v1": World(path="brownian", noise=0.1),
        "recurring-v1": World(path="recurring", noise=0.1, period=500),
    }
    return gaussian | {
        name.replace("-v1", "-clicks-v1"): replace(world, reward="click", noise=World.noise)
        for name, world in gaussian.items()
    }


def _still(worlds: dict[str, World]) -> dict[str, World]:
    """These worlds, and each of them with nothing changing."""
    quiet = {name.replace("-v1", "-still-v1"): replace(world, path="still") for name, world in worlds.items()}
    return worlds | quiet


def _rates() -> dict[str, World]:
    """Clicks: average rate and best of a pool in percent, with slow and fast shifts and without any, short and long."""
    found: dict[str, World] = {}
    for low, high in ((0.3, 1), (1, 3), (2, 8), (5, 15)):
        name = f"clicks{low:g}to{high:g}"
        slow = World(
            features="sphere",
            thetas="sphere",
            reward="rates",
            clicks=(low / 100, high / 100),
            pool=20 if low < 1 else 10,
            period=20_000,
            horizon=40_000,
        )
        fast = replace(slow, period=5000, horizon=20_000)
        still = replace(slow, path="still", horizon=20_000)
        found |= {f"{name}-v1": slow, f"{name}-fast-v1": fast, f"{name}-still-v1": still}
        found |= {
            f"{name}-long-v1": replace(slow, horizon=100_000),
            f"{name}-fast-long-v1": replace(fast, horizon=50_000),
        }
        found[f"{name}-still-long-v1"] = replace(still, horizon=100_000)
        for dim in (6, 25):
            found[f"{name}-fast-d{dim}-v1"] = replace(fast, dim=dim)
            found[f"{name}-d{dim}-long-v1"] = replace(slow, dim=dim, horizon=100_000)
    found["clicks5to15-still-longest-v1"] = replace(found["clicks5to15-still-v1"], horizon=500_000)
    return found


def _late() -> dict[str, World]:
    """Rewards in batches and with delays, for changing arms and for ten fixed ones."""
    found = {}
    for name, batch, delay in (("batch1000", 1000, 0), ("delay100", 1, 100), ("delay1000", 1, 1000)):
        for fixed, arms in (("", 1000), ("-fixed", 10)):
            late = replace(REFERENCE, arms=arms, period=5000, horizon=20_000, batch=batch, delay=delay)
            found[f"{name}{fixed}-v1"] = late
    return _still(found)


REFERENCE = World(features="sphere", thetas="sphere", noise=0.1)
"""Arms and tastes in any direction: the world that worlds in other units are compared with."""

_FLAGS = replace(REFERENCE, features="flags")
_SPREAD = tuple(REFERENCE.dim**0.5 * 10.0 ** (-2.0 + 4.0 * i / 9.0) for i in range(10))
"""Factors that give the columns of arms on the sphere standard deviations from .01 to 100."""


def _one_column(factor: float) -> World:
    return replace(REFERENCE, column_scale=(*[1.0] * (REFERENCE.dim - 1), factor))


def _offset(offset: float, *, constant: bool) -> World:
    return replace(REFERENCE, offset=offset, constant=constant, dim=REFERENCE.dim + constant)


PRESETS |= _with_clicks()
PRESETS |= _still(
    {
        "reference-v1": REFERENCE,
        "mixed-v1": replace(REFERENCE, column_scale=_SPREAD),
        "column-large-v1": _one_column(2.0**20),
        "column-small-v1": _one_column(2.0**-20),
        "price-v1": replace(_FLAGS, column_scale=(*[1.0] * (_FLAGS.dim - 1), MEDIAN_PRICE)),
        "price-sensible-v1": _FLAGS,
        "plus20-v1": _offset(20.0, constant=False),
        "plus20-constant-v1": _offset(20.0, constant=True),
        "minus3-v1": _offset(-3.0, constant=False),
        "minus3-constant-v1": _offset(-3.0, constant=True),
        "noise-times20-v1": World(noise_jump=20.0),
        "noiseless-v1": replace(REFERENCE, noise=0.0),
    }
)
PRESETS |= {
    "stationary-long-v1": World(path="still", noise=0.1, horizon=500_000),
    "stationary-noisy-long-v1": World(path="still", noise=0.5, horizon=500_000),
}
PRESETS |= _rates() | _late()
PRESETS |= {
    "seasons-v1": replace(REFERENCE, path="seasons", turns=4.0, horizon=10_000),
    "day-night-v1": replace(REFERENCE, path="recurring", period=200, horizon=10_000),
    "jolts-v1": replace(REFERENCE, path="jolts", step=0.002, period=1600, horizon=8000),
    "blocks-v1": Blocks(),
    "blocks-still-v1": Blocks(period=Blocks.horizon),
    "blocks-gaussian-v1": Blocks(reward="gaussian"),
    "blocks-gaussian-still-v1": Blocks(reward="gaussian", period=Blocks.horizon),
    "people-alone-v1": People(shared=0.0),
    "people-half-v1": People(shared=0.5),
    "people-alike-v1": People(shared=1.0),
    "people-half-noisy-v1": People(shared=0.5, noise=0.5),
    "people-groups-v1": People(shared=0.0, groups=5),
}
for _name, _twin in {
    "mixed": "reference",
    "column-large": "reference",
    "column-small": "reference",
    "price": "price-sensible",
    "plus20": "plus20-constant",
    "minus3": "minus3-constant",
}.items():
    TWINS |= {f"{_name}-v1": f"{_twin}-v1", f"{_name}-still-v1": f"{_twin}-still-v1"}
