"""Input checks, flat state and the change log."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from driftbandit import UCB1, Change, DLinUCB, LinTS, LinUCB, Policy
from driftbandit.core import (
    as_arm,
    as_arms,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.state import ChangeLog, new_generator


def test_a_good_pool_is_passed_through_without_a_copy():
    pool = np.ones((3, 2))
    assert as_pool(pool, 2) is pool
    row = pool[0]
    assert as_example(row, 2) is row


@pytest.mark.parametrize(
    "pool",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        np.array([[1.0, 3.0], [2.0, 4.0]]).T,
        np.arange(1.0, 9.0).reshape(2, 4)[:, :2] * [[1, 1], [0.6, 4 / 6]],
        np.array([[True, True], [True, True]]) * np.array([[1, 2], [3, 4]]),
    ],
    ids=["list", "float32", "transposed", "strided", "ints"],
)
def test_pools_of_other_types_and_layouts_become_contiguous_floats(pool):
    got = as_pool(pool, 2)
    assert got.dtype == np.float64
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (np.ones((10, 24)), r"features: expected shape \(K, 25\), got \(10, 24\)"),
        (np.ones(25), r"features: expected shape \(K, 25\), got \(25,\)"),
        (np.ones((0, 25)), "features: expected at least one candidate"),
        (None, r"features: expected shape \(K, 25\), got None"),
        (csr_array(np.eye(25)), "got a sparse array; pass its toarray"),
        ([[1.0], [1.0, 2.0]], "rows of unequal length"),
        (np.full((1, 25), "a"), "features: expected real numbers"),
        (np.ones((1, 25), dtype=complex), "features: expected real numbers, got dtype complex128"),
        (np.full((1, 25), None), "features: expected real numbers, got dtype object"),
    ],
)
def test_a_bad_pool_is_named(pool, message):
    with pytest.raises(ValueError, match=message):
        as_pool(pool, 25)


def test_the_offending_value_is_named():
    pool = np.zeros((2, 3))
    pool[1, 2] = np.nan
    assert "nan at (1, 2)" in str(not_finite(pool))
    assert "inf at 0" in str(not_finite(np.array([np.inf])))
    assert "scale the features down" in str(not_finite(np.array([1e200])))
    assert "the model's prediction" in str(not_finite(np.array([1.0])))


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf"), 1e101, "x", None, [1.0, 2.0], 10**400])
def test_bad_rewards(reward):
    with pytest.raises(ValueError, match="reward: expected"):
        as_reward(reward)


def test_rewards_of_any_number_type():
    assert as_reward(np.float32(0.5)) == as_reward(np.float64(0.5)) == as_reward(0.5) == 0.5
    assert as_reward(True) == as_reward(1) == 1.0
    with pytest.raises(ValueError, match=r"number in \[0, 1\]"):
        as_reward(1.5, 0.0, 1.0)


def test_arm_ids():
    np.testing.assert_array_equal(as_arms([3, -1]), [3, -1])
    assert as_arms(np.array([1, 2], dtype=np.uint8)).dtype == np.int64
    assert as_arm(np.int32(7)) == 7
    for bad in ([1.0], [], [[1]], ["a"], np.array([2**63], dtype=np.uint64), None):
        with pytest.raises(ValueError, match="arms: "):
            as_arms(bad)
    for arm in (None, 1.0, "a", True, 2**63):
        with pytest.raises(ValueError, match="arm: "):
            as_arm(arm)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_as_number_lets_only_numbers_in_range_through(value):
    if 0.0 < value <= 2.0:
        assert as_number("x", value, 0.0, 2.0, open_low=True) == value
    else:
        with pytest.raises(ValueError, match="x: expected a number"):
            as_number("x", value, 0.0, 2.0, open_low=True)


@given(st.integers(0, 2**32), st.integers(0, 7))
def test_a_generator_travels_through_state(seed, draws):
    first = LinTS(2, seed=seed)
    first._generator.integers(10, size=draws, dtype=np.uint32)  # may leave half a word behind
    second = LinTS(2).restore(first.state())
    assert first._generator.random() == second._generator.random()
    assert first._generator.integers(2**31, dtype=np.uint32) == second._generator.integers(2**31, dtype=np.uint32)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="seed: "):
        new_generator(seed)


def test_state_is_a_copy_of_flat_arrays():
    policy = DLinUCB(3, 0.1)
    state = policy.state()
    assert all(array.dtype in (np.float64, np.int64) for array in state.values())
    before = policy.state()
    for array in state.values():
        array[...] = 7
    after = policy.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.pop("bank"), "missing bank"),
        (lambda s: s.update(extra=np.zeros(1)), "unknown extra"),
        (lambda s: s.update(bank=s["bank"][:, 1:]), "bank: expected float64 of shape"),
        (lambda s: s.update(bank=s["bank"].astype(np.float32)), "got float32"),
        (lambda s: s.update(rounds=np.array(1.5)), "rounds: expected int64"),
        (lambda s: s.update(count=np.array(99)), "contradict"),
        (lambda s: s.update(leader=np.array(-1)), "leader: expected a number from 0"),
        (lambda s: s.update(generator=np.full(6, -1)), "PCG64"),
        (lambda s: s["ledger"].__setitem__((0, 2), -5), "ages"),
        (lambda s: s.update({"log.facts": np.full((1, 3), 9), "log.evidence": np.zeros((1, 4))}), "out of range"),
        (lambda s: s.update({"log.facts": np.zeros((5, 3), dtype=np.int64)}), "out of range"),
        (lambda s: s.update({"log.total": np.array(-3)}), "log.total: expected a number from 0"),
        (lambda s: s.update(rounds=np.array(2**63 - 1)), "rounds: expected a number from 0"),
        (lambda s: s["bank"].__setitem__((0, 0), np.nan), "bank: expected finite values"),
    ],
)
def test_a_spoiled_state_is_refused_and_changes_nothing(spoil, message):
    policy = DLinUCB(3, 0.1)
    for _ in range(5):
        policy.learn(np.ones(3), 0.3)
    before = policy.state()
    state = DLinUCB(3, 0.1).state()
    spoil(state)
    with pytest.raises(ValueError, match=message):
        policy.restore(state)
    after = policy.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_an_arm_table_that_repeats_an_id_is_refused():
    policy = UCB1()
    policy.learn(None, 1.0, arm=1)
    policy.learn(None, 1.0, arm=2)
    state = policy.state()
    state["table.ids"][1] = 1
    with pytest.raises(ValueError, match="twice"):
        UCB1().restore(state)
    state["table.size"] = np.array(10**6)
    with pytest.raises(ValueError, match="contradict"):
        UCB1().restore(state)


def test_state_survives_a_file(tmp_path):
    policy = DLinUCB(3, 0.1)
    for t in range(50):
        policy.learn(np.ones(3) * (t % 3), float(t % 2))
    np.savez(tmp_path / "policy.npz", **policy.state())
    with np.load(tmp_path / "policy.npz") as stored:
        twin = DLinUCB(3, 0.1).restore(stored)
    assert twin.members == policy.members
    assert twin.changes == policy.changes


def test_the_change_log_keeps_the_latest():
    log = ChangeLog(("a", "b"), capacity=3)
    changes = [Change(i, ("spawned", "retired", "restarted")[i % 3], i, {"a": i / 2, "b": -1.0}) for i in range(8)]
    for change in changes:
        log.append(change)
    assert list(log) == changes[-3:]
    assert log.total == 8


def test_the_change_log_takes_evidence_of_several_forms():
    log = ChangeLog(("a", "b"), ("c", "b"))
    changes = [Change(i, "retired", 0, {"ac"[i % 2]: float(i), "b": 2.0}) for i in range(4)]
    for change in changes:
        log.append(change)
    twin = ChangeLog(("a", "b"), ("c", "b")).restore(log.state())
    assert list(twin) == list(log) == changes
    with pytest.raises(ValueError, match="a kind of change is out of range"):
        ChangeLog(("a", "b")).restore(log.state())


def test_policies_satisfy_the_protocol():
    assert isinstance(LinTS(2), Policy)
    assert not isinstance(object(), Policy)


def test_a_shallow_copy_shares_nothing():
    policy = LinUCB(2)
    twin = copy.copy(policy)
    twin.learn([1.0, 0.0], 1.0)
    assert policy.rounds == 0
    assert not np.array_equal(policy.state()["bank"], twin.state()["bank"])


def test_what_is_derived_is_not_pickled():
    policy = LinUCB(100)
    assert len(pickle.dumps(policy)) < 1.2 * sum(array.nbytes for array in policy.state().values()) + 3000


@pytest.mark.parametrize("state", [5, None, "text", [1, 2]])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(ValueError, match="state: "):
        LinUCB(2).restore(state)


def test_a_table_beyond_its_limit_is_refused():
    big, small = UCB1(), UCB1(max_arms=10)
    for arm in range(50):
        big.learn(None, 0.5, arm=arm)
    with pytest.raises(ValueError, match="max_arms"):
        small.restore(big.state())
    assert small.rounds == 0


@pytest.mark.parametrize("text", ["1", b"1", "inf", "abc"])
def test_a_reward_that_is_text_is_quoted(text):
    with pytest.raises(ValueError, match=f"reward: expected a number, got {text!r}"):
        as_reward(text)
