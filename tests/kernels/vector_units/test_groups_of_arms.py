"""Arms side by side, or one behind the other, get what NumPy finds for each, and nothing else is touched."""

import numpy as np
import pytest

from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units import groups

OUTSIDE = 7.0  # stands before and behind whatever a loop may touch
AT = 3


@jit
def expect(arms, at, theta, units, means, sizes, first):
    groups.expect(arms, at, theta, units, means, sizes, first)


@jit
def expect_lines(features, at, theta, units, means, sizes, first):
    groups.expect_lines(features, at, theta, units, means, sizes, first)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 25, 64])
def test_means_and_sizes_of_eight_arms(d):
    rng = np.random.default_rng(d)
    x, theta, units = rng.standard_normal((8, d)), rng.standard_normal(d), rng.uniform(0.5, 2.0, d)
    for loop, numbers in ((expect_lines, x), (expect, x.T)):
        means, sizes = np.full(AT + 9, OUTSIDE), np.full(AT + 9, OUTSIDE)
        loop(
            np.concatenate([[np.nan] * AT, numbers.ravel(), [np.nan]]),
            AT,
            np.append(theta, np.nan),
            units,
            means,
            sizes,
            AT,
        )
        for found, expected in ((means, x @ theta), (sizes, ((x * units) ** 2).sum(axis=1))):
            np.testing.assert_allclose(found[AT:-1], expected, rtol=1e-12, atol=1e-12)
            assert (np.delete(found, range(AT, AT + 8)) == OUTSIDE).all()
