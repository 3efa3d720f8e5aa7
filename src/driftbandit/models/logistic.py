"""Logistic regression for clicks, updated online in O(d^2).

Each reward moves theta to the minimiser of its logistic loss plus the squared distance from the old theta in the norm
of W = ridge * I + sum p(1 - p) x x', a one-dimensional problem along W^-1 x (the online Laplace form of ECOLog, Faury
et al., AISTATS 2022). The confidence interval of x'theta is mapped through the logistic function, so predictions and
widths are click probabilities.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import fill_in, finite, jit
from driftbandit.kernels.windows import judge_round
from driftbandit.models.base import RewardModel

_NEWTON_STEPS = 20


class LogisticModel(RewardModel):
    """Logistic regression for rewards in [0, 1]; `explore` multiplies sqrt(x' W^-1 x) before the link (default 1).

    Examples
    --------
    >>> import numpy as np
    >>> model = LogisticModel(1, ridge=1.0)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> for click in (1, 1, 1, 0) * 50:
    ...     _ = model.update(row, np.ones(1), float(click))
    >>> round(model.predict(row, np.ones(1))[0], 2)
    0.74
    """

    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(
        self,
        dim: int,
        *,
        noise: float = 0.5,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
    ) -> None:
        super().__init__(dim, noise=noise, ridge=ridge, explore=explore, delta=delta)
        self.size = kernel.row_size(dim)
        self._compiled_for(LogisticModel)
        # W is already in units of the noise, so the radius is the number of standard deviations.
        self._settings = np.array([ridge, 0.0, 0.0, 0.0, 1.0 if explore is None else explore])

    def reset(self, row: Floats) -> None:
        kernel.reset(self._settings, row, self.dim)

    def predict(self, row: Floats, x: Floats) -> tuple[float, float]:
        return _predict(self._settings, row, x)

    def update(self, row: Floats, x: Floats, reward: float) -> bool:
        return _update(self._settings, row, x, reward)

    def score(self, row: Floats, x: Floats) -> float:
        if not self._keeps_predict:
            return super().score(row, x)
        return sum(kernel.predict(self._settings, row, x))

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        if not self._fast_choose:
            return super().choose(bank, member, features, generator)
        # The link is increasing, so the arm with the highest upper bound on x'theta has the highest click bound.
        return kernel.optimistic_arm(self._settings, bank, member, features)

    def scores(self, bank: Floats, member: int, features: Floats, generator: Generator) -> Floats:
        if not self._fast_choose:
            return super().scores(bank, member, features, generator)
        scores: Floats = kernel.predictions(self._settings, bank[member], features).sum(axis=1)
        return scores

    def judge(self, bank: Floats, ledger: Ints, rules: Floats, count: int, x: Floats, reward: float) -> int:
        if not self._fast_judge:
            return super().judge(bank, ledger, rules, count, x, reward)
        return _judge(self._settings, bank, ledger, rules, count, x, reward)


@jit
def logistic(value: float) -> float:
    """1 / (1 + exp(-value)), without overflow."""
    if value < 0.0:
        growth = math.exp(value)
        return growth / (1.0 + growth)
    return 1.0 / (1.0 + math.exp(-value))


@jit
def _predict(settings: Floats, row: Floats, x: Floats) -> tuple[float, float]:
    score, width = kernel.predict(settings, row, x)
    if not finite(score) or not finite(width):
        return score, width
    click = logistic(score)
    return click, max(logistic(score + width) - click, click - logistic(score - width))


@jit
def _update(settings: Floats, row: Floats, x: Floats, reward: float) -> bool:
    d = len(x)
    z, score, square = kernel.project(settings, row, x)
    if not finite(score) or not finite(square):
        return False
    step = 0.0  # solves step = reward - logistic(score + square * step), which is monotone
    low, high = reward - 1.0, reward
    for _ in range(_NEWTON_STEPS):
        click = logistic(score + square * step)
        gap = step + click - reward
        if gap > 0.0:
            high = step
        else:
            low = step
        step -= gap / (1.0 + square * click * (1.0 - click))
        if not low <= step <= high:
            step = 0.5 * (low + high)
    click = logistic(score + square * step)
    curvature = click * (1.0 - click)
    shrink = math.sqrt(curvature / (1.0 + curvature * square))
    for i in range(d):
        row[kernel.THETA + i] += step * z[i]
        z[i] *= shrink
    kernel.subtract_outer(row, z)
    row[kernel.COUNT] += 1.0
    return True


_judge = jit(fill_in(judge_round, "judge_round_logistic", predict=_predict, update=_update))
