"""Every policy keeps the contract, and check_policy notices when one does not."""

import copy
import random

import numpy as np
import pytest

from driftbandit import (
    CLUB,
    UCB1,
    DLinUCB,
    DyClu,
    LinTS,
    LinUCB,
    MetaBandit,
    PerArm,
    PerScope,
    RandomChoice,
    RewardModel,
    check_policy,
)
from driftbandit.policies.registry import REGISTRY, Brief


class GradientModel(RewardModel):
    """A model as a user would write one: linear, one gradient step a reward."""

    def __init__(self, dim, **settings):
        super().__init__(dim, **settings)
        self.size = 1 + dim

    def reset(self, row):
        row[:] = 0.0

    def predict(self, row, x):
        return float(row[1:] @ x), self.noise / (1.0 + row[0]) ** 0.5

    def update(self, row, x, reward):
        row[0] += 1.0
        row[1:] += 0.1 * (reward - row[1:] @ x) * x


class BlindModel(GradientModel):
    """A model that ignores the features; bad ones must be noticed all the same."""

    def predict(self, row, x):
        return 0.4, self.noise

    def update(self, row, x, reward):
        row[0] += 1.0


@pytest.mark.parametrize("dim", [1, 9])
@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if not entry.scoped])
def test_every_registered_policy_conforms(name, dim):
    check_policy(REGISTRY[name].build(Brief(dim, noise=0.2, shifts=(30,), seed=5)))


@pytest.mark.parametrize("model", ["ridge", "thompson", "logistic"])
def test_every_member_model_conforms(model):
    check_policy(DLinUCB(4, 0.2, model=model, window=5, max_members=3))


def test_a_policy_in_a_trial_conforms():
    policy = MetaBandit(threshold=0.3, trial=40)
    for reward in [1.0] * 5 + [0.0] * 3:
        policy.learn(None, reward, arm=1)
    assert policy.changes[0].kind == "spawned"
    check_policy(policy)


class Broken(LinUCB):
    """A LinUCB that breaks one promise."""

    def __init__(self, dim=3, **keywords):
        super().__init__(dim, **keywords)


class ForgetsToReturnChanges(Broken):
    def learn(self, features, reward, arm=None):
        super().learn(features, reward, arm)


class PointsOutsideThePool(Broken):
    def choose(self, features, arms=None):
        return super().choose(features, arms) + 1


class Moody(Broken):
    calls = 0

    def choose(self, features, arms=None):
        type(self).calls += 1
        return (super().choose(features, arms) + type(self).calls) % len(features)


class WritesToThePool(Broken):
    def choose(self, features, arms=None):
        best = super().choose(features, arms)
        features[0, 0] += 1.0
        return best


class PrefersTheFirst(Broken):
    def choose(self, features, arms=None):
        super().choose(features, arms)
        return 0


class RemembersThePool(Broken):
    """Prefers the first arm, and remembers how many arms it was shown."""

    _parts = (*Broken._parts, "shown")
    shown = 0

    def choose(self, features, arms=None):
        super().choose(features, arms)
        self.shown += len(features)
        return 0


class CountsQuestions(Broken):
    """Chooses as it should, and keeps count of it in its state."""

    _parts = (*Broken._parts, "asked")
    asked = 0

    def choose(self, features, arms=None):
        self.asked += 1
        return super().choose(features, arms)


class SwallowsNaN(Broken):
    def learn(self, features, reward, arm=None):
        return () if np.isnan(reward) else super().learn(features, reward, arm)


class RaisesTypeErrors(Broken):
    def choose(self, features, arms=None):
        if features is None:
            raise TypeError("no features")
        return super().choose(features, arms)


class CountsFailures(Broken):
    def learn(self, features, reward, arm=None):
        self.rounds += 1
        self.rounds -= len(super().learn(features, reward, arm)) + 1
        return ()


class LosesItsMemory(Broken):
    def __setstate__(self, attributes):
        super().__setstate__(attributes)
        self._model.reset(self._row)


class RanksAnotherFirst(Broken):
    def rank(self, features, k, arms=None):
        return super().rank(features, len(features), arms)[::-1][:k]


