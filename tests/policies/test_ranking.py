"""The best k arms: the first is what choose plays, the others follow by the same scores and the same ties."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbandit import (
    UCB1,
    UCBGLM,
    DLinUCB,
    DriftUCB,
    ExpDiscounts,
    LinTS,
    LinUCB,
    LogisticUCB,
    MetaBandit,
    PerArm,
    PerScope,
    RandomChoice,
    RewardModel,
)
from driftbandit.core import TIE, takes_scope
from driftbandit.models import RidgeModel
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.ranking import best_first, rank
from driftbandit.policies.registry import REGISTRY, Brief

DIM = 4

EVERYONE = {
    **{name: entry.build(Brief(DIM, noise=0.2, shifts=(20,), seed=5)) for name, entry in REGISTRY.items()},
    "per-arm": PerArm(LinUCB(DIM)),
    "per-arm of lints": PerArm(LinTS(DIM)),
    "per-scope of lints": PerScope(LinTS(DIM)),
    "per-scope of ucb1": PerScope(UCB1()),
    "forced": ExpDiscounts(DIM, 0.2, forced=0.5),
    "warm-up": UCBGLM(DIM, warm_up=20),
    "filippi": UCBGLM(DIM, radius="filippi"),
    "thompson": DLinUCB(DIM, 0.2, model="thompson"),
    "thompson, noise unknown": DLinUCB(DIM, "auto", model="thompson"),
    "logistic": DLinUCB(DIM, 0.25, model="logistic"),
}


def play(policy, rounds, seed=0):
    """Yield pools, and teach the policy the arm it chooses; scopes take turns."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        pool, arms = rng.standard_normal((7, DIM)) / 2.0, rng.permutation(12)[:7]
        asked = {"scope": t % 3} if takes_scope(policy) else {}
        yield pool, arms, asked
        arm = policy.choose(pool, arms, **asked)
        reward = float(np.clip(0.5 + 0.3 * np.tanh(pool[arm].sum()) + 0.1 * rng.standard_normal(), 0.0, 1.0))
        policy.learn(pool[arm], reward, int(arms[arm]), **asked)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", EVERYONE)
def test_the_first_is_what_choose_plays_and_no_arm_comes_twice(name):
    policy = copy.deepcopy(EVERYONE[name])
    for pool, arms, asked in play(policy, 40):
        chosen = copy.deepcopy(policy).choose(pool, arms, **asked)
        assert copy.deepcopy(policy).rank(pool, 1, arms, **asked) == [chosen]
        twin = copy.deepcopy(policy)
        ranked = twin.rank(pool, 7, arms, **asked)
        assert ranked[0] == chosen
        assert sorted(ranked) == list(range(7))
        assert all(type(index) is int for index in ranked)
        assert copy.deepcopy(policy).rank(pool, 3, arms, **asked) == ranked[:3], "a shorter list is its beginning"
        if not policy.is_random and not takes_scope(policy):  # a scope becomes the latest one used
            assert pickle.dumps(twin.state()) == pickle.dumps(policy.state())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name, policy in EVERYONE.items() if policy.ranks_by_scores])
def test_scores_are_what_choose_compares(name):
    policy = copy.deepcopy(EVERYONE[name])
    checked = 0
    for pool, arms, asked in play(policy, 40):
        if policy.ranks_by_scores:  # not in rounds of forced exploration
            scores = copy.deepcopy(policy).scores(pool, arms, **asked)
            assert scores.shape == (7,)
            assert int(np.argmax(scores)) == copy.deepcopy(policy).choose(pool, arms, **asked)
            assert copy.deepcopy(policy).rank(pool, 7, arms, **asked) == np.argsort(-scores).tolist()
            checked += 1
    assert checked > 15


def test_scores_of_linucb_by_hand():
    policy = LinUCB(2, ridge=1.0, explore=0.5)
    policy.learn([1.0, 0.0], 1.0)
    # theta = (1/2, 0); A^-1 = diag(1/2, 1)
    expected = [0.5 + 0.5 * 0.5**0.5, 0.5, 1.0 + 0.5 * 2.0**0.5]
    np.testing.assert_allclose(policy.scores([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), expected, rtol=1e-14)
    assert policy.rank([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]], k=3) == [2, 0, 1]


