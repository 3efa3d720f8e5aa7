from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from driftbandit.serving.api import bodies
from driftbandit.serving.api.bodies import Bodies
from driftbandit.serving.api.errors import Problem
from driftbandit.serving.engine.messages import Arm, DecisionRequest

GOOD: list[dict[str, Any]] = [
    {"decision_id": "1", "scope": "ann", "arms": ["a", "b"]},
    {"decision_id": "2", "arms": ["a", "b"]},
    {"arms": ["b", "a"]},
    {"arms": [{"id": "a", "features": [1.0, 2.0]}]},
    {"arms": None},
    {},
]
BAD: list[Any] = [
    {"arms": []},
    {"arms": "a"},
    {"arms": ["a", 1]},
    {"arms": [""]},
    {"decision_id": "", "arms": ["a", "b"]},
    {"other": 1},
    7,
]


def strict(item: Any) -> DecisionRequest:
    return msgspec.json.decode(json.dumps(item).encode(), type=DecisionRequest)


@pytest.mark.parametrize("item", GOOD, ids=json.dumps)
def test_a_decision_reads_the_same_whether_its_pool_is_known_or_not(item: dict[str, Any]) -> None:
    reader = Bodies()
    for _ in range(2):
        assert reader.decision(json.dumps(item).encode()) == strict(item)


@pytest.mark.parametrize("item", BAD, ids=json.dumps)
def test_what_is_wrong_with_a_decision_is_said_every_time(item: Any) -> None:
    reader = Bodies()
    reader.decision(b'{"arms": ["a", "b"]}')
    with pytest.raises(msgspec.ValidationError) as expected:
        strict(item)
    for _ in range(2):
        with pytest.raises(msgspec.ValidationError) as error:
            reader.decision(json.dumps(item).encode())
        assert str(error.value) == str(expected.value)


def test_a_batch_keeps_what_can_be_read() -> None:
    reader = Bodies()
    items = [value for pair in zip(GOOD, BAD, strict=False) for value in pair]
    for _ in range(2):
        assert reader.decisions(json.dumps({"decisions": GOOD}).encode()) == [strict(item) for item in GOOD]
        found = reader.decisions(json.dumps({"decisions": items}).encode())
        assert found[::2] == [strict(item) for item in GOOD[: len(items) // 2]]
        assert all(isinstance(item, Problem) and item.status == 422 for item in found[1::2])


def test_pools_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_REMEMBERED_BYTES", 1000)
    reader = Bodies()
    for number in range(500):
        request = reader.decision(b'{"arms": ["a%d", "b"]}' % number)
        assert request.arms == (f"a{number}", "b")
    assert sum(map(len, reader._arms)) < 1100
    own = b'{"arms": [{"id": "a", "features": [1.0]}]}'
    assert reader.decision(own).arms == (Arm("a", [1.0]),)
    assert not any(b"features" in text for text in reader._arms)
