"""Meta-Bandit: on an alarm, let the old bandit and a fresh one compete, and keep the winner.

A Page-Hinkley test on the rewards of the best arm raises alarms. Nothing is forgotten at once: for `trial` rounds a
two-armed bandit decides which bandit plays, the old or a fresh one; then the one with the higher mean reward stays.
Adapt-EvE: Hartland, Gelly, Baskiotis, Teytaud and Sebag, 2006; the paper does not print its constants, which are
settings here.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_count
from driftbandit.detection.page_hinkley import PageHinkley
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Index, Rule
from driftbandit.policies.entry import Entry, from_brief

_OLD, _FRESH = 0, 1
_META_POOL = np.array([_OLD, _FRESH])


class MetaBandit(ArmPolicy):
    """Two bandits and a referee.

    During a trial the reward goes to the bandit that the referee would let play now, since nothing is kept between
    `choose` and `learn`; if rewards arrive in order, that is the bandit that chose the arm.

    Parameters
    ----------
    base : {'ucb_tuned', 'ucb1'}
        Index of the bandits and of the referee.
    slack, threshold : float
        Settings of the Page-Hinkley test, on rewards scaled to [0, 1].
    trial : int
        Rounds that a trial lasts; it should exceed a few times the number of arms, or a fresh bandit never gets going.
    reward_range, max_arms, seed :
        As in `UCB1`.

    Examples
    --------
    >>> policy = MetaBandit(threshold=2.0, trial=50)
    >>> for t in range(200):
    ...     index = policy.choose(None, arms=[1, 2])
    ...     good = (index == 0) == (t < 100)  # the arms swap roles
    ...     changes = policy.learn(None, float(good), arm=[1, 2][index])
    >>> [change.kind for change in policy.changes]
    ['spawned', 'retired']
    """

    evidence: ClassVar[tuple[str, ...]] = ("statistic", "threshold")
    """'spawned': the test's statistic and threshold; 'retired': mean reward of the loser and of the winner."""

    _parts = (*ArmPolicy._parts, "_old", "_fresh", "_referee", "_test", "_left", "_incumbent", "_spawned")

    def __init__(
        self,
        *,
        base: Index = "ucb_tuned",
        slack: float = 0.005,
        threshold: float = 20.0,
        trial: int = 1000,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        if base not in ("ucb_tuned", "ucb1"):
            raise ValueError(f"base: expected 'ucb_tuned' or 'ucb1', got {base!r}")
        self.base: Index = base
        self.trial = as_count("trial", trial, least=2)
        self._old = ArmTable(max_arms, ranked=True)
        self._fresh = ArmTable(max_arms, ranked=True)
        self._referee = ArmTable(2)
        self._test = PageHinkley(slack=slack, threshold=threshold)
        self.max_arms, self.slack, self.threshold = self._old.max_arms, self._test.slack, self._test.threshold
        self._left = 0  # rounds left of a trial, 0 outside one
        self._incumbent = self._spawned = 0  # member ids: the old bandit's, and the last id given out

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        table = self._table(self._player())
        return table, table.rule(self.base)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm`; outside a trial test for a drop, inside it count down to the verdict."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        player = self._player()
        table = self._table(player)
        leads = not self._left and table.mean_of(arm) >= table.best_mean()
        table.add(arm, scaled, self.rounds)
        self.rounds += 1
        if self._left:
            self._referee.add(player, scaled, self.rounds)
            self._left -= 1
            return () if self._left else self._end_trial()
        if leads and self._test.add(scaled):
            return self._begin_trial()
        return ()

    def _player(self) -> int:
        """Which bandit plays now: the old one outside a trial, the referee's pick inside, untried ones in order."""
        if not self._left:
            return _OLD
        if len(self._referee) < 2:
            return len(self._referee)
        return self._referee.best(_META_POOL, self._referee.rule(self.base), self._generator)

    def _table(self, player: int) -> ArmTable:
        return self._fresh if player == _FRESH else self._old

    def _after_restore(self) -> None:
        if self._left > self.trial:
            raise ValueError(f"state: left: {self._left} rounds are more than a trial, {self.trial}")

    def _begin_trial(self) -> tuple[Change, ...]:
        self._left = self.trial
        self._referee.clear()
        self._fresh.clear()
        self._spawned += 1
        evidence = {"statistic": self._test.statistic, "threshold": self._test.threshold}
        return self._report(Change(self.rounds, "spawned", self._spawned, evidence))

    def _end_trial(self) -> tuple[Change, ...]:
        old, fresh = (self._referee.mean_of(player) for player in (_OLD, _FRESH))
        loser = self._spawned
        if fresh > old:
            self._old, self._fresh = self._fresh, self._old
            loser, self._incumbent = self._incumbent, self._spawned
        self._fresh.clear()
        self._test.clear()
        evidence = {"statistic": min(old, fresh), "threshold": max(old, fresh)}
        return self._report(Change(self.rounds, "retired", loser, evidence))


ENTRIES = (
    Entry(
        name="meta-bandit",
        title="Meta-Bandit",
        summary="context-free; on an alarm an old and a fresh bandit compete",
        policy=MetaBandit,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="meta-bandit",
        place=200,
        contextual=False,
    ),
)