@pytest.mark.parametrize(("dim", "count"), [(3, 8), (25, 40), (40, 300)], ids=["loops", "product", "large"])
def test_pools_of_any_size_are_scored_alike(dim, count):
    rng = np.random.default_rng(1)
    for policy in (LinUCB(dim), DriftUCB(dim), LogisticUCB(dim)):
        for _ in range(30):
            x = rng.standard_normal(dim) / dim**0.5
            policy.learn(x, float(x[0] > 0.0))
        pool = rng.standard_normal((count, dim)) / dim**0.5
        scores = policy.scores(pool)
        if not isinstance(policy, DriftUCB):  # its exploration depends on the pool
            np.testing.assert_allclose(scores, [policy.scores(x[np.newaxis])[0] for x in pool], rtol=1e-9)
        assert policy.rank(pool, count) == np.argsort(-scores, kind="stable").tolist()


def test_driftucb_ranks_with_pending_answers():
    policy = DriftUCB(DIM)
    for pool, _, _ in play(policy, 60):
        last = pool
    lists = set()
    for pending in range(40):
        ranked = policy.rank(last, 3, pending=pending)
        assert ranked[0] == policy.choose(last, pending=pending)
        assert policy.rank(last, 3, pending=pending) == ranked
        lists.add(tuple(ranked))
    assert len(lists) > 1, "drawn weights differ from one choice to the next"
    with pytest.raises(ValueError, match="pending"):
        policy.scores(last, pending=-1)


def test_arms_that_were_never_played_come_first_in_random_order():
    policy = UCB1(seed=3)
    policy.learn(None, 1.0, arm=0)
    policy.learn(None, 0.0, arm=1)
    arms = [0, 1, 2, 3, 4, 5]
    assert np.isinf(policy.scores(None, arms)).tolist() == [False, False, True, True, True, True]
    lists = [policy.rank(None, 6, arms=arms) for _ in range(40)]
    assert {tuple(sorted(ranked[:4])) for ranked in lists} == {(2, 3, 4, 5)}
    assert len({tuple(ranked[:4]) for ranked in lists}) > 10
    assert {tuple(ranked[4:]) for ranked in lists} == {(0, 1)}


def test_one_draw_of_thompson_sampling_orders_the_whole_list():
    policy = LinTS(2, explore=5.0, seed=1)
    pool = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    lists = {tuple(policy.rank(pool, 3)) for _ in range(50)}
    assert lists == {(0, 1, 2), (2, 1, 0)}, "arms on one line: any one theta puts them in one of two orders"


def test_scores_that_tie_go_to_the_lowest_index():
    assert LinUCB(2).rank(np.ones((4, 2)), 4) == [0, 1, 2, 3]
    assert DriftUCB(2).rank(np.zeros((3, 2)), 3) == [0, 1, 2]
    twins = np.array([[1.0, 0.0], [1.0 + 1e-14, 0.0]])
    for policy, expected in ((LinUCB(2), [1, 0]), (DriftUCB(2), [0, 1])):  # see docs/contract.md, Ties
        for reward in (1e6, 1e6 + 1.0):
            policy.learn(twins[0], reward)
        assert policy.rank(twins, 2) == expected
        assert policy.choose(twins) == expected[0]


def brute_force(scores, k, relative):
    left, ranked = list(range(len(scores))), []
    while left and len(ranked) < k:
        best = max(scores[i] for i in left)
        least = best - TIE * (abs(best) if relative else 1.0)
        pick = next(i for i in left if scores[i] >= least)
        left.remove(pick)
        ranked.append(pick)
    return ranked


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-5, 5)), min_size=1, max_size=12),
    st.integers(1, 14),
    st.booleans(),
)
def test_ranking_is_repeated_choice_of_the_lowest_tied_index(numbers, k, relative):
    scores = np.array([whole + step * 0.4e-12 for whole, step in numbers])
    expected = brute_force(scores, k, relative)
    assert best_first(scores, k, relative) == expected
    assert best_first(scores, k, relative, without=expected[0]) == expected[1:]


class Shy(PolicyBase):
    """A policy with choose and learn alone, which notes what it was asked."""

    dim = 2

    def __init__(self):
        super().__init__()
        self.asked = []

    def choose(self, features, arms=None):
        self.asked.append((np.asarray(features).tolist(), None if arms is None else list(arms)))
        return int(np.argmax(np.asarray(features)[:, 0]))

    def learn(self, features, reward, arm=None):
        return ()


def test_a_policy_with_choose_and_learn_alone_is_asked_again_and_again():
    policy = Shy()
    pool = [[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]]
    assert policy.rank(pool, 2, arms=[7, 8, 9]) == [1, 2]
    assert policy.asked == [(pool, [7, 8, 9]), ([pool[0], pool[2]], [7, 9])]
    assert policy.rank(pool, 5) == [1, 2, 0], "a pool with fewer arms is ranked whole"
    with pytest.raises(NotImplementedError, match="Shy chooses without scores; use rank"):
        policy.scores(pool)
    with pytest.raises(ValueError, match="arms: expected one id for each of 3 rows of features, got 2"):
        policy.rank(pool, 2, arms=[7, 8])


