"""One policy per scope, one model per arm."""

import copy
import io
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit import UCB1, AdTS, DLinUCB, DriftUCB, LinTS, LinUCB, RewardModel, check_policy
from driftbandit.conformance import checker
from driftbandit.core import as_scope
from driftbandit.policies.scoped.per_arm import PerArm
from driftbandit.policies.scoped.per_scope import PerScope
from driftbandit.policies.scoped.scopes import decode_scopes, encode_scopes

DIM = 3
BAD_SCOPES = [None, float("nan"), 1.0, True, 2**63, -(2**63) - 1, "", "x" * 101, "a\nb", "\ud800", [1], (1,), b"a"]
POLICIES = [
    LinUCB(DIM),
    LinTS(DIM, seed=3),
    DLinUCB(DIM, noise=0.1, window=20),
    DLinUCB(DIM, noise=0.1, window=20, model="thompson"),
    UCB1(seed=3),
]


def rounds(count, seed=0):
    """Pools with ids, and for every arm a reward in [0, 1] that turns round half-way."""
    rng = np.random.default_rng(seed)
    for t in range(count):
        pool = rng.standard_normal((5, DIM)) / 3.0
        sign = 1.0 if t < count // 2 else -1.0
        yield pool, rng.permutation(9)[:5], 0.5 + 0.4 * sign * np.tanh(pool.sum(axis=1))


def snapshot(policy):
    return {name: (array.dtype, array.tobytes()) for name, array in policy.state().items()}


def seeded_lints(scope):
    return LinTS(DIM, seed=len(str(scope)))


class OneScope:
    """A `PerScope` seen through a single scope, as a plain policy."""

    dim = DIM

    def __init__(self, policy):
        self.inner = policy

    def choose(self, features, arms=None):
        return self.inner.choose(features, arms, scope="all")

    def learn(self, features, reward, arm=None):
        return self.inner.learn(features, reward, arm, scope="all")

    def state(self):
        return self.inner.state()

    def restore(self, state):
        self.inner.restore(state)
        return self


@pytest.mark.parametrize("plain", POLICIES, ids=lambda p: type(p).__name__)
def test_one_scope_is_the_plain_policy(plain):
    plain = copy.deepcopy(plain)
    policy = PerScope(plain)
    detected = 0
    for pool, arms, rewards in rounds(300):
        index = policy.choose(pool, arms, scope=7)
        assert index == plain.choose(pool, arms)
        changes = policy.learn(pool[index], rewards[index], int(arms[index]), scope=7)
        assert changes == plain.learn(pool[index], rewards[index], int(arms[index]))
        detected += len(changes)
    assert policy.changes_of(7) == plain.changes
    assert policy.rounds == plain.rounds == 300
    assert detected == len(plain.changes)
    if isinstance(plain, DLinUCB):
        assert detected > 0  # or the comparison of changes would show nothing


@pytest.mark.parametrize("template", POLICIES, ids=lambda p: type(p).__name__)
def test_interleaved_scopes_are_separate_policies(template):
    scopes = [3, "3", -1, "anna.b"]
    policy = PerScope(template)
    separate = {scope: copy.deepcopy(template) for scope in scopes}
    rng = np.random.default_rng(1)
    for pool, arms, rewards in rounds(400):
        scope = scopes[rng.integers(4)]
        sign = 1.0 if scope == 3 else -1.0
        index = policy.choose(sign * pool, arms, scope=scope)
        assert index == separate[scope].choose(sign * pool, arms)
        policy.learn(pool[index], rewards[index], int(arms[index]), scope=scope)
        separate[scope].learn(pool[index], rewards[index], int(arms[index]))
    for scope in scopes:
        assert snapshot(policy.policy_of(scope)) == snapshot(separate[scope])
        assert policy.changes_of(scope) == separate[scope].changes


def test_the_template_is_copied_when_it_is_given():
    template = LinUCB(DIM)
    policy = PerScope(template)
    template.learn(np.ones(DIM), 1.0)
    policy.learn(np.ones(DIM), 1.0, scope=1)
    assert policy.policy_of(1).rounds == 1


