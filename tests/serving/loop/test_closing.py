"""What happens when reward windows close: every count and every lesson by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from driftbandit import DLinUCB, LinUCB
from driftbandit.serving.api import views
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.windows import ClosedRow, Open
from driftbandit.serving.stores.sqlite import SQLiteStore

START = 1_700_000_000_000
KINDS = {"linucb": {}, "dlinucb": {"noise": 0.5}}
"""One learns a reward at a time, the other many at once."""
ARMS = np.random.default_rng(9).standard_normal((6, 3)) / 2


class World:
    """A loop on a file, with a clock that tests turn."""

    def __init__(self, path: Path) -> None:
        self.now = START
        self.store = SQLiteStore(path)
        self.engine = Engine(self.store, lambda: self.now)
        self.engine.commit()
        self.shown: dict[str, Any] = {}

    def configure(self, version: int | None = None, **settings: Any) -> LoopConfig:
        config = LoopConfig(**({"dim": 3, "window": 5.0, "floor": 0.0} | settings))
        self.engine.configure("x", config, version)
        self.engine.commit()
        return config

    def catalogue(self, features: np.ndarray = ARMS) -> None:
        arms = [Arm(f"a{row}", values.tolist()) for row, values in enumerate(features)]
        self.engine.put_arms("x", CatalogueRequest(arms))
        self.engine.commit()

    def decide(self, ident: str, arms: list[Any] | None = None, scope: str | None = None) -> Any:
        self.engine.look_up("x", [ident])
        self.shown[ident] = self.engine.decide("x", DecisionRequest(ident, scope, arms))[1]
        return self.shown[ident]

    def reward(self, ident: str, value: float) -> None:
        self.engine.look_up("x", [ident])
        self.engine.reward("x", ident, RewardRequest(value))

    def wait(self, seconds: float) -> None:
        self.now += round(1000 * seconds)
        self.engine.tick()

    @property
    def totals(self) -> dict[str, Any]:
        return views.totals(self.engine, "x")

    def features(self, ident: str) -> np.ndarray:
        return ARMS[int(self.shown[ident].arm[1:])]

    def assert_chooses_like(self, policy: Any) -> None:
        """Offers pools that no arm of the catalogue is in."""
        for number, pool in enumerate(np.random.default_rng(4).standard_normal((20, 5, 3))):
            arms = [Arm(f"p{row}", values.tolist()) for row, values in enumerate(pool)]
            assert self.decide(f"probe {number}", arms).index == policy.choose(pool)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "a.db")


@pytest.mark.parametrize("policy", KINDS)
@pytest.mark.parametrize(
    ("default", "closed", "total", "learned"), [(0.25, 4, 1.75, 4), (None, 3, 1.5, 3), (0.0, 4, 1.5, 4)]
)
def test_missing_rewards(
    world: World, policy: str, default: float | None, closed: int, total: float, learned: int
) -> None:
    world.configure(policy=policy, settings=KINDS[policy], default_reward=default)
    world.catalogue()
    for ident, value in (("a", 1.0), ("b", 0.0), ("c", None), ("d", 0.5)):
        world.decide(ident)
        if value is not None:
            world.reward(ident, value)
    assert (world.totals["closed"], world.totals["open"], world.totals["learned"]) == (0, 4, 0)
    world.wait(4.999)
    assert world.totals["closed"] == 0, "a window closes when its time has passed, not before"
    world.wait(0.001)
    found = world.totals
    assert (found["closed"], found["missing"], found["reward_sum"]) == (closed, 1, total)
    assert (found["learned"], found["refused"], found["open"], found["scopes_in_memory"]) == (learned, 0, 0, 1)
    assert found["mean_reward"] == pytest.approx(total / closed)
    assert (found["rewards"], found["decisions"], found["late"]) == (3, 4, 0)
    world.engine.commit()
    world.engine.snapshot()
    rows = world.store.closed(world.engine.number("x"), ["a", "b", "c", "d"])
    assert {row.id: row.reward for row in rows} == {"a": 1.0, "b": 0.0, "c": None, "d": 0.5}


@pytest.mark.parametrize("policy", KINDS)
def test_rewards_are_learned_in_the_order_in_which_windows_close(world: World, policy: str) -> None:
    config = world.configure(policy=policy, settings=KINDS[policy], default_reward=0.1)
    world.catalogue()
    rng = np.random.default_rng(1)
    values: list[float | None] = []
    for number in range(60):
        world.decide(f"{number}", [f"a{arm}" for arm in rng.permutation(6)[:3]])
        values.append(float(rng.random()) if number % 4 else None)
        if values[-1] is not None:
            world.reward(f"{number}", values[-1])
        world.wait(0.5)
    world.wait(5.0)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    for number, value in enumerate(values):
        by_hand.learn(world.features(f"{number}"), 0.1 if value is None else value)
    assert world.totals["learned"] == 60
    world.assert_chooses_like(by_hand)


def test_on_arrival_a_reward_is_learned_once_and_counted_when_the_window_closes(world: World) -> None:
    config = world.configure(policy="linucb", learn="arrival", default_reward=0.5)
    world.catalogue()
    world.decide("a")
    world.decide("b")
    world.reward("b", 1.0)
    assert (world.totals["learned"], world.totals["closed"]) == (1, 0)
    world.wait(5.0)
    assert (world.totals["learned"], world.totals["closed"], world.totals["reward_sum"]) == (2, 2, 1.5)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    by_hand.learn(world.features("b"), 1.0)
    by_hand.learn(world.features("a"), 0.5)
    world.assert_chooses_like(by_hand)


@pytest.mark.parametrize("policy", KINDS)
def test_a_model_started_afresh_is_spared_the_rewards_of_its_predecessor(world: World, policy: str) -> None:
    world.configure(policy=policy, settings=KINDS[policy])
    world.catalogue()
    world.decide("older", ["a1"])
    world.wait(1.0)
    world.decide("old", ["a0"])
    world.reward("old", 1.0)
    config = world.configure(1, policy=policy, settings=KINDS[policy] | {"ridge": 0.7}, default_reward=0.25)
    world.decide("new", ["a2"])
    world.reward("new", 0.5)
    world.wait(4.0)
    assert (world.totals["closed"], world.totals["reward_sum"], world.totals["learned"]) == (1, 0.25, 0)
    world.wait(1.0)
    assert (world.totals["closed"], world.totals["reward_sum"], world.totals["learned"]) == (3, 1.75, 1)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    by_hand.learn(world.features("new"), 0.5)
    world.assert_chooses_like(by_hand)


def test_features_of_a_decision_are_those_it_was_made_with(world: World) -> None:
    config = world.configure(policy="dlinucb", settings=KINDS["dlinucb"])
    world.catalogue()
    world.decide("old")
    world.reward("old", 0.5)
    world.catalogue(-ARMS)
    own = [Arm("own", [0.5, 0.25, 0.0])]
    world.decide("own", own)
    world.reward("own", 0.25)
    world.wait(5.0)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    by_hand.learn(world.features("old"), 0.5)
    by_hand.learn(np.array([0.5, 0.25, 0.0]), 0.25)
    world.assert_chooses_like(by_hand)


def test_the_shadows_value_by_inverse_propensity(world: World) -> None:
    """Three arms and a floor of .6: what the policy votes for is played with .2 + .4 = .6, each other one with .2."""
    world.configure(policy="linucb", floor=0.6, shadow=Plan("linucb", {"explore": 3.0}), default_reward=0.25)
    world.catalogue(ARMS[:3])
    rng = np.random.default_rng(2)
    weights, values = [], []
    for number in range(40):
        agreed = world.totals["shadow"]["agreed"] if number else 0
        answer = world.decide(f"{number}")
        value = float(rng.random()) if number % 3 else None
        if value is not None:
            world.reward(f"{number}", value)
        assert answer.propensity == pytest.approx(0.6) or answer.propensity == pytest.approx(0.2)
        weights.append((world.totals["shadow"]["agreed"] - agreed) / answer.propensity)
        values.append(0.25 if value is None else value)
        world.wait(1.0)
    assert world.totals["shadow"]["decisions"] == 40
    world.wait(5.0)
    found = world.totals["shadow"]
    total = np.dot(weights, values)
    assert 5 < found["agreed"] < 35
    assert found["ips"] == pytest.approx(total / 40)
    assert found["snips"] == pytest.approx(total / sum(weights))
    world.configure(1, policy="linucb", floor=0.6, shadow=Plan("linucb", {"explore": 1.0}))
    assert world.totals["shadow"] is None, "another shadow starts with nothing"


def test_a_new_shadow_is_not_judged_by_the_decisions_of_another(world: World) -> None:
    world.configure(policy="linucb", shadow=Plan("linucb"))
    world.catalogue()
    world.decide("old")
    world.reward("old", 1.0)
    world.configure(1, policy="linucb", shadow=Plan("linucb", {"explore": 0.5}))
    world.decide("new")
    world.reward("new", 0.5)
    assert world.totals["shadow"] == {"decisions": 1, "agreed": 1, "ips": None, "snips": None, "interval": None}
    world.wait(5.0)
    assert world.totals["shadow"] == {"decisions": 1, "agreed": 1, "ips": 0.5, "snips": 0.5, "interval": None}
    assert world.totals["learned"] == 2, "the policy itself has not changed"


def test_the_shadow_learns_what_the_policy_learns(world: World) -> None:
    """A shadow of the same settings agrees for ever, but only if it has learned the same."""
    world.configure(policy="linucb", shadow=Plan("linucb"))
    world.catalogue()
    for number in range(30):
        answer = world.decide(f"{number}")
        world.reward(f"{number}", float(ARMS[int(answer.arm[1:])][0]))
        world.wait(5.0)
    assert world.totals["shadow"]["agreed"] == 30
    assert world.totals["learned"] == 30
    assert len({answer.arm for answer in world.shown.values()}) > 1


def flip(world: World, rounds: int) -> list[tuple[np.ndarray, float]]:
    """Rewards that change their sign half way; all windows closed."""
    shown = []
    for number in range(rounds):
        world.decide(f"{number}")
        x = world.features(f"{number}")
        shown.append((x, float(x.sum()) * (0.9 if number < rounds // 2 else -0.9)))
        world.reward(f"{number}", shown[-1][1])
        world.wait(1.0)
    world.wait(5.0)
    world.engine.commit()
    return shown


@pytest.mark.parametrize("shadow", [None, Plan("linucb")])  # many rewards at once, and one by one
def test_changes_are_those_that_the_policy_finds(world: World, shadow: Plan | None) -> None:
    config = world.configure(policy="dlinucb", settings={"noise": 0.1, "window": 20}, shadow=shadow)
    world.catalogue()
    shown = flip(world, 160)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    expected = [(number, change) for number, (x, value) in enumerate(shown) for change in by_hand.learn(x, value)]
    rows = world.store.last_changes(world.engine.number("x"), 100)
    found = [views.change(row) for row in rows]
    assert len(found) == len(expected) >= 2
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert [(each["kind"], each["round"]) for each in found] == [(c.kind, c.round) for _, c in expected]
    assert all(row.time == START + 1000 * (number + 5) for row, (number, _) in zip(rows, expected, strict=True))
    assert world.totals["changes"] == len(rows)
    series = views.stats(world.engine, "x", 0)["series"]
    assert sum(bucket["changes"] for bucket in series) == len(rows)
    assert [bucket["closed"] for bucket in series] == [0] + [5] * 31 + [1, 4]
    assert sum(bucket["reward"] for bucket in series) == pytest.approx(sum(value for _, value in shown))
    tests = [bucket for bucket in series if bucket["miss_rate"] is not None]
    assert len(tests) == 33
    assert all(bucket["spawn_bound"] < bucket["retire_bound"] for bucket in tests)
    world.assert_chooses_like(by_hand)


@pytest.mark.parametrize("shadow", [None, Plan("linucb")])
def test_weights_before_a_change_are_those_before_the_reward_that_revealed_it(
    world: World, shadow: Plan | None
) -> None:
    config = world.configure(policy="dlinucb", settings={"noise": 0.1, "window": 20}, shadow=shadow)
    world.catalogue()
    shown = flip(world, 160)
    by_hand = builder(config, Plan(config.policy, config.settings))()
    weights = []
    for x, value in shown:
        before = by_hand.feature_weights.tolist()
        weights += [before] * len(by_hand.learn(x, value))
    rows = world.store.last_changes(world.engine.number("x"), 100)
    found = [views.change(row)["weights_before"] for row in rows]
    np.testing.assert_allclose(found, weights, rtol=1e-12)


@pytest.mark.parametrize("shadow", [None, Plan("linucb")])
def test_a_policy_that_keeps_the_weights_before_a_change_is_asked_for_them(world: World, shadow: Plan | None) -> None:
    config = world.configure(policy="driftucb", shadow=shadow)
    world.catalogue()
    shown = flip(world, 160)
    by_hand: Any = builder(config, Plan(config.policy, config.settings))()
    weights = [by_hand.weights_before_change for x, value in shown for _ in by_hand.learn(x, value)]
    np.testing.assert_allclose(weights[0], [0.9, 0.9, 0.9], atol=0.1)
    rows = world.store.last_changes(world.engine.number("x"), 100)
    found = [views.change(row)["weights_before"] for row in rows]
    np.testing.assert_allclose(found, weights, rtol=1e-12)


def refuse(monkeypatch: pytest.MonkeyPatch, policy: type, method: str) -> None:
    """Let a policy refuse rewards of .75, alone or first of many."""
    real = getattr(policy, method)

    def learn(self: Any, features: Any, rewards: Any, *rest: Any) -> Any:
        if np.ravel(rewards)[0] == 0.75:
            raise ValueError("not this one")
        one = np.ravel(rewards).tolist()
        cut = one.index(0.75) if 0.75 in one else len(one)
        if method == "learn_many":
            features, rewards = features[:cut], rewards[:cut]
        return real(self, features, rewards, *rest)

    monkeypatch.setattr(policy, method, learn)


@pytest.mark.parametrize(
    ("policy", "kind", "method"), [("linucb", LinUCB, "learn"), ("dlinucb", DLinUCB, "learn_many")]
)
def test_what_a_policy_refuses_is_counted_and_the_rest_learned(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: str, kind: type, method: str
) -> None:
    refuse(monkeypatch, kind, method)
    config = world.configure(policy=policy, settings=KINDS[policy])
    world.catalogue()
    values = [0.5, 0.75, 0.25, 0.75, 0.75, 1.0]
    for number, value in enumerate(values):
        world.decide(f"{number}")
        world.reward(f"{number}", value)
    world.wait(5.0)
    assert (world.totals["learned"], world.totals["refused"], world.totals["closed"]) == (3, 3, 6)
    monkeypatch.undo()
    by_hand = builder(config, Plan(config.policy, config.settings))()
    for number, value in enumerate(values):
        if value != 0.75:
            by_hand.learn(world.features(f"{number}"), value)
    world.assert_chooses_like(by_hand)


def test_a_shadow_that_refuses_does_not_stop_the_policy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.configure(policy="linucb", shadow=Plan("dlinucb"))
    world.catalogue()
    refuse(monkeypatch, DLinUCB, "learn")
    for number, value in enumerate([0.75, 0.5]):
        world.decide(f"{number}")
        world.reward(f"{number}", value)
    world.wait(5.0)
    assert (world.totals["learned"], world.totals["refused"]) == (2, 1)


def test_what_closes_counts_in_the_bucket_of_that_time(world: World) -> None:
    world.configure(policy="linucb")
    world.catalogue()
    world.decide("a")
    world.reward("a", 0.5)
    world.wait(12.0)
    found = [
        (each["decisions"], each["closed"], each["reward"]) for each in views.stats(world.engine, "x", 0)["series"]
    ]
    assert found == [(1, 0, 0.0), (0, 1, 0.5)]
    assert views.stats(world.engine, "x", 0)["series"][1]["time"].startswith("2023-11-14T22:13:30")


def test_a_reward_after_the_window_has_closed_is_late(world: World) -> None:
    world.configure(policy="linucb", default_reward=0.25)
    world.catalogue()
    world.decide("a")
    world.wait(5.0)
    with pytest.raises(ValueError, match="has closed; logged, not learned"):
        world.reward("a", 1.0)
    found = world.totals
    assert (found["late"], found["rewards"], found["learned"], found["reward_sum"]) == (1, 0, 1, 0.25)


def test_records_as_snapshots_hold_them() -> None:
    record = Open("d", 1, 2, "ann", 3, 4, 5, None, 0.5)
    assert (record.reward, record.learned, record.closed) == (None, False, False)
    stored = ["d", 1, 2, "ann", 3, 4, 5, None, 0.5, None, False, False]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record)) == stored
    with pytest.raises(AttributeError):
        ClosedRow(1, "d", 0, 1, None).reward = 1.0  # type: ignore[misc]
