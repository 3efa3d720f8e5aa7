"""SW-UCB: UCB1 on the latest rewards only.

Statistics cover the last `window` rewards of all arms together; older rewards are forgotten exactly.
Detects nothing, forgets all the time. Garivier and Moulines, ALT 2011.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_count, as_number
from driftbandit.kernels import arms as kernel
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule, as_horizon
from driftbandit.policies.entry import Entry, from_brief


class SWUCB(ArmPolicy):
    """Sliding-window UCB on arm ids.

    With N the plays of an arm within the window, it plays the highest mean + sqrt(explore * ln min(t, window) / N). An
    offered arm without a play in the window is played at once, so the window should exceed the number of arms many
    times, or `prior_count` be positive.

    Parameters
    ----------
    window : int
        Rewards that are remembered, 16 bytes each (tau). The default suits 5 changes in 10,000 rounds; see
        `for_horizon`. With a window as long as the run and ``explore=2`` this is UCB1.
    explore : float
        Exploration (xi); the paper asks for more than 1/2.
    prior_mean, prior_count, reward_range, seed :
        As in `UCB1`. The window bounds the number of arms kept.

    Examples
    --------
    >>> policy = SWUCB(window=25)
    >>> for arm, reward in [(3, 1.0)] * 20 + [(5, 0.6)] * 20 + [(3, 0.0)] * 5:
    ...     _ = policy.learn(None, reward, arm=arm)
    >>> policy.choose(None, arms=[3, 5])  # the twenty successes of arm 3 are forgotten
    1
    """

    _parts = (*ArmPolicy._parts, "_table", "_arms", "_rewards")

    def __init__(
        self,
        *,
        window: int = 271,
        explore: float = 1.0,
        prior_mean: float = 0.5,
        prior_count: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.window = as_count("window", window)
        self.explore = as_number("explore", explore, 0.0)
        self.prior_mean = as_number("prior_mean", prior_mean, 0.0, 1.0)
        self.prior_count = as_number("prior_count", prior_count, 0.0)
        # Arms that left the window are dropped once per turn of the ring, so the table holds two rings of arms at most.
        self._table = ArmTable(2 * self.window + 1)
        self._arms = np.zeros(self.window, dtype=np.int64)
        self._rewards = np.zeros(self.window)

    @classmethod
    def for_horizon(cls, horizon: int, changes: int, **settings: Any) -> Self:
        """Window that the paper suggests for so many changes in `horizon` rounds: 2 sqrt(horizon ln horizon / changes).

        >>> SWUCB.for_horizon(10_000, changes=2).window
        429
        """
        length = as_horizon(horizon, changes)
        return cls(window=max(1, round(2.0 * math.sqrt(length * math.log(horizon)))), **settings)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        level = self.explore * self._table.log_plays
        return self._table, (kernel.UCB, (level, self.prior_mean, self.prior_count))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm`; the oldest reward leaves the window."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        place = self.rounds % self.window
        if self.rounds >= self.window:
            leaving = self._table.row(int(self._arms[place]))
            kernel.remove_reward(leaving, self._rewards[place])
            self._table.plays -= 1.0
        self._arms[place] = arm
        self._rewards[place] = scaled
        self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        if place == self.window - 1:
            self._table.refill(self._arms, self._rewards)
        return ()

    def _after_restore(self) -> None:
        filled = min(self.rounds, self.window)
        ids, counts = np.unique(self._arms[:filled], return_counts=True)
        known, plays = self._table.counts()
        if self._table.plays != filled or not np.array_equal(ids, known) or not np.array_equal(counts, plays):
            raise ValueError("state: the arms' plays are not those of the rewards in the window")


ENTRIES = (
    Entry(
        name="sw-ucb",
        title="SW-UCB",
        summary="context-free UCB on the latest rewards only",
        policy=SWUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="sw-ucb",
        place=240,
        contextual=False,
    ),
)
