"""M-UCB: UCB1 that restarts when two neighbouring windows of an arm's rewards differ.

Monitored UCB: all arms are played in turn for a share of the rounds, so that every arm can be tested; an alarm of any
arm restarts all of them. Cao, Wen, Kveton and Xie, AISTATS 2019.

Published code differs: SMPyBandits restarts whenever an arm has `window` plays, because its test returns a tuple, which
is always true; Kaufmann's older half is one reward short; an R port forgets the logarithm in the index. The paper is
followed here.
"""

from __future__ import annotations

import math
from typing import Any, Self

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_count, as_number
from driftbandit.detection.mean_shift import as_even
from driftbandit.kernels import arms as kernel
from driftbandit.kernels import mean_shift
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule, as_horizon, is_forced
from driftbandit.policies.entry import Entry, from_brief

_FORCED = kernel.COLUMNS
_TEST = _FORCED + 1


class MUCB(ArmPolicy):
    """UCB1 with a test of neighbouring windows for every arm.

    A round of forced exploration plays the arm of the pool with the fewest forced plays since the last alarm, ties to
    the lowest id; other rounds play UCB1's arm.

    Parameters
    ----------
    window : int
        Rewards of an arm that are tested, half of them against the other half (w), an even number.
    threshold : float, optional
        An alarm is raised if the sums of both halves differ by more than this, on rewards scaled to [0, 1] (b). By
        default sqrt(window / 2 * ln(2 K horizon^2)) with K the arms played since the last alarm.
    horizon : int
        Rounds that the default threshold is made for.
    forced_share : float
        Share of rounds of forced exploration (gamma).
    reward_range, max_arms, seed :
        As in `UCB1`; an arm costs 8 * window bytes here, hence the lower default of `max_arms`.

    Examples
    --------
    >>> policy = MUCB(window=20, threshold=6.0)
    >>> for reward in [0.0] * 15 + [1.0] * 7:
    ...     changes = policy.learn(None, reward, arm=7)
    >>> changes[0].kind, changes[0].round, changes[0].evidence
    ('restarted', 22, {'statistic': 7.0, 'threshold': 6.0})
    """

    evidence = ("statistic", "threshold")
    _parts = (*ArmPolicy._parts, "_table")

    def __init__(
        self,
        *,
        window: int = 200,
        threshold: float | None = None,
        horizon: int = 10_000,
        forced_share: float = 0.05,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 10_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.window = as_even("window", window)
        self.threshold = None if threshold is None else as_number("threshold", threshold, 0.0, open_low=True)
        self.horizon = as_count("horizon", horizon, least=2)
        self.forced_share = as_number("forced_share", forced_share, 0.0, 1.0)
        if threshold is None and _threshold(self.window, 1, self.horizon) >= self.window / 2:
            least = 2.0 * _log_tests(1, self.horizon)
            raise ValueError(
                f"window: its test can never fire in {horizon:,} rounds; expected more than {least:.0f}, got {window}"
            )
        self._table = ArmTable(max_arms, extra_columns=1 + mean_shift.RING + self.window)
        self.max_arms = self._table.max_arms

    @classmethod
    def for_horizon(
        cls, horizon: int, changes: int, arms: int, *, window: int | None = None, shift: float = 0.3, **settings: Any
    ) -> Self:
        """Settings that the paper's theory asks for, given the number of arms and of changes in `horizon` rounds.

        Without a `window`, the result has one that reliably finds changes of an arm's mean by `shift`. These settings
        are cautious: the paper's own experiments and others use shorter windows (50 to 800) and a tenth of the forced
        share.

        >>> policy = MUCB.for_horizon(20_000, changes=4, arms=5, window=200)
        >>> round(policy.threshold, 7), round(policy.forced_share, 7)
        (47.0208041, 0.2612164)
        >>> MUCB.for_horizon(20_000, changes=4, arms=5, shift=0.3).window
        2816
        """
        length = as_horizon(horizon, changes)
        arms = as_count("arms", arms)
        if window is None:
            shift = as_number("shift", shift, 0.0, 1.0, open_low=True)
            reach = math.sqrt(_log_tests(arms, horizon)) + math.sqrt(math.log(2.0 * horizon))
            window = 2 * math.ceil(2.0 * (reach / shift) ** 2)
        window = as_even("window", window)
        threshold = _threshold(window, arms, horizon)
        share = math.sqrt(arms * (2.0 * threshold + 3.0 * math.sqrt(window)) / (2.0 * length))
        return cls(window=window, threshold=threshold, horizon=horizon, forced_share=min(share, 1.0), **settings)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        pool = as_arms(arms, features)
        if is_forced(self._table, self.forced_share):
            return self._table.least(pool, _FORCED)
        return self._best(pool)

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, self._table.rule("ucb1")

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm` and test its windows."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        forced = is_forced(self._table, self.forced_share)
        entry = self._table.add(arm, scaled, self.rounds)
        entry[_FORCED] += forced
        self.rounds += 1
        statistic = mean_shift.add(entry[_TEST:], scaled)
        threshold = self.threshold or _threshold(self.window, len(self._table), self.horizon)
        if statistic <= threshold:
            return ()
        self._table.clear()
        return self._report(Change(self.rounds, "restarted", arm, {"statistic": statistic, "threshold": threshold}))


def _log_tests(arms: int, horizon: int) -> float:
    """ln(2 K T^2): every test of every arm is allowed to fail with probability 1 / T."""
    return math.log(2.0 * arms * horizon**2)


def _threshold(window: int, arms: int, horizon: int) -> float:
    return math.sqrt(window / 2.0 * _log_tests(arms, horizon))


ENTRIES = (
    Entry(
        name="m-ucb",
        title="M-UCB",
        summary="context-free UCB1 that restarts when an arm's neighbouring windows differ",
        policy=MUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="m-ucb",
        place=280,
        contextual=False,
    ),
)
