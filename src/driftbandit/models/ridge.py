"""Ridge regression with a confidence width: the member of dLinUCB, and the whole of LinUCB.

The estimate is theta = A^-1 b with A = ridge * I + sum x x', and an arm's width is radius(n) * sqrt(x' A^-1 x).
Everything lives in one flat row per member and is updated in O(d^2). Abbasi-Yadkori, Pal and Szepesvari, NIPS 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints, as_number
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import fill_in, jit
from driftbandit.kernels.watching import Bytes, watch
from driftbandit.kernels.windows import judge_round, judge_rounds
from driftbandit.models.base import RewardModel


@dataclass(frozen=True, slots=True)
class Radius:
    """Confidence radius after n rewards: scale * sqrt(d * ln(1 + growth * n) + constant) + offset.

    Examples
    --------
    The three published radii at d = 10, ridge 0.1, n = 100, noise 0.05 and delta 0.01:

    >>> for rule in (Radius.paper, Radius.released, Radius.abbasi_yadkori):
    ...     print(f"{rule(10, noise=0.05, ridge=0.1, delta=0.01).at(100, 10):.8f}")
    0.34305235
    0.85274256
    0.68825446
    """

    scale: float = 0.0
    growth: float = 0.0
    constant: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            as_number(f"radius.{field.name}", getattr(self, field.name), 0.0)

    @classmethod
    def fixed(cls, value: float) -> Self:
        """A constant radius."""
        return cls(offset=as_number("explore", value, 0.0))

    @classmethod
    def paper(cls, dim: int, *, noise: float, ridge: float, delta: float) -> Self:
        """As printed in the dLinUCB paper, with the noise squared."""
        noise, ridge, delta = _checked(noise, ridge, delta)
        return cls(noise**2, 1.0 / (ridge * delta), 0.0, math.sqrt(ridge))

    @classmethod
    def released(cls, dim: int, *, noise: float, ridge: float, delta: float) -> Self:
        """As in the code that the paper's authors released."""
        noise, ridge, delta = _checked(noise, ridge, delta)
        return cls(noise, 1.0 / ridge, dim * math.log(1.0 / delta), math.sqrt(ridge))

    @classmethod
    def abbasi_yadkori(cls, dim: int, *, noise: float, ridge: float, delta: float) -> Self:
        """Theorem 2 of Abbasi-Yadkori et al. in its trace form, for |theta| <= 1 and |x| <= 1."""
        noise, ridge, delta = _checked(noise, ridge, delta)
        return cls(noise, 1.0 / (dim * ridge), 2.0 * math.log(1.0 / delta), math.sqrt(ridge))

    def at(self, n: int, dim: int) -> float:
        """Value after n rewards."""
        return kernel.radius(self.settings(1.0), float(n), dim)

    def settings(self, ridge: float) -> Floats:
        """The numbers that the kernels use."""
        return np.array([ridge, self.scale, self.growth, self.constant, self.offset])


def _checked(noise: float, ridge: float, delta: float) -> tuple[float, float, float]:
    return (
        as_number("noise", noise, 0.0),
        as_number("ridge", ridge, 0.0, open_low=True),
        as_number("delta", delta, 0.0, 1.0, open_low=True),
    )


class RidgeModel(RewardModel):
    """Ridge regression; `explore` is a constant multiplier of sqrt(x' A^-1 x), None explores by the test's own radius.

    In a subclass that overrides `predict`, an arm's score is prediction + width, unless it overrides `score` too.

    Examples
    --------
    >>> import numpy as np
    >>> model = RidgeModel(2, ridge=0.1, explore=1.0)
    >>> row = np.empty(model.size)
    >>> model.reset(row)
    >>> for x, reward in (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.5), ([1.0, 1.0], 1.0)):
    ...     model.update(row, np.array(x), reward)
    True
    True
    True
    >>> row[1:3].round(8).tolist()
    [0.79178886, 0.3372434]
    """

    takes_radius: ClassVar[bool] = True
    follows_noise: ClassVar[bool] = False  # the radius is computed for one noise

    def __init__(
        self,
        dim: int,
        *,
        noise: float = 1.0,
        ridge: float = 0.1,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        radius: Radius | None = None,
    ) -> None:
        test = radius or Radius.paper(dim, noise=noise, ridge=ridge, delta=delta)
        act = explore if isinstance(explore, Radius) else test if explore is None else Radius.fixed(explore)
        super().__init__(dim, noise=noise, ridge=ridge, explore=explore, delta=delta)
        self.size = kernel.row_size(dim)
        self._compiled_for(RidgeModel)
        self._test = test.settings(ridge)
        self._act = act.settings(ridge)

    def reset(self, row: Floats) -> None:
        kernel.reset(self._test, row, self.dim)

    def predict(self, row: Floats, x: Floats) -> tuple[float, float]:
        return kernel.predict(self._test, row, x)

    def update(self, row: Floats, x: Floats, reward: float) -> bool:
        return kernel.update(self._test, row, x, reward)

    def weights(self, row: Floats) -> Floats | None:
        return row[kernel.THETA : kernel.THETA + self.dim]

    def score(self, row: Floats, x: Floats) -> float:
        if not self._keeps_predict:
            return super().score(row, x)
        return sum(kernel.predict(self._act, row, x))

    def scoring(self, row: Floats) -> Floats | None:
        return self._act if self._fast_choose else None

    def choose(self, bank: Floats, member: int, features: Floats, generator: Generator) -> int:
        if not self._fast_choose:
            return super().choose(bank, member, features, generator)
        return kernel.optimistic_arm(self._act, bank, member, features)

    scores = RewardModel.scores

    def judge(self, bank: Floats, ledger: Ints, rules: Floats, count: int, x: Floats, reward: float) -> int:
        if not self._fast_judge:
            return super().judge(bank, ledger, rules, count, x, reward)
        return judge_ridge(self._test, bank, ledger, rules, count, x, reward)

    @property
    def judges_many(self) -> bool:
        return self._fast_judge and type(self).judge is RidgeModel.judge

    def judge_many(
        self,
        bank: Floats,
        ledger: Ints,
        rules: Floats,
        count: int,
        leader: int,
        xs: Floats,
        rewards: Floats,
        before: Floats,
    ) -> tuple[int, int]:
        return judge_many_ridge(self._test, bank, ledger, rules, count, leader, xs, rewards, before)

    @property
    def watches(self) -> bool:
        mine = type(self)
        return self._fast_choose and mine.choose is RidgeModel.choose and mine.update is RidgeModel.update

    def watch(
        self,
        bank: Floats,
        member: int,
        features: Floats,
        offsets: Ints,
        shown: Ints,
        rewards: Floats,
        lessons: Bytes,
        choices: Ints,
    ) -> tuple[int, bool]:
        return watch(self._act, self._test, bank, member, features, offsets, shown, rewards, lessons, choices)


judge_ridge = jit(fill_in(judge_round, "judge_round_ridge", predict=kernel.predict, update=kernel.update))
"""`kernels.windows.judge_round` for ridge members, compiled."""

judge_many_ridge = jit(fill_in(judge_rounds, "judge_rounds_ridge", judge_round=judge_ridge))
"""`kernels.windows.judge_rounds` for ridge members, compiled."""
