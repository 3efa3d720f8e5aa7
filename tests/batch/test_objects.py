"""Policy objects that are taught many at a time know what `learn` would have taught them one by one, bit for bit."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest

from driftbandit import DLinUCB, DriftUCB, LinTS, LinUCB
from driftbandit.batch.objects import choose_each, chooses_in_crowds, learn_each, learns_in_crowds

DIM, POLICIES = 4, 15
KINDS = {"LinUCB": lambda: LinUCB(DIM), "LinTS": lambda: LinTS(DIM, seed=3), "DriftUCB": lambda: DriftUCB(DIM)}


def same_state(one, other):
    one, other = one.state(), other.state()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def together(kind, *, steps, rewards=200, threads=2):
    """Teach rewards of tastes that flip, some with useless features, in both ways; returns how many changes came."""
    rng = np.random.default_rng(0)
    at_once = [KINDS[kind]() for _ in range(POLICIES)]
    one_by_one = copy.deepcopy(at_once)
    found = 0
    for step in range(steps):
        who = rng.integers(0, POLICIES, rewards)
        features = rng.standard_normal((rewards, DIM))
        values = features.sum(axis=1) * (1.0 if step < steps * 2 // 3 else -1.0) + 0.1 * rng.standard_normal(rewards)
        features[rng.integers(0, rewards, 3)] = (np.nan, 1e200)[step % 2]
        lessons = learn_each([at_once[i] for i in who], features, values, threads)
        for policy, x, value, lesson in zip([one_by_one[i] for i in who], features, values, lessons, strict=True):
            try:
                changes = policy.learn(x, float(value))
            except ValueError:
                assert not lesson.learned
            else:
                assert (lesson.learned, lesson.changes) == (True, changes)
                if changes:
                    found += 1
                    np.testing.assert_array_equal(lesson.before, policy.weights_before_change)
        for one, other in zip(at_once, one_by_one, strict=True):
            same_state(one, other)
        if chooses_in_crowds(at_once[0]):
            pools = [rng.standard_normal((rng.integers(1, 9), DIM)) for _ in who]
            pools[5][0, 0] = np.nan
            pending = rng.integers(0, 9, rewards).tolist()
            arms = choose_each([at_once[i] for i in who], pools, pending, threads)
            assert arms[5] == -1
            for i, arm, pool, waiting in zip(who, arms, pools, pending, strict=True):
                told = {"pending": waiting} if kind == "DriftUCB" else {}
                assert arm == -1 or arm == one_by_one[i].choose(pool, **told)
    return found


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_learning_one_by_one(kind, threads):
    found = together(kind, steps=36, threads=threads)  # more rewards for each than the 256 that frames are tried on
    assert (found > POLICIES // 2) == (kind == "DriftUCB")


def test_equals_learning_one_by_one_without_the_compiler():
    script = (
        "from tests.batch.test_objects import KINDS, together\n"
        "for kind in KINDS:\n"
        "    together(kind, steps=2, rewards=40)\n"
    )
    without = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", script], env=without, check=True)


def test_a_reward_that_needed_room_and_is_useless_leaves_no_room_behind():
    policies = [DriftUCB(2) for _ in range(3)]
    lessons = learn_each(policies, np.array([[1.0, 0.0], [np.inf, 0.0], [1.0, 1.0]]), np.ones(3))
    assert [lesson.learned for lesson in lessons] == [True, False, True]
    same_state(policies[1], DriftUCB(2))
    assert [policy.rounds for policy in policies] == [1, 0, 1]


def test_who_can_be_taught_so():
    believer = LinUCB(2)
    believer.believe([0.0, 1.0], np.eye(2), 0.01)
    assert all(learns_in_crowds(make()) for make in KINDS.values())
    assert [kind for kind, make in KINDS.items() if chooses_in_crowds(make())] == ["LinUCB", "DriftUCB"]
    assert not any(learns_in_crowds(policy) for policy in (believer, DLinUCB(2, noise=0.1), object()))


def test_arrays_that_are_not_contiguous_are_refused():
    policy = LinUCB(2)
    policy._bank = np.asfortranarray(np.repeat(policy._bank, 2, axis=0))[:1]
    with pytest.raises((TypeError, ValueError, BufferError), match="contiguous"):
        learn_each([policy], np.ones((1, 2)), np.ones(1))
