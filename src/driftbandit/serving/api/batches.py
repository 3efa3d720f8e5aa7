"""Many decisions or rewards in one request: each has a result of its own, with the status that it would have had."""

from __future__ import annotations

import msgspec

from driftbandit.serving.api import errors as problems
from driftbandit.serving.api.errors import Problem
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import BatchReward, Decision, DecisionRequest
from driftbandit.serving.loop.events import Refused


class RewardAnswer(msgspec.Struct, frozen=True):
    """What became of a reward: 'accepted' or 'duplicate'."""

    status: str


class DecisionResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
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


ACCEPTED = RewardAnswer("accepted")
DUPLICATE = RewardAnswer("duplicate")
_ACCEPTED_RESULT = RewardResult(200, ACCEPTED)
_DUPLICATE_RESULT = RewardResult(200, DUPLICATE)


def decide(engine: Engine, name: str, given: list[DecisionRequest | Problem]) -> DecisionResults:
    """Carry out a batch of decisions, all at one time."""
    commands = engine.at_once(name)
    results = []
    for item in given:
        if isinstance(item, DecisionRequest):
            try:
                created, decision = commands.decide(item)
                results.append(DecisionResult(201 if created else 200, decision))
                continue
            except Refused as refusal:
                problem = problems.problem(refusal.status, str(refusal))
        else:
            problem = item
        results.append(DecisionResult(problem.status, None, problem))
    return DecisionResults(results)


def reward(engine: Engine, name: str, given: list[BatchReward | Problem]) -> RewardResults:
    """Carry out a batch of rewards, all at one time."""
    commands = engine.at_once(name)
    results = []
    for item in given:
        if isinstance(item, BatchReward):
            try:
                accepted = commands.reward(item.decision_id, item)
                results.append(_ACCEPTED_RESULT if accepted else _DUPLICATE_RESULT)
                continue
            except Refused as refusal:
                problem = problems.problem(refusal.status, str(refusal))
        else:
            problem = item
        results.append(RewardResult(problem.status, None, problem))
    return RewardResults(results)
