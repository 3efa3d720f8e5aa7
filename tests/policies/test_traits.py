"""What policies say about themselves is true of them."""

import copy

import numpy as np
import pytest

from driftbandit import CLUB, DAL, UCBGLM, DLinUCB, DyClu, ExpDiscounts, LinTS, LinUCB, PerArm, PerScope, RandomChoice
from driftbandit.conformance.draws import draws_of
from driftbandit.core import ScopedPolicy, takes_scope
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.registry import REGISTRY, Brief

DIM = 3


def ask(policy, features, arms):
    return policy.choose(features, arms, **({"scope": 1} if takes_scope(policy) else {}))


EVERYONE = {
    **{name: entry.build(Brief(DIM, noise=0.2, shifts=(5,), seed=5)) for name, entry in REGISTRY.items()},
    "per-scope": PerScope(LinUCB(DIM)),
    "per-scope of lints": PerScope(LinTS(DIM)),
    "club": CLUB(DIM),
    "dyclu": DyClu(DIM, 0.2),
    "per-arm": PerArm(LinUCB(DIM)),
    "per-arm of lints": PerArm(LinTS(DIM)),
    "forced": ExpDiscounts(DIM, 0.2, forced=0.5),
    "warm-up": UCBGLM(DIM, warm_up=10),
}


@pytest.mark.parametrize("name", EVERYONE)
def test_a_policy_that_is_not_random_draws_nothing(name):
    policy = copy.deepcopy(EVERYONE[name])
    rng = np.random.default_rng(0)
    pool, arms = rng.standard_normal((5, DIM)), np.arange(5)
    ask(policy, pool, arms)
    before = draws_of(policy)
    answers = {ask(policy, pool, arms) for _ in range(20)}
    if not policy.is_random:
        assert len(answers) == 1
        assert draws_of(policy) == before


@pytest.mark.parametrize(
    ("name", "random"),
    [
        *(("linucb", False), ("dlinucb", False), ("denband", False), ("dal", False), ("bob", False)),
        *(("exp-discounts", False), ("driftucb", False), ("club", False), ("dyclu", False), ("per-scope", False)),
        *(("per-arm", False), ("lints", True), ("ucb1", True), ("random", True), ("per-scope of lints", True)),
        *(("per-arm of lints", True), ("forced", True), ("warm-up", True)),
    ],
)
def test_who_is_random(name, random):
    assert EVERYONE[name].is_random is random


def test_scopes_built_by_a_function_may_draw():
    assert PerScope(lambda scope: LinUCB(DIM)).is_random


@pytest.mark.parametrize("policy", [PerScope(LinUCB(DIM)), CLUB(DIM), DyClu(DIM, 0.1)], ids=lambda p: type(p).__name__)
def test_scoped_policies_say_so(policy: ScopedPolicy):
    assert takes_scope(policy)
    assert not takes_scope(LinUCB(DIM))
    assert not takes_scope(object())


def test_the_traits_of_a_choose_do_not_hold_for_one_that_overrides_it():
    class Greedy(LinUCB):
        def choose(self, features, arms=None):
            return super().choose(features, arms)

    class Sure(Greedy):
        is_random = False

    class Quiet(Sure):
        """Keeps its parent's choose, and what is said about it."""

    class Mixin:
        def choose(self, features, arms=None):
            return 0

    class Mixed(Mixin, DAL):
        pass

    class Biased(RandomChoice):
        def choose(self, features, arms=None):
            return super().choose(features, arms) // 2

    class Own(PerArm):
        def choose(self, features, arms=None):
            return super().choose(features, arms)

    assert Greedy(DIM).is_random, "it keeps a generator and might use it"
    assert not Sure(DIM).is_random
    assert not Quiet(DIM).is_random
    assert Mixed(DIM, 0.1).is_random
    assert not Biased().is_uniform
    assert RandomChoice().is_uniform
    assert Own(LinUCB(DIM)).is_random
    assert not Own(LinUCB(DIM)).scores_each_arm
    assert PerArm(LinUCB(DIM)).scores_each_arm


def test_the_traits_of_a_learn_do_not_hold_for_one_that_overrides_it():
    class Gossip(PerScope):
        def learn(self, features, reward, arm=None, *, scope):
            return super().learn(features, reward, arm, scope=scope)

    class Slow(DLinUCB):
        def learn(self, features, reward, arm=None):
            return super().learn(features, reward, arm)

    assert PerScope(LinUCB(DIM)).scopes_apart
    assert not Gossip(LinUCB(DIM)).scopes_apart
    assert not Gossip(LinUCB(DIM)).is_random, "its choose is the inherited one"
    assert DLinUCB(DIM, 0.1).learns_many
    assert not Slow(DIM, 0.1).learns_many


def test_copies_share_what_was_warned_of():
    policy = LinUCB(DIM)
    assert copy.deepcopy(policy).warned is policy.warned
    scoped = PerScope(lambda scope: LinUCB(DIM))
    for scope in (1, 2):
        scoped.learn(np.ones(DIM), 1.0, scope=scope)
    assert scoped.policy_of(1).warned is scoped.policy_of(2).warned is scoped.warned


class Plain(PolicyBase):
    """The least that a policy of one's own has to write."""

    def choose(self, features, arms=None):
        return 0

    def learn(self, features, reward, arm=None):
        self.rounds += 1
        return ()


def test_a_policy_of_ones_own_has_all_traits():
    policy = Plain()
    assert not policy.is_random
    assert not policy.is_scoped
    assert not policy.detects
    assert (
        policy.reward_model
        is policy.leading_row
        is policy.feature_weights
        is policy.weights_before_change
        is policy.miss_test
        is None
    )
    assert policy.facts() == policy.settings() == {}
    assert repr(policy) == "<Plain() rounds=0, changes=0>"
    with pytest.raises(NotImplementedError, match="Plain learns rewards one at a time"):
        policy.learn_many(np.ones((1, 1)), np.ones(1))
