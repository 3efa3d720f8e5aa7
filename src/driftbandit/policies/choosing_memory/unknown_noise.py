"""What a dLinUCB that is not told the noise keeps beside its members: an estimate of it, and a test for clicks."""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.detection.noise import NoiseEstimate
from driftbandit.detection.shadow import Shadow
from driftbandit.models import RewardModel
from driftbandit.state import Stateful

_SETTLED = 2
"""Rewards per feature that a member needs before its residuals count as noise."""

_FRESH = 250
"""For how many more it is fresh; enough for an estimate within 5 %."""

_GROWN = 10
"""Rewards per feature that a member needs before clicks are held against it."""

_STRETCH = 10
"""Windows that a shadow follows at most."""


class UnknownNoise(Stateful):
    """Estimates the noise, bounds it, and looks for shifts in clicks.

    Parameters
    ----------
    dim, window : int
        As in `DLinUCB`.
    quantile : float
        Standard deviations that the noise of a single reward is allowed.
    squared : bool
        Bound the noise by its square, as the released code does.
    alarm : float
        Log-likelihood ratio at which clicks show a shift.
    """

    _parts = ("_estimate", "_shadow")

    def __init__(self, dim: int, *, window: int, quantile: float, squared: bool, alarm: float) -> None:
        self._dim = dim
        self._longest = _STRETCH * window
        self._quantile = quantile
        self._squared = squared
        self.alarm = alarm
        self._estimate = NoiseEstimate()
        self._shadow = Shadow(dim)

    @property
    def deviation(self) -> float:
        """Estimated standard deviation of a reward around its mean; 0 before there is one."""
        return self._estimate.deviation

    def deviation_and_reach(self) -> tuple[float, float]:
        """That, and what |theta| may be."""
        return self._estimate.deviation_and_reach()

    @property
    def epsilon(self) -> float:
        """Bound on the noise of a single reward; infinite where nothing can be judged by it."""
        noise, reach = self._estimate.deviation_and_reach()
        if self.lumpy or not noise:
            return math.inf
        return self._quantile * noise * (noise / reach if self._squared else 1.0)

    @property
    def lumpy(self) -> bool:
        """Whether rewards so far are clicks or the like, which say little one by one."""
        return self._estimate.lumpy

    def observe(self, x: Floats, reward: float, residual: float, leverage: float, updates: int) -> None:
        """Learn from a reward, and from the residual of the member that leads, which had so many updates."""
        self._estimate.observe(x, reward)
        age = updates - _SETTLED * self._dim
        if age >= 0 and not self.lumpy:
            self._estimate.add_residual(residual, leverage, fresh=age < _FRESH)

    def suspicion(self, x: Floats, reward: float, residual: float, leverage: float, updates: int) -> float:
        """How much speaks for the only member being out of date, given this reward; before `observe`."""
        noise = self.deviation
        if not noise:
            return 0.0
        if not self._shadow.running:
            if updates < _GROWN * self._dim:
                return 0.0
            self._shadow.start(min(updates, self._longest), self._estimate.mean_square)
        scaled = residual / math.sqrt(1.0 + leverage)
        self._shadow.follow(x, scaled, noise * noise, reward == self._estimate.lump)
        return self._shadow.evidence

    def correct(self, model: RewardModel, row: Floats) -> None:
        """Make the only member a new one, with what its shadow found out, and stop following it."""
        model.correct(row, self._shadow.change, self._shadow.ridge)
        self._shadow.stop()

    def doubt(self) -> None:
        """Forget the estimate: an alarm so soon after the last one means that it was too low."""
        self._estimate.forget()
