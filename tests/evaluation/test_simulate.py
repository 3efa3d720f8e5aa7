"""`simulate` is the loop that anyone would write, and its regret is the pseudo-regret."""

import dataclasses

import numpy as np
import pytest

from driftbandit import (
    CLUB,
    UCB1,
    DLinUCB,
    DyClu,
    LinUCB,
    PerScope,
    RandomChoice,
    Rounds,
    World,
    simulate,
    synthetic,
)
from driftbandit.core import Change


class Scripted:
    """Plays given indices, remembers what it was shown, and reports a change when told to."""

    def __init__(self, indices, alarms=()):
        self.indices = list(indices)
        self.alarms = dict(alarms)
        self.shown = []
        self.learned = []

    def choose(self, features, arms=None):
        self.shown.append((features.copy(), arms.copy()))
        return self.indices[len(self.shown) - 1]

    def learn(self, features, reward, arm=None):
        self.learned.append((features.copy(), reward, arm))
        return self.alarms.get(len(self.learned), ())


def by_hand():
    """Two arms of two features, three rounds; rewards far from their means."""
    return Rounds(
        catalogue=np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),
        pools=np.array([[0, 1], [2, 0], [1, 2]]),
        arms=np.array([[10, 11], [12, 10], [11, 12]]),
        means=np.array([[0.2, 0.7], [0.4, 0.1], [0.3, 0.3]]),
        rewards=np.array([[5.0, 6.0], [7.0, 8.0], [-9.0, -10.0]]),
        shifts=np.array([2]),
        noise=0.1,
        reward_range=(-10.0, 10.0),
        seed=17,
    )


def test_a_run_by_hand():
    rounds = by_hand()
    policy = Scripted([0, 1, 1])
    trace = simulate(policy, rounds, name="mine")
    assert trace.choices.tolist() == [0, 1, 1]
    assert trace.rewards.tolist() == [5.0, 8.0, -10.0]
    np.testing.assert_allclose(trace.regret, [0.5, 0.3, 0.0], atol=1e-15)
    assert trace.shifts.tolist() == [2]
    assert (trace.policy, trace.setting, trace.seed, len(trace)) == ("mine", "", 17, 3)
    assert trace.seconds > 0.0


def test_policies_are_shown_the_pool_and_learn_the_arm_they_played():
    rounds = by_hand()
    policy = Scripted([0, 1, 1])
    simulate(policy, rounds)
    for t, (features, arms) in enumerate(policy.shown):
        np.testing.assert_array_equal(features, rounds.catalogue[rounds.pools[t]])
        np.testing.assert_array_equal(arms, rounds.arms[t])
    assert [reward for _, reward, _ in policy.learned] == [5.0, 8.0, -10.0]
    assert [arm for _, _, arm in policy.learned] == [10, 10, 12]
    np.testing.assert_array_equal([x for x, _, _ in policy.learned], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])


def test_changes_are_collected_in_order():
    first, second, third = (Change(n, kind, n, {}) for n, kind in ((1, "spawned"), (1, "retired"), (3, "restarted")))
    trace = simulate(Scripted([0, 0, 0], {1: (first, second), 3: (third,)}), by_hand())
    assert trace.changes == (first, second, third)


def test_regret_compares_means_not_rewards():
    rounds = synthetic(World(horizon=500, reward="click", clicks=(0.1, 0.9)), 0)
    trace = simulate(RandomChoice(seed=1), rounds)
    chosen = rounds.means[np.arange(500), trace.choices]
    np.testing.assert_array_equal(trace.regret, rounds.means.max(axis=1) - chosen)
    assert trace.regret.min() >= 0.0
    assert set(trace.rewards.tolist()) == {0.0, 1.0}
    assert 0.0 < np.median(trace.regret) < 1.0, "clicks themselves differ by 0 or 1"


def test_the_best_arm_costs_nothing():
    rounds = synthetic(World(horizon=200, noise=1.0), 0)
    trace = simulate(Scripted(rounds.means.argmax(axis=1).tolist()), rounds)
    np.testing.assert_array_equal(trace.regret, 0.0)


@pytest.mark.parametrize(
    "build",
    [
        lambda rounds: LinUCB(rounds.dim),
        lambda rounds: DLinUCB(rounds.dim, rounds.noise),
        lambda rounds: UCB1(reward_range=rounds.reward_range, seed=3),
        lambda rounds: RandomChoice(seed=5),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"share": 0.5}, {"reward": "click"}])
