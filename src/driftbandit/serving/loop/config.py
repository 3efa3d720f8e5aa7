"""A loop's settings, checked, and the policies they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftbandit.core import LARGEST, unknown_name
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.registry import REGISTRY
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.policies.untold import build_untold
from driftbandit.serving.loop.encoding import canonical, encoder_names

Setting = bool | int | float | str | None
Name = Annotated[str, Meta(min_length=1, max_length=200)]

_LARGEST_SETTING = 10_000_000
_LARGEST_SEED = (1 << 62) - 1
_LARGEST_DIM = 2_000
_MOST_MARKS = 1_000

SERVED = tuple(name for name, entry in REGISTRY.items() if entry.served)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy by name, with its settings as keywords."""

    policy: str = "driftucb"
    settings: dict[str, Setting] = {}


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that happened at a time, such as a release, for people who look at the page."""

    time: Annotated[datetime, Meta(tz=True)]
    label: Name


class LoopConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """Settings of a loop.

    Attributes
    ----------
    policy, settings :
        Name in the registry, and keywords for its constructor, which override the registry's.
    dim : int, optional
        Number of features an arm has; None for context-free policies.
    feature_names : list of str, optional
        What the page calls the features; by default the encoder's names, if there is an encoder.
    scoped : bool
        Whether every scope has a model of its own; else one model serves everyone.
    window : float
        Seconds after a decision in which its reward is awaited.
    default_reward : float or None
        What a missing reward counts as when the window closes; with None nothing is learned.
    learn : {'window_close', 'arrival'}
        When a reward is learned.
    floor : float
        Probability of playing a uniformly random arm.
    draws : int
        How often a policy with random choices is asked; the arm is drawn from its answers.
    reward_range : pair of floats, optional
        Rewards outside are refused; also the range that context-free policies are told.
    seed : int
        Seed of the policy and of the exploration.
    shadow : Plan, optional
        A policy that sees all decisions and rewards but decides nothing.
    marks : list of Mark, optional
        What the page shows beside the detected changes. Nothing is learned from marks.
    encoder : dict, optional
        What `Encoder.to_json` returned. Contexts and arms are then given by name, and `dim` is the encoder's.
    """

    policy: str = "driftucb"
    settings: dict[str, Setting] = {}
    dim: Annotated[int, Meta(ge=1, le=_LARGEST_DIM)] | None = None
    scoped: bool = False
    window: Annotated[float, Meta(ge=0.0, le=2_592_000.0)] = 600.0
    default_reward: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] | None = 0.0
    learn: Literal["window_close", "arrival"] = "window_close"
    floor: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.05
    draws: Annotated[int, Meta(ge=1, le=1000)] = 20
    reward_range: (
        tuple[Annotated[float, Meta(ge=-LARGEST, le=LARGEST)], Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]] | None
    ) = None
    seed: Annotated[int, Meta(ge=0, le=_LARGEST_SEED)] = 0
    shadow: Plan | None = None
    feature_names: list[Name] | None = None
    # Left out where there are none, so that settings are written as they were before there were marks.
    marks: Annotated[list[Mark], Meta(max_length=_MOST_MARKS)] | UnsetType = UNSET
    # Left out of the JSON if there is none, as in the logs of earlier versions.
    encoder: dict[str, Any] | UnsetType | None = UNSET

    @property
    def model_key(self) -> tuple[Any, ...]:
        """Settings that models depend on: if one changes, models start afresh."""
        return (self.policy, self.settings, self.dim, self.scoped, self.seed, self.reward_range, self.encoder)

    @property
    def shadow_key(self) -> tuple[Any, ...]:
        """Settings that the shadow's models depend on."""
        return (self.shadow, self.dim, self.scoped, self.seed, self.reward_range, self.encoder)

    @property
    def shown_names(self) -> Sequence[str] | None:
        """What to call the features: their given names, the encoder's, or None."""
        return self.feature_names or (encoder_names(self.encoder) if self.encoder else None)


