"""Scopes that learn from each other as far as they are alike."""

import copy
import pickle

import numpy as np
import pytest

from driftbandit import UCB1, Change, DLinUCB, LinTS, LinUCB, check_policy, load
from driftbandit.policies.registry import REGISTRY, Brief
from driftbandit.policies.scoped.per_scope import PerScope
from driftbandit.policies.scoped.pooling import Pool

DIM = 4


def unit(array):
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def play(policy, *, shared, users=100, rounds=20, noise=0.1, seed=0, scale=1.0):
    """Regret per user; tastes are partly shared, users come in random order. Also the choices."""
    rng = np.random.default_rng([5, seed])
    own, common = unit(rng.standard_normal((users, DIM))), unit(rng.standard_normal(DIM))
    tastes = unit(shared**0.5 * common + (1.0 - shared) ** 0.5 * own)
    regret, choices = 0.0, []
    for user in rng.permutation(np.repeat(np.arange(users), rounds)).tolist():
        pool = unit(rng.standard_normal((10, DIM)))
        means = pool @ tastes[user]
        arm = policy.choose(scale * pool, scope=user)
        policy.learn(scale * pool[arm], float(scale * (means[arm] + noise * rng.standard_normal())), scope=user)
        regret += means.max() - means[arm]
        choices.append(arm)
    return regret / users, choices


def snapshot(policy):
    return {name: (array.dtype, array.tobytes()) for name, array in policy.state().items()}


class Everyone:
    """One policy for all scopes."""

    def __init__(self):
        self.inner = LinUCB(DIM)

    def choose(self, features, arms=None, *, scope):
        return self.inner.choose(features)

    def learn(self, features, reward, arm=None, *, scope):
        return self.inner.learn(features, reward)


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_pooled_is_no_worse_than_the_better_of_personal_and_shared(shared, noise):
    """Regret over four seeds; where all is shared, it is that of the first rounds, of which chance is a fifth."""
    world = {"shared": shared, "noise": noise}
    pooled, personal, everyone = (
        sum(play(build(), seed=seed, **world)[0] for seed in range(4))
        for build in (lambda: PerScope(LinUCB(DIM), pool=True), lambda: PerScope(LinUCB(DIM)), Everyone)
    )
    assert pooled <= min(personal, 1.25 * everyone)


def test_half_shared_tastes_halve_the_regret():
    pooled, personal = (
        sum(play(PerScope(LinUCB(DIM), pool=pool), shared=0.5, seed=seed)[0] for seed in range(4))
        for pool in (True, False)
    )
    assert pooled < 0.5 * personal


def test_units_of_rewards_and_features_do_not_matter():
    """A power of two scales every number exactly; the first choices are made by LinUCB's own ridge and are left out."""
    _, plain = play(PerScope(LinUCB(DIM, ridge=1e-3), pool=True), shared=0.5)
    _, scaled = play(PerScope(LinUCB(DIM, ridge=1e-3), pool=True), shared=0.5, scale=1024.0)
    assert np.mean(np.array(plain[20:]) == np.array(scaled[20:])) > 0.95


@pytest.mark.parametrize("policy", [LinTS(DIM), DLinUCB(DIM, 0.1), UCB1(), lambda scope: LinUCB(DIM)])
def test_what_cannot_be_pooled_is_refused(policy):
    with pytest.raises(ValueError, match=r"^pool: expected a policy to copy that can be pooled, such as LinUCB, got"):
        PerScope(policy, pool=True)


def test_a_learn_of_ones_own_is_not_pooled_unless_it_says_so():
    class Counting(LinUCB):
        def learn(self, features, reward, arm=None):
            return super().learn(features, reward, arm)

    class Sure(Counting):
        can_pool = True

    assert not Counting(DIM).can_pool
    assert PerScope(Sure(DIM), pool=True).pool


@pytest.mark.parametrize("dim", [1, 4, 25])
def test_contract(dim):
    check_policy(PerScope(LinUCB(dim), pool=True))
    check_policy(REGISTRY["pooled-scopes"].build(Brief(dim, noise=0.1)))