class RepeatsItself(Broken):
    def rank(self, features, k, arms=None):
        return super().rank(features, 1, arms) * k


class ListsTooMany(Broken):
    def rank(self, features, k, arms=None):
        return super().rank(features, k + 1, arms)


class CountsRanks(Broken):
    def rank(self, features, k, arms=None):
        self.rounds += 1
        return super().rank(features, k, arms)


class TakesAnyLength(Broken):
    def rank(self, features, k, arms=None):
        return super().rank(features, max(k or 1, 1), arms)


class NeedsChooseFirst(Broken):
    chosen = False

    def choose(self, features, arms=None):
        self.chosen = True
        return super().choose(features, arms)

    def learn(self, features, reward, arm=None):
        if not self.chosen:
            raise RuntimeError("learn before choose")
        return super().learn(features, reward, arm)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (ForgetsToReturnChanges, "tuple of Change"),
        (PointsOutsideThePool, "index into a pool"),
        (Moody, "same choices"),
        (WritesToThePool, "must not write"),
        (PrefersTheFirst, "order of the pool"),
        (RemembersThePool, "order of the pool"),
        (CountsQuestions, "choose must change nothing but random generators"),
        (SwallowsNaN, "reward of NaN must raise ValueError"),
        (RaisesTypeErrors, "must raise ValueError, raised TypeError"),
        (CountsFailures, "leave the policy as it was"),
        (LosesItsMemory, "bit for bit"),
        (RanksAnotherFirst, "rank must put first what choose plays"),
        (RepeatsItself, "rank with k=2 must list 2 different indices"),
        (ListsTooMany, "rank with k=1 must list 1 different indices"),
        (CountsRanks, "rank must change nothing but random generators"),
        (TakesAnyLength, "rank with k=0 must raise ValueError"),
    ],
)
def test_a_broken_promise_is_named(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        check_policy(broken())


def test_learning_before_choosing_must_work():
    with pytest.raises(RuntimeError, match="learn before choose"):
        check_policy(NeedsChooseFirst())


class Stateless:
    """No state() to compare, no checks of rewards."""

    def choose(self, features, arms=None):
        if features is None or np.ndim(features) != 2 or not len(features):
            raise ValueError("features")
        return int(np.argmax(np.asarray(features).sum(axis=1)))

    def learn(self, features, reward, arm=None):
        return ()


class Wrapper:
    """A policy of one's own around a shipped one, without state()."""

    def __init__(self):
        self.inner = LinUCB(3)
        self.dim = 3

    def choose(self, features, arms=None):
        return self.inner.choose(features, arms)

    def learn(self, features, reward, arm=None):
        return self.inner.learn(features, reward, arm)


def test_a_wrapper_around_a_policy_conforms():
    check_policy(Wrapper())


class DrawsAnArm(Wrapper):
    """Rightly depends on the order: it draws an index from a generator of its own."""

    def __init__(self, generator, draw):
        super().__init__()
        self.generator, self.draw = generator, draw

    def choose(self, features, arms=None):
        super().choose(features, arms)
        return int(getattr(self.generator, self.draw)(len(features)))


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (np.random.default_rng(0), "integers"),
        (np.random.RandomState(0), "randint"),
        (random.Random(0), "randrange"),
    ],
    ids=["Generator", "RandomState", "Random"],
)
def test_drawing_at_random_may_depend_on_the_order(generator, draw):
    check_policy(DrawsAnArm(generator, draw))


def test_a_policy_without_state_is_checked_too():
    with pytest.raises(AssertionError, match="reward of NaN must raise ValueError"):
        check_policy(Stateless(), dim=2)


def test_the_policy_itself_is_not_changed():
    policy = LinUCB(3)
    before = copy.deepcopy(policy.state())
    check_policy(policy)
    assert all(np.array_equal(before[name], array) for name, array in policy.state().items())


