"""Ridge regression that explores by sampling instead of by optimism.

The posterior of theta is N(theta, explore^2 A^-1). One sample per round is linear Thompson sampling (Agrawal and Goyal,
ICML 2013); a fresh sample for every arm explores more and is what the released adTS does.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats
from driftbandit.kernels import ridge as kernel
from driftbandit.models.ridge import Radius, RidgeModel


class ThompsonModel(RidgeModel):
    """Ridge regression with Thompson sampling; `explore` scales the posterior's standard deviation (default: noise).

    In a subclass that overrides `predict`, every arm is drawn around its prediction. A subclass that overrides `score`
    plays the arm with the highest score.

    Examples
    --------
    >>> import numpy as np
    >>> model = ThompsonModel(2, noise=0.0, ridge=1.0)  # no noise: greedy
    >>> bank = np.empty((1, model.size))
    >>> model.reset(bank[0])
    >>> model.update(bank[0], np.array([0.0, 1.0]), 1.0)
    True
    >>> model.choose(bank, 0, np.eye(2), np.random.default_rng(0))
    1
    """

    samples: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        *,
        noise: float = 1.0,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
        radius: Radius | None = None,
        per_arm: bool = False,
    ) -> None:
        super().__init__(dim, noise=noise, ridge=ridge, explore=explore, delta=delta, radius=radius)
        self._spread = noise if explore is None else explore
        self._per_arm = per_arm
        self._draw = Radius.fixed(self._spread).settings(ridge)

    def scoring(self, row: Floats) -> Floats | None:
        return self._draw if self._fast_choose else None

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        if not kernel.usable(features, self.ridge):  # before anything is drawn
            return -1
        if not self._keeps_score:
            return super().choose(bank, member, features, generator)
        if not self._keeps_predict:
            return draw_around(self, self._draw, bank[member], features, generator)
        if self._per_arm:
            noise = generator.standard_normal(len(features))
            return kernel.sampled_arm(bank, member, features, noise, self._spread)
        noise = generator.standard_normal(self.dim)
        return kernel.sampled_theta_arm(bank, member, features, noise, self._spread)

    def scores(self, bank: Floats, member: int, features: Floats, generator: Generator) -> Floats:
        if not kernel.usable(features, self.ridge):  # before anything is drawn
            return np.full(len(features), np.nan)
        if not self._keeps_score:
            return super().scores(bank, member, features, generator)
        row = bank[member]
        if self._per_arm or not self._keeps_predict:
            return drawn_scores(self, self._draw, row, features, generator)
        return features @ kernel.sampled_theta(row, generator.standard_normal(self.dim), self._spread)


def draw_around(model: RidgeModel, settings: Floats, row: Floats, features: Floats, generator: Generator) -> int:
    """Index of the arm with the highest of `drawn_scores`; -1 if not finite."""
    return kernel.first_best(drawn_scores(model, settings, row, features, generator))


def drawn_scores(model: RidgeModel, settings: Floats, row: Floats, features: Floats, generator: Generator) -> Floats:
    """One draw for every arm, around the model's prediction and with the width of `settings`."""
    means = np.array([model.predict(row, x)[0] for x in features])
    widths = kernel.predictions(settings, row, features)[:, 1]
    scores: Floats = means + widths * generator.standard_normal(len(features))
    return scores