@pytest.mark.filterwarnings("ignore::driftbandit.ClickWarning")
def test_simulate_equals_a_hand_written_loop(build, settings):
    rounds = synthetic(World(horizon=700, period=300, arms=100, dim=5, **settings), 3)
    policy = build(rounds)
    choices, rewards, changes, regret = [], [], [], 0.0
    for t in range(700):
        pool = rounds.catalogue[rounds.pools[t]]
        index = policy.choose(pool, rounds.arms[t])
        changes += policy.learn(pool[index], rounds.rewards[t, index], int(rounds.arms[t, index]))
        choices.append(index)
        rewards.append(rounds.rewards[t, index])
        regret += rounds.means[t].max() - rounds.means[t, index]
    trace = simulate(build(rounds), rounds)
    assert trace.choices.tolist() == choices
    assert trace.rewards.tolist() == rewards
    assert trace.changes == tuple(changes)
    assert trace.regret.sum() == pytest.approx(regret, abs=1e-9)


def test_dlinucb_reports_the_shift_of_its_world():
    rounds = synthetic("table1", 0, horizon=1200)
    changes = simulate(DLinUCB.preset("table1", rounds.dim, rounds.noise), rounds).changes
    spawned = [change.round for change in changes if change.kind == "spawned"]
    assert len(spawned) == 1
    assert 800 < spawned[0] <= 860, "the notes measure a 90th percentile of 30 rounds"


class ByUser:
    """A scoped policy without any base class: notes what it is told."""

    is_scoped = True

    def __init__(self):
        self.told = []

    def choose(self, features, arms=None, *, scope):
        self.told.append(scope)
        return 0

    def learn(self, features, reward, arm=None, *, scope):
        self.told.append(scope)
        return ()


@pytest.mark.parametrize("scopes", [[3, 3, 8], ["ann", "bob", "ann"]])
def test_a_scoped_policy_is_told_the_scopes_of_the_rounds(scopes):
    policy = ByUser()
    simulate(policy, dataclasses.replace(by_hand(), scopes=np.array(scopes)))
    assert policy.told == [scope for scope in scopes for _ in range(2)]
    assert {type(scope) for scope in policy.told} == {type(scopes[0])}
    simulate(Scripted([0, 0, 0]), dataclasses.replace(by_hand(), scopes=np.array(scopes)))  # which takes no scope


@pytest.mark.parametrize("build", [lambda dim: PerScope(DLinUCB(dim, 0.1)), CLUB, lambda dim: DyClu(dim, 0.1)])
def test_without_scopes_everyone_is_one(build):
    rounds = synthetic("table1", 0, horizon=900)
    trace = simulate(build(rounds.dim), rounds)
    assert trace.regret.sum() < 0.5 * simulate(RandomChoice(), rounds).regret.sum()
    if trace.policy == "PerScope":
        plain = simulate(DLinUCB(rounds.dim, 0.1), rounds)
        np.testing.assert_array_equal(trace.choices, plain.choices)
        assert trace.changes == plain.changes
        assert trace.detects


def test_one_model_per_scope_pays_where_tastes_differ():
    rounds = synthetic(World(horizon=2000, arms=50, dim=4), 0)
    turn = np.arange(2000) % 2
    means = np.where(turn[:, None] == 0, rounds.means, -rounds.means)
    told = dataclasses.replace(rounds, means=means, rewards=means + rounds.rewards - rounds.means, scopes=turn)
    alone, shared = (simulate(policy, told).regret.sum() for policy in (PerScope(LinUCB(4)), LinUCB(4)))
    assert alone < 0.2 * shared


# ---- late rewards ---------------------------------------------------------------------------------------------------


class Diary:
    """Notes what it is asked and told, in order."""

    def __init__(self):
        self.notes = []

    def choose(self, features, arms=None, **told):
        self.notes.append(("choose", int(arms[0]), *told.items()))
        return int(arms[0]) % 2

    def learn(self, features, reward, arm=None, **told):
        self.notes.append(("learn", int(features[0]), reward, arm, *told.items()))
        return (Change(sum(note[0] == "learn" for note in self.notes), "spawned", 0, {}),)


class Minding(Diary):
    minds_pending = True


class MindingByUser(Minding):
    is_scoped = True


