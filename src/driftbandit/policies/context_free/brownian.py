"""BrownianRestless: for arms whose means wander all the time, at a known speed.

If a play reveals a noisy reward, UCB1 runs in phases and starts afresh in each: no phase is so long that the means
wander far. If a play reveals the mean itself, every second round plays the arm last seen best, and the others play,
among the arms that could have caught up since they were last seen, the one that has waited longest. Nothing is
detected, so no changes are reported. Slivkins and Upfal, COLT 2008; from memory, see docs/policies/brownian.md.
"""

from __future__ import annotations

import math
from typing import Literal

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_count, as_number
from driftbandit.kernels import arms as kernel
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule
from driftbandit.policies.entry import Entry, from_brief


class BrownianRestless(ArmPolicy):
    """A bandit for means on random walks.

    Parameters
    ----------
    volatility : float
        How far a mean moves in a round, as a standard deviation on rewards scaled to [0, 1] (sigma). At 0 the policy is
        UCB1, or greedy if plays reveal means.
    reveals : {'reward', 'mean'}
        What a play shows: a noisy reward, or the arm's mean itself.
    phase : int, optional
        Rounds per phase, if plays reveal rewards; by default sqrt(K ln(1 / volatility)) / volatility, at least 2 K,
        with K the number of arms played in the phase.
    suspicion : float
        How easily an arm is suspected to have caught up, if plays reveal means (c); 2 to 4.
    reward_range, max_arms, seed :
        As in `UCB1`.

    Examples
    --------
    >>> policy = BrownianRestless(volatility=0.01, reveals="mean")
    >>> for arm, mean in ((3, 0.8), (5, 0.75), (4, 0.1)):
    ...     _ = policy.learn(None, mean, arm=arm)
    >>> policy.choose(None, arms=[3, 4, 5])  # arm 5 may have caught up by now, arm 4 cannot
    2
    >>> policy.learn(None, 0.74, arm=5)
    ()
    >>> policy.choose(None, arms=[3, 4, 5])  # every other round the best is played
    0
    """

    _parts = (*ArmPolicy._parts, "_table")

    def __init__(
        self,
        *,
        volatility: float = 0.005,
        reveals: Literal["reward", "mean"] = "reward",
        phase: int | None = None,
        suspicion: float = 3.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.volatility = as_number("volatility", volatility, 0.0, 0.5)
        if reveals not in ("reward", "mean"):
            raise ValueError(f"reveals: expected 'reward' or 'mean', got {reveals!r}")
        self.reveals = reveals
        self.phase = None if phase is None else as_count("phase", phase, least=2)
        self.suspicion = as_number("suspicion", suspicion, 0.0)
        self._table = ArmTable(max_arms)
        self.max_arms = self._table.max_arms

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        pool = as_arms(arms, features)
        leader = self._best(pool)
        if self.reveals == "reward" or not self.rounds % 2 or not self.volatility:
            return leader
        pace = self.suspicion * self.volatility * math.sqrt(math.log(1.0 / self.volatility))
        return self._table.suspect(pool, leader, pace, self.rounds)

    def _index(self) -> tuple[ArmTable, Rule]:
        if self.reveals == "reward":
            return self._table, self._table.rule("ucb1")
        return self._table, (kernel.UCB, (0.0, 0.0, 0.0))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward, or the mean, of `arm`."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        if self.reveals == "mean" and (entry := self._table.find(arm)) is not None:
            entry[kernel.COUNT] = 0.0  # earlier means tell nothing more
        self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        if self.reveals == "reward" and self._table.plays >= self._phase():
            self._table.clear()
        return ()

    def _phase(self) -> float:
        """Length of the current phase, at which UCB1's cost of learning and the cost of the drift are about equal."""
        if self.phase is not None:
            return self.phase
        if not self.volatility:
            return math.inf
        arms = len(self._table)
        return max(2.0 * arms, math.sqrt(arms * math.log(1.0 / self.volatility)) / self.volatility)


ENTRIES = (
    Entry(
        name="brownian",
        title="Brownian restless",
        summary="context-free UCB1 in phases, for means that wander",
        policy=BrownianRestless,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="brownian",
        place=290,
        contextual=False,
    ),
)