def test_a_function_builds_the_policy_of_a_scope():
    policy = PerScope(lambda scope: LinUCB(DIM, explore=0.0) if scope == 0 else LinUCB(DIM, explore=5.0))
    pool = np.array([[0.1, 0.0, 0.0], [0.0, 1.0, 0.0]])
    for scope in (0, 1):
        policy.learn(pool[0], 0.1, scope=scope)
    assert [policy.choose(pool, scope=scope) for scope in (0, 1)] == [0, 1]


@pytest.mark.parametrize("build", [LinUCB, 3, None, "linucb", lambda scope: None, lambda scope: object()])
def test_what_builds_no_policy_is_refused(build):
    with pytest.raises(ValueError, match="build"):
        PerScope(build).choose(np.eye(DIM), scope=1)


def test_at_max_scopes_the_half_used_longest_ago_is_forgotten():
    policy = PerScope(LinUCB(DIM), max_scopes=5)
    x = np.ones(DIM)
    for scope in range(5):
        policy.learn(x, 1.0, scope=scope)
    policy.choose(np.eye(DIM), scope=0)  # choosing is using
    assert policy.scopes == (1, 2, 3, 4, 0)
    with pytest.raises(ValueError, match="reward"):
        policy.learn(x, np.nan, scope=5)
    with pytest.raises(ValueError, match="features"):
        policy.choose(np.eye(2), scope=5)
    assert policy.scopes == (1, 2, 3, 4, 0)  # a failed call evicts nobody
    policy.learn(x, 1.0, scope=4)
    policy.learn(x, 1.0, scope=5)
    assert policy.scopes == (0, 4, 5)
    assert policy.rounds == 7
    policy.learn(x, 1.0, scope=1)  # forgotten: starts afresh
    assert policy.policy_of(1).rounds == 1
    assert policy.policy_of(4).rounds == 2


def test_a_single_scope_makes_room_for_the_next():
    policy = PerScope(LinUCB(DIM), max_scopes=1)
    for scope in (1, 2, 2):
        policy.learn(np.ones(DIM), 1.0, scope=scope)
    assert policy.scopes == (2,)
    assert policy.policy_of(2).rounds == 2


def test_forget():
    policy = PerScope(LinUCB(DIM))
    policy.learn(np.ones(DIM), 1.0, scope="ann")
    policy.forget("bob")
    policy.forget("ann")
    assert policy.scopes == ()
    assert policy.policy_of("ann") is None
    assert policy.changes_of("ann") == ()


def trained(build, scopes, max_scopes=6):
    policy = PerScope(build, max_scopes=max_scopes)
    play(policy, scopes, 0)
    return policy


def play(policy, scopes, seed):
    rng = np.random.default_rng(seed)
    choices = []
    for pool, arms, rewards in rounds(120, seed):
        scope = scopes[rng.integers(len(scopes))]
        index = policy.choose(pool, arms, scope=scope)
        policy.learn(pool[index], rewards[index], int(arms[index]), scope=scope)
        choices.append(index)
    return choices


def through_file(state):
    buffer = io.BytesIO()
    np.savez(buffer, **state)
    buffer.seek(0)
    with np.load(buffer) as saved:
        return dict(saved)


@pytest.mark.parametrize("build", [*POLICIES, seeded_lints], ids=lambda b: getattr(b, "__name__", type(b).__name__))
def test_copies_continue_bit_for_bit(build):
    # More scopes than fit, so that the order of use matters too.
    scopes = [1, -5, "1", 'a.b"\\', "log.total", "é/日本", " ", 2**62]
    policy = trained(build, scopes)
    twins = [
        PerScope(build, max_scopes=6).restore(policy.state()),
        PerScope(build, max_scopes=6).restore(through_file(policy.state())),
        trained(build, [9, 8]).restore(policy.state()),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
        copy.copy(policy),
    ]
    expected = play(policy, scopes, 5)
    for twin in twins:
        assert play(twin, scopes, 5) == expected
        assert twin.scopes == policy.scopes
        assert snapshot(twin) == snapshot(policy)


