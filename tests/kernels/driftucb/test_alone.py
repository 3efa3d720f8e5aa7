"""A policy's rules, memo and bank in one array: where they are, and that its kernels are those of separate arrays."""

import copy
import pickle

import numpy as np
import pytest

from driftbandit import DriftUCB
from driftbandit.kernels.driftucb import acting, alone, drift
from driftbandit.kernels.driftucb.ahead import NOTHING


@pytest.mark.parametrize("experts", [0, 1, 4, 9])
@pytest.mark.parametrize("dim", [1, 8, 25])
def test_the_three_stand_in_one_array_and_do_not_overlap(dim, experts):
    rules = np.arange(1.0, 1.0 + drift.RULES + experts)
    own = alone.with_rules(rules, dim)
    mine, memo, bank = alone.parts(own)
    assert mine.tolist() == rules.tolist()
    assert (len(memo), bank.shape) == (drift.memo_size(dim, experts), drift.bank_shape(dim, experts))
    assert memo.ctypes.data % 64 == bank.ctypes.data % 64 == 0
    assert not memo.any()
    assert not bank.any()
    before = own.sum()
    memo[:], bank[:] = 1.0, 2.0
    assert own.sum() == before + memo.size + 2.0 * bank.size
    assert mine.tolist() == rules.tolist()


@pytest.mark.parametrize("dim", [1, 6])
def test_its_kernels_do_what_those_of_three_arrays_do(dim):
    rng = np.random.default_rng(dim)
    policy, taste = DriftUCB(dim), rng.standard_normal(dim)
    rules, memo, bank = (array.copy() for array in alone.parts(policy._own))
    for t in range(300):
        pool = rng.standard_normal((7, dim))
        arm = alone.choose(policy._own, pool, t % 7)
        assert arm == acting.choose(rules, memo, bank, pool, t % 7, NOTHING)
        reward = float(pool[arm] @ taste * (1.0 if t < 200 else -1.0) + 0.1 * rng.standard_normal())
        told = alone.learn(policy._own, pool[arm].copy(), reward)
        assert told == drift.learn(rules, memo, bank, pool[arm].copy(), reward, NOTHING)
    np.testing.assert_array_equal(memo, policy._memo)
    np.testing.assert_array_equal(bank, policy._bank)


@pytest.mark.parametrize(
    "again",
    [
        copy.deepcopy,
        lambda policy: pickle.loads(pickle.dumps(policy)),
        lambda policy: DriftUCB(3).restore(policy.state()),
        lambda policy: DriftUCB(3).restore(policy.short_state()),
    ],
    ids=["copied", "pickled", "restored", "restored from rewards"],
)
def test_what_is_seen_of_a_policy_is_what_its_kernels_work_on(again):
    """Also of one that was made from another, and that shares nothing with it."""
    policy = DriftUCB(3)
    for t in range(40):
        policy.learn(np.eye(3)[t % 3], 0.5 + 0.1 * (t % 4))
    before = policy.state()
    other = again(policy)
    np.testing.assert_array_equal(other._own, policy._own)
    assert not np.shares_memory(other._own, policy._own)
    for part in (other._memo, other._bank):
        assert np.shares_memory(part, other._own)
    other.learn(np.ones(3), 2.0)
    assert other.theta[0] > policy.theta[0]
    assert all(np.array_equal(array, before[name]) for name, array in policy.state().items())


def test_a_full_block_of_waiting_rewards_is_refused():
    """It is learned before anything is saved; one more reward would be written behind the bank."""
    policy, rng = DriftUCB(5), np.random.default_rng(0)
    at, waiting = drift.backlog_at(policy._bank, 4), 0.0
    for _ in range(400):
        x = rng.standard_normal(5)
        policy.learn(x, float(x[0] + 0.1 * rng.standard_normal()))
        waiting = max(waiting, policy._bank.ravel()[at])
    assert waiting == 7.0
    state = policy.state()
    stored = state["bank"].ravel()
    stored[drift.models_of(4) * state["bank"].shape[1]] = 8.0
    with pytest.raises(ValueError, match="counts of rewards that fit"):
        DriftUCB(5).restore(state)


def test_a_pickle_of_another_version_is_refused():
    policy = DriftUCB(3)
    attributes = policy.__getstate__()
    attributes["_bank"] = attributes["_bank"][:, :-1]
    with pytest.raises(ValueError, match="another version"):
        DriftUCB(3).__setstate__(attributes)


def test_a_state_that_is_refused_leaves_one_array_too():
    policy = DriftUCB(3)
    for t in range(150):
        policy.learn(np.eye(3)[t % 3], 0.5 + 0.1 * (t % 4))
    before, state = policy.state(), policy.state()
    state["bank"][:] = np.nan
    with pytest.raises(ValueError, match="bank"):
        policy.restore(state)
    assert all(np.array_equal(array, before[name]) for name, array in policy.state().items())
    assert np.shares_memory(policy._memo, policy._own)
    assert np.shares_memory(policy._bank, policy._own)
