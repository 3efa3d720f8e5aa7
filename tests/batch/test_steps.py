"""A step of many scopes, which learns and chooses in one pass, is what `PerScope` does: learn, then choose."""

import os
import subprocess
import sys

import numpy as np
import pytest

from driftbandit import DriftUCB, PerScope
from driftbandit.batch import ManyScopes, NotLearned
from driftbandit.kernels import many

from .test_many_scopes import ARMS, DIM, KINDS, same_state

SCOPES = 40


def steps(policy, *, rounds, scopes=SCOPES, seed=0, repeats=False):
    """Play a world whose tastes flip half-way; `PerScope`, `ManyScopes`, and how many changes came."""
    rng = np.random.default_rng(seed)
    one_by_one, at_once = PerScope(policy), ManyScopes(policy, scopes, threads=2)
    tastes, found = rng.standard_normal((scopes, DIM)), 0
    for t in range(rounds):
        if t == rounds // 2:
            tastes = -tastes
        who = rng.permutation(scopes)[: rng.integers(scopes // 2, scopes + 1)]
        if repeats:
            who[: len(who) // 3] = who[-(len(who) // 3) :]
        played = rng.uniform(-1.0, 1.0, (len(who), DIM))
        rewards = (played * tastes[who]).sum(axis=1) + 0.1 * rng.standard_normal(len(who))
        counts = rng.integers(1, ARMS + 1, len(who))
        pools = rng.uniform(-1.0, 1.0, (counts.sum(), DIM))
        changes, arms = at_once.step_many(who, played, rewards, pools, counts)
        assert changes == [
            (i, change)
            for i, s in enumerate(who.tolist())
            for change in one_by_one.learn(played[i], float(rewards[i]), scope=s)
        ], t
        ends = np.cumsum(counts)
        expected = [
            one_by_one.choose(pools[end - n : end], scope=int(s)) for s, n, end in zip(who, counts, ends, strict=True)
        ]
        assert arms.tolist() == expected, t
        found += len(changes)
    for scope in one_by_one.scopes:
        same_state(one_by_one.policy_of(scope).state(), at_once.policy_of(scope).state())
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_the_same_changes_choices_and_states_as_one_policy_per_scope(kind):
    assert (steps(KINDS[kind](), rounds=330) > 0) == (kind in ("DLinUCB", "DriftUCB"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scope_that_occurs_twice_learns_all_its_rewards_before_it_chooses(kind):
    steps(KINDS[kind](), rounds=8, scopes=9, repeats=True)


def test_the_reference_path_is_equal_too():
    script = (
        "from tests.batch.test_steps import KINDS, steps\n"
        "for kind in KINDS:\n"
        "    steps(KINDS[kind](), rounds=3, scopes=3)\n"
    )
    without = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", script], env=without, check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_scopes_that_differ_take_one_pass(kind, monkeypatch):
    def fail(*_):
        raise AssertionError("a second pass")

    store = ManyScopes(KINDS[kind](), 3, threads=1)
    pools = np.tile(np.eye(DIM), (3, 1, 1))
    store.step_many(None, pools[:, 0], np.ones(3), pools)
    loops = store._shelf.loops
    unasked = loops._replace(learn=fail, choose=lambda *call: call[-1] and fail())  # for no decisions at all, it may
    monkeypatch.setattr(type(store._shelf), "loops", unasked)
    _, arms = store.step_many([2, 0], pools[:2, 0], np.ones(2), pools[:2])
    assert (arms != many.NOT_ASKED).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_asked(kind):
    changes, arms = ManyScopes(KINDS[kind](), 2).step_many([], np.zeros((0, DIM)), [], np.zeros((0, 3, DIM)))
    assert (changes, arms.tolist()) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_loops_are_not_pickled(kind):
    assert "loops" not in vars(ManyScopes(KINDS[kind](), 2)._shelf)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize(
    ("played", "message"),
    [
        (np.ones((3, DIM)), "played: expected 2 rows, got 3"),
        (np.ones((2, DIM + 1)), "played: expected shape"),
        (np.full((2, DIM), np.nan), "played: expected finite values"),
    ],
)
def test_errors_say_which_argument_is_wrong(played, message, repeats):
    store = ManyScopes(DriftUCB(DIM), 2)
    with pytest.raises(ValueError, match=message):
        store.step_many([0, 0] if repeats else [0, 1], played, [1.0, 1.0], np.ones((2, 1, DIM)))
    assert store.rounds.tolist() == [0, 0]


def experienced():
    """Two scopes, of which the first knows how large its features are."""
    store = ManyScopes(DriftUCB(DIM), 2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        store.learn_many([0], [rng.uniform(-1.0, 1.0, DIM)], [rng.standard_normal()])
    return store


def test_a_reward_that_was_not_learned_is_named_and_nothing_is_chosen():
    store = experienced()
    with pytest.raises(NotLearned, match=r"reward 1, of scope 0: .* 1 of 2 rewards") as caught:
        store.step_many([1, 0], [[1.0] * DIM, [1e12] * DIM], [1.0, 1.0], np.ones((2, 1, DIM)))
    assert caught.value.left == [1]
    assert store.rounds.tolist() == [300, 1]


def test_a_pool_that_only_its_scope_cannot_use_is_named():
    store = experienced()
    pools = np.ones((2, 1, DIM))
    pools[1] = 1e12
    with pytest.raises(ValueError, match="features: decision 1, of scope 0: an absolute value of 1e\\+12 is too large"):
        store.step_many([1, 0], np.ones((2, DIM)), [1.0, 1.0], pools)
