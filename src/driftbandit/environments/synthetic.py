"""Simulated rounds by the name of a preset: ``synthetic("table1", seed=3)`` is the world behind the paper's Table 1."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from driftbandit.core import unknown_name
from driftbandit.environments.presets import PRESETS, Simulated
from driftbandit.environments.rounds import Rounds


def world(preset: str = "table1", **overrides: Any) -> Simulated:
    """Settings of a preset ('table1' is its newest version), with overrides."""
    return _override(PRESETS[preset_name(preset)], overrides)


def _override(settings: Simulated, overrides: dict[str, Any]) -> Simulated:
    known = [field.name for field in fields(settings)]
    if unknown := sorted(overrides.keys() - set(known)):
        raise ValueError(unknown_name("settings", unknown, known))
    return replace(settings, **overrides)


def preset_name(preset: str) -> str:
    """Full name of a preset, with its version."""
    versions = [name for name in PRESETS if name in (preset, f"{preset}-{name.split('-')[-1]}")]
    if not versions:
        raise ValueError(unknown_name("preset", preset, PRESETS))
    return max(versions, key=lambda name: int(name.rsplit("-v", 1)[1]))


def synthetic(preset: str | Simulated = "table1", seed: int = 0, **overrides: Any) -> Rounds:
    """Make all rounds of a simulated world.

    Parameters
    ----------
    preset : str, World, Blocks or People
        A preset's name, or settings of your own.
    seed : int
        The same seed and settings give the same rounds, bit for bit.
    **overrides :
        Settings of the world to change.

    Examples
    --------
    >>> rounds = synthetic("table1", seed=1, noise=0.01, horizon=1000)
    >>> rounds.catalogue.shape, rounds.pools.shape, rounds.shifts.tolist()
    ((1000, 10), (1000, 10), [800])

    The world that the paper's text describes does not exist:

    >>> synthetic("text", seed=1)
    Traceback (most recent call last):
    ...
    ValueError: shift: no theta in 204,800 draws changes 100 % of the arms by more than 0.9; the best changed 0.0 %
    """
    settings = world(preset, **overrides) if isinstance(preset, str) else _override(preset, overrides)
    return settings.rounds(seed)
