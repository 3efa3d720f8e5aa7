"""D-UCB: UCB1 whose evidence fades, a little with every reward.

A play counts `discount` times as much after every later reward of any arm, so an arm that was not played for a while
becomes uncertain again and is tried anew. Detects nothing, forgets all the time. Kocsis and Szepesvari, PASCAL
challenges workshop 2006; Garivier and Moulines, ALT 2011.

SMPyBandits plays every arm whose discounted count is below one, and takes half the width. Here, as in the paper, any
evidence counts (`min_count`), and the width is 2 sqrt(explore * ln n / N).
"""

from __future__ import annotations

import math
from typing import Any, Self

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arm, as_arms, as_number
from driftbandit.kernels import arms as kernel
from driftbandit.policies.context_free.arms import ArmPolicy, ArmTable, Rule, as_horizon
from driftbandit.policies.entry import Entry, from_brief


class DUCB(ArmPolicy):
    """Discounted UCB on arm ids.

    With N the discounted plays of an arm and n those of all arms, it plays the highest discounted mean + 2
    sqrt(explore * ln n / N). Time passes for arms that are not offered, too.

    Parameters
    ----------
    discount : float
        What a play is worth one reward later (gamma), in (0, 1]. About ``1 / (1 - discount)`` plays are remembered.
        The default suits 5 changes in 10,000 rounds; see `for_horizon`.
    explore : float
        Exploration (xi); above 1/2 in theory, 1/2 in the paper's experiments. Without discount, 1/2 is UCB1.
    min_count : float
        An arm whose discounted plays are at most this is treated as never played.
    prior_mean, prior_count, reward_range, max_arms, seed :
        As in `UCB1`.

    Examples
    --------
    >>> policy = DUCB(discount=0.9)
    >>> for arm, reward in [(3, 1.0)] * 20 + [(5, 0.4)] * 20 + [(3, 0.0)] * 5:
    ...     _ = policy.learn(None, reward, arm=arm)
    >>> policy.choose(None, arms=[3, 5])  # the twenty successes of arm 3 have faded
    1
    """

    _parts = (*ArmPolicy._parts, "_table")

    def __init__(
        self,
        *,
        discount: float = 0.9944,
        explore: float = 0.5,
        min_count: float = 1e-6,
        prior_mean: float = 0.5,
        prior_count: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(reward_range, seed)
        self.discount = as_number("discount", discount, 0.0, 1.0, open_low=True)
        self.explore = as_number("explore", explore, 0.0)
        self.min_count = as_number("min_count", min_count, 0.0)
        self.prior_mean = as_number("prior_mean", prior_mean, 0.0, 1.0)
        self.prior_count = as_number("prior_count", prior_count, 0.0)
        self._table = ArmTable(max_arms)
        self.max_arms = self._table.max_arms

    @classmethod
    def for_horizon(cls, horizon: int, changes: int, **settings: Any) -> Self:
        """Discount that the paper suggests for so many changes in `horizon` rounds: 1 - sqrt(changes / horizon) / 4.

        >>> round(DUCB.for_horizon(10_000, changes=2).discount, 8)
        0.99646447
        """
        length = as_horizon(horizon, changes)
        return cls(discount=1.0 - math.sqrt(1.0 / length) / 4.0, **settings)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play; `arms` are the ids of this round's pool."""
        return self._best(as_arms(arms, features))

    def _index(self) -> tuple[ArmTable, Rule]:
        level = 4.0 * self.explore * self._table.log_plays
        prior = self.prior_mean, self.prior_count
        settings = (level, *prior, self.discount, self.rounds - 1.0, self.min_count)
        return self._table, (kernel.DISCOUNTED, settings)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of `arm`; all earlier plays fade."""
        arm = as_arm(arm)
        scaled = self._scaled(reward)
        # An arm's plays are brought up to date only when it is played (here) or scored (in the kernel).
        entry = self._table.row(arm)
        entry[kernel.COUNT] *= self.discount ** (self.rounds - entry[kernel.LAST])
        self._table.plays *= self.discount
        self._table.add(arm, scaled, self.rounds)
        self.rounds += 1
        return ()


ENTRIES = (
    Entry(
        name="d-ucb",
        title="D-UCB",
        summary="context-free UCB whose evidence fades",
        policy=DUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="d-ucb",
        place=230,
        contextual=False,
    ),
)
