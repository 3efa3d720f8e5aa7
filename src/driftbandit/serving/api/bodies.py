"""Reading the bodies of decisions and rewards.

Most of a decision's body is its pool of arms, and pools given by id repeat. So the text of a pool is parsed only if it
differs from all pools met before.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from driftbandit.serving.api import errors as problems
from driftbandit.serving.api.errors import HTTPError, Problem
from driftbandit.serving.engine.messages import MAX_BATCH, Arm, BatchReward, DecisionRequest, RewardRequest
from driftbandit.serving.loop.config import Name
from driftbandit.serving.loop.encoding import Named
from driftbandit.serving.loop.events import Refused

_REMEMBERED_BYTES = 1 << 22
_NEW: Final = object()


class DecisionBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions at once."""

    decisions: list[DecisionRequest]


class RewardBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards at once."""

    rewards: list[BatchReward]


class _Sketch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A `DecisionRequest` whose arms are not parsed yet."""

    decision_id: Name | None = None
    scope: Name | None = None
    arms: msgspec.Raw = msgspec.Raw(b"null")
    context: Named | None = None


class _Sketches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    decisions: list[_Sketch]


class _RawDecisions(msgspec.Struct, forbid_unknown_fields=True):
    decisions: list[msgspec.Raw]


class _RawRewards(msgspec.Struct, forbid_unknown_fields=True):
    rewards: list[msgspec.Raw]


_sketch = msgspec.json.Decoder(_Sketch)
_sketches = msgspec.json.Decoder(_Sketches)
_decision = msgspec.json.Decoder(DecisionRequest)
_decisions = msgspec.json.Decoder(DecisionBatch)
_reward = msgspec.json.Decoder(BatchReward)
_rewards = msgspec.json.Decoder(RewardBatch)

read_reward = msgspec.json.Decoder(RewardRequest).decode
"""Read the body of one reward."""


class Bodies:
    """Reads decisions, and remembers the pools that they name.

    >>> bodies = Bodies()
    >>> first, second = (bodies.decision(b'{"decision_id": "%d", "arms": ["a", "b"]}' % number) for number in (1, 2))
    >>> second.arms, second.arms is first.arms
    (('a', 'b'), True)
    """

    def __init__(self) -> None:
        self._arms: dict[bytes, Any] = {b"null": None}
        """Parsed arms, by their JSON text."""
        self._bytes = 0

    def decision(self, body: bytes) -> DecisionRequest:
        """Read one decision."""
        try:
            sketch = _sketch.decode(body)
        except msgspec.ValidationError:
            return _decision.decode(body)  # its error also covers the arms
        text = bytes(sketch.arms)
        arms = self._arms.get(text, _NEW)
        if arms is _NEW:
            request = _decision.decode(body)
            self._remember(text, request.arms)
            return request
        return DecisionRequest(sketch.decision_id, sketch.scope, arms, sketch.context)

    def decisions(self, body: bytes) -> list[DecisionRequest | Problem]:
        """Read a batch of decisions; those that cannot be read are problems."""
        try:
            sketches = _sketches.decode(body).decisions
        except msgspec.ValidationError:
            return _read(body, _decisions, _RawDecisions, "decisions", _decision)
        _check_size(sketches)
        known, requests = self._arms, []
        for sketch in sketches:
            arms = known.get(bytes(sketch.arms), _NEW)
            if arms is _NEW:
                break
            try:
                requests.append(DecisionRequest(sketch.decision_id, sketch.scope, arms, sketch.context))
            except Refused:  # a name that cannot be; `_read` says so of this one alone
                break
        else:
            return requests  # type: ignore[return-value]
        whole = _read(body, _decisions, _RawDecisions, "decisions", _decision)
        for sketch, request in zip(sketches, whole, strict=True):
            if isinstance(request, DecisionRequest):
                self._remember(bytes(sketch.arms), request.arms)
        return whole

    def _remember(self, text: bytes, arms: tuple[str | Arm, ...] | None) -> None:
        if arms is None or isinstance(arms[0], Arm) or text in self._arms:
            return  # pools with features seldom repeat
        if self._bytes > _REMEMBERED_BYTES:
            self._arms, self._bytes = {b"null": None}, 0
        self._arms[text] = arms
        self._bytes += len(text)


def read_rewards(body: bytes) -> list[BatchReward | Problem]:
    """Read a batch of rewards; those that cannot be read are problems."""
    return _read(body, _rewards, _RawRewards, "rewards", _reward)


def _read(body: bytes, whole: Any, raw: Any, field: str, one: Any) -> list[Any]:
    """Read a batch; bad items become problems, the others are kept."""
    try:
        items: list[Any] = getattr(whole.decode(body), field)
    except msgspec.ValidationError:
        items = []
        for item in getattr(msgspec.json.decode(body, type=raw), field):
            try:
                items.append(one.decode(item))
            except msgspec.ValidationError as error:
                items.append(problems.problem(422, str(error)))
    _check_size(items)
    return items


def _check_size(items: list[Any]) -> None:
    if len(items) > MAX_BATCH:
        raise HTTPError(413, f"a batch may have at most {MAX_BATCH:,} items, got {len(items):,}")
