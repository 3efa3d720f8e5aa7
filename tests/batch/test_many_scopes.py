"""Many scopes at once give what one policy per scope gives, bit for bit; bad calls say what is wrong and do nothing."""

import os
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest

from driftbandit import DLinUCB, DriftUCB, LinTS, LinUCB, PerScope
from driftbandit.batch import ManyScopes, NotLearned
from driftbandit.kernels import pcg64
from driftbandit.state import generator_words, new_generator

DIM, ARMS, SCOPES = 4, 5, 12
KINDS = {
    "LinUCB": lambda: LinUCB(DIM),
    "LinTS": lambda: LinTS(DIM, seed=3),
    "DLinUCB": lambda: DLinUCB.preset("table1", DIM, noise=0.1),
    "DriftUCB": lambda: DriftUCB(DIM),
}


def together(policy, *, rounds, threads=2, seed=0):
    """Play a world whose tastes flip half-way with `PerScope` and `ManyScopes`; both, and how many changes came."""
    rng = np.random.default_rng(seed)
    one_by_one, at_once = PerScope(policy), ManyScopes(policy, SCOPES, threads=threads)
    tastes = rng.standard_normal((SCOPES, DIM))
    tastes /= np.linalg.norm(tastes, axis=1, keepdims=True)
    found = 0
    for t in range(rounds):
        if t == rounds // 2:
            tastes = -tastes
        who = rng.integers(0, SCOPES, rng.integers(1, 3 * SCOPES))  # in no order, and some more than once
        counts = rng.integers(1, ARMS + 1, len(who))
        pools = rng.uniform(-1.0, 1.0, (counts.sum(), DIM))
        starts = np.cumsum(counts) - counts
        arms = at_once.choose_many(who, pools, counts)
        expected = [
            one_by_one.choose(pools[a : a + n], scope=int(s)) for s, a, n in zip(who, starts, counts, strict=True)
        ]
        assert arms.tolist() == expected, t
        played = pools[starts + arms]
        rewards = (played * tastes[who]).sum(axis=1) + 0.1 * rng.standard_normal(len(who))
        changes = at_once.learn_many(who, played, rewards)
        assert changes == [
            (i, change)
            for i, s in enumerate(who.tolist())
            for change in one_by_one.learn(played[i], float(rewards[i]), scope=s)
        ], t
        found += len(changes)
    return one_by_one, at_once, found


