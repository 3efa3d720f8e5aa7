"""Ridge regression on a sliding window: the last `window` rewards count fully, earlier ones not at all.

The estimate is theta = A^-1 b with A = ridge * I + sum of x x' over the window. Cheung, Simchi-Levi and Zhu, AISTATS
2019.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats, as_count, as_number
from driftbandit.kernels import windowed as kernel
from driftbandit.models.ridge import Radius, RidgeModel


def window_radius(dim: int, window: int, *, noise: float, ridge: float, delta: float) -> Radius:
    """Constant radius of a window: noise * sqrt(d * ln((1 + window / ridge) / delta)) + sqrt(ridge), for |x| <= 1.

    >>> round(window_radius(10, 100, noise=0.1, ridge=1.0, delta=0.01).at(0, 10), 8)
    1.96022345
    """
    noise = as_number("noise", noise, 0.0)
    ridge = as_number("ridge", ridge, 0.0, open_low=True)
    delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
    constant = dim * math.log((1.0 + as_count("window", window) / ridge) / delta)
    return Radius(noise, 0.0, constant, math.sqrt(ridge))


class WindowedModel(RidgeModel):
    """Ridge regression on the last `window` rewards.

    Examples
    --------
    >>> import numpy as np
    >>> model = WindowedModel(1, window=2, ridge=1.0, explore=1.0)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> for reward in (9.0, 1.0, 2.0):  # the 9 is gone by the end
    ...     assert model.update(row, np.array([1.0]), reward)
    >>> row[1].round(8).item()  # (1 + 2) / (1 + 1 + 1)
    1.0
    """

    def __init__(
        self,
        dim: int,
        *,
        window: int = 200,
        noise: float = 1.0,
        ridge: float = 0.1,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        radius: Radius | None = None,
    ) -> None:
        super().__init__(dim, noise=noise, ridge=ridge, explore=explore, delta=delta, radius=radius)
        self.window = as_count("window", window)
        self.size = kernel.row_size(dim, self.window)

    def update(self, row: Floats, x: Floats, reward: float) -> bool:
        return kernel.update(self._test, row, x, reward, self.window)
