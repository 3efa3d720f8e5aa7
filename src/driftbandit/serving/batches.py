"""Many decisions or rewards in one request: each has a result of its own, with the status that it would have had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from driftbandit.serving import problems
from driftbandit.serving.engine import Engine
from driftbandit.serving.messages import MAX_BATCH, BatchReward, Decision, DecisionRequest
from driftbandit.serving.problems import HTTPError, Problem
from driftbandit.serving.records import Refused

Result = TypeVar("Result")


class DecisionBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions at once."""

    decisions: list[DecisionRequest]


class RewardBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards at once."""

    rewards: list[BatchReward]


class RewardAnswer(msgspec.Struct, frozen=True):
    """What became of a reward: 'accepted' or 'duplicate'."""

    status: str


class DecisionResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision of a batch, with the status it would have had on its own."""

    status: int
    decision: Decision | None = None
    problem: Problem | None = None


class RewardResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reward of a batch."""

    status: int
    reward: RewardAnswer | None = None
    problem: Problem | None = None


class DecisionResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[DecisionResult]


class RewardResults(msgspec.Struct, frozen=True):
    """Results in the order of the requests."""

    results: list[RewardResult]


class _RawDecisions(msgspec.Struct, forbid_unknown_fields=True):
    decisions: list[msgspec.Raw]


class _RawRewards(msgspec.Struct, forbid_unknown_fields=True):
    rewards: list[msgspec.Raw]


_decisions = msgspec.json.Decoder(DecisionBatch)
_decision = msgspec.json.Decoder(DecisionRequest)
_rewards = msgspec.json.Decoder(RewardBatch)
_reward = msgspec.json.Decoder(BatchReward)

ACCEPTED = RewardAnswer("accepted")
DUPLICATE = RewardAnswer("duplicate")
_ACCEPTED_RESULT = RewardResult(200, ACCEPTED)
_DUPLICATE_RESULT = RewardResult(200, DUPLICATE)


def read_decisions(body: bytes) -> list[DecisionRequest | Problem]:
    """The items of a batch of decisions; those that cannot be read are problems."""
    return _read(body, _decisions, _RawDecisions, "decisions", _decision)


def read_rewards(body: bytes) -> list[BatchReward | Problem]:
    """The items of a batch of rewards; those that cannot be read are problems."""
    return _read(body, _rewards, _RawRewards, "rewards", _reward)


def decide(engine: Engine, name: str, given: list[DecisionRequest | Problem]) -> DecisionResults:
    """Carry out a batch of decisions."""
    results = engine.decide_many(name, [item for item in given if type(item) is DecisionRequest])
    return DecisionResults(_merge(given, map(_decision_result, results), DecisionResult))


def reward(engine: Engine, name: str, given: list[BatchReward | Problem]) -> RewardResults:
    """Carry out a batch of rewards."""
    results = engine.reward_many(name, [item for item in given if type(item) is BatchReward])
    return RewardResults(_merge(given, map(_reward_result, results), RewardResult))


def _read(body: bytes, whole: Any, raw: Any, field: str, one: Any) -> list[Any]:
    """Read a batch; where it has bad items, those become problems and the others stay."""
    try:
        items: list[Any] = getattr(whole.decode(body), field)
    except msgspec.ValidationError:
        items = []
        for item in getattr(msgspec.json.decode(body, type=raw), field):
            try:
                items.append(one.decode(item))
            except msgspec.ValidationError as error:
                items.append(problems.problem(422, str(error)))
    if len(items) > MAX_BATCH:
        raise HTTPError(413, f"a batch may have at most {MAX_BATCH:,} items, got {len(items):,}")
    return items


def _decision_result(result: tuple[bool, Decision] | Refused) -> DecisionResult:
    if isinstance(result, Refused):
        return DecisionResult(result.status, None, problems.problem(result.status, str(result)))
    created, decision = result
    return DecisionResult(201 if created else 200, decision)


def _reward_result(result: bool | Refused) -> RewardResult:
    if isinstance(result, Refused):
        return RewardResult(result.status, None, problems.problem(result.status, str(result)))
    return _ACCEPTED_RESULT if result else _DUPLICATE_RESULT


def _merge(given: list[Any], results: Iterator[Result], bad: Callable[[int, None, Problem], Result]) -> list[Result]:
    """Results in the order of what was given, in which items that could not be read are problems already."""
    return [bad(item.status, None, item) if type(item) is Problem else next(results) for item in given]
