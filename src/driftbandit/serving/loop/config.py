"""A loop's settings, checked, and the policies they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from driftbandit.core import LARGEST, unknown_name
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.registry import REGISTRY
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.policies.untold import build_untold

Setting = bool | int | float | str | None
Name = Annotated[str, Meta(min_length=1, max_length=200)]

_LARGEST_SETTING = 10_000_000
_LARGEST_DIM = 2_000

SERVED = tuple(name for name, entry in REGISTRY.items() if entry.served)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy by name, with its settings as keywords."""

    policy: str = "driftucb"
    settings: dict[str, Setting] = {}


class LoopConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=False):
    """Settings of a loop.

    Attributes
    ----------
    policy, settings :
        Name in the registry, and keywords for its constructor, which override the registry's.
    dim : int, optional
        Number of features an arm has; None for context-free policies.
    feature_names : list of str, optional
        What the page calls the features.
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
    seed: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0
    shadow: Plan | None = None
    feature_names: list[Name] | None = None

    @property
    def model_key(self) -> tuple[Any, ...]:
        """Settings that models depend on: if one changes, models start afresh."""
        return (self.policy, self.settings, self.dim, self.scoped, self.seed, self.reward_range)

    @property
    def shadow_key(self) -> tuple[Any, ...]:
        """Settings that the shadow's models depend on."""
        return (self.shadow, self.dim, self.scoped, self.seed, self.reward_range)


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
        if isinstance(value, int) and abs(value) > _LARGEST_SETTING:
            raise ValueError(f"settings: {key[:100]}: expected at most {_LARGEST_SETTING:,}, got {value}")

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