def same_state(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_same_choices_changes_and_states_as_one_policy_per_scope(kind):
    one_by_one, at_once, found = together(KINDS[kind](), rounds=330)
    assert (found > 0) == (kind in ("DLinUCB", "DriftUCB"))
    for scope in range(SCOPES):
        same_state(one_by_one.policy_of(scope).state(), at_once.policy_of(scope).state())
    assert at_once.rounds.tolist() == [one_by_one.policy_of(scope).rounds for scope in range(SCOPES)]


def test_the_reference_path_is_equal_too():
    script = (
        "from tests.batch.test_many_scopes import KINDS, same_state, together\n"
        "for kind in KINDS:\n"
        "    one_by_one, at_once, _ = together(KINDS[kind](), rounds=4, threads=1)\n"
        "    for scope in one_by_one.scopes:\n"
        "        same_state(one_by_one.policy_of(scope).state(), at_once.policy_of(scope).state())\n"
    )
    without = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", script], env=without, check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(kind):
    rng = np.random.default_rng(1)
    stores = [ManyScopes(KINDS[kind](), 600, threads=threads) for threads in (1, 2, 5)]
    everyone, pools = np.arange(600), rng.uniform(-1.0, 1.0, (600, ARMS, DIM))
    for _ in range(3):
        first, *others = [store.choose_many(everyone, pools) for store in stores]
        assert all((first == other).all() for other in others)
        rewards = rng.standard_normal(600)
        for store in stores:
            store.learn_many(everyone, pools[everyone, first], rewards)
    for scope in (0, 299, 300, 599):
        for store in stores[1:]:
            same_state(stores[0].policy_of(scope).state(), store.policy_of(scope).state())


@pytest.mark.parametrize("kind", KINDS)
def test_begins_with_what_the_policy_knows_and_takes_policies_back(kind):
    rng = np.random.default_rng(2)
    policy = KINDS[kind]()
    for _ in range(40):
        policy.learn(rng.uniform(-1.0, 1.0, DIM), 0.3)
    store = ManyScopes(policy, 3)
    same_state(store.policy_of(2).state(), policy.state())
    for _ in range(300):
        policy.learn(rng.uniform(-1.0, 1.0, DIM), 0.3)
    store.put(1, policy)
    same_state(store.policy_of(1).state(), policy.state())
    assert store.rounds.tolist() == [40, 340, 40]
    with pytest.raises(ValueError, match="policy: expected"):
        store.put(0, LinUCB(DIM + 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:a member was retired")
def test_a_state_survives_a_file_and_goes_on_alike(kind, tmp_path):
    _, store, _ = together(KINDS[kind](), rounds=150)
    np.savez(tmp_path / "state.npz", **store.state())
    with np.load(tmp_path / "state.npz") as state:
        twin = ManyScopes(KINDS[kind](), SCOPES).restore(state)
    rng = np.random.default_rng(4)
    everyone = np.arange(SCOPES)
    for _ in range(150):
        pools = rng.uniform(-1.0, 1.0, (SCOPES, ARMS, DIM))
        arms = store.choose_many(everyone, pools)
        assert (arms == twin.choose_many(everyone, pools)).all()
        played, rewards = pools[everyone, arms], rng.standard_normal(SCOPES)
        assert store.learn_many(everyone, played, rewards) == twin.learn_many(everyone, played, rewards)
    for scope in range(SCOPES):
        same_state(store.policy_of(scope).state(), twin.policy_of(scope).state())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_does_not_fit_changes_nothing(kind):
    store, other = ManyScopes(KINDS[kind](), 2), ManyScopes(KINDS[kind](), 3)
    store.learn_many([0, 1], np.ones((2, DIM)), [1.0, 2.0])
    before, whole = store.state(), store.state()
    name = next(name for name, array in whole.items() if array.dtype == np.float64)
    for wrong, message in (
        (other.state(), "expected"),
        ({**whole, "more": np.zeros(2)}, "state: expected"),
        ({**whole, "rounds": np.array([-1, 0])}, "rounds"),
        ({**whole, name: np.full_like(whole[name], np.nan)}, "finite"),
        ({**whole, name: whole[name].astype(np.float32)}, "float32"),
        ({**whole, "log.7.total": np.array(1)}, "state"),
        ({}, "state: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            store.restore(wrong)
    same_state(store.state(), before)


def test_a_state_of_many_scopes_is_in_memory_once():
    """And is given back without another copy of what the scopes hold already."""
    people = ManyScopes(DriftUCB(9), 300)
    people.learn_many(None, np.ones((300, 9)), np.linspace(0.0, 1.0, 300))
    tracemalloc.start()
    try:
        state = people.state()
        size, peak = tracemalloc.get_traced_memory()
        assert peak < 1.2 * size
        tracemalloc.reset_peak()
        people.restore(state)
        assert tracemalloc.get_traced_memory()[1] < 2.4 * size, "the state, and the copy of it that is checked"
    finally:
        tracemalloc.stop()


def test_a_state_whose_parts_contradict_each_other_is_refused():
    store = ManyScopes(DriftUCB(DIM), 2)
    store.learn_many([0, 1], np.ones((2, DIM)), [1.0, 2.0])
    with pytest.raises(ValueError, match="contradict"):
        store.restore({**store.state(), "rooms": np.array([8, 0])})
    store = ManyScopes(DLinUCB(DIM, 0.1), 2)
    with pytest.raises(ValueError, match="contradict"):
        store.restore({**store.state(), "leader": np.array([0, 5])})


def test_pending_rewards_are_minded():
    rng = np.random.default_rng(3)
    policy = DriftUCB(DIM)
    for _ in range(20):
        x = rng.uniform(-1.0, 1.0, DIM)
        policy.learn(x, float(x.sum() + 0.1 * rng.standard_normal()))
    store = ManyScopes(policy, 1)
    pools = rng.uniform(-1.0, 1.0, (30, ARMS, DIM))
    asked = store.choose_many(np.zeros(30, dtype=int), pools, pending=np.arange(30))
    assert asked.tolist() == [policy.choose(pool, pending=n) for n, pool in enumerate(pools)]


def test_generators_draw_what_numpy_draws():
    generator = new_generator(7)
    words = generator_words(generator)
    ours = np.empty(300_000)
    pcg64.standard_normals(words, ours)
    np.testing.assert_array_equal(ours, generator.standard_normal(300_000))
    np.testing.assert_array_equal(words, generator_words(generator))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0]], np.zeros((1, 1, DIM))), r"scopes: expected shape \(n,\)"),
        (([0.5], np.zeros((1, 1, DIM))), "scopes: expected whole numbers"),
        ((["ann"], np.zeros((1, 1, DIM))), "scopes: expected whole numbers"),
        (([3], np.zeros((1, 1, DIM))), "scopes: expected numbers from 0 to 2, got 3"),
        (([-1], np.zeros((1, 1, DIM))), "scopes: expected whole numbers of at least 0"),
        (([0], np.zeros((2, 1, DIM))), r"features: expected shape \(1, K, 4\)"),
        (([0], np.zeros((1, 0, DIM))), r"features: expected shape \(1, K, 4\)"),
        (([0], [[[1.0] * DIM], [[1.0] * DIM] * 2]), "features: expected shape"),
        (([0], np.zeros((2, DIM)), [3]), "features: expected 3 rows"),
        (([0], np.zeros((2, DIM)), [0]), "counts: expected whole numbers of at least 1"),
        (([0], np.zeros((2, DIM)), [1, 1]), r"counts: expected shape \(1,\)"),
        (([0], np.full((1, DIM), np.nan), [1]), "features: decision 0, of scope 0: expected finite"),
        (([0], np.full((1, DIM), "a"), [1]), "features: expected real numbers"),
    ],
)
def test_bad_questions_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ManyScopes(LinUCB(DIM), 3).choose_many(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], np.zeros((1, DIM)), [0.0, 0.0]), "features: expected 2 rows"),
        (([], np.zeros((5, DIM)), []), "features: expected 0 rows, got 5"),
        (([0], np.zeros((1, DIM)), [0.0, 0.0]), r"rewards: expected shape \(1,\)"),
        (([0, 1], np.ones((2, DIM)), [0.0, np.nan]), "rewards: .* got nan at 1"),
        (([0, 1], np.ones((2, DIM)), [0.0, 1e101]), r"rewards: .* got 1e\+101 at 1"),
        (([0, 1], np.ones((2, DIM)), [0.0, "b"]), "rewards: expected"),
        (([0, 1], [[1.0] * DIM, [np.inf] * DIM], [0.0, 0.0]), r"got inf at 0 \(row 1\); nothing was done"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_rewards_teach_nobody_anything(kind, arguments, message):
    store = ManyScopes(KINDS[kind](), 3)
    before = store.policy_of(0).state()
    with pytest.raises(ValueError, match=message):
        store.learn_many(*arguments)
    same_state(store.policy_of(0).state(), before)


def test_a_refused_pool_costs_nobody_a_draw():
    store = ManyScopes(LinTS(DIM, seed=1), 2)
    with pytest.raises(ValueError, match="too large"):
        store.choose_many([0, 1], [[[1.0] * DIM], [[1e9] * DIM]])
    same_state(store.policy_of(0).state(), LinTS(DIM, seed=1).state())


def test_rewards_that_a_scope_cannot_use_are_named_and_the_others_are_learned():
    store = ManyScopes(DriftUCB(DIM), 2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        store.learn_many([0], [rng.uniform(-1.0, 1.0, DIM)], [rng.standard_normal()])
    with pytest.raises(NotLearned, match=r"reward 1, of scope 0: .* 1 of 3 rewards") as caught:
        store.learn_many([0, 0, 1], [[1.0] * DIM, [1e12] * DIM, [1.0] * DIM], [1.0, 1.0, 1.0])
    assert caught.value.left == [1]
    assert store.rounds.tolist() == [301, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_everyone(kind):
    rng = np.random.default_rng(5)
    named, unnamed = ManyScopes(KINDS[kind](), 3), ManyScopes(KINDS[kind](), 3)
    everyone, pools = np.arange(3), rng.uniform(-1.0, 1.0, (3, ARMS, DIM))
    arms = named.choose_many(everyone, pools)
    assert unnamed.choose_many(None, pools).tolist() == arms.tolist()
    named.learn_many(everyone, pools[everyone, arms], [1.0, 2.0, 3.0])
    unnamed.learn_many(None, pools[everyone, arms], [1.0, 2.0, 3.0])
    same_state(named.state(), unnamed.state())


def test_nothing_is_asked():
    store = ManyScopes(LinUCB(DIM), 1)
    assert store.choose_many([], np.zeros((0, 3, DIM))).tolist() == []
    assert store.learn_many([], np.zeros((0, DIM)), []) == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: ManyScopes(PerScope(LinUCB(2)), 3),
        lambda: ManyScopes("LinUCB", 3),
        lambda: ManyScopes(DLinUCB(2, noise="auto"), 3),
        lambda: ManyScopes(DLinUCB(2, noise=0.1, model="thompson"), 3),
        lambda: ManyScopes(LinUCB(2), 0),
        lambda: ManyScopes(LinUCB(2), 3, threads=0),
    ],
)
def test_bad_settings_are_refused(build):
    with pytest.raises(ValueError, match=r"policy|size|threads"):
        build()


def test_a_policy_that_was_given_a_belief_is_refused():
    policy = LinUCB(2)
    policy.believe([0.0, 1.0], np.eye(2), 0.1)
    with pytest.raises(ValueError, match="belief"):
        ManyScopes(policy, 2)


def test_a_small_crowd_says_how_much_memory_it_takes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = ManyScopes(LinUCB(25), 1000)
    assert store.nbytes == 1000 * 8 * (1 + 25 + 25 * 26 // 2 + 1)
