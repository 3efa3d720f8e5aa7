"""PSLinUCB: LinUCB that compares its latest rewards with what it knew before them.

The latest `window` rewards are held apart. Once the model of everything before them mispredicts their mean by too much,
the world has changed: the past is dropped and the policy starts from the window, so a restart does not begin from
nothing. Xu, Dong, Li, He and Li, AAAI 2020.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    Floats,
    Ints,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_reward,
    not_finite,
)
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, noise_as_width

_NOT_USABLE, _NO_TEST = -2.0, -1.0
"""What `_step` returns instead of a gap."""

_HELD, _OLDEST = range(2)
"""Slots of the ring: how many rewards the window holds, and the place of the oldest."""


class PSLinUCB(ModelPolicy):
    """Piecewise-stationary LinUCB.

    One theta is shared by all arms, as in `LinUCB`; ``PerArm(PSLinUCB(...))`` is the paper's disjoint version, in which
    every arm has a theta and a test of its own.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the default threshold only.
    window : int
        Rewards held apart (omega).
    threshold : float, optional
        A mean residual of at least this size over the window is a change (the paper's delta). By default noise * sqrt(2
        ln(2 / delta) / window), which the mean noise of a window exceeds with probability at most `delta`.
    ridge, explore :
        As in `LinUCB`; the paper's ridge is 1.
    delta : float
        Probability of a false alarm in one test, if the past were known exactly.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = PSLinUCB(dim=2, noise=0.1, window=30, ridge=0.1)
    >>> for t in range(400):
    ...     x = rng.random(2)
    ...     changes = policy.learn(x, x.sum() if t < 200 else -x.sum())
    >>> [(change.kind, change.round) for change in policy.changes]
    [('restarted', 202), ('restarted', 232)]
    """

    evidence = ("gap", "threshold", "before")
    _parts = (*ModelPolicy._parts, "_before", "_recent", "_totals", "_ring")

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        window: int = 100,
        threshold: float | None = None,
        ridge: float = 1.0,
        explore: float | Radius = 0.6,
        delta: float = 1e-4,
    ) -> None:
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        super().__init__(dim, RidgeModel(as_dim(dim), ridge=ridge, explore=explore))
        self.window = as_count("window", window)
        self.ridge, self.explore = ridge, explore
        self.noise = as_number("noise", noise, 0.0)
        self.delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
        if threshold is None:
            threshold = self.noise * math.sqrt(2.0 * math.log(2.0 / self.delta) / self.window)
        self.threshold = as_number("threshold", threshold, 0.0)
        self._settings = Radius().settings(ridge)
        self._before = self._row.copy()  # the model of all rewards that left the window
        self._recent = np.zeros((self.window, self.dim + 1))
        self._totals = np.zeros(self.dim + 1)
        self._ring = np.zeros(2, dtype=np.int64)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features, and test the window once it is full."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        gap = _step(
            self._settings,
            self._row,
            self._before,
            self._recent,
            self._totals,
            self._ring,
            x,
            reward,
            self.threshold,
        )
        if gap == _NOT_USABLE:
            raise not_finite(x)
        self.rounds += 1
        if gap == _NO_TEST:
            return ()
        evidence = {"gap": gap, "threshold": self.threshold, "before": float(self._before[kernel.COUNT])}
        _restart(self._settings, self._row, self._before, self._recent, self._totals, self._ring)
        return self._report(Change(self.rounds, "restarted", 0, evidence))

    def _after_restore(self) -> None:
        super()._after_restore()
        held, oldest = self._ring.tolist()
        if not (0 <= held < self.window and 0 <= oldest < self.window):
            raise ValueError(f"state: ring: expected two numbers below {self.window}, got {held} and {oldest}")


@jit
def _step(
    settings: Floats,
    row: Floats,
    before: Floats,
    recent: Floats,
    totals: Floats,
    ring: Ints,
    x: Floats,
    reward: float,
    threshold: float,
) -> float:
    """Absorb one reward; return the window's mean residual if it is an alarm, and then leave the window full."""
    if not kernel.update(settings, row, x, reward):
        return _NOT_USABLE
    gap: float
    d, window = len(x), len(recent)
    held, oldest = ring[_HELD], ring[_OLDEST]
    entry = recent[(oldest + held) % window]
    for i in range(d):
        entry[i] = x[i]
        totals[i] += x[i]
    entry[d] = reward
    totals[d] += reward
    if held + 1 < window:
        ring[_HELD] = held + 1
        return _NO_TEST
    # A past shorter than the window is not tested: at the start it would predict 0 for everything.
    if before[kernel.COUNT] >= window:
        residual = -totals[d]
        for i in range(d):
            residual += before[kernel.THETA + i] * totals[i]
        gap = abs(residual) / window
        if gap >= threshold:
            return gap
    first = recent[oldest]
    kernel.update(settings, before, first[:d], first[d])
    for i in range(d + 1):
        totals[i] -= first[i]
    ring[_OLDEST] = (oldest + 1) % window
    if ring[_OLDEST] == 0:  # sums that rewards enter and leave collect rounding errors
        for i in range(d + 1):
            totals[i] = 0.0
            for slot in range(held):
                totals[i] += recent[slot, i]
    return _NO_TEST


@jit
def _restart(settings: Floats, row: Floats, before: Floats, recent: Floats, totals: Floats, ring: Ints) -> None:
    """Replace the present model and the past by the model of the full window, and empty the window."""
    window, d = recent.shape[0], recent.shape[1] - 1
    kernel.reset(settings, row, d)
    for age in range(window):
        entry = recent[(ring[_OLDEST] + age) % window]
        kernel.update(settings, row, entry[:d], entry[d])
    before[:] = row
    totals[:] = 0.0
    ring[:] = 0


ENTRIES = (
    Entry(
        name="ps-linucb",
        title="PSLinUCB",
        summary="LinUCB that compares its latest rewards with what it knew before",
        policy=PSLinUCB,
        settings=noise_as_width(window=50),
        told=("noise",),
        page="ps-linucb",
        place=150,
    ),
)