def test_the_state_names_the_scope():
    policy = PerScope(LinUCB(DIM))
    policy.learn(np.ones(DIM), 1.0, scope=7)
    policy.learn(np.ones(DIM), 1.0, scope="ann")
    names = policy.state().keys()
    assert {"rounds", "scopes", "scope.7.bank", 'scope."ann".bank'} <= names
    assert all(array.dtype in (np.int64, np.float64) for array in policy.state().values())


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.pop("rounds"),
        lambda s: s.pop("scopes"),
        lambda s: s.pop("scope.1.bank"),
        lambda s: s.update({"scope.1.more": np.zeros(1)}),
        lambda s: s.update({"scope.9.bank": np.zeros((1, 10))}),
        lambda s: s.update({"more": np.zeros(1)}),
        lambda s: s.update({"rounds": np.array(-1)}),
        lambda s: s.update({"rounds": np.array(1.0)}),
        lambda s: s.update({"scope.1.bank": np.zeros((1, 2))}),
        lambda s: s.update({"scopes": encode_scopes([1])}),
        lambda s: s.update({"scopes": encode_scopes([1, 2, 2])}),
        lambda s: s.update({"scopes": encode_scopes([1, 2, 3])}),
        lambda s: s.update({"scopes": np.full(10, ord("["), dtype=np.int64)}),
        lambda s: s.update({"scopes": np.full(100_000, ord("["), dtype=np.int64)}),
        lambda s: s.update({"scopes": np.array([ord(c) for c in "[1,2.5]"])}),
        lambda s: s.update({"scopes": np.array([ord(c) for c in "7"])}),
        lambda s: s.update({"scopes": np.array([ord(c) for c in '{"1":1}'])}),
        lambda s: s.update({"scopes": np.array([-1])}),
        lambda s: s.update({"scopes": np.zeros(3)}),
    ],
)
def test_a_damaged_state_is_refused_and_nothing_changes(damage):
    state = trained(LinUCB(DIM), [1, 2]).state()
    damage(state)
    policy = trained(LinUCB(DIM), [1, "x"])
    before = snapshot(policy)
    with pytest.raises(ValueError, match="state"):
        policy.restore(state)
    assert snapshot(policy) == before


def test_a_state_of_more_scopes_than_allowed_is_refused():
    with pytest.raises(ValueError, match="max_scopes = 2"):
        PerScope(LinUCB(DIM), max_scopes=2).restore(trained(LinUCB(DIM), [1, 2, 3]).state())


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.text(min_size=1, max_size=100).filter(str.isprintable)))
def test_scopes_survive_being_written_as_numbers(scopes):
    scopes = list(dict.fromkeys(scopes))
    assert decode_scopes(encode_scopes(scopes)) == scopes


@pytest.mark.parametrize("scope", BAD_SCOPES, ids=lambda s: ascii(s)[:20])
def test_bad_scopes_raise_and_change_nothing(scope):
    policy = trained(LinUCB(DIM), [1, 2])
    before = snapshot(policy)
    for call in (
        lambda: policy.choose(np.eye(DIM), scope=scope),
        lambda: policy.learn(np.ones(DIM), 1.0, scope=scope),
        lambda: policy.policy_of(scope),
        lambda: policy.changes_of(scope),
        lambda: policy.forget(scope),
    ):
        with pytest.raises(ValueError, match="scope: expected"):
            call()
    assert snapshot(policy) == before


def test_numpy_scopes_are_plain_ones():
    assert type(as_scope(np.int64(3))) is int
    assert type(as_scope(np.str_("a"))) is str
    policy = PerScope(LinUCB(DIM))
    policy.learn(np.ones(DIM), 1.0, scope=np.uint8(3))
    policy.learn(np.ones(DIM), 1.0, scope=3)
    assert policy.scopes == (3,)


@pytest.mark.parametrize("template", [LinUCB(DIM), DLinUCB(DIM, noise=0.1)], ids=lambda p: type(p).__name__)
def test_contract(template):
    check_policy(OneScope(PerScope(template)))
    check_policy(PerArm(template))


def test_a_scope_costs_its_own_arrays_and_no_settings():
    for template in (LinUCB(6), DLinUCB(6, noise=0.1)):
        policy = PerScope(template)
        for scope in range(100):
            policy.learn(np.ones(6) / 6.0, 0.1, scope=scope)
        own = sum(array.nbytes for name, array in policy.state().items() if name.startswith("scope."))
        assert own == 100 * sum(array.nbytes for array in template.state().values())
        first, second = policy.policy_of(0), policy.policy_of(1)
        assert first._model is second._model
        assert not np.shares_memory(first._bank, second._bank)


