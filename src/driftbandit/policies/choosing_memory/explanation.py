"""Why a DriftUCB acts as it does: what `DriftUCB.explain` returns."""

from __future__ import annotations

from dataclasses import dataclass

from driftbandit.core import Change


@dataclass(frozen=True, slots=True)
class Expert:
    """One of the models that act.

    Attributes
    ----------
    memory : float
        Rounds after which it has forgotten most of a reward; infinite for the incumbent.
    weight : float
        Its share in the mixture.
    """

    memory: float
    weight: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains why a DriftUCB acts as it does.

    Attributes
    ----------
    experts : tuple of Expert
        The incumbent, then the experts.
    noise : float
        Estimated standard deviation of a reward around its mean.
    age : int
        Rewards that the incumbent has learned.
    last_change : Change or None
        The latest alarm.
    moved : tuple of (int, float, float)
        Feature, its weight before the latest alarm and its weight now, the most changed first; empty before any alarm.
    """

    experts: tuple[Expert, ...]
    noise: float
    age: int
    last_change: Change | None
    moved: tuple[tuple[int, float, float], ...]
