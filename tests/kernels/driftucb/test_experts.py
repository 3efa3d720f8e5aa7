"""DriftUCB's experts against a Kalman filter from the textbook."""

import numpy as np
import pytest
from tiled import matrix_of, row_of, weights_of, whole

from driftbandit.kernels.driftucb import experts, rows, scales

DIM, SPREAD = 3, 0.3
UNITS = np.array([1.0, 2.0, 0.25])


def world():
    memo = np.zeros(scales.MEMO)
    memo[[scales.NOISE, scales.TASTE, scales.SHRINK, scales.ALL_COUNT]] = 0.25, 2.0, 0.6, DIM
    return memo


def test_an_expert_is_a_kalman_filter_that_reverts_to_the_elder():
    rng = np.random.default_rng(0)
    memo, keep = world(), 0.9
    elder = rng.standard_normal(DIM)
    bank = np.stack([row_of(elder, np.eye(DIM))] * 2)
    assert experts.start_experts(memo, bank[1:], elder, UNITS)
    drift = experts.drift_of(keep, memo)
    mean, spread = elder.copy(), SPREAD * 2.0 * np.diag(UNITS**2)
    for _ in range(20):
        x, reward = rng.standard_normal(DIM), rng.standard_normal()
        mean = keep * mean + (1.0 - keep) * 0.6 * elder
        spread = keep**2 * spread + (1.0 - keep**2) * SPREAD * 2.0 * np.diag(UNITS**2)
        expected, square = learn(bank.ravel(), bank.shape[1], drift, whole(x), reward)
        assert (expected, square) == pytest.approx((x @ mean, x @ spread @ x))
        gain = spread @ x / (0.25 + x @ spread @ x)
        mean, spread = mean + gain * (reward - x @ mean), spread - np.outer(gain, x @ spread)
    assert bank[1, rows.COUNT] == 20.0
    assert weights_of(bank[1], DIM) == pytest.approx(mean)
    assert matrix_of(bank[1], DIM) == pytest.approx(spread)


def learn(numbers, at, drift, x, reward):
    """Let an expert whose row begins at `at` learn; the elder's is the first."""
    z, sizes = np.empty_like(x), whole(UNITS**2)
    expected, square = rows.multiply(numbers, at, 0, DIM, drift, sizes * x, x, z, 0, 0)
    rows.absorb(numbers, at, 0, DIM, drift, sizes, 0, z, 0, reward - expected, 0.25 + square, 0)
    return expected, square


def test_experts_start_once_and_not_too_early():
    memo, bank, theta = world(), np.zeros((2, rows.row_size(DIM))), np.array([1.0, 2.0, 3.0])
    memo[scales.ALL_COUNT] = DIM - 0.1
    assert not experts.start_experts(memo, bank, theta, UNITS)
    assert not bank.any()
    memo[scales.ALL_COUNT] = DIM
    assert not experts.start_experts(memo, bank[:0], theta, UNITS), "there are none"
    assert experts.start_experts(memo, bank, theta, UNITS)
    for row in bank:
        assert weights_of(row, DIM).tolist() == [1.0, 2.0, 3.0]
        assert matrix_of(row, DIM) == pytest.approx(SPREAD * 2.0 * np.diag(UNITS**2))
    bank[:] = 7.0
    assert not experts.start_experts(memo, bank, theta, UNITS)
    assert (bank == 7.0).all()
