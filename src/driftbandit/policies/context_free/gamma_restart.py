"""GammaRestart: on an alarm, believe the past less instead of forgetting it.

UCB-Tuned with a Page-Hinkley test on the rewards of the best arm; an alarm multiplies every arm's number of plays by
`gamma` and leaves the means alone, so all widths open up at once. Hartland et al., 2006.
"""

from __future__ import annotations

from typing import Literal

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_number
from driftbandit.detection.page_hinkley import PageHinkley
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule
from driftbandit.policies.entry import Entry, from_brief


class GammaRestart(ArmPolicy):
    """UCB-Tuned whose evidence shrinks at every alarm.

    Parameters
    ----------
    gamma : float
        What remains of an arm's plays after an alarm, in [0, 1); 0 is a full restart. A fraction of a play still
        counts as evidence.
    apply : {'alarm', 'round'}
        Shrink at alarms, as published, or every round, as the dLinUCB paper describes it (then no test is run).
    slack, threshold : float
        Settings of the Page-Hinkley test, on rewards scaled to [0, 1].
    reward_range, max_arms, seed :
        As in `UCB1`.

    Examples
    --------
    >>> policy = GammaRestart(threshold=2.0)
    >>> for reward in [1.0] * 20 + [0.0] * 5:
    ...     changes = policy.learn(None, reward, arm=1)
    >>> [(change.kind, change.round) for change in policy.changes]
    [('restarted', 23)]
    """

    evidence = ("statistic", "threshold")
    _parts = (*ArmPolicy._parts, "_table", "_test")

    def __init__(
        self,
        *,
        gamma: float = 0.5,
        apply: Literal["alarm", "round"] = "alarm",
        slack: float = 0.005,
        threshold: float = 20.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.gamma = as_number("gamma", gamma, 0.0, 1.0)
        if self.gamma == 1.0:
            raise ValueError("gamma: expected a number in [0, 1), got 1.0")
        if apply not in ("alarm", "round"):
            raise ValueError(f"apply: expected 'alarm' or 'round', got {apply!r}")
        self.apply = apply
        self._table = ArmTable(max_arms, ranked=True)
        self.max_arms = self._table.max_arms
        self._test = PageHinkley(slack=slack, threshold=threshold)
        self.slack, self.threshold = self._test.slack, self._test.threshold

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, self._table.rule("ucb_tuned")

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm`; if it leads, test for a drop."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        leads = self._table.mean_of(arm) >= self._table.best_mean()
        if self.apply == "round":
            self._table.shrink(self.gamma)
        self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        if self.apply == "round" or not leads or not self._test.add(scaled):
            return ()
        evidence = {"statistic": self._test.statistic, "threshold": self._test.threshold}
        self._table.shrink(self.gamma)
        self._test.clear()
        return self._report(Change(self.rounds, "restarted", 0, evidence))


ENTRIES = (
    Entry(
        name="gamma-restart",
        title="gamma-Restart",
        summary="context-free; an alarm shrinks all evidence",
        policy=GammaRestart,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="gamma-restart",
        place=210,
        contextual=False,
    ),
)
