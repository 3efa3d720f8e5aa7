"""Requests and answers, as they stand in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from driftbandit.core import Floats
from driftbandit.serving.loop.arms import MAX_ARMS
from driftbandit.serving.loop.config import LoopConfig, Name
from driftbandit.serving.loop.events import Refused

MAX_BATCH = 1_000
"""How many decisions or rewards one request may carry."""


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An arm with its features."""

    id: Name
    features: list[float]


class LoopRequest(LoopConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a loop; `version` is the version that they replace, 0 for a new loop.

    `arms` replace the catalogue in the same step.
    """

    version: Annotated[int, Meta(ge=0)] | None = None
    arms: Annotated[tuple[Arm | Name, ...], Meta(min_length=1, max_length=MAX_ARMS)] | None = None


class DecisionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ask for an arm, among ids of the catalogue, arms with features, or, without `arms`, the whole catalogue."""

    decision_id: Name | None = None
    scope: Name | None = None
    arms: Annotated[tuple[Name | Arm, ...], Meta(min_length=1, max_length=MAX_ARMS)] | None = None

    def __post_init__(self) -> None:
        if (given := self.decision_id) is not None:
            check_name("decision_id", given)
        if (scope := self.scope) is not None:
            check_name("scope", scope)


class RewardRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Report a reward; `scope` helps to find the decision where several processes serve."""

    value: float
    reward_id: Name | None = None
    scope: Name | None = None

    def __post_init__(self) -> None:
        _check_reward(self.reward_id, self.scope)


class BatchReward(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One of the rewards that are reported together."""

    decision_id: Name
    value: float
    reward_id: Name | None = None
    scope: Name | None = None

    def __post_init__(self) -> None:
        check_name("decision_id", self.decision_id)
        _check_reward(self.reward_id, self.scope)


class CatalogueRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arms of a loop, with features where the loop has a dim."""

    arms: Annotated[tuple[Arm | Name, ...], Meta(min_length=1, max_length=MAX_ARMS)]


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The answer to a `DecisionRequest`."""

    decision_id: str
    arm: str
    index: int
    propensity: float
    policy_version: str
    expires_at: str


class Configuration(msgspec.Struct, frozen=True):
    """A loop's settings and their version; `has_model` says whether its models began with a policy's file."""

    loop: str
    version: int
    arms_version: int
    config: LoopConfig
    has_model: bool = False


def split_arms(arms: Sequence[str | Arm]) -> tuple[tuple[str, ...], Floats | None]:
    """Ids and features; the features are None if arms are given by id. Refuses a mixture."""
    kinds = set(map(type, arms))
    if kinds == {str}:
        if not "".join(arms).isprintable():  # type: ignore[arg-type]
            raise Refused(422, "arms: expected printable ids")
        return tuple(arms), None  # type: ignore[arg-type]
    if kinds != {Arm}:
        raise Refused(422, "arms: expected ids only, or arms with features only")
    ids = tuple(arm.id for arm in arms)  # type: ignore[union-attr]
    for given in ids:
        check_name("arms", given)
    rows = [arm.features for arm in arms]  # type: ignore[union-attr]
    width = len(rows[0])
    if not width or any(len(row) != width for row in rows):
        raise Refused(422, "arms: expected the same number of features for every arm, and at least one")
    return ids, np.array(rows, dtype=np.float64)


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot stand in a URL, a log and a table."""
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise Refused(422, f"{what}: expected 1 to 200 printable characters")


def _check_reward(reward_id: str | None, scope: str | None) -> None:
    if reward_id is not None:
        check_name("reward_id", reward_id)
    if scope is not None:
        check_name("scope", scope)


def iso(time: int) -> str:
    """A time in milliseconds since 1970 as text, by RFC 3339.

    >>> iso(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return datetime.fromtimestamp(time / 1000.0, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
