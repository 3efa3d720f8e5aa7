"""DyClu against a plain reading of its steps, its limits, its error rates, and what it is for."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chi2

from driftbandit import DLinUCB, DyClu, LinUCB, PerScope, Radius, check_policy
from driftbandit.kernels import units


class Naive:
    """The steps of the paper, with pseudo-inverses and ranks from scratch."""

    def __init__(self, dim, noise, *, window=20, explore=0.3, ridge=0.1):
        self.dim, self.noise, self.window, self.explore, self.ridge = dim, noise, window, explore, ridge
        self.now, self.past, self.bits, self.events = {}, [], {}, []
        self.rounds = 0

    def sums(self, unit):
        x, r = np.array([x for x, _ in unit]).reshape(-1, self.dim), np.array([r for _, r in unit])
        return x.T @ x, x.T @ r

    def agree(self, mine, other):
        (gram, moment), (other_gram, other_moment) = self.sums(mine), self.sums(other)
        rank = np.linalg.matrix_rank
        free = rank(gram) + rank(other_gram) - rank(gram + other_gram)
        if free == 0:
            return True
        joint = np.linalg.pinv(gram + other_gram) @ (moment + other_moment)
        gap, other_gap = np.linalg.pinv(gram) @ moment - joint, np.linalg.pinv(other_gram) @ other_moment - joint
        statistic = (gap @ gram @ gap + other_gap @ other_gram @ other_gap) / self.noise**2
        return statistic <= chi2.ppf(0.99, free)

    def choose(self, pool, scope):
        mine = self.now.get(scope, [])
        joined = [unit for user, unit in self.now.items() if user == scope or self.agree(mine, unit)]
        joined += [unit for unit in self.past if self.agree(mine, unit)]
        gram, moment = self.ridge * np.eye(self.dim), np.zeros(self.dim)
        for unit in joined:
            part, sums = self.sums(unit)
            gram, moment = gram + part, moment + sums
        inverse = np.linalg.inv(gram)
        widths = np.sqrt(np.einsum("kd,de,ke->k", pool, inverse, pool))
        scores = pool @ inverse @ moment + self.explore * widths
        return int(np.argmax(scores >= scores.max() - 1e-12))

    def learn(self, x, reward, scope):
        self.rounds += 1
        unit, bits = self.now.setdefault(scope, []), self.bits.setdefault(scope, [])
        gram, moment = self.sums(unit)
        miss = 0
        if np.linalg.matrix_rank(gram) == self.dim:
            inverse = np.linalg.inv(gram)
            square = (reward - x @ inverse @ moment) ** 2 / (self.noise**2 * (1 + x @ inverse @ x))
            miss = int(square > chi2.ppf(0.99, 1))
        if not miss:
            unit.append((x, reward))
        bits.append(miss)
        recent = bits[-self.window :]
        if np.mean(recent) > 0.1 + math.sqrt(math.log(10) / (2 * len(recent))):
            self.events.append((self.rounds, scope))
            self.past.append(unit)
            self.now[scope], self.bits[scope] = [], []


def stream(seed, rounds, *, users=20, kinds=3, dim=6, noise=0.1, pool=10, period=1500):
    """Every user has one of a few tastes, and takes another one of them every `period` rounds of all users."""
    rng = np.random.default_rng([seed, 9])
    tastes = rng.standard_normal((kinds, dim))
    tastes /= np.linalg.norm(tastes, axis=1, keepdims=True)
    holds, offsets = rng.integers(kinds, size=users), rng.integers(period, size=users)
    for t in range(rounds):
        for user in np.flatnonzero((t + offsets) % period == period - 1):
            holds[user] = (holds[user] + 1 + rng.integers(kinds - 1)) % kinds
        user = int(rng.integers(users))
        features = rng.standard_normal((pool, dim))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        yield user, features, features @ tastes[holds[user]], noise * rng.standard_normal()


def snapshot(policy):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in policy.state().items()}


def test_follows_its_steps():
    naive, policy = Naive(3, 0.1), DyClu(3, 0.1, explore=0.3)
    for user, pool, means, noise in stream(0, 600, users=6, dim=3, kinds=2, period=200):
        index = policy.choose(pool, scope=user)
        assert index == naive.choose(pool, user)
        naive.learn(pool[index], means[index] + noise, user)
        policy.learn(pool[index], means[index] + noise, scope=user)
    assert [(change.round, policy.users[change.member]) for change in policy.changes] == naive.events
    assert len(naive.events) >= 10
    assert policy._archived == len(naive.past)
    for user, unit in naive.now.items():
        row = policy.users.index(user)
        assert policy._current[row, units.COUNT] == len(unit)
        others = [other for other in naive.now if other != user and naive.agree(unit, naive.now[other])]
        assert set(policy.alike(user)) == set(others)


@pytest.mark.parametrize("users", [1, 8])
def test_without_its_tests_it_is_one_linucb(users):
    policy = DyClu(4, 0.1, unlike=0.0, surprise=0.0)
    linucb = LinUCB(4, explore=Radius.paper(4, noise=0.1, ridge=0.1, delta=0.01))
    for user, pool, means, noise in stream(1, 400, users=users, dim=4):
        index = policy.choose(pool, scope=user)
        assert index == linucb.choose(pool)
        policy.learn(pool[index], means[index] + noise, scope=user)
        linucb.learn(pool[index], means[index] + noise)
    assert policy.changes == ()


def test_a_single_user_who_never_changes_is_served_by_linucb():
    """Rewards that surprise are not learned, a hundredth of them; the bound here is one that none of these passes."""
    policy = DyClu(4, 0.1, surprise=1e-9, explore=0.3)
    linucb = LinUCB(4, explore=0.3)
    for _, pool, means, noise in stream(2, 400, users=1, dim=4, period=10**6):
        index = policy.choose(pool, scope="ann")
        assert index == linucb.choose(pool)
        policy.learn(pool[index], means[index] + noise, scope="ann")
        linucb.learn(pool[index], means[index] + noise)


def test_two_users_with_one_taste_are_parted_as_often_as_was_asked():
    """600 pairs at 5 %: 30 are expected, with a standard deviation of 5.3; 4 of those are allowed for."""
    rng = np.random.default_rng(3)
    parted = 0
    for _ in range(600):
        policy = DyClu(3, 0.2, unlike=0.05, surprise=0.0)
        theta = rng.standard_normal(3)
        for user in (0, 1):
            for x in rng.standard_normal((12, 3)):
                policy.learn(x, x @ theta + 0.2 * rng.standard_normal(), scope=user)
        parted += policy.alike(0) == ()
    assert abs(parted - 30) < 4 * 5.3


def test_rewards_surprise_as_often_as_was_asked():
    """4,000 rewards at 5 %: 200 are expected, with a standard deviation of 14.

    Rewards that surprise are not learned, which makes the noise look smaller; at 5 % that is below what is allowed for,
    4 standard deviations.
    """
    rng = np.random.default_rng(4)
    policy = DyClu(3, 0.2, surprise=0.05, delta=1.0)
    theta = rng.standard_normal(3)
    for x in rng.standard_normal((4000, 3)):
        policy.learn(x, x @ theta + 0.2 * rng.standard_normal(), scope=0)
    assert abs(4000 - policy._ledger[0, 4] - 200) < 4 * 14


def test_distant_tastes_are_told_apart_after_about_two_rewards_a_feature():
    rng = np.random.default_rng(5)
    policy = DyClu(4, 0.1)
    for n in range(1, 13):
        for user, sign in ((0, 1.0), (1, -1.0)):
            x = rng.standard_normal(4)
            policy.learn(x, sign * x.sum() / 2.0 + 0.1 * rng.standard_normal(), scope=user)
        if n <= 2:
            assert policy.alike(0) == (1,)  # no direction was seen by both
    assert policy.alike(0) == ()


def test_directions_not_seen_by_both_do_not_count():
    policy = DyClu(2, 0.1)
    for _ in range(50):
        policy.learn([1.0, 0.0], 1.0, scope="ann")
        policy.learn([0.0, 1.0], -1.0, scope="bob")
    assert policy.alike("ann") == ("bob",)
    policy.learn([1.0, 0.0], -1.0, scope="bob")
    assert policy.alike("ann") == ()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_ranks_and_tests_do_not_depend_on_the_scale_of_a_feature(scale):
    rng = np.random.default_rng(6)
    policy = DyClu(3, 0.1, surprise=0.0)
    for x in rng.standard_normal((40, 3)):
        policy.learn(x * [1.0, scale, 1.0], x.sum() + 0.1 * rng.standard_normal(), scope=0)
    assert policy._current[0, units.RANK] == 3.0
    dependent = DyClu(3, 0.1)
    for x in rng.standard_normal((40, 3)):
        x[2] = scale * (x[0] - 2.0 * x[1])
        dependent.learn(x, x[0], scope=0)
    assert dependent._current[0, units.RANK] == 2.0


def test_a_change_is_detected_where_features_never_have_full_rank():
    policy = DyClu(5, 0.1)
    arms = np.eye(5)[:2]
    for t in range(40):
        policy.learn(arms[t % 2], 0.5, scope=0)
    changes = []
    for t in range(20):
        changes += policy.learn(arms[t % 2], -0.5, scope=0)
        if changes:
            break
    (change,) = changes
    assert (change.kind, change.member, change.round) == ("restarted", 0, 40 + t + 1)
    assert change.evidence["miss_rate"] > change.evidence["bound"]
    assert change.evidence == pytest.approx(
        {"miss_rate": 7 / 20, "bound": 0.1 + math.sqrt(math.log(10) / 40), "age": 47.0, "updates": 40.0}
    )


def test_a_user_who_changes_joins_those_who_have_been_there():
    """An arm that the changed user never saw after the change is chosen by what the others know."""
    policy = DyClu(2, 0.1)
    for _ in range(40):
        for user, theta in (("ann", [0.5, 0.0]), ("bob", [-0.5, 0.9])):
            for x in np.eye(2):
                policy.learn(x, x @ theta, scope=user)
    for _ in range(20):
        policy.learn([1.0, 0.0], -0.5, scope="ann")
    assert [policy.users[change.member] for change in policy.changes] == ["ann"]
    assert policy.alike("ann") == ("bob",)
    assert policy.choose(np.eye(2), scope="ann") == 1


def test_users_who_share_tastes_that_change_gain_by_it():
    """20 users, three tastes, 6,000 rounds, a change of every user each 1,500 of them; three seeds.

    Measured: 1,425 lost in all, 2,618 by a dLinUCB for every user, and 1,794 by one with a window of 20, the best of a
    few on other seeds; the order was the same on every seed. About half of each gain is asked for.
    """
    regret = {"dyclu": 0.0, "own": 0.0, "short": 0.0}
    for seed in (0, 1, 2):
        policies = {
            "dyclu": DyClu(6, 0.1),
            "own": PerScope(DLinUCB(6, 0.1)),
            "short": PerScope(DLinUCB(6, 0.1, window=20)),
        }
        for user, pool, means, noise in stream(seed, 6000):
            for name, policy in policies.items():
                index = policy.choose(pool, scope=user)
                regret[name] += means.max() - means[index]
                policy.learn(pool[index], means[index] + noise, scope=user)
    assert regret["dyclu"] < 0.75 * regret["own"]
    assert regret["dyclu"] < 0.9 * regret["short"]


def test_the_archive_keeps_the_latest_units():
    for most in (0, 1, 6):
        policy = DyClu(1, 0.1, max_archived=most)
        for level in range(10):
            for _ in range(40):
                policy.learn([1.0], 10.0 * level, scope=0)
        assert policy._archived == (9 if most else 0)
        assert len(policy._archive) == min(most, 9) if most else len(policy._archive) == 0
        kept = policy._archive[:, units.MOMENT] / np.maximum(policy._archive[:, units.COUNT], 1.0)
        assert sorted(kept.round().tolist()) == [10.0 * level for level in range(9 - most, 9)]


def test_a_stranger_is_served_by_everyone_and_changes_nothing():
    policy = DyClu(2, 0.1, explore=0.0)
    for user in range(20):
        policy.learn([0.0, 1.0], 1.0, scope=user)
    before = snapshot(policy)
    assert policy.choose(np.eye(2), scope="new") == 1
    assert policy.alike("new") == tuple(range(20))
    assert snapshot(policy) == before


def play(policy, seed, rounds=300):
    choices = []
    for user, pool, means, noise in stream(seed, rounds, users=18, dim=3, period=100):
        scope = user if user % 3 else f"user {user}."
        index = policy.choose(pool, scope=scope)
        policy.learn(pool[index], means[index] + noise, scope=scope)
        choices.append(index)
    return choices


def test_copies_continue_bit_for_bit():
    policy = DyClu(3, 0.05, max_archived=5)
    play(policy, 0, rounds=1500)
    assert policy._archived > 5
    twins = [
        DyClu(3, 0.05, max_archived=5).restore(policy.state()),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
    ]
    expected = play(policy, 1)
    for twin in twins:
        assert play(twin, 1) == expected
        assert twin.users == policy.users
        assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users", np.zeros(3)),
        ("users", np.array([ord(c) for c in str(list(range(50)))])),
        ("current", np.zeros((8, 12))),
        ("current", np.full((16, 12), 4.0)),
        ("ledger", np.full((16, 25), -1)),
        ("archived", np.array(3)),
        ("archive", np.zeros((2000, 12))),
    ],
)
def test_a_damaged_state_is_refused_and_nothing_changes(name, value):
    policy = DyClu(3, 0.1)
    for user in range(5):
        policy.learn(np.ones(3), 0.1, scope=user)
    before = snapshot(policy)
    with pytest.raises(ValueError, match="state"):
        policy.restore({**policy.state(), name: value})
    assert snapshot(policy) == before


@pytest.mark.parametrize("scope", [None, 1.0, True, "", [1]])
def test_bad_scopes_raise_and_change_nothing(scope):
    policy = DyClu(3, 0.1)
    policy.learn(np.ones(3), 1.0, scope=1)
    before = snapshot(policy)
    with pytest.raises(ValueError, match="scope: expected"):
        policy.choose(np.eye(3), scope=scope)
    with pytest.raises(ValueError, match="scope: expected"):
        policy.learn(np.ones(3), 1.0, scope=scope)
    assert snapshot(policy) == before


def test_one_user_too_many_is_refused_and_nothing_changes():
    policy = DyClu(1, 0.1, max_users=3)
    for user in range(3):
        policy.learn([1.0], 0.5, scope=user)
    before = snapshot(policy)
    with pytest.raises(ValueError, match=r"scope: 'new' .* max_users = 3"):
        policy.learn([1.0], 0.5, scope="new")
    assert snapshot(policy) == before
    assert policy.choose([[1.0]], scope="new") == 0


class OneUser:
    """DyClu seen through a single user, as a plain policy."""

    dim = 3

    def __init__(self, policy, scope):
        self.inner, self.scope = policy, scope

    def choose(self, features, arms=None):
        return self.inner.choose(features, arms, scope=self.scope)

    def learn(self, features, reward, arm=None):
        return self.inner.learn(features, reward, arm, scope=self.scope)

    def state(self):
        return self.inner.state()

    def restore(self, state):
        self.inner.restore(state)
        return self


@pytest.mark.parametrize("scope", ["new", 1])
def test_contract(scope):
    policy = DyClu(3, 0.1)
    for user in range(16):  # a newcomer would have to make the arrays grow
        policy.learn(np.ones(3), 0.2, scope=user)
    check_policy(OneUser(policy, scope))


@pytest.mark.parametrize(
    "settings",
    [
        {"dim": 0},
        {"noise": 0.0},
        {"ridge": 0.0},
        {"explore": -1.0},
        {"unlike": 1.5},
        {"surprise": -0.1},
        {"delta": 2.0},
        {"window_delta": 0.0},
        {"window": 0},
        {"max_users": 0},
        {"max_archived": -1},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}: "):
        DyClu(**{"dim": 2, "noise": 0.1, **settings})