def completed(config: LoopConfig) -> LoopConfig:
    """The settings with all that follows from the encoder; they stay as they are if there is none.

    Raises
    ------
    ValueError
        If the encoder cannot be used, or `dim` is given and not the encoder's.
    """
    if not isinstance(config.encoder, dict):
        return msgspec.structs.replace(config, encoder=UNSET)
    encoder, dim = canonical(config.encoder)
    if config.dim not in (None, dim):
        raise ValueError(f"dim: expected {dim}, the encoder's, or nothing, got {config.dim}")
    if dim > _LARGEST_DIM:
        raise ValueError(f"encoder: expected at most {_LARGEST_DIM:,} features, got {dim:,}")
    return msgspec.structs.replace(config, encoder=encoder, dim=dim)


def check(config: LoopConfig) -> None:
    """Raise ValueError if these settings do not describe a loop.

    >>> check(LoopConfig(policy="linucb"))
    Traceback (most recent call last):
    ...
    ValueError: dim: policy 'linucb' needs the number of features
    """
    if config.reward_range is not None and not config.reward_range[0] < config.reward_range[1]:
        raise ValueError("reward_range: expected the lower end first")
    if config.feature_names is not None and len(config.feature_names) != (config.dim or 0):
        raise ValueError(f"feature_names: expected {config.dim or 0} names, got {len(config.feature_names)}")
    for mark in config.marks or []:
        if mark.time.timestamp() < 0.0:
            raise ValueError(f"marks: expected times since 1970, got {mark.time.isoformat()}")
    if not "".join(config.feature_names or ()).isprintable():
        raise ValueError("feature_names: expected printable characters")
    policy = builder(config, Plan(config.policy, config.settings))()
    low, high = bounds(config, policy)
    if config.default_reward is not None and not low <= config.default_reward <= high:
        raise ValueError(f"default_reward: expected a number in [{low:g}, {high:g}], got {config.default_reward:g}")
    if config.shadow is not None:
        try:
            builder(config, config.shadow)()
        except ValueError as error:
            raise ValueError(f"shadow: {error}") from error


def builder(config: LoopConfig, plan: Plan) -> Callable[[], SavedPolicy]:
    """Return a function that makes a fresh policy, or raise ValueError saying what is wrong with the plan."""
    if plan.policy not in SERVED:
        raise ValueError(unknown_name("policy", plan.policy, SERVED))
    for key, value in plan.settings.items():
        most = _LARGEST_SEED if key == "seed" else _LARGEST_SETTING  # a seed takes no memory
        if isinstance(value, int) and abs(value) > most:
            raise ValueError(f"settings: {key[:100]}: expected at most {most:,}, got {value}")

    def build() -> SavedPolicy:
        made = build_untold(
            plan.policy, config.dim, plan.settings, reward_range=config.reward_range, seed=config.seed % (1 << 31)
        )
        return cast(SavedPolicy, made)

    policy: object = build()
    if not isinstance(policy, PolicyBase):
        raise ValueError(f"policy: {plan.policy!r} cannot be served: it does not derive from PolicyBase")
    if policy.dim is not None and policy.dim != config.dim:
        if config.dim is None:
            raise ValueError(f"dim: policy {plan.policy!r} needs the number of features")
        raise ValueError(f"settings: dim: expected {config.dim}, the loop's, got {policy.dim}")
    return build


def bounds(config: LoopConfig, policy: Any) -> tuple[float, float]:
    """Lowest and highest reward that the loop takes: within its own range and within the policy's."""
    low, high = config.reward_range or (-LARGEST, LARGEST)
    least, most = policy.reward_bounds
    return max(low, least), min(high, most)


def weights_of(policy: Any) -> bytes | None:
    """Weights of the model in charge as float64, where a policy has them: one per feature."""
    weights = policy.feature_weights
    return None if weights is None else weights.tobytes()
