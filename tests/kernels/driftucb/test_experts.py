"""DriftUCB's experts against a Kalman filter from the textbook."""

import numpy as np
import pytest

from driftbandit.kernels.driftucb import experts, scales
from driftbandit.kernels.ridge import row_size

DIM, SPREAD = 3, 0.3
UNITS = np.array([1.0, 2.0, 0.25])


def world():
    memo = np.zeros(scales.MEMO)
    memo[[scales.NOISE, scales.TASTE, scales.SHRINK, scales.ALL_COUNT]] = 0.25, 2.0, 0.6, DIM
    return memo


def covariance(row):
    matrix = np.zeros((DIM, DIM))
    matrix[np.tril_indices(DIM)] = row[1 + DIM :]
    return matrix + np.tril(matrix, -1).T


def test_an_expert_is_a_kalman_filter_that_reverts_to_the_elder():
    rng = np.random.default_rng(0)
    memo, keep = world(), 0.9
    elder = np.concatenate([[0.0], rng.standard_normal(DIM)])
    bank = np.zeros((2, row_size(DIM)))
    bank[0, : 1 + DIM] = elder
    rows = bank[1:]
    assert experts.start_experts(memo, rows, elder[1:], UNITS)
    mean, spread = elder[1:].copy(), SPREAD * 2.0 * np.diag(UNITS**2)
    for _ in range(20):
        x, reward = rng.standard_normal(DIM), rng.standard_normal()
        mean = keep * mean + (1.0 - keep) * 0.6 * elder[1:]
        spread = keep**2 * spread + (1.0 - keep**2) * SPREAD * 2.0 * np.diag(UNITS**2)
        expected = reward - x @ mean, 0.25 + x @ spread @ x
        arm, z = np.append(x, 0.0), np.empty(DIM + 1)
        lifted = np.append(UNITS**2 * x, 0.0)
        found = experts.learn_expert(bank.reshape(-1), bank.shape[1], 0, UNITS, arm, lifted, reward, z, keep, memo)
        assert found == pytest.approx(expected)
        gain = spread @ x / expected[1]
        mean, spread = mean + gain * expected[0], spread - np.outer(gain, x @ spread)
    assert rows[0, 0] == 20.0
    assert rows[0, 1 : 1 + DIM] == pytest.approx(mean)
    assert covariance(rows[0]) == pytest.approx(spread)


def test_experts_start_once_and_not_too_early():
    memo, rows, theta = world(), np.zeros((2, row_size(DIM))), np.array([1.0, 2.0, 3.0])
    memo[scales.ALL_COUNT] = DIM - 0.1
    assert not experts.start_experts(memo, rows, theta, UNITS)
    assert not rows.any()
    memo[scales.ALL_COUNT] = DIM
    assert not experts.start_experts(memo, rows[:0], theta, UNITS), "there are none"
    assert experts.start_experts(memo, rows, theta, UNITS)
    assert rows[:, 1 : 1 + DIM].tolist() == [[1.0, 2.0, 3.0]] * 2
    assert covariance(rows[1]) == pytest.approx(SPREAD * 2.0 * np.diag(UNITS**2))
    rows[:] = 7.0
    assert not experts.start_experts(memo, rows, theta, UNITS)
    assert (rows == 7.0).all()
