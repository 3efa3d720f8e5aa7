"""Requests and answers, as they stand in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from driftbandit.core import Floats
from driftbandit.serving.loop.arms import MAX_ARMS, check_different
from driftbandit.serving.loop.config import LoopConfig, Name
from driftbandit.serving.loop.encoding import Named, NamedFeatures, numbers_only
from driftbandit.serving.loop.events import Catalogued, NamedArms, Record, Refused, encode

MAX_BATCH = 1_000
"""How many decisions or rewards one request may carry."""


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An arm with its features: a list of numbers, or, for a loop with an encoder, an object of columns."""

    id: Name
    features: list[float] | Named


class LoopRequest(LoopConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a loop; `version` is the version that they replace, 0 for a new loop.

    `arms` replace the catalogue in the same step.
    """

    version: Annotated[int, Meta(ge=0)] | None = None
    arms: Annotated[tuple[Arm | Name, ...], Meta(min_length=1, max_length=MAX_ARMS)] | None = None


Arms = tuple[Arm | str, ...]
"""Arms as requests give them."""


class DecisionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Ask for an arm, among ids of the catalogue, arms with features, or, without `arms`, the whole catalogue.

    A loop with an encoder needs the `context`: who is asking, by column. Other loops take none.
    """

    decision_id: Name | None = None
    scope: Name | None = None
    arms: Annotated[tuple[Name | Arm, ...], Meta(min_length=1, max_length=MAX_ARMS)] | None = None
    context: Named | None = None

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
    """The arms of a loop, with features where the loop has a dim or an encoder."""

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


def split_arms(arms: Sequence[str | Arm]) -> tuple[tuple[str, ...], Floats | list[Record] | None]:
    """Ids and features, an array or columns; the features are None if arms are given by id. Refuses a mixture."""
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
    rows: list[Any] = [arm.features for arm in arms]  # type: ignore[union-attr]
    forms = set(map(type, rows))
    if forms == {dict}:
        return ids, rows
    if forms != {list}:
        raise Refused(422, "arms: expected features as lists of numbers for every arm, or by name for every arm")
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


def catalogued(config: LoopConfig, arms: Arms, now: int) -> bytes:
    """The event of a new catalogue, encoded, if it fits the loop's settings."""
    ids, features = split_arms(arms)
    check_different(ids)
    if config.encoder:
        NamedFeatures(config.encoder).check(ids, features)
        records = features if isinstance(features, list) else [{}] * len(ids)
        return encode(NamedArms(now, 0, list(ids), None, records))
    rows = numbers_only(features)
    got = None if rows is None else rows.shape[1]
    if got != config.dim:
        raise Refused(422, f"arms: the loop's dim is {config.dim}, got {got} features per arm")
    return encode(Catalogued(now, 0, list(ids), None if rows is None else rows.tobytes()))
