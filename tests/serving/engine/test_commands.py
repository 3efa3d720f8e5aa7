"""Decisions and rewards through the engine: repeated, late, wrong, and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.messages import Arm, DecisionRequest
from driftbandit.serving.loop.events import Refused

from ..world import World


def test_rewards_repeated_conflicting_late_unknown(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0)
    world.arms(np.ones((2, 1)))
    for ident in ("d", "e"):
        world.decide(ident)
    assert [world.reward("d", value) for value in (1.0, 1.0, 0.5)] == ["accepted", "duplicate", "409"]
    assert world.reward("nobody", 1.0) == "404"
    world.now += 10_000
    for _ in range(2):  # from memory, then from the store
        assert [world.reward("d", value) for value in (1.0, 0.5)] == ["duplicate", "409"]
        assert world.reward("e", 1.0) == "410"
        world.engine.snapshot()
        world.restart()
    assert world.counts().learned == 2
    assert world.counts().late == 1, "a late reward is logged once, over restarts too"
    world.check()


def test_late_rewards_are_remembered_within_bounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftbandit.serving.loop.state.MOST_LATE", 3)
    world.loop(policy="ucb1", window=1.0)
    for number in range(5):
        world.decide(str(number), ["a", "b"])
    world.now += 2_000
    for number in (0, 1, 2, 3, 4, 4, 3, 2, 0):  # 0 and 1 are forgotten by then
        assert world.reward(str(number), 1.0) == "410"
    assert world.counts().late == 6
    assert len(world.engine.parts("x")[0].state.late) == 3
    world.check()


def test_a_repeated_decision_gets_the_same_answer(world: World) -> None:
    world.loop(dim=2, policy="linucb", window=10.0, floor=0.9)
    pool = [Arm("a", [1.0, 0.0]), Arm("b", [0.0, 1.0]), Arm("c", [0.5, 0.5])]
    created, answer = world.decide("d", pool, "ann")
    assert created
    for step in range(3):
        assert world.decide("d", pool, "ann") == (False, answer)
        for changed in (([*pool[:2], Arm("c", [0.5, 0.4])], "ann"), (pool, "bob"), (pool[::-1], "ann")):
            with pytest.raises(Refused) as refusal:
                world.decide("d", *changed)
            assert refusal.value.status == 409
        if step == 0:
            world.restart()
        else:
            world.now += 10_000
            world.engine.tick()
            world.engine.commit()
            world.engine.snapshot()
            world.restart()
    assert world.counts().decisions == 1


def test_a_repeated_decision_is_answered_alike_before_and_after_its_commit(world: World) -> None:
    """Within a commit its event may be encoded already, or not yet; after it, it is in the store."""
    world.loop(dim=2, policy="linucb", window=5.0)
    arms = tuple(world.arms(np.eye(2)))
    requests = [DecisionRequest(f"d{number}", None, arms) for number in range(300)]
    answers = [world.engine.decide("x", request) for request in requests]
    assert all(created for created, _ in answers)
    again = [(False, answer) for _, answer in answers]
    assert [world.engine.decide("x", request) for request in requests] == again
    assert world.engine.commit() == 300
    assert [world.engine.decide("x", request) for request in requests] == again
    with pytest.raises(Refused, match="another body"):
        world.engine.decide("x", DecisionRequest("d0", None, arms[:1]))
    world.check()


def test_bad_requests_leave_no_trace(world: World) -> None:
    world.loop(dim=2, policy="linucb", scoped=True)
    world.arms(np.eye(2))
    world.decide("d", ["a0", "a1"], "ann")
    before = world.check()
    bad: list[tuple[list[Any] | None, str | None, str]] = [
        (["a0"], None, "must name one"),
        (["nope"], "ann", "not in the catalogue"),
        (["a1", "a0", "a0"], "ann", "different ids, got 'a0' more than once"),
        ([Arm("z", [1.0])], "ann", "expected 2 features"),
        ([Arm("z", [1.0, 1e300])], "ann", "too large"),
        ([Arm("z", [1.0, 2.0]), Arm("y", [1.0])], "ann", "same number of features"),
        ([Arm("z", [1.0, 2.0]), "a0"], "ann", "ids only"),
        (["a0"], "tab\t", "printable"),
    ]
    for number, (arms, scope, message) in enumerate(bad):
        with pytest.raises(Refused, match=message) as refusal:
            world.decide(f"bad{number}", arms, scope)
        assert refusal.value.status == 422
    assert world.reward("d", 1e200) == "422"
    assert world.check() == before
    assert world.counts().decisions == 1
