"""DiagonalLinUCB: LinUCB for many thousands of features of which an arm has few, with two numbers per feature.

LinUCB keeps a matrix of d * d numbers, which ends at a few thousand features. Here every weight has a mean and a
variance, and weights count as independent: the matrix is its diagonal. A reward moves mean and variance of each weight
to what they are under the exact posterior, and what it says about pairs of weights is dropped. Graepel, Candela,
Borchert and Herbrich, ICML 2010, section 3 (adPredictor), here with Gaussian rewards instead of clicks. Where every arm
has one feature, this is LinUCB.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, Ints, as_count, as_number, as_reward
from driftbandit.kernels.compile import finite, jit
from driftbandit.kernels.ridge import LARGEST_SQUARE, first_best
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.policies.linear.sparse_rows import SparseRows, example_row, pool_rows

LARGEST_DIM = 500_000_000
"""A model with this many features takes 8 GB."""


class DiagonalLinUCB(PolicyBase):
    """LinUCB that treats weights as independent: 16 bytes per feature, and time for an arm's non-zero features only.

    `choose` and `learn` take NumPy arrays, as all policies do, and arrays of `scipy.sparse`, of which those in CSR
    format are not converted.

    Parameters
    ----------
    dim : int
        Number of features, at most 500 million.
    ridge : float
        Precision of every weight before any reward. A sensible value is the variance of the noise divided by the
        variance of the weights.
    explore : float
        Multiplier of the bonus; the noise is a sensible value, 0 is greedy.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> policy = DiagonalLinUCB(1_000_000)
    >>> pool = csr_array(([1.0, 1.0, 1.0, 1.0], ([0, 0, 1, 1], [7, 4_000, 7, 999_999])), shape=(2, 1_000_000))
    >>> policy.choose(pool)  # both arms tie, the lowest index wins
    0
    >>> policy.learn(pool[[0]], reward=-1.0)
    ()
    >>> policy.choose(pool)
    1
    """

    dim: int
    _parts = (*PolicyBase._parts, "_theta", "_information")
    ranks_by_scores: ClassVar[bool] = True

    def __init__(self, dim: int, *, ridge: float = 1.0, explore: float = 0.3) -> None:
        super().__init__()
        if as_count("dim", dim) > LARGEST_DIM:
            raise ValueError(f"dim: expected at most {LARGEST_DIM:,} features, got {dim}")
        self.dim = int(dim)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.explore = as_number("explore", explore, 0.0)
        # Zeros, of which the operating system hands out memory only where something was learned.
        self._theta = np.zeros(self.dim)
        self._information = np.zeros(self.dim)  # precision of every weight, less the ridge

    def choose(self, features: Any, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play among this round's candidates.

        Parameters
        ----------
        features : array or sparse array of shape (K, dim)
            The candidates' features.
        arms : ignored
            Accepted so that every policy can be called alike.
        """
        pool = pool_rows(features, self.dim)
        best = first_best(self._scores(pool))
        if best < 0:
            raise pool.refusal()
        return best

    def scores(self, features: Any, arms: ArrayLike | None = None) -> Floats:
        """Score of every candidate, the highest of which `choose` plays; `arms` is ignored."""
        pool = pool_rows(features, self.dim)
        scores = self._scores(pool)
        if not np.isfinite(scores).all():
            raise pool.refusal()
        return scores

    def _scores(self, pool: SparseRows) -> Floats:
        return _optimistic(self._theta, self._information, self.ridge, self.explore, *pool)

    def learn(self, features: Any, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features: of shape (dim,), or sparse of shape (1, dim) or (dim,)."""
        row = example_row(features, self.dim)
        reward = as_reward(reward)
        if not _learn(self._theta, self._information, self.ridge, row.columns, row.values, reward):
            raise row.refusal()
        self.rounds += 1
        return ()

    @property
    def feature_weights(self) -> Floats:
        """Mean of every weight."""
        return self._theta

    def _after_restore(self) -> None:
        if self._information.min() < 0.0:
            raise ValueError("state: information: expected numbers of at least 0")


@jit
def _predicted(theta: Floats, information: Floats, ridge: float, columns: Ints, values: Floats) -> tuple[float, float]:
    """x'theta and x' V x, where V is the diagonal matrix of the variances; NaN if features are not usable."""
    mean, square, size = 0.0, 0.0, 0.0
    for place in range(len(columns)):
        i, x = columns[place], values[place]
        mean += theta[i] * x
        square += x * x / (ridge + information[i])
        size += x * x
    if not size <= LARGEST_SQUARE * ridge:
        return math.nan, math.nan
    return mean, square


@jit
def _optimistic(
    theta: Floats, information: Floats, ridge: float, explore: float, starts: Ints, columns: Ints, values: Floats
) -> Floats:
    """x'theta + explore * sqrt(x' V x) of every row."""
    scores = np.empty(len(starts) - 1)
    for row in range(len(scores)):
        own = slice(starts[row], starts[row + 1])
        mean, square = _predicted(theta, information, ridge, columns[own], values[own])
        scores[row] = mean + explore * math.sqrt(square)
    return scores


@jit
def _learn(theta: Floats, information: Floats, ridge: float, columns: Ints, values: Floats, reward: float) -> bool:
    """Move every weight of x to its exact posterior; False, with nothing changed, if features are not usable.

    With v the variances, s = x' V x and e = r - x'theta, the posterior has means theta_i + e v_i x_i / (1 + s) and
    variances v_i - (v_i x_i)^2 / (1 + s). As precisions: 1 / v_i + x_i^2 / (1 + s - v_i x_i^2). A weight gains less
    while the other weights of x are unknown, since the reward may be due to them.
    """
    mean, square = _predicted(theta, information, ridge, columns, values)
    if not finite(mean) or not finite(square):
        return False
    error = (reward - mean) / (1.0 + square)
    for place in range(len(columns)):
        i, x = columns[place], values[place]
        precision = ridge + information[i]
        theta[i] += error * x / precision
        others = max(square - x * x / precision, 0.0)
        information[i] += x * x / (1.0 + others)
    return True


ENTRIES = (
    Entry(
        name="diagonal-linucb",
        title="DiagonalLinUCB",
        summary="LinUCB for thousands to millions of sparse features; assumes that nothing changes",
        policy=DiagonalLinUCB,
        settings=from_brief("dim"),
        page="diagonal-linucb",
        place=95,
    ),
)
