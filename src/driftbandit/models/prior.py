"""Ridge regression under a prior that is estimated elsewhere and may change at any time.

The weights are N(mean, spread) before any reward, and rewards have variance `noise` around x'weights. A change of the
prior is exact: the row also keeps the sums of its rewards, from which the posterior is computed anew.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats
from driftbandit.kernels import prior, ridge
from driftbandit.kernels.packed import packed_size
from driftbandit.models.ridge import Radius, RidgeModel


class PriorRidge(RidgeModel):
    """Ridge regression whose rows can be put under another prior by `believe`.

    `explore` multiplies the posterior's standard deviation, in units of the reward. A fresh row has the prior of
    `RidgeModel` with the same settings: mean 0, spread 1 / ridge, noise 1.

    Examples
    --------
    >>> import numpy as np
    >>> model = PriorRidge(2, ridge=0.1, explore=1.0)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> model.update(row, np.array([1.0, 0.0]), 1.0)
    True
    >>> model.believe(row, np.array([0.0, 0.5]), np.eye(2), 1.0)
    True
    >>> model.weights(row).round(8).tolist()  # one reward of 1 and the prior's 0 weigh the same
    [0.5, 0.5]
    """

    def __init__(self, dim: int, *, ridge: float, explore: float | Radius) -> None:
        super().__init__(dim, ridge=ridge, explore=explore)
        self._own = slice(0, self.size)
        self._acting = slice(self.size, self.size + prior.SETTINGS)
        self._sums = slice(self._acting.stop, self._acting.stop + dim)
        self._outer = slice(self._sums.stop, self._sums.stop + packed_size(dim))
        self.size = self._outer.stop
        self._lower = np.tril_indices(dim)

    def reset(self, row: Floats) -> None:
        row[:] = 0.0
        ridge.reset(self._act, row[self._own], self.dim)
        row[self._acting] = self._act

    def believe(self, row: Floats, mean: Floats, spread: Floats, noise: float) -> bool:
        """Put a row under another prior; False, and no change, if `spread` is not positive definite."""
        return prior.believe(row, mean, spread[self._lower], noise, self._act)

    def take_over(self, learned: Floats) -> Floats:
        """A row with what a row of `RidgeModel`, with the same settings, has learned."""
        row = np.empty(self.size)
        self.reset(row)
        row[self._own] = learned
        if learned[ridge.COUNT]:
            triangle = np.zeros((self.dim, self.dim))
            triangle[self._lower] = learned[ridge.THETA + self.dim :]
            matrix = np.linalg.inv(triangle + np.tril(triangle, -1).T)
            row[self._sums] = matrix @ learned[ridge.THETA : ridge.THETA + self.dim]
            row[self._outer] = (matrix - self.ridge * np.eye(self.dim))[self._lower]
        return row

    def predict(self, row: Floats, x: Floats) -> tuple[float, float]:
        return ridge.predict(row[self._acting], row, x)

    def update(self, row: Floats, x: Floats, reward: float) -> bool:
        return prior.update(row, x, reward)

    def score(self, row: Floats, x: Floats) -> float:
        return sum(self.predict(row, x))

    def scoring(self, row: Floats) -> Floats | None:
        return row[self._acting]

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        row = bank[member]
        return ridge.optimistic_arm(row[self._acting], row[self._own].reshape(1, -1), 0, features)

    scores = RidgeModel.scores
