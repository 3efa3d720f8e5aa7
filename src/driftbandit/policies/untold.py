"""Policies by name for a world that nobody described, such as a log or a loop of the service; and their names back.

A simulated world tells a policy its noise and its range of rewards. Here both are unknown: a policy that needs a noise
gets the largest one that rewards between 0 and 1 can have, unless its entry says what to do instead (`Entry.untold`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftbandit.core import unknown_name
from driftbandit.policies.registry import REGISTRY, Brief
from driftbandit.policies.traits import Traits

WIDEST_NOISE = 0.5
"""Standard deviation of the noisiest reward between 0 and 1."""


def build_untold(
    name: str,
    dim: int | None,
    settings: Mapping[str, Any] | None = None,
    *,
    reward_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> Any:
    """Make a fresh policy of the registry.

    Parameters
    ----------
    name : str
        Its name in the registry.
    dim : int or None
        Number of features; None if there are none.
    settings : mapping, optional
        Keywords for its constructor, which override the registry's.
    reward_range : (float, float), optional
        Range of rewards, [0, 1] by default; most policies do not need it.
    seed : int
        Seed of the policy.

    Raises
    ------
    ValueError
        If there is no such policy, or it cannot have these settings.

    Examples
    --------
    >>> build_untold("linucb", 3, {"explore": 0.3})
    <LinUCB(dim=3, explore=0.3) rounds=0, changes=0>
    """
    if name not in REGISTRY:
        raise ValueError(unknown_name("policy", name, REGISTRY))
    entry = REGISTRY[name]
    if entry.knows_shifts:
        raise ValueError(f"policy: {name!r} must be told the true shifts, which are known in simulated worlds only")
    brief = Brief(dim=dim or 1, noise=WIDEST_NOISE, reward_range=reward_range or (0.0, 1.0), seed=seed)
    try:
        return entry.build(brief, **{**entry.untold, **(settings or {})})
    except (TypeError, MemoryError, OverflowError) as error:
        raise ValueError(f"settings: {error}") from error


def name_and_settings(policy: Any) -> tuple[str, dict[str, Any]]:
    """The name and the settings with which `build_untold` makes such a policy.

    Only settings that differ from what the registry gives are returned. If several names fit, it is the first that
    needs the fewest settings.

    Raises
    ------
    ValueError
        If the service cannot make such a policy: its class is not one of those that the service has, or a setting is
        more than a number or a text.

    Examples
    --------
    >>> from driftbandit import DriftUCB
    >>> name_and_settings(DriftUCB(3, delta=0.01))
    ('driftucb', {'delta': 0.01})
    """
    found: list[tuple[str, dict[str, Any]]] = []
    dim = getattr(policy, "dim", None)
    for name, entry in REGISTRY.items():
        if entry.served and entry.policy is type(policy):
            found.append((name, different_settings(build_untold(name, dim), policy)))
    fitting = [
        (name, settings)
        for name, settings in found
        if all(value is None or isinstance(value, bool | int | float | str) for value in settings.values())
    ]
    if not fitting:
        which = f"; its {', '.join(found[0][1])} cannot be written as a number or a text" if found else ""
        raise ValueError(f"policy: {policy!r} is not one that the service can make{which}")
    return min(fitting, key=lambda one: len(one[1]))


def different_settings(one: Traits, other: Traits) -> dict[str, Any]:
    """Settings in which two policies of one class differ, with the values of the second.

    >>> from driftbandit import LinUCB
    >>> different_settings(LinUCB(3), LinUCB(3, ridge=0.5))
    {'ridge': 0.5}
    """
    theirs = other.settings()
    return {
        name: theirs[name] for name, value in one.settings().items() if _comparable(value) != _comparable(theirs[name])
    }


def _comparable(value: Any) -> Any:
    """A setting so that equal ones compare equal: lists and tuples alike, policies by their class and settings."""
    if isinstance(value, Traits):
        return type(value), {name: _comparable(inner) for name, inner in value.settings().items()}
    if isinstance(value, tuple | list):
        return tuple(_comparable(inner) for inner in value)
    return value