def test_what_it_says_about_itself():
    policy = PerScope(LinUCB(DIM), pool=True, max_scopes=9)
    assert not policy.scopes_apart
    assert PerScope(LinUCB(DIM)).scopes_apart
    assert policy.settings()["pool"] is True
    assert repr(policy) == "<PerScope(build=LinUCB(dim=4), pool=True, max_scopes=9) rounds=0, scopes=0>"


def twins(policy, path):
    policy.save(path)
    settings = {"pool": True, "max_scopes": policy.max_scopes}
    other = PerScope(LinUCB(DIM), **settings)
    play(other, shared=0.0, users=7, seed=9)
    return [
        PerScope(LinUCB(DIM), **settings).restore(policy.state()),
        other.restore(policy.state()),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
        copy.copy(policy),
        load(path),
    ]


@pytest.mark.parametrize("rounds", [0, 1, 20])
@pytest.mark.parametrize("max_scopes", [6, 1000])
def test_copies_continue_bit_for_bit(tmp_path, max_scopes, rounds):
    policy = PerScope(LinUCB(DIM), pool=True, max_scopes=max_scopes)
    play(policy, shared=0.5, users=10, rounds=rounds)
    copies = twins(policy, tmp_path / "policy.npz")
    _, expected = play(policy, shared=0.5, users=10, seed=1)
    for twin in copies:
        assert play(twin, shared=0.5, users=10, seed=1)[1] == expected
        assert snapshot(twin) == snapshot(policy)


def test_being_asked_changes_nothing_that_was_learned():
    """Neither in the scope that is asked, however old its belief, nor in the pool."""
    asked, left = PerScope(LinUCB(DIM), pool=True), PerScope(LinUCB(DIM), pool=True)
    rng = np.random.default_rng(0)
    for t in range(300):
        x, reward, scope = rng.standard_normal(DIM), rng.standard_normal(), t % 7
        for policy in (asked, left):
            policy.learn(x, reward, scope=scope)
        asked.choose(rng.standard_normal((5, DIM)), scope=int(rng.integers(7)))
    mine, theirs = snapshot(asked), snapshot(left)
    mine.pop("scopes"), theirs.pop("scopes")  # the order of use differs
    assert mine == theirs


def test_forgotten_scopes_leave_the_pool_as_it_is():
    policy = PerScope(LinUCB(DIM), pool=True, max_scopes=50)
    play(policy, shared=1.0, users=50)
    before = {name: array for name, array in policy.state().items() if name.startswith("pool.")}
    for scope in policy.scopes:
        policy.forget(scope)
    assert policy.scopes == ()
    state = policy.state()
    assert state.keys() == before.keys() | {"rounds", "scopes"}
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    policy.choose(np.eye(DIM), scope="new")
    assert policy.policy_of("new").feature_weights @ policy.policy_of("new").feature_weights > 0.5


