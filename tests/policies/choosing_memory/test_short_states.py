"""A young DriftUCB comes back, bit for bit, from the rewards that it has learned."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike

from driftbandit import DriftUCB, LinUCB
from driftbandit.core import Change, Floats
from driftbandit.policies.choosing_memory.short_states import SHORT
from driftbandit.serving.loop.slab import pack, unpack

Event = tuple[Floats, float]


def events(kind: str, dim: int, count: int, seed: int = 0) -> Iterator[Event]:
    """Rewards of a taste that turns round after 40 of them, in worlds that differ in what young policies find out."""
    rng = np.random.default_rng([seed, dim])
    taste = rng.standard_normal(dim)
    for t in range(count):
        x = rng.standard_normal(dim) / dim**0.5
        if kind == "raw units":
            x = x * np.logspace(-3, 3, dim) + 5.0
        elif kind == "flags":
            x = (rng.random(dim) < 0.5).astype(float)
            x[0] = 1.0
        elif kind == "odd first" and t == 0:
            x = 1e4 * x
        reward = float(x @ taste * (1.0 if t < 40 else -2.0))
        if kind == "clicks":
            reward = float(rng.random() < 0.3)
        elif kind != "no noise":
            reward += 0.1 * float(rng.standard_normal())
        yield x, reward


def bits(policy: DriftUCB) -> dict[str, tuple[tuple[int, ...], bytes]]:
    return {name: (array.shape, array.tobytes()) for name, array in policy.state().items()}


def learned(*events: Event, dim: int = 3) -> DriftUCB:
    policy = DriftUCB(dim)
    for x, reward in events:
        policy.learn(x, reward)
    return policy


@pytest.mark.parametrize("kind", ["plain", "raw units", "flags", "odd first", "clicks", "no noise"])
@pytest.mark.parametrize("dim", [1, 2, 6, 25])
def test_a_young_policy_comes_back_bit_for_bit(kind: str, dim: int) -> None:
    policy, used = DriftUCB(dim), learned(*events("plain", dim, 5, seed=1), dim=dim)
    for t, (x, reward) in enumerate(events(kind, dim, SHORT + 1), 1):
        policy.learn(x, reward)
        short = policy.short_state()
        if t > SHORT:
            assert short is None
        elif t < 20 or t % 8 == 3 or t == SHORT:
            assert short is not None
            assert bits(used.restore(unpack(pack(short)))) == bits(policy)
            assert used.changes == policy.changes
    if kind == "plain" and dim < 25:
        assert policy.changes, "alarms are learned again too"


def test_a_young_scope_takes_at_most_12_kilobytes() -> None:
    for kind in ("plain", "raw units", "flags"):
        short = learned(*events(kind, 25, SHORT), dim=25).short_state()
        assert short is not None
        assert len(pack(short)) < 12_000
        assert short["rewards"].dtype == np.float64


@pytest.mark.parametrize("scale", [1.0, 2.0**-400, 2.0**400])
def test_the_first_features_are_learned_in_single_precision(scale: float) -> None:
    """As near as possible, whatever their unit; later ones as they are."""
    rounded, exact = learned(), learned()
    for t, (x, reward) in enumerate(events("plain", 3, SHORT + 1), 1):
        rounded.learn(scale * np.float32(x).astype(float), reward)
        exact.learn(scale * x, reward)
        assert (bits(rounded) == bits(exact)) == (t <= SHORT)


@pytest.mark.parametrize("extreme", [1e39, 1e-46])
def test_features_out_of_the_range_of_single_precision_take_more_room(extreme: float) -> None:
    policy = learned((np.array([extreme, 1.0, 0.5]), 1.0))
    short = policy.short_state()
    assert short is not None
    assert short["features"].dtype == np.float64
    assert bits(DriftUCB(3).restore(short)) == bits(policy)


def test_what_rewards_alone_do_not_tell_is_kept_in_full() -> None:
    x = np.array([1.0, 2.0, 0.5])
    assert DriftUCB(3).short_state() is None, "nothing was learned"
    told = DriftUCB(3)
    told.believe(np.zeros(3), np.eye(3), 0.1)
    told.learn(x, 1.0)
    assert told.short_state() is None, "what was believed is not in the rewards"
    assert learned((x, 1.0), (np.zeros(3), 1.0)).short_state() is None, "an arm without features is not remembered"


def test_a_policy_that_was_taught_elsewhere_is_kept_in_full() -> None:
    """Another machine or version may have rounded otherwise: then its rewards would not give the same bits."""
    policy = learned(*events("plain", 3, 20))
    state = policy.state()
    state["bank"] *= 1.0 + 1e-12
    others = DriftUCB(3).restore(state)
    assert others.short_state() is None
    others.learn(np.ones(3), 0.5)
    assert others.short_state() is None
    assert copy.copy(policy).short_state() is None
    assert pickle.loads(pickle.dumps(policy)).short_state() is None
    short = policy.short_state()
    assert short is not None
    assert others.restore(short).short_state() is not None, "it has now learned them itself"
    assert others.restore(DriftUCB(3).state()).short_state() is None, "nothing was learned"
    others.learn(np.ones(3), 0.5)
    assert others.short_state() is not None, "a fresh state is the same everywhere"


def test_a_restore_that_is_interrupted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = learned(*events("plain", 3, 50))
    before, changes, learn = bits(policy), policy.changes, DriftUCB.learn

    def interrupted(self: DriftUCB, features: Floats, reward: float) -> object:
        if self.rounds == 1:
            raise KeyboardInterrupt
        return learn(self, features, reward)

    monkeypatch.setattr(DriftUCB, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        policy.restore(GOOD)
    monkeypatch.undo()
    assert bits(policy) == before
    assert policy.changes == changes
    assert policy.short_state() is not None


def test_only_driftucb_itself_has_a_short_state() -> None:
    """Others say that they have none; and who learns in a way of their own may keep more than rewards."""

    class Own(DriftUCB):
        def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
            return super().learn(features, 2.0 * reward, arm)

    for policy in (Own(3), LinUCB(3)):
        policy.learn(np.ones(3), 0.5)
        assert policy.short_state() is None


def test_a_copy_shares_nothing_with_its_policy() -> None:
    policy = learned(*events("plain", 3, 4))
    short = policy.short_state()
    assert short is not None
    before = bits(policy)
    short["features"][:] = 0.0
    short["rewards"][:] = 0.0
    assert bits(policy) == before


GOOD = {"features": np.ones((2, 3)), "rewards": np.array([0.5, 1.0])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((2, 4))}, "the 3 features of each, got arrays of shape .2,. and .2, 4."),
        ({"features": np.ones((3, 3))}, "3 features of each"),
        ({"features": np.ones(6)}, "3 features of each"),
        ({"rewards": np.ones((2, 1))}, "up to 99 rewards"),
        ({"rewards": np.zeros(0), "features": np.ones((0, 3))}, "up to 99 rewards"),
        ({"rewards": np.zeros(SHORT + 1), "features": np.ones((SHORT + 1, 3))}, "up to 99 rewards"),
        ({"features": np.ones((2, 3), dtype=np.int64)}, "floating-point numbers, got int64 and float64"),
        ({"rewards": np.ones(2, dtype=np.float32)}, "floating-point numbers"),
        ({"features": np.array([["a", "b", "c"]] * 2)}, "floating-point numbers"),
        ({"features": np.array([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0]])}, "state: features"),
        ({"features": np.array([[1.0, 1.0, 1.0], [1.0, np.inf, 1.0]], dtype=np.float32)}, "state: features"),
        ({"features": np.array([[1.0, 1.0, 1.0], [1e200, 1.0, 1.0]])}, "state: features"),
        ({"rewards": np.array([0.5, np.nan])}, "state: reward"),
        ({"rewards": np.array([0.5, 1e300])}, "state: reward"),
        ({"memo": np.zeros(3)}, "missing bank"),
    ],
)
def test_rewards_that_do_not_fit_are_refused_and_change_nothing(change: dict[str, Floats], message: str) -> None:
    policy = learned(*events("plain", 3, 50))
    before, changes = bits(policy), policy.changes
    with pytest.raises(ValueError, match=message):
        policy.restore({**GOOD, **change})
    assert bits(policy) == before
    assert policy.changes == changes
    assert bits(policy.restore(GOOD)) == bits(learned((np.ones(3), 0.5), (np.ones(3), 1.0)))