def numbered(count, scopes=None, **late):
    """Rounds of two arms whose features, ids and rewards tell the round and the arm."""
    numbers = np.arange(2 * count)
    pools = numbers.reshape(count, 2)
    shown = np.stack([2 * np.arange(count), 2 * np.arange(count) + 1], axis=1)
    return Rounds(
        catalogue=numbers[:, None].astype(float),
        pools=pools,
        arms=np.stack([np.arange(count), np.arange(count) + 100], axis=1),
        means=np.zeros((count, 2)),
        rewards=shown / 2.0,
        shifts=np.empty(0, dtype=np.int64),
        noise=0.1,
        reward_range=(0.0, 10.0),
        scopes=None if scopes is None else np.array(scopes),
        **late,
    )


def in_short(policy):
    """'c3' for the choice in round 3, 'l3' for learning its reward."""
    return " ".join(f"{note[0][0]}{note[1] // (1 + (note[0] == 'learn'))}" for note in policy.notes)


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ({}, "c0 l0 c1 l1 c2 l2 c3 l3 c4 l4 c5 l5 c6 l6"),
        ({"batch": 3}, "c0 c1 c2 l0 l1 l2 c3 c4 c5 l3 l4 l5 c6 l6"),
        ({"delay": 1}, "c0 c1 l0 c2 l1 c3 l2 c4 l3 c5 l4 c6 l5 l6"),
        ({"delay": 4}, "c0 c1 c2 c3 c4 l0 c5 l1 c6 l2 l3 l4 l5 l6"),
        ({"delay": 100}, "c0 c1 c2 c3 c4 c5 c6 l0 l1 l2 l3 l4 l5 l6"),
        ({"batch": 100}, "c0 c1 c2 c3 c4 c5 c6 l0 l1 l2 l3 l4 l5 l6"),
        ({"batch": 2, "delay": 1}, "c0 c1 c2 l0 l1 c3 c4 l2 l3 c5 c6 l4 l5 l6"),
    ],
)
def test_late_rewards_are_learned_in_order_when_the_rounds_say(late, expected):
    policy = Diary()
    trace = simulate(policy, numbered(7, **late))
    assert in_short(policy) == expected
    assert [change.round for change in trace.changes] == list(range(1, 8)), "every reward is learned once"
    assert trace.choices.tolist() == [0, 1, 0, 1, 0, 1, 0]
    for note in policy.notes:
        if note[0] == "learn":
            t, index = divmod(note[1], 2)
            assert note[2:] == (note[1] / 2.0, t + 100 * index), "the reward and the id of the arm that was played"


def test_only_a_policy_that_minds_is_told_what_is_pending():
    told, plain, early = Minding(), Diary(), Minding()
    simulate(told, numbered(5, batch=2))
    simulate(plain, numbered(5, batch=2))
    simulate(early, numbered(5))
    assert [dict(note[2:]) for note in told.notes if note[0] == "choose"] == [{"pending": n} for n in (0, 1, 0, 1, 0)]
    assert all(len(note) == 2 for note in plain.notes if note[0] == "choose")
    assert all(len(note) == 2 for note in early.notes if note[0] == "choose"), "nothing is ever pending"


def test_a_scoped_policy_is_told_what_is_pending_for_the_scope():
    policy = MindingByUser()
    simulate(policy, numbered(6, scopes=["a", "b", "a", "a", "b", "b"], delay=3))
    told = [dict(note[2:]) for note in policy.notes if note[0] == "choose"]
    assert [(note["scope"], note["pending"]) for note in told] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("a", 2),  # before round 0 is answered, which happens after this choice
        ("b", 1),
        ("b", 1),
    ]
    learned = [dict(note[4:])["scope"] for note in policy.notes if note[0] == "learn"]
    assert learned == ["a", "b", "a", "a", "b", "b"]
    everyone = MindingByUser()
    simulate(everyone, numbered(3, delay=5))
    assert [dict(note[2:]) for note in everyone.notes if note[0] == "choose"] == [
        {"scope": 0, "pending": n} for n in range(3)
    ]


def test_late_rewards_cost():
    world = World(features="sphere", thetas="sphere", noise=0.1, path="still", horizon=3000)
    regrets = [
        simulate(LinUCB(10, explore=0.1), dataclasses.replace(world, **late).rounds(0)).regret.sum()
        for late in ({}, {"delay": 100}, {"batch": 1000})
    ]
    assert regrets == sorted(regrets)
    assert regrets[2] > 5 * regrets[0]


def test_the_policys_class_names_the_trace_by_default():
    assert simulate(Scripted([0, 0, 0]), by_hand()).policy == "Scripted"
