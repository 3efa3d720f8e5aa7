"""What a subclass of a shipped model overrides is used, by the miss test and by the arm choice."""

import numpy as np
import pytest

from driftbandit import DLinUCB, LogisticModel, PerArm, RidgeModel, ThompsonModel
from driftbandit.kernels import windows
from driftbandit.models.discounted import DiscountedModel
from driftbandit.models.tuned import TunedRidge, TunedThompson
from driftbandit.models.windowed import WindowedModel

MODELS = [RidgeModel, ThompsonModel, LogisticModel, DiscountedModel, WindowedModel, TunedRidge, TunedThompson]
RULES = DLinUCB(2, 0.1)._rules
POOL = np.eye(2)


def fresh(model):
    bank = np.zeros((1, model.size))
    model.reset(bank[0])
    return bank


def judged(model):
    """The ledger of a fresh member after one reward of 0.5."""
    ledger = np.zeros((1, windows.RING + 200), dtype=np.int64)
    model.judge(fresh(model), ledger, RULES, 1, np.array([1.0, 0.0]), 0.5)
    return ledger[0]


def chosen(model, count=1):
    bank, generator = fresh(model), np.random.default_rng(0)
    return [model.choose(bank, 0, POOL, generator) for _ in range(count)]


@pytest.mark.parametrize("kind", MODELS)
def test_predictions_are_judged(kind):
    class Stubborn(kind):
        def predict(self, row, x):
            return 1e6, 0.0

    assert judged(kind(2))[windows.MISSES] == 0
    assert judged(Stubborn(2))[windows.MISSES] == 1


@pytest.mark.parametrize("kind", MODELS)
def test_updates_are_made(kind):
    class Counting(kind):
        seen = 0

        def update(self, row, x, reward):
            self.seen += 1
            return super().update(row, x, reward)

    model = Counting(2)
    assert judged(model)[windows.UPDATES] == 1
    assert model.seen == 1


@pytest.mark.parametrize("kind", MODELS)
def test_scores_decide(kind):
    class Fond(kind):
        """Of the second feature."""

        def score(self, row, x):
            return x[1]

    assert chosen(Fond(2)) == [1]
    assert Fond(2).scoring(fresh(Fond(2))[0]) is None  # nor can a kernel stand in for it


@pytest.mark.parametrize("kind", MODELS)
def test_predictions_decide(kind):
    class Fond(kind):
        def predict(self, row, x):
            return 1e6 * x[1], 0.1

    assert chosen(Fond(2)) == [1]
    assert Fond(2).scoring(fresh(Fond(2))[0]) is None
    if not kind.samples:
        assert Fond(2).score(fresh(Fond(2))[0], np.array([0.0, 1.0])) == pytest.approx(1e6 + 0.1)


@pytest.mark.parametrize("kind", [RidgeModel, LogisticModel, TunedRidge])
def test_a_score_that_builds_on_the_shipped_one_explores_as_before(kind):
    class Fond(kind):
        def score(self, row, x):
            return super().score(row, x) + 1e-3 * x[1]

    x = np.array([1.0, 0.0])
    model, own = kind(2, explore=0.3), Fond(2, explore=0.3)
    assert own.score(fresh(own)[0], x) == model.score(fresh(model)[0], x)
    assert chosen(own) == [1]


@pytest.mark.parametrize("kind", [ThompsonModel, TunedThompson])
def test_samples_are_drawn_around_predictions(kind):
    """A fresh posterior is as wide as the gap, so both arms are played, the one predicted to be better more often."""

    class Fond(kind):
        def predict(self, row, x):
            return x[1], 0.0

    picks = chosen(Fond(2, ridge=1.0, explore=1.0), 400)
    assert 250 < sum(picks) < 390  # P(1 + z > z') = 0.76


def test_arms_with_models_that_draw_in_their_own_way_are_refused():
    class Own(ThompsonModel):
        def predict(self, row, x):
            return 0.0, 1.0

    with pytest.raises(ValueError, match="policy: expected one with a reward model"):
        PerArm(DLinUCB(2, 0.1, model=Own))


def test_the_noise_is_estimated_from_a_subclass_s_predictions():
    class Shifted(TunedRidge):
        """Ridge regression of the reward minus 3."""

        def predict(self, row, x):
            mean, width = super().predict(row, x)
            return mean + 3.0, width

        def update(self, row, x, reward):
            return super().update(row, x, reward - 3.0)

    rng = np.random.default_rng(0)
    policy = DLinUCB(2, "auto", model=Shifted)
    for _ in range(500):
        x = rng.standard_normal(2)
        policy.learn(x, float(x @ [0.3, -0.2] + 3.0 + 0.1 * rng.standard_normal()))
    assert policy.noise_estimate == pytest.approx(0.1, rel=0.15)
    assert policy.changes == ()
