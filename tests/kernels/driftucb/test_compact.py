"""Banks as they are stored: every number once, in the places that earlier versions used."""

import numpy as np
import pytest
from tiled import matrix_of, weights_of

from driftbandit import DriftUCB
from driftbandit.kernels.driftucb import compact, drift
from driftbandit.kernels.driftucb.ladder import backlog, young
from driftbandit.kernels.driftucb.rows import COUNT, OTHERS

WORLDS = [(1, 0.0, 40), (4, 0.0, 333), (4, 20.0, 333), (8, 0.0, 333), (30, 0.0, 333), (11, 5.0, 333)]


def trained(dim, level, rounds):
    """A policy, with an intercept where rewards have a level, and rewards that wait."""
    rng = np.random.default_rng(dim)
    taste, policy = rng.standard_normal(dim), DriftUCB(dim)
    for _ in range(rounds):
        x = rng.standard_normal(dim)
        policy.learn(x, float(level + x @ taste + 0.02 * rng.standard_normal()))
    return policy


def stored(policy):
    found = np.full(compact.compact_shape(policy.dim, len(policy.memory)), np.nan)
    compact.pack(policy._memo, policy._bank, found, len(policy.memory))
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_stored_comes_back_bit_for_bit(world):
    policy = trained(*world)
    found, fresh = stored(policy), np.full_like(policy._bank, np.nan)
    assert np.isfinite(found).all()
    compact.unpack(policy._memo, fresh, found, len(policy.memory))
    rungs = zip(drift.rungs_of(policy._bank, 4), drift.rungs_of(fresh, 4), strict=True)
    for mine, theirs in rungs:  # of vectors' places, those that hold none may hold anything
        if mine[young.SCALE] > 0.0:
            mine[:], theirs[:] = 0.0, 0.0
    np.testing.assert_array_equal(fresh, policy._bank)


@pytest.mark.parametrize("world", WORLDS)
def test_where_the_numbers_of_models_stand(world):
    """[n, theta, triangle, the rest of the head], or vectors in the triangle's place."""
    policy = trained(*world)
    d = len(drift.units_of(policy._memo, 4))
    triangle, behind = 1 + d, 1 + d + d * (d + 1) // 2
    vectors = 0
    for line, row in zip(stored(policy)[: drift.models_of(4)], policy._bank, strict=False):
        assert line[0] == row[COUNT]
        assert line[1 : 1 + d].tolist() == weights_of(row, d).tolist()
        assert line[behind : behind + 9].tolist() == row[OTHERS : OTHERS + 9].tolist()
        assert not line[behind + 9 :].any()
        if row[young.SCALE] == 0.0 and row[COUNT] >= 0.0:
            assert line[triangle:behind].tolist() == matrix_of(row, d)[np.tril_indices(d)].tolist()
        elif row[COUNT] > 0.0:
            count = int(row[COUNT])
            assert line[triangle : triangle + count * d].any()
            assert not line[triangle + count * d : behind].any()
            vectors += 1
    assert vectors > 0 or d < 16, "eight rewards at a time fill more"


@pytest.mark.parametrize("world", WORLDS)
def test_where_the_rewards_that_wait_stand(world):
    policy = trained(*world)
    d, at = len(drift.units_of(policy._memo, 4)), drift.backlog_at(policy._bank, 4)
    numbers, log = policy._bank.ravel(), stored(policy)[drift.models_of(4) :].ravel()
    waiting = int(numbers[at + backlog.WAITING])
    assert waiting > 0 or world[0] == 1
    assert log[:5].tolist() == numbers[at : at + 5].tolist()
    for p in range(waiting):
        place, line = backlog.record(at, p, d), log[5 + p * (d + 7) : 5 + (p + 1) * (d + 7)]
        first = place - len(backlog_vector(numbers, place, d))
        assert line.tolist() == [*numbers[first : first + d], *numbers[place : place + 7]]
    assert not log[5 + waiting * (d + 7) :].any()


def backlog_vector(numbers, place, d):
    """The features of a record, in whole vectors."""
    return numbers[place - -(-d // 8) * 8 : place]
