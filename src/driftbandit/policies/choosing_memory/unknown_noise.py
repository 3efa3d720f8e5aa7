"""``noise='auto'``: what a dLinUCB that is not told the noise does beside Algorithm 1.

Before every reward, epsilon of the miss test is set from the estimated noise; after the reward, the leading member's
residual goes into the estimate. Clicks say little one by one: while rewards are clicks, epsilon is infinite, so that
the only member learns all clicks, and an `Understudy` collects evidence over many clicks. Once there is enough
evidence, a new member replaces the only one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from driftbandit.core import Change, Floats, not_finite
from driftbandit.detection.noise import NoiseEstimate
from driftbandit.detection.understudy import Understudy
from driftbandit.kernels import windows
from driftbandit.kernels.ridge import usable
from driftbandit.state import Stateful

if TYPE_CHECKING:
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

CLICK_EVIDENCE = ("log_likelihood_ratio", "bound", "age", "updates")
"""Names of the numbers in a change that many clicks revealed, instead of the miss rate."""

_SETTLED = 2
"""Rewards per feature that a member needs before its residuals count as noise."""

_FRESH = 250
"""Rewards after those for which a member counts as fresh; enough for an estimate within 5 %."""

_GROWN = 10
"""Rewards per feature that a member needs before clicks are held against it."""

_STRETCH = 10
"""Most windows that an understudy follows."""

Seen = tuple[float, float, int]
"""The leading member's residual, its leverage x' A^-1 x, and how many rewards the member had learned."""


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

    busy = True
    learns_many = False
    _parts = ("_estimate", "_understudy")
    _stored_as: ClassVar[dict[str, str]] = {"_understudy": "shadow"}

    def __init__(self, dim: int, *, window: int, quantile: float, squared: bool, alarm: float) -> None:
        self._dim = dim
        self._longest = _STRETCH * window
        self._quantile = quantile
        self._squared = squared
        self.alarm = alarm
        self._estimate = NoiseEstimate()
        self._understudy = Understudy(dim)

    @property
    def deviation(self) -> float:
        """Estimated standard deviation of a reward around its mean; 0 before there is an estimate."""
        return self._estimate.deviation

    @property
    def epsilon(self) -> float:
        """Bound on the noise of a single reward; infinite while single rewards cannot be judged."""
        noise, reach = self._estimate.deviation_and_reach()
        if self.lumpy or not noise:
            return math.inf
        return self._quantile * noise * (noise / reach if self._squared else 1.0)

    @property
    def lumpy(self) -> bool:
        """Whether the rewards so far are clicks or similar, which say little one by one."""
        return self._estimate.lumpy

    def before(self, policy: DLinUCB, x: Floats, reward: float) -> Seen:
        """Set epsilon, and return how the leading member predicts the reward before learning it."""
        mean, leverage = policy._model.measure(policy.leading_row, x)
        if not math.isfinite(mean) or not math.isfinite(leverage) or not usable(x[np.newaxis], policy.ridge):
            raise not_finite(x)
        policy._rules[windows.EPSILON] = self.epsilon
        return reward - mean, leverage, int(policy._ledger[policy._leader, windows.UPDATES])

    def after(
        self, policy: DLinUCB, x: Floats, reward: float, seen: Seen | None, changes: tuple[Change, ...]
    ) -> tuple[Change, ...]:
        """Update the noise after the members have learned a reward; returns the changes so far and any found here."""
        assert seen is not None  # what `before` returned
        if self.lumpy:
            evidence = self._suspicion(x, reward, seen)
            if evidence >= self.alarm:
                changes = self._replace_member(policy, evidence)
        elif any(change.kind == "spawned" and change.evidence["age"] < policy.window for change in changes):
            self._estimate.forget()  # an alarm so soon after the last one means that the estimate was too low
        self._observe(x, reward, seen)
        policy._model.tune(policy._bank[: policy._count], *self._estimate.deviation_and_reach())
        return changes

    def _observe(self, x: Floats, reward: float, seen: Seen) -> None:
        residual, leverage, updates = seen
        self._estimate.observe(x, reward)
        age = updates - _SETTLED * self._dim
        if age >= 0 and not self.lumpy:
            self._estimate.add_residual(residual, leverage, fresh=age < _FRESH)

    def _suspicion(self, x: Floats, reward: float, seen: Seen) -> float:
        """Evidence that the only member is out of date, given this reward; called before `_observe`."""
        residual, leverage, updates = seen
        noise = self.deviation
        if not noise:
            return 0.0
        if not self._understudy.running:
            if updates < _GROWN * self._dim:
                return 0.0
            self._understudy.start(min(updates, self._longest), self._estimate.mean_square)
        scaled = residual / math.sqrt(1.0 + leverage)
        self._understudy.follow(x, scaled, noise * noise, reward == self._estimate.lump)
        return self._understudy.evidence

    def _replace_member(self, policy: DLinUCB, evidence: float) -> tuple[Change, ...]:
        """Replace the only member with a new one, corrected by what the understudy learned."""
        age, updates = policy._ledger[0, [windows.AGE, windows.UPDATES]].tolist()
        numbers = evidence, self.alarm, float(age), float(updates)
        why = dict(zip(CLICK_EVIDENCE, numbers, strict=True))
        changes = (
            Change(policy.rounds, "spawned", policy._spawned, why),
            Change(policy.rounds, "retired", policy.leader, why),
        )
        policy._model.correct(policy._bank[0], self._understudy.change, self._understudy.ridge)
        self._understudy.stop()
        policy._enter(0)
        return policy._report(*changes)
