"""CUSUM-UCB: UCB that forgets an arm when a CUSUM test says that its mean changed.

Every arm has a test of its own, so an alarm discards what is known about one arm only; a share of the rounds is played
at random, so that seldom played arms are tested too. Liu, Lee and Shroff, AAAI 2018.

The random arm is any arm of the pool: SMPyBandits never draws the last one.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_number
from driftbandit.detection.cusum import Cusum
from driftbandit.kernels import arms as kernel
from driftbandit.kernels import cusum
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule, as_horizon
from driftbandit.policies.entry import Entry, from_brief


class CusumUCB(ArmPolicy):
    """UCB with a CUSUM test for every arm.

    With N the plays of an arm since its last alarm and n the sum of all N, it plays the highest mean +
    sqrt(explore * ln n / N), or, for a share of the rounds, a random arm of the pool.

    Parameters
    ----------
    threshold : float
        Evidence that an alarm needs, on rewards scaled to [0, 1] (h).
    slack : float
        Changes smaller than this are tolerated (epsilon), on rewards scaled to [0, 1].
    calibration : int
        First plays of an arm, whose mean is the reference of its tests (M).
    random_share : float
        Share of rounds played at random (alpha).
    explore : float
        Exploration (xi); 2 is UCB1's.
    reward_range, max_arms, seed :
        As in `UCB1`.

    Examples
    --------
    >>> policy = CusumUCB(threshold=5.0, calibration=10)
    >>> for reward in [0.0] * 20 + [1.0] * 6:
    ...     changes = policy.learn(None, reward, arm=7)
    >>> changes[0].round, changes[0].member, changes[0].evidence["changed_at"]
    (26, 7, 20.0)
    """

    evidence: ClassVar[tuple[str, ...]] = ("statistic", "threshold", "changed_at")
    _parts = (*ArmPolicy._parts, "_table")

    def __init__(
        self,
        *,
        threshold: float = 15.0,
        slack: float = 0.1,
        calibration: int = 200,
        random_share: float = 0.05,
        explore: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        test = Cusum(calibration=calibration, slack=slack, threshold=threshold)  # it checks these settings
        self.calibration, self.slack, self.threshold = test.calibration, test.slack, test.threshold
        self.random_share = as_number("random_share", random_share, 0.0, 1.0)
        self.explore = as_number("explore", explore, 0.0)
        self._table = ArmTable(max_arms, extra_columns=cusum.COLUMNS)
        self.max_arms = self._table.max_arms

    @classmethod
    def for_horizon(cls, horizon: int, changes: int, **settings: Any) -> Self:
        """Threshold and random share that the paper suggests for so many changes in `horizon` rounds.

        ln(horizon / changes) and sqrt(changes / horizon * ln(horizon / changes)).

        >>> policy = CusumUCB.for_horizon(100_000, changes=10)
        >>> round(policy.threshold, 5), round(policy.random_share, 7)
        (9.21034, 0.0303485)
        """
        length = as_horizon(horizon, changes)
        threshold = math.log(length)
        return cls(threshold=threshold, random_share=math.sqrt(threshold / length), **settings)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        pool = as_arms(arms, features)
        if self.random_share and self._generator.random() < self.random_share:
            return int(self._generator.integers(len(pool)))
        return self._best(pool)

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, (kernel.UCB, (self.explore * self._table.log_plays, 0.0, 0.0))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` and test whether its mean changed."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        entry = self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        test = entry[kernel.COLUMNS :]
        cusum.add(test, scaled, self.calibration, self.slack, self.rounds)
        statistic, since = cusum.evidence(test)
        if statistic <= self.threshold:
            return ()
        self._table.restart(entry)
        test[:] = 0.0
        evidence = {"statistic": statistic, "threshold": self.threshold, "changed_at": since}
        return self._report(Change(self.rounds, "restarted", arm, evidence))


ENTRIES = (
    Entry(
        name="cusum-ucb",
        title="CUSUM-UCB",
        summary="context-free UCB; a CUSUM alarm restarts one arm",
        policy=CusumUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="cusum-ucb",
        place=250,
        contextual=False,
    ),
)
