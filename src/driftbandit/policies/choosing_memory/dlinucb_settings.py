"""Builds the parts of dLinUCB from its settings: the member model, the rules of the miss test, the noise watch."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from driftbandit.core import Floats, as_number
from driftbandit.kernels import windows
from driftbandit.models import MODELS, TUNED, Radius, RewardModel
from driftbandit.policies.choosing_memory.click_warning import ClickWatch
from driftbandit.policies.choosing_memory.unknown_noise import UnknownNoise

if TYPE_CHECKING:
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

Noise = float | Literal["auto"]
Rule = Literal["paper", "released"]

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "table1": {"explore": 0.6, "counting": "released"},
    "released": {"explore": 0.6, "counting": "released", "radius": "released"},
}
"""Presets, as changes of the defaults: the paper as printed (with epsilon positive), the setting behind its Table 1,
and the authors' released code."""


def as_noise(value: Noise) -> Noise:
    """Return the noise as a non-negative float or 'auto', or raise ValueError."""
    if value == "auto":
        return "auto"
    try:
        return as_number("noise", value, 0.0)
    except ValueError as error:
        raise ValueError(f"{error} (or 'auto')") from error


def as_probability(name: str, value: float) -> float:
    """Return `value` as a float between 0 and 1, both excluded, or raise ValueError."""
    number = as_number(name, value, 0.0, 1.0, open_low=True)
    if number == 1.0:
        raise ValueError(f"{name}: expected a number in (0, 1), got {value!r}")
    return number


def as_rule(name: str, value: Rule) -> Rule:
    """Return `value` if it is 'paper' or 'released', or raise ValueError."""
    if value not in ("paper", "released"):
        raise ValueError(f"{name}: expected 'paper' or 'released', got {value!r}")
    return value


def build_model(policy: DLinUCB, dim: int, model: str | Callable[..., RewardModel]) -> RewardModel:
    """Build the model that a name, a class or any other callable stands for, with the settings of a policy.

    A class says by its traits what it takes: `RewardModel.takes_radius` and `RewardModel.follows_noise`. Under
    ``noise='auto'`` a model is not told the noise, and its radius, if it takes one, is that of noise 1.
    """
    known = None if policy.noise == "auto" else policy.noise
    named = TUNED if known is None else MODELS
    if isinstance(model, str):
        if model not in named:
            raise ValueError(f"model: expected one of {', '.join(named)}, got {model!r}")
        model = named[model]
    if not callable(model):
        raise ValueError(f"model: expected a name or something that builds a model, got {model!r}")
    settings: dict[str, Any] = {"ridge": policy.ridge, "explore": policy.explore, "delta": policy.delta}
    if known is not None:
        settings["noise"] = known
    elif not getattr(model, "follows_noise", True):
        name = getattr(model, "__name__", repr(model))
        raise ValueError(f"model: {name} cannot follow noise='auto'; derive it from TunedRidge")
    if getattr(model, "takes_radius", False):
        rule = Radius.released if policy.radius == "released" else Radius.paper
        noise = 1.0 if known is None else known
        settings["radius"] = rule(dim, noise=noise, ridge=policy.ridge, delta=policy.delta)
        if known is None:
            settings["squared"] = policy.radius == "paper"
    return model(dim, **settings)


def build_watch(policy: DLinUCB) -> ClickWatch | UnknownNoise:
    """Build what a policy keeps beside its members: a watch for clicks if the noise is given, else a noise estimate."""
    # Two-sided bound on Gaussian noise: epsilon = sqrt(2) * erfinv(1 - delta) * sigma, or sigma^2 in the released code.
    quantile = NormalDist().inv_cdf(1.0 - policy.delta / 2.0)
    squared = policy.radius == "released"
    if policy.noise != "auto":
        return ClickWatch(quantile * (policy.noise**2 if squared else policy.noise), policy.delta)
    alarm = math.log(1.0 / (policy.delta * policy.window_delta))
    return UnknownNoise(policy.dim, window=policy.window, quantile=quantile, squared=squared, alarm=alarm)


def build_rules(policy: DLinUCB, epsilon: float) -> Floats:
    """The rules of the miss test, in the slots that `kernels.windows` names."""
    released = float(policy.counting == "released")
    rules = np.zeros(windows.RULES)
    rules[windows.EPSILON] = epsilon
    rules[windows.DELTA] = policy.delta
    rules[windows.SPAWN_DELTA] = policy.spawn_delta
    rules[windows.SPREAD] = math.log(1.0 / policy.window_delta) / 2.0
    rules[windows.EXTRA] = released
    rules[windows.FIRST_WIDTH] = 0.5 * released
    rules[windows.OPTIMISM] = math.sqrt(math.log(policy.window))
    rules[windows.STRICT] = released
    return rules
