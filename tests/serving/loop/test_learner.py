"""When policies are asked and taught, and what they learn."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from driftbandit.evaluation.anytime import anytime_interval
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.serving.api.views import totals
from driftbandit.serving.engine.messages import Arm
from driftbandit.serving.loop.arms import Pools
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.events import Configured, Decided, Refused, Rewarded, decode
from driftbandit.serving.loop.learner import Learner
from driftbandit.serving.loop.outbox import Outbox
from driftbandit.serving.loop.scopes import MAIN, SHADOW, Models
from driftbandit.serving.loop.slab import pack
from driftbandit.serving.loop.state import State
from driftbandit.serving.loop.windows import Open

from ..world import World, run


def test_a_missing_reward_is_the_default_when_the_window_closes(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0, default_reward=0.25)
    world.arms(np.ones((1, 1)))
    world.decide("kept")
    world.decide("missing")
    assert world.reward("kept", 1.0) == "accepted"
    assert world.counts().learned == 0
    world.now += 9_999
    world.engine.tick()
    assert world.counts().learned == 0
    world.now += 1
    world.engine.tick()
    world.engine.commit()
    counts = world.counts()
    assert (counts.learned, counts.missing, counts.reward_sum) == (2, 1, 1.25)
    # Two rewards of x = 1 at ridge 0.1: theta = 1.25 / 2.1.
    policy: Any = world.engine.parts("x")[0].models.peek("")
    assert policy.leading_row[1] == pytest.approx(1.25 / 2.1)


def test_on_arrival_a_reward_is_learned_at_once_and_only_once(world: World) -> None:
    world.loop(dim=1, policy="linucb", window=10.0, learn="arrival")
    world.arms(np.ones((2, 1)))
    world.decide("d")
    world.decide("missing")
    world.reward("d", 1.0)
    assert world.counts().learned == 1
    world.restart()
    world.now += 10_000
    world.engine.tick()
    world.engine.commit()
    assert (world.counts().learned, world.counts().missing) == (2, 1)
    world.check()


def test_the_default_policy_is_asked_once_a_decision(world: World) -> None:
    """DriftUCB learns from being asked, so the service asks it as often as a library's user would: once."""
    world.loop(dim=3, window=1.0, floor=0.0)
    rng = np.random.default_rng(0)
    policy = DriftUCB(3)
    for number in range(60):
        pool = rng.standard_normal((4, 3))
        _, answer = world.decide(f"d{number}", [Arm(f"a{i}", row.tolist()) for i, row in enumerate(pool)])
        assert answer.index == policy.choose(pool)
        assert answer.propensity == 1.0
        value = float(pool[answer.index, 0])
        world.reward(f"d{number}", value)
        policy.learn(pool[answer.index], value)
        world.now += 1_001
        world.engine.tick()
        world.engine.commit()
    served = world.engine.parts("x")[0].models.peek("")
    assert pack(served.state()) == pack(policy.state())
    world.check()


def test_what_was_learned_counts_in_the_next_decision(world: World) -> None:
    """A policy is asked again about a pool that it met before as soon as it has learned something."""
    world.loop(dim=2, policy="linucb", window=1.0, floor=0.0, learn="arrival", settings={"explore": 0.1})
    arms = tuple(world.arms(np.eye(2)))
    mine: Any = builder(LoopConfig(policy="linucb", dim=2), Plan("linucb", {"explore": 0.1}))()
    seen = set()
    for number in range(40):
        _, answer = world.decide(f"d{number}", arms)
        assert answer.index == mine.choose(np.eye(2))
        seen.add(answer.index)
        reward = 0.1 if answer.index == 0 else 0.9
        world.reward(f"d{number}", reward)
        mine.learn(np.eye(2)[answer.index], reward)
        assert world.decide(f"again {number}", arms)[1].index == mine.choose(np.eye(2))
    assert seen == {0, 1}


