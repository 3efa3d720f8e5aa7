"""Which arm DriftUCB plays: large pools are ruled out arm by arm, with the same result as scoring all."""

import math

import numpy as np
import pytest

from driftbandit import DriftUCB
from driftbandit.kernels import ridge
from driftbandit.kernels.driftucb import acting, mixture, scales
from driftbandit.kernels.driftucb.drift import EXPLORE, EXPLORE_MOST, INCUMBENT, MIX, units_of


def trained(rounds, *, dim=5, price=1.0, level=0.0, clicks=False, seed=0):
    """A policy that has learned some rewards, and a generator of pools like those it saw."""
    rng = np.random.default_rng(seed)
    sizes = np.ones(dim)
    sizes[0] = price
    taste = rng.standard_normal(dim) / sizes
    policy = DriftUCB(dim)
    for t in range(rounds):
        pool = rng.standard_normal((7, dim)) * sizes
        x = pool[policy.choose(pool)]
        reward = float(x @ taste) * (-1.0 if t > rounds // 2 else 1.0) + level + 0.3 * rng.standard_normal()
        policy.learn(x, float(reward > level) if clicks else reward)
    return policy, lambda count: rng.standard_normal((count, dim)) * sizes


WORLDS = [{}, {"price": 1000.0}, {"level": 20.0}, {"price": 0.01, "level": 5.0}, {"clicks": True}, {"dim": 40}]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rounds", [0, 1, 20, 600])
@pytest.mark.parametrize("count", [33, 64, 300])
def test_the_arm_played_has_the_highest_score(world, rounds, count):
    policy, pools = trained(rounds, **world)
    for _ in range(5):
        pool = pools(count)
        scores = policy.scores(pool)
        assert scores[policy.choose(pool)] == pytest.approx(scores.max(), rel=1e-9)


@pytest.mark.parametrize("count", [5, 40])
@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("others", [0.0, 0.9e-3])
def test_an_incumbent_that_acts_alone_is_scored_as_a_mixture_of_one(count, mix, others):
    policy, pools = trained(600)
    weights = policy._weights()
    weights[:] = 1.0 - 4.0 * others, others, others, others, others
    policy._rules[MIX] = mix
    pool, memo, units = pools(count), policy._memo, units_of(policy._memo, len(policy.memory))
    acting_weights = weights if mix else mixture.heaviest(weights)
    model = mixture.blend(memo, acting_weights, policy._bank[INCUMBENT:], 5)
    variances = ridge.squares(model, pool, np.arange(count))
    shown = variances[:: 1 if count <= 32 else 5]
    explore = mixture.exploration(memo, policy._rules[EXPLORE], policy._rules[EXPLORE_MOST], model, shown, units)
    assert policy.scores(pool) == pytest.approx(pool @ model[1:6] + explore * np.sqrt(variances))
    drawn = policy.scores(pool, pending=9)
    weights[:] = 1.0 - 1e-3, 1e-3, 0.0, 0.0, 0.0  # now they are blended; nearly the same weights
    assert policy.scores(pool, pending=9) == pytest.approx(drawn, rel=0.2, abs=0.2)


def test_of_equal_arms_the_first_is_played():
    policy, pools = trained(300)
    pool = pools(50)
    best = policy.choose(pool)
    twice = np.concatenate([pool[:best], pool[best + 1 :], pool[best:], pool[best : best + 1]])
    assert policy.choose(twice) == len(pool) - 1


def test_far_arms_are_ruled_out_without_a_deviation():
    """The features of an arm that cannot be best are read for its mean and size only."""
    policy, pools = trained(600)
    pool = pools(400)
    model = mixture.blend(policy._memo, policy._weights(), policy._bank[INCUMBENT:], 5)
    units = units_of(policy._memo, len(policy.memory))
    means, sizes = pool @ model[1:6], np.sum((pool * units) ** 2, axis=1)
    acting._widen_best(model, pool, units, means, sizes, 0.5)
    assert np.isfinite(means).sum() < 40
    assert means.argmax() == (pool @ model[1:6] + 0.5 * np.sqrt(ridge.squares(model, pool, np.arange(400)))).argmax()


@pytest.mark.parametrize(("count", "step"), [(2, 1), (32, 1), (33, 5), (40, 5), (41, 6), (1000, 125)])
def test_of_a_large_pool_evenly_spaced_arms_show_how_much_is_known(count, step):
    policy, pools = trained(600)
    memo, rules, pool = policy._memo, policy._rules, pools(count)
    memo[scales.PICK_SHARES] /= 3.0  # the arms played are much better known: exploration depends on the pool
    pool[step - 1 :: step] *= 1.0 if step == 1 else 2.0  # arms that do not show
    model = mixture.blend(memo, policy._weights(), policy._bank[INCUMBENT:], 5)
    variances = ridge.squares(model, pool, np.arange(count))
    units = units_of(memo, len(policy.memory))
    explore = mixture.exploration(memo, rules[EXPLORE], rules[EXPLORE_MOST], model, variances[::step], units)
    assert rules[EXPLORE] < explore < rules[EXPLORE_MOST]
    assert len(variances[::step]) <= (32 if step == 1 else 8)
    assert policy.scores(pool) == pytest.approx(pool @ model[1:6] + explore * np.sqrt(variances))


def test_the_bound_on_the_largest_eigenvalue_is_in_the_units_of_the_frame():
    rng = np.random.default_rng(3)
    for dim in (1, 2, 6, 30):
        units = 10.0 ** rng.uniform(-2, 2, dim)
        root = rng.standard_normal((dim, dim))
        matrix = root @ root.T
        row = np.concatenate([[0.0], np.zeros(dim), (matrix * np.outer(units, units))[np.tril_indices(dim)]])
        largest = np.linalg.eigvalsh(matrix).max()
        before = row.copy()
        assert largest * (1 - 1e-9) <= mixture.largest_eigenvalue_bound(row, units) <= math.sqrt(dim) * largest * 1.01
        assert (row == before).all()
