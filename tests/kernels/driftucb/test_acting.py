"""Which arm DriftUCB plays: large pools are ruled out arm by arm, with the same result as scoring all."""

import math

import numpy as np
import pytest
from tiled import matrix_of, row_of, weights_of

from driftbandit import DriftUCB
from driftbandit.kernels.driftucb import acting, mixture, scales
from driftbandit.kernels.driftucb.drift import EXPLORE, EXPLORE_MOST, INCUMBENT, MIX, units_of
from driftbandit.kernels.driftucb.rows import TRACE, row_size


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


def blended(policy, weights):
    """The row of the mixture of the models that act."""
    row = np.empty(row_size(5))
    mixture.blend(policy._memo, weights, policy._bank[INCUMBENT:], 5, row)
    return row


def squares(row, pool):
    """x' M x of all arms."""
    return np.einsum("ki,ij,kj->k", pool, matrix_of(row, pool.shape[1]), pool)


def exploration(policy, row, shown):
    """How many deviations are added, if arms of these variances show how much is known."""
    least, most = policy._rules[[EXPLORE, EXPLORE_MOST]]
    return mixture.exploration(policy._memo, least, most, row[TRACE], np.mean(shown))


@pytest.mark.parametrize("count", [5, 40])
@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("others", [0.0, 0.9e-3])
def test_an_incumbent_that_acts_alone_is_scored_as_a_mixture_of_one(count, mix, others):
    policy, pools = trained(600)
    weights = policy._weights()
    weights[:] = 1.0 - 4.0 * others, others, others, others, others
    policy._rules[MIX] = mix
    pool = pools(count)
    model = blended(policy, weights if mix else mixture.heaviest(weights))
    variances = squares(model, pool)
    explore = exploration(policy, model, variances[:: 1 if count <= 32 else 5])
    assert policy.scores(pool) == pytest.approx(pool @ weights_of(model, 5) + explore * np.sqrt(variances))
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
    model = blended(policy, policy._weights())
    units = units_of(policy._memo, len(policy.memory))
    expected = pool @ weights_of(model, 5)
    means, sizes = expected.copy(), np.sum((pool * units) ** 2, axis=1)
    acting._widen_best(model, 0, pool, units, means, sizes, 0.5)
    assert np.isfinite(means).sum() < 40
    assert means.argmax() == (expected + 0.5 * np.sqrt(squares(model, pool))).argmax()


@pytest.mark.parametrize(("count", "step"), [(2, 1), (32, 1), (33, 5), (40, 5), (41, 6), (1000, 125)])
def test_of_a_large_pool_evenly_spaced_arms_show_how_much_is_known(count, step):
    policy, pools = trained(600)
    memo, pool = policy._memo, pools(count)
    memo[scales.PICK_SHARES] /= 3.0  # the arms played are much better known: exploration depends on the pool
    pool[step - 1 :: step] *= 1.0 if step == 1 else 2.0  # arms that do not show
    model = blended(policy, policy._weights())
    variances = squares(model, pool)
    explore = exploration(policy, model, variances[::step])
    assert policy.explore < explore < policy.explore_most
    assert len(variances[::step]) <= (32 if step == 1 else 8)
    assert policy.scores(pool) == pytest.approx(pool @ weights_of(model, 5) + explore * np.sqrt(variances))


@pytest.mark.parametrize("unit", [2.0**-300, 1.0, 2.0**300])
def test_the_bound_on_the_largest_eigenvalue_holds_in_any_units(unit):
    units = np.full(5, unit)
    matrix = np.diag([1.0, 0.001, 0.001, 0.001, 0.001]) * unit**2
    row = row_of(np.zeros(5), matrix, trace=1.004)
    assert 1.0 <= mixture.largest_eigenvalue_bound(row, 0, units, row[TRACE]) < 1.1


def test_the_bound_on_the_largest_eigenvalue_is_in_the_units_of_the_frame():
    rng = np.random.default_rng(3)
    for dim in (1, 2, 6, 30):
        units = 10.0 ** rng.uniform(-2, 2, dim)
        root = rng.standard_normal((dim, dim))
        matrix = root @ root.T
        row = row_of(np.zeros(dim), matrix * np.outer(units, units), trace=np.trace(matrix))
        numbers = np.concatenate([[7.0] * 3, row])
        largest = np.linalg.eigvalsh(matrix).max()
        bound = mixture.largest_eigenvalue_bound(numbers, 3, units, row[TRACE])
        assert largest * (1 - 1e-9) <= bound <= math.sqrt(dim) * largest * 1.01
        assert (numbers[3:] == row).all()
