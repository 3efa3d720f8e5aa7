"""Many scopes at once: bad calls and bad states change nothing, and copies are copies."""

import copy

import numpy as np
import pytest

from driftbandit import DLinUCB, DriftUCB, LinTS, LinUCB
from driftbandit.batch import ManyScopes
from driftbandit.kernels.driftucb import scales

BUILDS = {
    "LinUCB": lambda: LinUCB(2),
    "LinTS": lambda: LinTS(2),
    "DLinUCB": lambda: DLinUCB.preset("table1", 2, noise=0.1),
    "DriftUCB": lambda: DriftUCB(2),
}


def untouched(scopes, call, message):
    before = scopes.state()
    with pytest.raises(ValueError, match=message):
        call()
    after = scopes.state()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)


@pytest.mark.parametrize("kind", BUILDS)
@pytest.mark.parametrize(
    ("features", "counts", "message"),
    [
        (np.full((2, 2, 2), np.nan), None, "features: expected finite values"),
        (np.ones((2, 2, 3)), None, "features: expected shape"),
        (np.ones((4, 2)), [1, 2], "features: expected 3 rows"),
        (np.ones((4, 2)), [2**63 - 1, 6], "features: expected 9223372036854775808 rows"),
    ],
)
def test_a_step_that_cannot_choose_learns_nothing(kind, features, counts, message):
    scopes = ManyScopes(BUILDS[kind](), 2)
    untouched(scopes, lambda: scopes.step_many(None, np.ones((2, 2)), [1.0, 1.0], features, counts), message)


def test_counts_whose_sum_is_no_number_are_refused():
    scopes = ManyScopes(LinUCB(2), 3)
    with pytest.raises(ValueError, match="features: expected 1844"):
        scopes.choose_many(None, np.ones((4, 2)), [2**63 - 1, 2**63 - 1, 6])


def test_rewards_beyond_all_floats_are_refused():
    scopes = ManyScopes(LinUCB(2), 1)
    untouched(scopes, lambda: scopes.learn_many(None, np.ones((1, 2)), [10**400]), "rewards: expected 1 numbers")


def changed(seed):
    """A DriftUCB that has raised one alarm, in a round that depends on the seed."""
    rng = np.random.default_rng(seed)
    policy, taste = DriftUCB(2), np.ones(2)
    for t in range(2000):
        if t == 400 + 300 * seed:
            taste = -taste
        x = rng.standard_normal(2)
        if policy.learn(x, float(x @ taste + 0.1 * rng.standard_normal())):
            return policy
    raise AssertionError("no alarm")


def test_a_policy_that_is_put_brings_its_own_changes():
    base, other = changed(0), changed(1)
    scopes = ManyScopes(base, 2)
    scopes.put(1, other)
    assert scopes.policy_of(1).changes == other.changes != base.changes
    assert scopes.policy_of(0).changes == base.changes


def test_a_policy_of_another_model_is_refused():
    told = LinUCB(2)
    told.believe([0.0, 1.0], np.eye(2), 0.1)
    told.learn([1.0, 0.0], 1.0)
    scopes = ManyScopes(LinUCB(2), 2)
    untouched(scopes, lambda: scopes.put(0, told), "bank: expected")


@pytest.mark.parametrize("kind", BUILDS)
def test_a_copy_learns_for_itself(kind):
    scopes = ManyScopes(BUILDS[kind](), 2)
    other = copy.copy(scopes)
    other.learn_many(None, np.ones((2, 2)), [1.0, 1.0])
    assert scopes.rounds.tolist() == [0, 0]
    np.testing.assert_array_equal(scopes.policy_of(0).state()["bank"], BUILDS[kind]().state()["bank"])


def broken(kind, name, place, value):
    """Scopes that have learned a little, and their state with one number replaced."""
    scopes = ManyScopes(BUILDS[kind](), 3)
    for _ in range(3):
        scopes.learn_many(None, np.ones((3, 2)), [1.0, 0.5, -1.0])
    state = scopes.state()
    state[name][place] = value
    return scopes, state


@pytest.mark.parametrize(
    ("kind", "name", "place", "value", "message"),
    [
        ("DriftUCB", "memos", (1, scales.RECENT_COUNT), -1.0, "must not be negative"),
        ("DriftUCB", "memos", (1, scales.NOISE), 0.0, "nor the noise 0"),
        ("DriftUCB", "memos", (2, scales.MEMO), 0.7, "shares that add up to 1"),
        ("DriftUCB", "rooms", slice(None), [2**63 - 1, 2**63 - 1, 26], "contradict each other"),
        ("LinTS", "words", (0, 4), 2, "generator"),
        ("LinTS", "words", (0, 5), 1 << 32, "generator"),
        ("DLinUCB", "spawned", 0, -1, "spawned"),
    ],
)
def test_a_state_that_a_policy_would_refuse_is_refused(kind, name, place, value, message):
    scopes, state = broken(kind, name, place, value)
    untouched(scopes, lambda: scopes.restore(state), message)


@pytest.mark.parametrize("state", [None, 5, "x", [1, 2], {1: np.zeros(2)}])
def test_what_is_no_state_is_refused(state):
    scopes = ManyScopes(LinUCB(2), 2)
    untouched(scopes, lambda: scopes.restore(state), "state: expected")
    with pytest.raises(ValueError, match="state: "):
        LinUCB(2).restore(state)


@pytest.mark.parametrize("name", ["log.x", "log.0.total.x", "log.a.total", "log.-1.total", "log.7.total"])
def test_a_log_of_nobody_is_refused(name):
    scopes = ManyScopes(changed(0), 2)
    state = scopes.state()
    untouched(scopes, lambda: scopes.restore({**state, name: np.array(1)}), "state: log")


@pytest.mark.parametrize("policy", [LinUCB(2), DriftUCB(2)])
@pytest.mark.parametrize(
    ("mean", "spread", "noise", "message"),
    [
        ([0.0, 0.0], 1e60 * np.eye(2), 1e-60, "noise: expected"),
        ([0.0, 0.0], 1e308 * np.eye(2), 1.0, "spread: expected"),
        ([1e300, 0.0], np.eye(2), 1.0, "mean: expected"),
        ([10**400, 0.0], np.eye(2), 1.0, "mean: expected"),
        ([0.0, 0.0], np.eye(2), 1e-310, "noise: expected"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], 1.0, "spread: expected a symmetric"),
    ],
)
def test_a_belief_that_would_ruin_the_model_is_refused(policy, mean, spread, noise, message):
    before = policy.state()
    with pytest.raises(ValueError, match=message):
        policy.believe(mean, spread, noise)
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_refused_state_leaves_the_short_one():
    policy = DriftUCB(2)
    policy.learn([1.0, 2.0], 1.0)
    state = policy.state()
    state["memo"][scales.NOISE] = -1.0
    with pytest.raises(ValueError, match="memo"):
        policy.restore(state)
    assert policy.short_state() is not None
