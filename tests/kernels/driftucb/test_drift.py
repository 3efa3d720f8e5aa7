"""What DriftUCB's bank keeps beside the models follows from them, after every kind of round."""

from itertools import islice

import numpy as np
import pytest
from tiled import matrix_of, weights_of, whole

from driftbandit import DriftUCB
from driftbandit.kernels.driftucb import drift, scales
from driftbandit.kernels.driftucb.rows import TRACE

DIM = 3
PRICE = np.array([1.0, 200.0, 0.1])


def rounds(count, *, level=0.0, clicks=False, seed=0):
    """Arms whose columns have other units, rewards around a level, and a taste that turns around."""
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal(DIM)
    for t in range(count):
        x = rng.standard_normal(DIM)
        mean = float(x @ taste) * (-1.0 if t > count // 2 else 1.0) + 0.2 * rng.standard_normal()
        yield x * PRICE, level + (float(mean > 0.0) if clicks else mean)


def check(policy):
    memo, bank, experts = policy._memo, policy._bank, len(policy.memory)
    units, at = drift.units_of(memo, experts), drift.sizes_at(bank, experts)
    sizes = bank.ravel()[at : at + 2 * len(whole(units))]
    np.testing.assert_array_equal(sizes, np.concatenate([whole(units**2), whole(1.0 / units**2)]))
    for row in bank[drift.INCUMBENT : drift.EXPERTS + experts]:
        matrix = matrix_of(row, len(units))
        assert row[TRACE] == pytest.approx(np.trace(matrix / np.outer(units, units)), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("world", [{}, {"level": 20.0}, {"clicks": True}])
def test_sizes_and_traces_are_those_of_frame_and_models(world):
    """Frames change at first, experts start, and there is an alarm."""
    policy = DriftUCB(DIM)
    check(policy)
    for x, reward in rounds(700, **world):
        policy.learn(x, reward)
        check(policy)
    assert policy.changes
    check(DriftUCB(DIM).restore(policy.state()))


def test_sizes_and_traces_of_a_belief():
    policy, root = DriftUCB(DIM), np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.1, 0.2, 0.3]])
    policy.believe(np.ones(DIM), root @ root.T, 0.5)
    check(policy)
    assert matrix_of(policy._bank[drift.INCUMBENT], DIM) == pytest.approx(root @ root.T / 0.5)


def test_weights_of_the_elder_are_compared_in_the_units_of_their_columns():
    policy = DriftUCB(DIM)
    for x, reward in islice(rounds(300), 153):  # three of another taste
        policy.learn(x, reward)
    memo = policy._memo
    units = drift.units_of(memo, len(policy.memory))
    assert np.ptp(units) > 1.0
    spread = max(memo[scales.ELDER_ERRORS] - memo[scales.ROUNDS] * memo[scales.ALL_SUM] / memo[scales.ALL_COUNT], 0.0)
    mean_square = np.mean((weights_of(policy._bank[drift.ELDER], len(units)) / units) ** 2)
    expected = max(1.0 - spread / memo[scales.FEATURE_SQUARES] / mean_square, 0.0)
    assert 0.0 < expected < 1.0
    assert memo[scales.SHRINK] == pytest.approx(expected)
