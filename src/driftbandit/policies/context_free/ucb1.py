"""UCB1: optimism per arm, blind to features.

Plays every offered arm once, then the one with the highest mean + sqrt(2 ln t / n). Assumes that arms keep their mean
rewards for ever. Auer, Cesa-Bianchi and Fischer, Machine Learning 2002.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_number
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule
from driftbandit.policies.entry import Entry, from_brief


class UCB1(ArmPolicy):
    """UCB1 on arm ids, for pools that may differ every round.

    Parameters
    ----------
    reward_range : (float, float)
        Lowest and highest reward; rewards are scaled to [0, 1].
    prior_mean, prior_count : float
        Imaginary plays of every arm, on the scaled rewards. With a positive count an unseen arm is no longer played
        unconditionally, which helps where arms are many.
    max_arms : int
        At this many arms the half played longest ago is forgotten.
    seed : int
        Seed of the generator that breaks ties among unseen arms.

    Examples
    --------
    >>> policy = UCB1()
    >>> for arm, reward in ((3, 0.2), (5, 0.9), (3, 0.1), (5, 1.0)):
    ...     _ = policy.learn(None, reward, arm=arm)
    >>> policy.choose(None, arms=[3, 5])
    1
    >>> policy.choose(None, arms=[5, 4])  # arm 4 is new
    1
    """

    _parts = (*ArmPolicy._parts, "_table")

    def __init__(
        self,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
        prior_mean: float = 0.5,
        prior_count: float = 0.0,
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.prior_mean = as_number("prior_mean", prior_mean, 0.0, 1.0)
        self.prior_count = as_number("prior_count", prior_count, 0.0)
        self._table = ArmTable(max_arms)
        self.max_arms = self._table.max_arms

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        return self._table, self._table.rule("ucb1", self.prior_mean, self.prior_count)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm`."""
        arm = as_arm(arm)
        self._table.add(arm, self._scaled(reward), self.rounds)
        self.rounds += 1
        return ()


ENTRIES = (
    Entry(
        name="ucb1",
        title="UCB1",
        summary="context-free optimism; assumes that nothing changes",
        policy=UCB1,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="ucb1",
        place=300,
        contextual=False,
    ),
)