def test_a_subclass_with_another_choose_is_not_ranked_by_its_parents_scores():
    class Contrary(LinUCB):
        is_random = False

        def choose(self, features, arms=None):
            return int(np.argmin(np.asarray(features)[:, 0]))

    class Careful(PerScope):
        def choose(self, features, arms=None, *, scope):
            return len(features) - 1

    class OwnWay(RidgeModel):
        def choose(self, bank, member, features, generator):
            return len(features) - 1

    pool = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    policy = Contrary(2)
    policy.learn([1.0, 0.0], 1.0)
    assert policy.rank(pool, 3) == [1, 2, 0]
    with pytest.raises(NotImplementedError, match="Contrary"):
        policy.scores(pool)
    assert Careful(LinUCB(2)).rank(pool, 3, scope="ann") == [2, 1, 0]
    assert DLinUCB(2, 0.1, model=OwnWay).rank(pool, 3) == [2, 1, 0]


def test_a_model_of_ones_own_has_scores():
    class FirstFeature(RewardModel):
        size = 1

        def reset(self, row):
            row[:] = 0.0

        def predict(self, row, x):
            return float(x[0]), 0.5

        def update(self, row, x, reward):
            return True

    policy = DLinUCB(2, 0.1, model=FirstFeature)
    pool = np.array([[1.0, 9.0], [3.0, 0.0], [2.0, 5.0]])
    assert policy.scores(pool).tolist() == [1.5, 3.5, 2.5]
    assert policy.rank(pool, 2) == [1, 2]


def test_subclasses_of_the_sampling_models_are_ranked_by_what_they_override():
    from driftbandit.models import ThompsonModel, TunedThompson

    pool = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    for noise, kind in ((0.1, ThompsonModel), ("auto", TunedThompson)):

        class Scored(kind):
            def score(self, row, x):
                return -float(x[0])

        class Predicted(kind):
            def predict(self, row, x):
                return 1e6 * float(x[0]), 0.0

        assert DLinUCB(2, noise, model=Scored).rank(pool, 3) == [0, 2, 1]
        assert DLinUCB(2, noise, model=Predicted).rank(pool, 3) == [1, 2, 0]


@pytest.mark.parametrize("k", [0, -1, 1.5, None, True, "3", float("nan")])
def test_a_length_that_is_none_is_refused(k):
    pool = np.eye(3)
    for policy in (LinUCB(3), RandomChoice(), MetaBandit(), PerScope(LinUCB(3))):
        before = pickle.dumps(policy.state())
        with pytest.raises(ValueError, match="k: expected a whole number of at least 1, got"):
            policy.rank(pool, k, [1, 2, 3], **({"scope": 1} if takes_scope(policy) else {}))
        assert pickle.dumps(policy.state()) == before


@pytest.mark.parametrize(
    "name", ["linucb", "lints", "driftucb", "denband", "ucb-glm", "club", "dyclu", "dal", "logistic"]
)
def test_bad_features_are_explained_and_nothing_is_drawn(name):
    policy = copy.deepcopy(EVERYONE[name])
    asked = {"scope": 1} if takes_scope(policy) else {}
    policy.learn(np.ones(DIM), 1.0, **asked)
    before = pickle.dumps(policy.state())
    for pool, wrong in (
        (np.full((3, DIM), np.nan), "expected finite values, got nan"),
        (np.ones((3, DIM + 1)), r"expected shape \(K, 4\), got \(3, 5\)"),
        (np.ones((0, DIM)), "empty pool"),
        ([[1.0], [1.0, 2.0]], "unequal length"),
    ):
        for call in (lambda p=pool: policy.scores(p, **asked), lambda p=pool: policy.rank(p, 2, **asked)):
            with pytest.raises(ValueError, match=f"features: .*{wrong}"):
                call()
    assert pickle.dumps(policy.state()) == before


def test_any_object_that_chooses_can_be_ranked():
    class Bare:
        def choose(self, features, arms=None):
            return int(np.argmin(arms))

    assert rank(Bare(), None, 2, [5, 3, 4]) == [1, 2]
    assert rank(LinUCB(2), np.eye(2), 9) == [0, 1]


def test_a_million_arms_are_ranked():
    scores = np.random.default_rng(0).random(1_000_000)
    assert best_first(scores, 5) == np.argsort(-scores)[:5].tolist()