def test_the_shadow_is_compared(world: World) -> None:
    world.loop(dim=4, policy="linucb", window=5.0, floor=0.3, shadow=Plan("linucb"))
    run(world, 300, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    world.now += 5_000
    world.engine.tick()
    counts = world.counts()
    # The same policy as its own shadow agrees wherever the policy's choice was played.
    assert counts.shadow_decisions == 300
    assert 0.6 < counts.shadow_agreed / 300 < 0.85  # 1 - 0.3 + 0.3 / 6 = 0.75
    assert counts.shadow_weight == pytest.approx(counts.shadow_agreed / 0.75)


def test_rewards_that_close_together_are_learned_one_after_the_other(world: World) -> None:
    """As a library's user would, with the changes that they reveal and the weights from before."""
    config = LoopConfig(dim=2, policy="dlinucb", settings={"noise": 0.1, "window": 20}, window=5.0, floor=1.0)
    world.engine.configure("x", config, None)
    arms = world.arms(np.eye(2))
    mine: Any = builder(config, Plan("dlinucb", config.settings))()
    expected = []
    for number in range(160):
        _, answer = world.decide(f"d{number}", arms)
        reward = 0.8 if number < 80 else -0.8
        world.reward(f"d{number}", reward)
        before = mine.leading_row[1:3].tolist()
        expected += [(change.kind, before) for change in mine.learn(np.eye(2)[answer.index], reward)]
    assert world.counts().learned == 0
    world.now += 5_000
    world.engine.tick()
    world.engine.commit()
    assert world.counts().learned == 160
    policy = world.engine.parts("x")[0].models.get("")
    assert all(policy.state()[name].tobytes() == array.tobytes() for name, array in mine.state().items())
    bodies = [json.loads(row.body) for row in world.store.changes(1, 0, 0, 99)]
    assert [(body["kind"], body["weights_before"]) for body in bodies] == expected
    assert expected
    world.check()
    world.restart()
    world.check()


# ---- the learner alone, with neither store nor engine


def make_learner(shadow: str | None = None, **config: Any) -> tuple[Learner, State, Outbox]:
    """A learner of one-dimensional arms that cost nothing to compute by hand."""
    settings = LoopConfig(dim=1, shadow=None if shadow is None else Plan(shadow), **config)
    state, outbox = State(), Outbox()
    state.configure(Configured(0, 1, msgspec.json.encode(settings)))

    def models(plan: Plan) -> Models:
        return Models(builder(settings, plan), lambda scope: None, 1 << 20)

    main = models(Plan(settings.policy, settings.settings))
    return Learner(state, outbox, main, None if settings.shadow is None else models(settings.shadow)), state, outbox


def decided(state: State, seq: int, expires: int, reward: float | None, **facts: Any) -> Open:
    """A decision for an arm with the feature 1 that waits for its window to close."""
    epoch, shadow_epoch = state.epochs
    values = {"scope": "", "epoch": epoch, "shadow_epoch": shadow_epoch, "number": 0, "weight": 0.0} | facts
    record = Open(id=f"d{seq}", seq=seq, expires=expires, features=np.ones(1).tobytes(), reward=reward, **values)
    state.recent[record.id] = record
    state.due.add(record)
    return record


@pytest.mark.parametrize("default", [0.0, None])
def test_the_shadows_value_is_estimated_by_inverse_propensity(default: float | None) -> None:
    """Weights 2, 0, 4, 0 and rewards 1, 0.5, 0.25, none: 2 * 1 + 4 * 0.25 = 3, over 4 decisions with a default of 0."""
    learner, state, _ = make_learner(policy="linucb", shadow="linucb", default_reward=default)
    given: list[tuple[float, float | None]] = [(2.0, 1.0), (0.0, 0.5), (4.0, 0.25), (0.0, None)]
    for seq, (weight, reward) in enumerate(given, 1):
        decided(state, seq, 10, reward, weight=weight)
    decided(state, 5, 10, 1.0, weight=8.0, shadow_epoch=0)  # decided beside another shadow
    decided(state, 6, 11, 1.0, weight=8.0)  # still open
    assert state.counts.shadow_ips is None
    learner.close_due(10)
    counts = state.counts
    assert (counts.shadow_weight, counts.shadow_reward) == (6.0, 3.0)
    assert counts.shadow_snips == 3.0 / 6.0
    if default is None:  # without a default, a missing reward is no observation
        assert (counts.closed, counts.shadow_closed, counts.shadow_ips) == (4, 3, 1.0)
    else:
        assert (counts.closed, counts.shadow_closed, counts.shadow_ips) == (5, 4, 0.75)


def test_the_estimate_that_is_shown_is_that_of_the_log(world: World) -> None:
    """From the exported decisions: the mean of reward / propensity where the shadow would have played the same arm."""
    world.loop(dim=4, policy="linucb", window=5.0, floor=0.5, shadow=Plan("linucb", {"explore": 0.1}))
    run(world, 80, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    events = [decode(body) for _, body in world.store.events(1, 0, 0, 10_000)]
    rewards = {event.id: event.value for event in events if isinstance(event, Rewarded)}
    now = max(event.time for event in events)
    closed = [event for event in events if isinstance(event, Decided) and event.expires <= now]
    assert 0 < len(closed) < 80
    weights = [(event.shadow == event.index) / event.propensity for event in closed]
    earned = sum(weight * rewards.get(event.id, 0.0) for weight, event in zip(weights, closed, strict=True))
    shown = totals(world.engine, "x")["shadow"]
    assert shown["ips"] == pytest.approx(earned / len(closed))
    assert shown["snips"] == pytest.approx(earned / sum(weights))
    assert shown["ips"] != pytest.approx(shown["snips"])
    assert shown["interval"] is None  # rewards without a declared range


def test_the_shadows_interval_is_that_of_the_evaluation_and_outlives_a_restart(world: World) -> None:
    settings = {"dim": 4, "policy": "linucb", "window": 5.0, "floor": 0.5, "reward_range": (0.0, 2.0)}
    world.loop(**settings, shadow=Plan("linucb", {"explore": 0.1}))
    run(world, 80, world.arms(np.random.default_rng(1).standard_normal((10, 4))))
    events = [decode(body) for _, body in world.store.events(1, 0, 0, 10_000)]
    rewards = {event.id: event.value for event in events if isinstance(event, Rewarded)}
    now = max(event.time for event in events)
    closed = [event for event in events if isinstance(event, Decided) and event.expires <= now]
    weights = [(event.shadow == event.index) / event.propensity for event in closed]
    found = anytime_interval(weights, [rewards.get(event.id, 0.0) for event in closed], low=0.0, high=2.0)
    before = totals(world.engine, "x")["shadow"]
    assert before["interval"] == pytest.approx([found.low, found.high], abs=1e-9)
    assert found.low < before["ips"] < found.high < 2.0
    state = State()
    state.restore(world.engine.parts("x")[0].state.shot())
    assert state.shadow_value == world.engine.parts("x")[0].state.shadow_value
    state.restore(world.engine.parts("x")[0].state.core())  # as version 0.1.0 wrote it
    assert state.shadow_value.events == 0
    world.loop(version=1, **settings, shadow=Plan("linucb", {"explore": 0.2}))
    assert totals(world.engine, "x")["shadow"] is None
    assert world.engine.parts("x")[0].state.shadow_value.events == 0


def test_closing_windows_counts_and_learns_each_reward_once() -> None:
    learner, state, outbox = make_learner(policy="linucb", default_reward=0.25)
    decided(state, 1, 10, 1.0)
    early = decided(state, 2, 10, 0.5)
    early.learned = True  # as on arrival
    decided(state, 3, 10, None)
    later = decided(state, 4, 11, 1.0)
    learner.close_due(10)
    counts = state.counts
    assert (counts.closed, counts.missing, counts.learned, counts.reward_sum) == (3, 1, 2, 1.75)
    assert (state.bucket.closed, state.bucket.reward) == (3, 1.75)
    assert outbox.closed == [("d1", 1, 1.0), ("d2", 2, 0.5), ("d3", 3, None)]
    assert [record.closed for record in state.recent.values()] == [True, True, True, False]
    assert early.features is None
    assert later.features is not None
    policy: Any = learner.models.get("")
    assert policy.leading_row[1] == pytest.approx(1.25 / 2.1)  # 1 and 0.25 for x = 1 at ridge 0.1


@pytest.mark.parametrize("policy", ["linucb", "dlinucb"])  # the second learns many rewards at once
def test_rewards_of_earlier_models_are_not_learned(policy: str) -> None:
    learner, state, _ = make_learner(policy=policy)
    decided(state, 1, 10, 1.0, epoch=0)
    decided(state, 2, 10, 0.5)
    learner.close_due(10)
    assert (state.counts.closed, state.counts.learned) == (2, 1)
    assert learner.models.get("").rounds == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("config", "votes", "knows", "changes"),
    [
        ({"policy": "linucb"}, 1, True, False),
        ({"policy": "linucb", "shadow": "linucb"}, 1, False, True),
        ({"policy": "linucb", "scoped": True}, 1, False, False),
        ({"policy": "lints", "draws": 7}, 7, False, True),
        ({"policy": "random"}, 0, False, False),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_policies_are_asked_as_often_as_their_nature_demands(
    config: dict[str, Any], votes: int, knows: bool, changes: bool
) -> None:
    learner, _, _ = make_learner(**config)
    pool = Pools(None, 1, numbered=True).of(["a", "b"], np.array([[0.5], [1.0]]))
    found, shadow = learner.ask("", pool)
    assert len(found) == votes
    assert set(found) <= {0, 1}
    assert shadow == (1 if "shadow" in config else -1)  # the wider interval is that of the longer arm
    assert (learner.knows_vote, learner.asking_changes) == (knows, changes)
    assert [role for role, _ in learner.roles] == ([MAIN, SHADOW] if "shadow" in config else [MAIN])


def test_arms_that_the_policy_cannot_use_are_refused_and_the_shadows_are_not_played() -> None:
    learner, _, _ = make_learner(policy="random", shadow="linucb")
    too_large = Pools(None, 1, numbered=True).of(["a"], np.array([[1e300]]))
    assert learner.ask("", too_large) == ((), -1)
    learner, _, _ = make_learner(policy="linucb")
    with pytest.raises(Refused, match="too large"):
        learner.ask("", too_large)


def test_a_policy_that_keeps_the_weights_before_a_change_is_not_asked_for_them_each_time() -> None:
    """DriftUCB's change comes with the weights that its incumbent had when the alarm was raised."""
    config = LoopConfig(policy="driftucb", dim=2)
    policy: Any = builder(config, Plan("driftucb"))()
    assert policy.weights_before_change is not None
    rng = np.random.default_rng(0)
    for number in range(600):
        x = rng.standard_normal(2)
        taste = np.array([1.0, 0.0]) if number < 300 else np.array([-1.0, 0.5])
        before = policy.feature_weights
        if policy.learn(x, float(x @ taste + 0.05 * rng.standard_normal())):
            break
    assert number >= 300
    np.testing.assert_allclose(policy.weights_before_change, before, atol=0.3)
    np.testing.assert_allclose(policy.weights_before_change, [1.0, 0.0], atol=0.3)
