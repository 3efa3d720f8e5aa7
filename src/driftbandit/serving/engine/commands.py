"""Decisions and rewards: from the request to the answer."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from driftbandit.serving.engine.messages import (
    BatchReward,
    Decision,
    DecisionRequest,
    RewardRequest,
    iso,
    split_arms,
)
from driftbandit.serving.engine.shards import Parts
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.arms import Pool
from driftbandit.serving.loop.events import AnyEvent, Decided, Late, NamedDecision, Refused, Rewarded
from driftbandit.serving.loop.loop import Loop


class Answers:
    """Writes the answers to decisions, and keeps the two texts that neighbouring answers share."""

    __slots__ = ("_expires", "_learned", "_version", "expires_at", "policy_version")

    def __init__(self) -> None:
        self._expires = self._learned = self._version = -1
        self.expires_at = self.policy_version = ""

    def to(self, event: Decided) -> Decision:
        """The answer to a decision."""
        if self._expires != event.expires:
            self._expires, self.expires_at = event.expires, iso(event.expires)
        if self._learned != event.learned or self._version != event.version:
            self._learned, self._version = event.learned, event.version
            self.policy_version = f"{event.version}.{event.learned}"
        return Decision(event.id, event.arm, event.index, event.propensity, self.policy_version, self.expires_at)


class Commands:
    """Decisions and rewards of one loop, all with the same time stamp.

    Parameters
    ----------
    parts : Parts
        The loop. Ids that requests give to decisions must have gone through its `look_up`.
    now : int
        The time, in milliseconds since 1970.
    answers : Answers
        Writes the answers.
    """

    __slots__ = ("_answers", "_now", "_only", "_parts")

    def __init__(self, parts: Parts, now: int, answers: Answers) -> None:
        self._parts = parts
        self._answers = answers
        self._only = parts.only
        self._now = now if self._only is None else self._advance(self._only, now)

    def _advance(self, loop: Loop, now: int) -> int:
        """Get a loop ready for a command, which the next commit must make durable."""
        parts = self._parts
        parts.touched.add(loop)
        parts.active.clear()  # what came before was done whole
        parts.active.add(loop)
        return advance(loop, now)

    def decide(self, request: DecisionRequest, pool: Pool | None = None) -> tuple[bool, Decision]:
        """Choose an arm, of this pool if it was found before; says whether the decision is new."""
        scope, given, now, loop = request.scope, request.decision_id, self._now, self._only
        if given is not None and (known := self._knowing(given, scope)) is not None:
            return False, self._again(known, request)
        if loop is None:
            loop = self._parts.of_scope(scope)
            now = self._advance(loop, now)
        if pool is None:
            pool = _pool_of(loop, request)
        event = loop.decide(now, given or new_id(loop.shard, now), scope, pool)
        loop.outbox.events.append(event)
        return True, self._answers.to(event)

    def decide_all(self, requests: list[DecisionRequest]) -> list[tuple[bool, Decision] | Refused]:
        """What `decide` returns or raises for each request; policies choose for many at once where that is faster."""
        asked: dict[Loop, list[tuple[str | None, Pool]]] = {}
        pools = [self._look_at(request, asked) for request in requests]
        results: list[tuple[bool, Decision] | Refused] = []
        try:
            for loop, questions in asked.items():
                self._advance(loop, self._now)
                loop.look_ahead(questions)
            for request, pool in zip(requests, pools, strict=True):
                try:
                    results.append(self.decide(request, pool))
                except Refused as refusal:
                    results.append(refusal)
        finally:
            for loop in asked:
                loop.learner.forget_ahead()
        return results

    def _look_at(self, request: DecisionRequest, asked: dict[Loop, list[tuple[str | None, Pool]]]) -> Pool | None:
        """Find the pool of a request, and note what will be asked; None if it is known or will be refused."""
        scope, given = request.scope, request.decision_id
        if given is not None and self._knowing(given, scope) is not None:
            return None
        try:
            loop = self._only or self._parts.of_scope(scope)
            pool = _pool_of(loop, request)
        except Refused:
            return None
        asked.setdefault(loop, []).append((scope, pool))
        return pool

    def _knowing(self, decision_id: str, scope: str | None) -> Loop | None:
        """The shard that knows a decision, or None."""
        loop = self._only
        if loop is None:
            return self._parts.knowing(decision_id, scope)
        return loop if decision_id in loop.state.recent or decision_id in loop.known else None

    def _again(self, loop: Loop, request: DecisionRequest) -> Decision:
        """The answer that this decision got before, if the request is the same."""
        given = request.decision_id or ""
        ids, features = (None, None) if request.arms is None else split_arms(request.arms)
        event: Any = self._event(loop, (loop.state.recent.get(given) or loop.known[given]).seq)
        had: Any = event.features, None
        if isinstance(event, NamedDecision):
            had = event.records, event.context
        given_features = features.tobytes() if isinstance(features, np.ndarray) else features
        if (event.scope, event.arms, *had) != (request.scope, ids, given_features, request.context):
            raise Refused(409, f"decision_id {given!r} was used with another body")
        return self._answers.to(event)

    def _event(self, loop: Loop, seq: int) -> AnyEvent:
        """An event of the log, which may not be in the store yet."""
        outbox, back = loop.outbox, loop.state.seq - seq
        if back < len(outbox.events):
            return outbox.events[-1 - back]
        sealed = next((run for run in outbox.sealed if run.first <= seq <= run.last), None)
        body = self._parts.store.event(loop.number, loop.shard, seq) if sealed is None else sealed.event(seq)
        if body is None:
            raise RuntimeError(f"event {seq} is missing from the log")
        event: AnyEvent = log.decode(body)
        return event

    def reward(self, decision_id: str, request: RewardRequest | BatchReward) -> bool:
        """Take a reward; False if it was known already.

        A reward whose window has closed is logged, and refused with status 410.
        """
        try:
            event = self._reward(decision_id, request)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            self._parts.look_up([decision_id])  # rare: most rewards come while their windows are open
            event = self._reward(decision_id, request)
        if event is None:
            return False
        if type(event) is Late:
            raise Refused(410, f"the reward window of decision {decision_id!r} has closed; logged, not learned")
        return True

    def _reward(self, decision_id: str, request: RewardRequest | BatchReward) -> Rewarded | Late | None:
        loop, now = self._only, self._now
        if loop is None:
            loop = self._parts.of_decision(decision_id, request.scope)
            now = self._advance(loop, now)
        event = loop.reward(now, decision_id, request.value, request.reward_id)
        if event is not None:
            loop.outbox.events.append(event)
        return event


def _pool_of(loop: Loop, request: DecisionRequest) -> Pool:
    """The pool that a request asks about."""
    arms = request.arms
    try:
        pool = None if request.context is not None else loop.pools.known.get(arms)  # type: ignore[arg-type]
    except TypeError:  # arms with features have no hash
        pool = None
    if pool is None:
        ids, features = (None, None) if arms is None else split_arms(arms)
        pool = loop.pools.of(ids, features, request.context)
    return pool


def new_id(shard: int, now: int) -> str:
    """An id that cannot be guessed. Later ids sort after earlier ones, which keeps the store's index compact.

    >>> first, second = new_id(0, 1_700_000_000_000), new_id(0, 1_700_000_000_001)
    >>> first[:13], first < second
    ('0-18bcfe56800', True)
    """
    return f"{shard:x}-{now:011x}{os.urandom(10).hex()}"


def advance(loop: Loop, now: int) -> int:
    """Close the windows of a loop that are due; returns the loop's time, which never runs backwards."""
    state = loop.state
    now = loop.time_at(now)
    if state.due.first <= now and (event := loop.tick(now)) is not None:
        loop.outbox.events.append(event)
    return now
