"""Every policy keeps the contract, and check_policy notices when one does not."""

import copy
import random

import numpy as np
import pytest

from driftbandit import DLinUCB, LinUCB, MetaBandit, RewardModel, check_policy
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


@pytest.mark.parametrize("dim", [1, 4, 25])
@pytest.mark.parametrize("name", REGISTRY)
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
        (RemembersThePool, "keep nothing of what it was shown"),
        (SwallowsNaN, "reward of NaN must raise ValueError"),
        (RaisesTypeErrors, "must raise ValueError, raised TypeError"),
        (CountsFailures, "leave the policy as it was"),
        (LosesItsMemory, "bit for bit"),
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
