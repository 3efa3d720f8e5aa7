"""Ridge regression whose confidence radius follows an estimate of the noise.

The published radii assume that the noise is known and |theta| <= 1. Here both are estimates that change, so a row holds
its own radii behind the regression's numbers, and `tune` rewrites them. They are the published radii for rewards
measured in units of the largest |theta|: rewards twice as large have widths twice as large.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints
from driftbandit.kernels import ridge as kernel
from driftbandit.models.ridge import Radius, RidgeModel, judge_ridge
from driftbandit.models.thompson import draw_around, drawn_scores


class TunedRidge(RidgeModel):
    """Ridge regression whose noise is updated again and again; `radius` is a published radius at noise 1.

    Derive from it for a ridge model of your own under ``noise='auto'``. As with `RidgeModel`, the miss test and the arm
    choice use the methods that a subclass overrides.

    Examples
    --------
    >>> import numpy as np
    >>> model = TunedRidge(2, ridge=0.1)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> model.update(row, np.array([1.0, 0.0]), 0.5)
    True
    >>> for noise in (0.1, 0.5):
    ...     model.tune(row, noise, reach=1.0)
    ...     print(round(model.predict(row, np.array([1.0, 0.0]))[1], 3))
    0.337
    1.188
    """

    follows_noise: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        *,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
        radius: Radius | None = None,
        squared: bool = True,
    ) -> None:
        unit = radius or Radius.paper(dim, noise=1.0, ridge=ridge, delta=delta)
        super().__init__(dim, ridge=ridge, explore=explore, delta=delta, radius=unit)
        self._compiled_for(TunedRidge)
        self._squared = squared
        self._unit = tuple(self._test.tolist())
        self._fixed = None if explore is None else tuple(self._act.tolist())
        # A row is [ridge row, settings of the miss test, settings of the arm choice, deviation of samples].
        self._own = slice(0, self.size)
        self._tail = slice(self.size, None)
        self._testing = slice(self.size, self.size + len(self._test))
        self._acting = slice(self._testing.stop, self._testing.stop + len(self._act))
        self._drawing = self._acting.stop
        self.size = self._drawing + 1

    def reset(self, row: Floats) -> None:
        kernel.reset(self._test, row, self.dim)
        self.tune(row, 0.0, 1.0)

    def tune(self, rows: Floats, noise: float, reach: float) -> None:
        ridge, scale, growth, constant, offset = self._unit
        scale *= noise * noise / reach if self._squared else noise
        offset *= reach
        test = ridge, scale, growth, constant, offset
        # Before anything is known about the noise, sampling is as wide as the bound on |theta|.
        act, spread = (test, noise or offset) if self._fixed is None else (self._fixed, self._fixed[kernel.OFFSET])
        rows[..., self._tail] = *test, *act, spread

    def predict(self, row: Floats, x: Floats) -> tuple[float, float]:
        return kernel.predict(row[self._testing], row, x)

    def measure(self, row: Floats, x: Floats) -> tuple[float, float]:
        _, mean, square = kernel.project(self._test, row, x)
        return mean if self._keeps_predict else self.predict(row, x)[0], square

    def correct(self, row: Floats, change: Floats, ridge: float) -> None:
        theta = row[kernel.THETA : kernel.THETA + self.dim] + change
        kernel.reset(np.array([ridge]), row[self._own], self.dim)
        row[kernel.THETA : kernel.THETA + self.dim] = theta

    def score(self, row: Floats, x: Floats) -> float:
        if not self._keeps_predict:
            return super().score(row, x)
        return sum(kernel.predict(row[self._acting], row, x))

    def scoring(self, row: Floats) -> Floats | None:
        return row[self._acting] if self._fast_choose else None

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        if not self._fast_choose:
            return super().choose(bank, member, features, generator)
        row = bank[member]
        return kernel.optimistic_arm(row[self._acting], row[self._own].reshape(1, -1), 0, features)

    scores = RidgeModel.scores

    def judge(self, bank: Floats, ledger: Ints, rules: Floats, count: int, x: Floats, reward: float) -> int:
        if not self._fast_judge:
            return super().judge(bank, ledger, rules, count, x, reward)
        return judge_ridge(bank[0, self._testing], bank, ledger, rules, count, x, reward)


class TunedThompson(TunedRidge):
    """`TunedRidge` that samples; `explore` scales the posterior's standard deviation (default: the noise)."""

    samples: ClassVar[bool] = True

    def scoring(self, row: Floats) -> Floats | None:
        return self._draw(row) if self._fast_choose else None

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        if not kernel.usable(features, self.ridge):  # before anything is drawn
            return -1
        if not self._keeps_score:
            return super().choose(bank, member, features, generator)
        row = bank[member]
        if not self._keeps_predict:
            return draw_around(self, self._draw(row), row, features, generator)
        noise = generator.standard_normal(self.dim)
        return kernel.sampled_theta_arm(bank, member, features, noise, float(row[self._drawing]))

    def scores(self, bank: Floats, member: int, features: Floats, generator: Generator) -> Floats:
        if not kernel.usable(features, self.ridge):  # before anything is drawn
            return np.full(len(features), np.nan)
        if not self._keeps_score:
            return super().scores(bank, member, features, generator)
        row = bank[member]
        if not self._keeps_predict:
            return drawn_scores(self, self._draw(row), row, features, generator)
        return features @ kernel.sampled_theta(row, generator.standard_normal(self.dim), float(row[self._drawing]))

    def _draw(self, row: Floats) -> Floats:
        """Settings of the posterior that samples are drawn from."""
        return np.array([self.ridge, 0.0, 0.0, 0.0, row[self._drawing]])
