"""The worlds of the study of growth, and slopes along them: measured, and promised by the paper's Theorem 3.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from driftbandit.core import Floats
from driftbandit.environments import World
from driftbandit.evaluation.intervals import Interval, bootstrap
from driftbandit.evaluation.study import Result
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.paper.theory import stage_bound
from driftbandit.policies.registry import REGISTRY, Builder

BASE = COLUMNS[1].world
"""The world that every axis starts from: noise 0.05, shift 0.9, a shift every 800 rounds."""

_ONE = {"spawn_delta": 0.01}
"""Equal to delta: a new member only comes when the old one goes (Theorem 3.3)."""

POLICIES: dict[str, tuple[str, Builder]] = {
    "dlinucb": ("dLinUCB", REGISTRY["dlinucb"].build),
    "dlinucb-one": ("dLinUCB, one member", partial(REGISTRY["dlinucb"].build, **_ONE)),
    "dlinucb-paper": ("dLinUCB (printed)", REGISTRY["dlinucb-paper"].build),
    "dlinucb-paper-one": ("dLinUCB (printed), one member", partial(REGISTRY["dlinucb-paper"].build, **_ONE)),
    "linucb": ("LinUCB", REGISTRY["linucb"].build),
    "oracle": ("OracleLinUCB", REGISTRY["oracle"].build),
    "driftucb": ("DriftUCB", REGISTRY["driftucb"].build),
}
"""Title and builder of every policy."""


@dataclass(frozen=True)
class Axis:
    """Worlds that differ in one number.

    Attributes
    ----------
    name, title, label : str
        Key of the axis, heading of its table, and what the number is.
    worlds : dict of float to World
        The worlds by that number, rising.
    """

    name: str
    title: str
    label: str
    worlds: dict[float, World]

    @property
    def values(self) -> list[float]:
        """The numbers along the axis."""
        return list(self.worlds)


CHANGES = Axis(
    "stages",
    "Number of stages of 800 rounds",
    "stages",
    {stages: replace(BASE, horizon=800 * stages) for stages in (2, 4, 8, 16, 32)},
)
LENGTH = Axis(
    "stage length",
    "Length of each of 6 stages",
    "rounds per stage",
    {length: replace(BASE, period=length, horizon=6 * length) for length in (300, 600, 1200, 2400, 4800)},
)
DIMENSION = Axis(
    "dimension",
    "Number of features",
    "features",
    {dim: replace(BASE, dim=dim) for dim in (5, 10, 20, 40)},
)
HORIZON = Axis(
    "horizon",
    "Rounds in all if nothing changes",
    "rounds",
    {horizon: replace(BASE, path="still", horizon=horizon) for horizon in (1250, 2500, 5000, 10_000, 20_000)},
)
SIZE = Axis(
    "size",
    "Size of every shift (preset exact-v1)",
    "distance between old and new taste",
    {size: replace(BASE, rule="exact", shift=size) for size in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2)},
)
AXES = (CHANGES, LENGTH, DIMENSION, HORIZON, SIZE)

PAIRS = (("dlinucb", "dlinucb-one"), ("dlinucb-paper", "dlinucb-paper-one"))
"""Several members against one."""

_WINDOW, _WINDOW_DELTA, _DELTA, _RIDGE = 200, 0.1, 0.01, 0.1
"""Settings of dLinUCB in Table 1, which the bound needs."""

Found = dict[tuple[str, str], list[Result]]
"""Results by place and policy, in the order of the seeds."""


def place_of(axis: Axis, value: float) -> str:
    """Name of a world of an axis in the results."""
    return f"{axis.name} {value:g}"


def regrets(found: Found, axis: Axis, policy: str) -> Floats:
    """Regret at every world of an axis (rows) with every seed (columns)."""
    return np.array([[result.regret for result in found[place_of(axis, at), policy]] for at in axis.worlds])


def slope(found: Found, axis: Axis, policy: str, first: int | None = None) -> Interval:
    """Slope of log mean regret over the log of the axis, or of its `first` numbers, with a 95 % interval over seeds."""
    return bootstrap(regrets(found, axis, policy)[:first], partial(_fitted_slope, axis.values[:first]))


def _fitted_slope(values: Sequence[float], totals: Floats) -> Floats:
    """Least squares in logarithms; `totals` has a row for each value, and any further shape."""
    x = np.log(values)
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slopes: Floats = np.tensordot(weights, np.log(totals), axes=1)
    return slopes


def promised(axis: Axis) -> tuple[list[float], list[float]]:
    """Theorem 3.3 along an axis: the whole bound, and its part for learning, 2 G R(S)."""
    whole, learning = [], []
    for world in axis.worlds.values():
        still = world.path == "still"
        stages = 1 if still else -(-world.horizon // world.period)
        stage = world.horizon if still else world.period
        part = stage_bound(dim=world.dim, period=stage, noise=world.noise, ridge=_RIDGE, delta=_DELTA)
        learning.append(2.0 * stages * part)
        whole.append(learning[-1] + stages * (_WINDOW + 4.0 / (1.0 - _WINDOW_DELTA)))
    return whole, learning


def promised_slopes(axis: Axis) -> tuple[float, float]:
    """Slopes of the whole bound and of its part for learning, over the same worlds as the measured ones."""
    whole, learning = (float(_fitted_slope(axis.values, np.array(part))) for part in promised(axis))
    return whole, learning