def test_per_arm_is_disjoint_linucb():
    """Li et al., Algorithm 1: an A and a b for every arm, all shown the same user."""
    rng = np.random.default_rng(0)
    policy = PerArm(LinUCB(DIM, ridge=0.5, explore=0.7))
    grams = {arm: 0.5 * np.eye(DIM) for arm in range(8)}
    moments = {arm: np.zeros(DIM) for arm in range(8)}
    tastes = rng.standard_normal((8, DIM))
    for _ in range(300):
        user, arms = rng.standard_normal(DIM), rng.permutation(8)[:4]
        scores = [
            user @ np.linalg.solve(grams[a], moments[a]) + 0.7 * np.sqrt(user @ np.linalg.solve(grams[a], user))
            for a in arms
        ]
        index = policy.choose(np.tile(user, (4, 1)), arms)
        assert index == int(np.argmax(np.array(scores) >= max(scores) - 1e-12))
        arm = int(arms[index])
        reward = float(user @ tastes[arm] + 0.1 * rng.standard_normal())
        policy.learn(user, reward, arm)
        grams[arm] += np.outer(user, user)
        moments[arm] += reward * user
    assert sorted(policy.arms) == list(range(8))
    assert policy.rounds == 300


def test_per_arm_of_coordinators_follows_their_leaders():
    """A shift of one article is noticed by its coordinator alone, and that article is then played."""
    rng = np.random.default_rng(0)
    policy = PerArm(DLinUCB(2, noise=0.1, window=30, explore=0.3))
    separate = {arm: DLinUCB(2, noise=0.1, window=30, explore=0.3) for arm in (10, 11)}
    for t in range(600):
        user = np.array([1.0, rng.uniform(-0.1, 0.1)])
        for arm in (10, 11):
            mean = 0.5 if arm == 10 else (0.2 if t < 300 else 0.8)
            reward = mean + 0.05 * rng.standard_normal()
            assert policy.learn(user, reward, arm) == separate[arm].learn(user, reward)
        if t in (299, 599):
            index = policy.choose(np.tile(user, (2, 1)), [10, 11])
            assert index == (0 if t < 300 else 1)
    assert policy.changes_of(10) == ()
    assert [change.kind for change in policy.changes_of(11)] == ["spawned", "retired"]
    assert 300 < policy.changes_of(11)[0].round < 330


def test_an_arm_without_rewards_gets_the_benefit_of_the_doubt_and_no_memory():
    policy = PerArm(LinUCB(1, explore=0.6))
    for _ in range(20):
        policy.learn([1.0], 1.0, arm=1)
    # A fresh model scores 0.6 / sqrt(0.1) = 1.90, the known arm about 1.13.
    assert policy.choose([[1.0], [1.0]], arms=[1, 2]) == 1
    assert policy.arms == (1,)


def test_per_arm_takes_other_models_by_their_own_bound():
    class Mean(RewardModel):
        size = 2

        def reset(self, row):
            row[:] = 0.0

        def predict(self, row, x):
            return row[1], 1.0 / (1.0 + row[0])

        def update(self, row, x, reward):
            row[0] += 1.0
            row[1] += (reward - row[1]) / row[0]

    for model in (Mean, "logistic"):
        policy = PerArm(DLinUCB(1, noise=1.0, model=model))
        for arm, reward in ((1, 0.1), (2, 0.9)):
            for _ in range(30):
                policy.learn([1.0], reward, arm)
        assert policy.choose([[1.0], [1.0]], [1, 2]) == 1
        assert policy.choose([[1.0], [1.0]], [2, 1]) == 0


@pytest.mark.parametrize("policy", [UCB1(), LinUCB, None])
def test_per_arm_refuses_what_has_no_model(policy):
    with pytest.raises(ValueError, match="policy"):
        PerArm(policy)