def test_a_model_of_ones_own_conforms():
    check_policy(DLinUCB(3, 0.2, model=GradientModel))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_features_are_noticed_even_if_the_model_ignores_them(bad):
    policy = DLinUCB(3, 0.2, model=BlindModel)
    with pytest.raises(ValueError, match="features"):
        policy.choose(np.full((2, 3), bad))
    with pytest.raises(ValueError, match="features"):
        policy.learn(np.full(3, bad), 0.4)
    assert policy.rounds == 0


# Signatures -----------------------------------------------------------------------------------------------------------


class OnlyFeatures(Wrapper):
    def choose(self, features):
        return self.inner.choose(features)


class NoArm(Wrapper):
    def learn(self, features, reward):
        return self.inner.learn(features, reward)


class NoLearn:
    dim = 3

    def choose(self, features, arms=None):
        return 0


class NeedsAScope(Wrapper):
    def choose(self, features, arms=None, *, scope):
        return self.inner.choose(features, arms)


class SaysItIsScoped(Wrapper):
    is_scoped = True


@pytest.mark.parametrize(
    ("policy", "promise"),
    [
        (OnlyFeatures(), r"^OnlyFeatures: expected choose\(features, arms=None\), got choose\(features\)$"),
        (NoArm(), r"^NoArm: expected learn\(features, reward, arm=None\), got learn\(features, reward\)$"),
        (NoLearn(), r"^NoLearn: expected a method learn\(features, reward, arm=None\), got none$"),
        (
            NeedsAScope(),
            r"expected choose\(features, arms=None\), got .*scope\); a policy with scopes says is_scoped",
        ),
        (SaysItIsScoped(), r"expected choose\(features, arms=None, \*, scope\), got choose\(features, arms=None\)$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_method_that_cannot_be_called_as_it_should_is_named(policy, promise):
    with pytest.raises(AssertionError, match=promise):
        check_policy(policy)


# Scopes ---------------------------------------------------------------------------------------------------------------


def lints_of(scope):
    return LinTS(3, seed=len(str(scope)))


@pytest.mark.parametrize(
    "policy",
    [
        PerScope(LinUCB(3)),
        PerScope(LinUCB(3), pool=True),
        PerScope(LinUCB(3), pool=True, max_scopes=2),
        PerScope(DLinUCB(3, 0.2, window=10), max_scopes=2),
        PerScope(LinTS(3, seed=4)),
        PerScope(UCB1(seed=4)),
        PerScope(RandomChoice()),
        CLUB(3),
        CLUB(3, users=3, density=0.5, separation=0.2),
        DyClu(3, 0.2),
        PerArm(LinUCB(3)),
        PerArm(LinTS(3), seed=2),
    ],
    ids=repr,
)
def test_scoped_policies_conform(policy):
    check_policy(policy)


def test_scopes_built_by_a_function_conform():
    check_policy(PerScope(lints_of), dim=3)


class BrokenScopes(PerScope):
    """One LinUCB per scope that breaks one promise about scopes."""

    def __init__(self):
        super().__init__(LinUCB(3))


class ReadsScopesAsText(BrokenScopes):
    scopes_apart = False
    is_random = False

    def choose(self, features, arms=None, *, scope):
        return super().choose(features, arms, scope=str(scope) if isinstance(scope, int) else scope)

    def learn(self, features, reward, arm=None, *, scope):
        return super().learn(features, reward, arm, scope=str(scope) if isinstance(scope, int) else scope)


class TellsEveryone(BrokenScopes):
    scopes_apart = True

    def learn(self, features, reward, arm=None, *, scope):
        changes = super().learn(features, reward, arm, scope=scope)
        for other in self.scopes:
            if other != scope:
                super().learn(features, reward, arm, scope=other)
        return changes


class TakesAnyScope(BrokenScopes):
    def choose(self, features, arms=None, *, scope):
        return super().choose(features, arms, scope="nobody" if scope is None else scope)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (ReadsScopesAsText, "must not depend on what scopes are called"),
        (TellsEveryone, "what other scopes do must not change the choices for scope 7"),
        (TakesAnyScope, "choose with scope=None must raise ValueError"),
    ],
)
def test_a_broken_promise_about_scopes_is_named(broken, promise):
    with pytest.raises(AssertionError, match=promise):
        check_policy(broken())
