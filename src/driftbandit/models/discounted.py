"""Ridge regression that forgets at a constant rate: each reward weighs `discount` times what it did a round ago.

The estimate is theta = V^-1 b with V = ridge * I + sum of discount^age x x', and an arm's width is radius(n) * sqrt(x'
V^-1 W V^-1 x), where W is V with squared weights. Russac, Vernade and Cappe, NeurIPS 2019.
"""

from __future__ import annotations

from driftbandit.core import Floats, as_number
from driftbandit.kernels import discounted as kernel
from driftbandit.models.ridge import Radius, RidgeModel


class DiscountedModel(RidgeModel):
    """Discounted ridge regression; the sum of the squared weights takes the place of n in the radius.

    Examples
    --------
    >>> import numpy as np
    >>> model = DiscountedModel(2, discount=0.9, ridge=1.0, explore=1.0)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> for x, reward in (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.5), ([1.0, 1.0], 1.0)):
    ...     assert model.update(row, np.array(x), reward)
    >>> row[1:3].round(8).tolist()
    [0.53140299, 0.31675759]
    """

    def __init__(
        self,
        dim: int,
        *,
        discount: float = 0.99,
        noise: float = 1.0,
        ridge: float = 0.1,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        radius: Radius | None = None,
    ) -> None:
        super().__init__(dim, noise=noise, ridge=ridge, explore=explore, delta=delta, radius=radius)
        self.discount = as_number("discount", discount, 0.0, 1.0, open_low=True)
        self.size = kernel.row_size(dim)

    def reset(self, row: Floats) -> None:
        kernel.reset(self._test, row, self.dim)

    def update(self, row: Floats, x: Floats, reward: float) -> bool:
        return kernel.update(self._test, row, x, reward, self.discount)