def test_a_failed_call_for_an_unknown_scope_leaves_nothing():
    policy = PerScope(LinUCB(DIM), pool=True)
    play(policy, shared=1.0, users=5)
    before = snapshot(policy)
    for call in (
        lambda: policy.choose(np.eye(2), scope="x"),
        lambda: policy.choose(np.full((2, DIM), np.nan), scope="x"),
        lambda: policy.learn(np.ones(DIM), np.nan, scope="x"),
        lambda: policy.learn(np.full(DIM, np.inf), 1.0, scope="x"),
        lambda: policy.learn(np.ones(2), 1.0, scope="x"),
    ):
        with pytest.raises(ValueError, match=r"features|reward"):
            call()
    assert snapshot(policy) == before
    assert len(policy._told) == len(policy.scopes)


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.pop("pool.bank"),
        lambda s: s.pop("pool.memo"),
        lambda s: s.update({"pool.more": np.zeros(1)}),
        lambda s: s.update({"pool.mean": np.full(DIM, np.nan)}),
        lambda s: s.update({"pool.mean": np.zeros(DIM + 1)}),
        lambda s: s.update({"pool.spread": -s["pool.spread"]}),
        lambda s: s.update({"pool.memo": -s["pool.memo"]}),
        lambda s: s.update({"pool.memo": np.array([0.0, 1.0, 1.0, 1.0, 3.0, 9.0])}),
        lambda s: s.pop("scope.0.sums"),
        lambda s: s.update({"scope.0.sums": np.zeros(3)}),
        lambda s: s.update({"scope.0.sums": np.full(DIM * (DIM + 3) // 2, np.inf)}),
        lambda s: s.update({"scope.0.bank": np.zeros((1, 2))}),
        lambda s: s.pop("rounds"),
    ],
)
def test_a_damaged_state_is_refused_and_nothing_changes(damage):
    policies = [PerScope(LinUCB(DIM), pool=True) for _ in range(2)]
    for seed, policy in enumerate(policies):
        play(policy, shared=0.5, users=3, seed=seed)
    state = policies[0].state()
    damage(state)
    before = snapshot(policies[1])
    with pytest.raises(ValueError, match="state"):
        policies[1].restore(state)
    assert snapshot(policies[1]) == before


def test_states_with_and_without_a_pool_do_not_mix():
    apart, pooled = PerScope(LinUCB(DIM)), PerScope(LinUCB(DIM), pool=True)
    for policy in (apart, pooled):
        play(policy, shared=0.5, users=3)
    with pytest.raises(ValueError, match="state"):
        PerScope(LinUCB(DIM), pool=True).restore(apart.state())
    with pytest.raises(ValueError, match="state"):
        PerScope(LinUCB(DIM)).restore(pooled.state())


class Restless(LinUCB):
    """Says at its fifth reward that tastes shifted, and starts anew."""

    can_pool = True

    def learn(self, features, reward, arm=None):
        super().learn(features, reward, arm)
        return (Change(self.rounds, "restarted", 0, {}),) if self.rounds == 5 else ()


def test_a_scope_that_restarts_counts_as_a_new_one_in_the_pool():
    policy = PerScope(Restless(DIM), pool=True)
    rng = np.random.default_rng(0)
    for t in range(1, 8):
        policy.learn(rng.standard_normal(DIM), 1.0, scope="ann")
        assert policy.state()['scope."ann".sums'].any() == (t != 5)


def test_rewards_without_news_do_no_harm():
    """Features of 0, rewards of 0, rewards without noise: nothing is known of the noise, or it is nearly 0."""
    policy = PerScope(LinUCB(2), pool=True)
    policy.learn([0.0, 0.0], 1.0, scope=1)
    for t in range(50):
        policy.learn(np.eye(2)[t % 2], 0.0, scope=t % 3)
    assert policy.choose(np.eye(2), scope=1) in (0, 1)
    exact = PerScope(LinUCB(2), pool=True)
    for t in range(200):
        exact.learn(np.eye(2)[t % 2], float(t % 2), scope=t % 5)
    assert exact.choose(np.eye(2), scope="new") == 1
    assert all(np.isfinite(array).all() for array in exact.state().values())


def test_a_scope_costs_two_triangles_and_shares_its_model():
    policy = PerScope(LinUCB(DIM), pool=True)
    play(policy, shared=0.5, users=30)
    first, second = policy.policy_of(0), policy.policy_of(1)
    assert first.reward_model is second.reward_model
    own = sum(array.nbytes for name, array in policy.state().items() if name.startswith("scope.0."))
    plain = sum(array.nbytes for array in LinUCB(DIM).state().values())
    sums = 8 * (DIM + DIM * (DIM + 1) // 2)
    assert own == plain + 2 * sums + 8 * 5


def test_the_pool_forgets_slowly():
    """2,000 users who like one thing, then 20,000 rewards of users who like the opposite."""
    rng = np.random.default_rng(0)
    pool = Pool(1)
    for user in range(30_000):
        pool.learn(user, np.ones(1), (1.0 if user < 10_000 else -1.0) + 0.1 * rng.standard_normal())
        pool.restart(user)
    assert pool.belief.mean[0] < -0.55  # the mean of all is -1/3
