"""How regret grows: with the number of changes, the stage length, the dimension, the horizon and the size of a shift.

Every axis is a row of worlds that differ in one number. The slope of log regret over that number is set beside the
slope of the paper's bound (Theorem 3.3) over the same worlds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

import numpy as np

from driftbandit.core import Floats
from driftbandit.environments import World
from driftbandit.environments.presets import PRESETS
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.intervals import Interval, bootstrap
from driftbandit.evaluation.results import Table, mean_and_std, number_of
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.paper.table1 import COLUMNS
from driftbandit.policies.registry import REGISTRY, Builder
from driftbandit.report import Artefact

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
    "Number of stages, 800 rounds each",
    "stages",
    {stages: replace(BASE, horizon=800 * stages) for stages in (2, 4, 8, 16, 32)},
)

AXES = (CHANGES,)