def test_per_arm_draws_scores_from_the_arms_posteriors():
    """Two arms with x = 1, ridge 1, explore 1: after 3 rewards of 1, theta ~ N(3/4, 1/4); without any, N(0, 1).

    The first wins with probability Phi(0.75 / sqrt(1.25)) = 0.749; the standard error over 4,000 choices is 0.007.
    """
    policy = PerArm(LinTS(1, ridge=1.0, explore=1.0), seed=5)
    for _ in range(3):
        policy.learn([1.0], 1.0, arm=1)
    wins = sum(policy.choose([[1.0], [1.0]], [1, 2]) == 0 for _ in range(4000))
    assert abs(wins / 4000 - 0.749) < 0.021


@pytest.mark.parametrize(
    "template",
    [
        LinTS(DIM, seed=3),
        AdTS(DIM),
        DLinUCB(DIM, noise=1.0, model="thompson"),
        DLinUCB(DIM, noise="auto", model="thompson"),
    ],
)
def test_per_arm_of_policies_that_sample_keeps_the_contract(template, monkeypatch):
    monkeypatch.setattr(checker, "_MANY_ARMS", 1000)  # test_contract has a million, which take seconds
    check_policy(PerArm(template, seed=2))
    policy = PerArm(template, seed=2)
    rng = np.random.default_rng(0)
    for _ in range(40):
        pool, arms = rng.standard_normal((4, DIM)), rng.permutation(6)[:4]
        index = policy.choose(pool, arms)
        policy.learn(pool[index], rng.random(), int(arms[index]))
    twin = PerArm(template, seed=9).restore(policy.state())
    pools = rng.standard_normal((30, 4, DIM))
    assert [policy.choose(pool, range(4)) for pool in pools] == [twin.choose(pool, range(4)) for pool in pools]


def test_per_arm_refuses_a_state_without_its_generator():
    policy = PerArm(LinTS(2))
    policy.learn([1.0, 0.0], 1.0, 3)
    before = snapshot(policy)
    state = policy.state()
    wrong = [{**state, "generator": words} for words in (np.zeros(5, dtype=np.int64), np.full(6, 1 << 40), np.zeros(6))]
    for damaged in ({name: state[name] for name in state if name != "generator"}, *wrong):
        with pytest.raises(ValueError, match="state: generator"):
            policy.restore(damaged)
        assert snapshot(policy) == before


def test_per_arm_bad_input_changes_nothing():
    policy = PerArm(LinUCB(2))
    policy.learn([1.0, 0.0], 1.0, 3)
    before = snapshot(policy)
    for call in (
        lambda: policy.choose(np.eye(2)),
        lambda: policy.choose(np.eye(2), [1]),
        lambda: policy.choose(np.eye(2), [1.5, 2.0]),
        lambda: policy.learn([1.0, 0.0], 1.0),
        lambda: policy.learn([1.0, 0.0], 1.0, "a"),
        lambda: policy.learn([np.nan, 0.0], 1.0, 4),
        lambda: policy.restore(trained(LinUCB(DIM), ["a"]).state()),
        lambda: policy.restore({}),
        lambda: policy.restore(None),
    ):
        with pytest.raises(ValueError, match=r"arm|features|state"):
            call()
        assert snapshot(policy) == before


def test_per_arm_forgets_the_arms_that_learned_longest_ago():
    policy = PerArm(LinUCB(1), max_arms=2)
    for arm in (1, 2, 1, 3):
        policy.learn([1.0], 1.0, arm)
    assert policy.arms == (1, 3)


def test_a_scopes_policy_is_told_what_is_pending_if_it_minds():
    rng = np.random.default_rng(3)
    pools = rng.standard_normal((200, 10, 4))
    theta = rng.standard_normal(4)
    alone, policy, careless = DriftUCB(4), PerScope(DriftUCB(4)), PerScope(LinUCB(4))
    assert policy.minds_pending
    assert not careless.minds_pending
    for pool in pools[:50]:
        reward = float(pool[0] @ theta + rng.standard_normal())
        alone.learn(pool[0], reward)
        policy.learn(pool[0], reward, scope="ann")
    told = [[policy.choose(pool, scope="ann", pending=n) for pool in pools] for n in (0, 50)]
    assert told == [[alone.choose(pool, pending=n) for pool in pools] for n in (0, 50)]
    assert told[0] != told[1]
    assert careless.choose(pools[0], scope="ann", pending=50) == careless.choose(pools[0], scope="ann")
