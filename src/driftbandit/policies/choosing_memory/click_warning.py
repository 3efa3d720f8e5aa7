"""What a dLinUCB with a given noise warns about: clicks that the miss test cannot judge, and rewards out of scale."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

from driftbandit.core import Change, Floats
from driftbandit.state import Stateful

if TYPE_CHECKING:
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

_FIRST_LOOK = 64
"""Rewards after which the watch looks for the first time."""

_LEAST = 5
"""How often the rarer outcome must have come before its rate is trusted."""


class ClickWarning(UserWarning):
    """Warning: rewards are 0 or one other value, and the noise that the policy was given is of no use on them."""


class ClickWatch(Stateful):
    """Looks at rewards as they come, until a third value shows that they are not clicks, or until it has warned.

    A `DLinUCB` keeps one beside its members when the noise is given. It is not part of the stored state.
    """

    learns_many = True
    deviation = 0.0
    lumpy = False

    def __init__(self, epsilon: float, delta: float) -> None:
        self.busy = True
        self.epsilon = epsilon
        self.delta = delta
        self.value = 0.0
        self.rounds = self.hits = 0

    def before(self, policy: DLinUCB, x: Floats, reward: float) -> None:
        """Do nothing before the members learn."""

    def after(
        self, policy: DLinUCB, x: Floats, reward: float, seen: object, changes: tuple[Change, ...]
    ) -> tuple[Change, ...]:
        """Count a reward that the members have learned, and warn if the rewards are clicks and the noise is of no use.

        Called last, so that neither bad features nor a warning turned into an error leaves the policy half taught.
        """
        if not self.still_clicks(reward):
            self.busy = False
        elif (problem := self.verdict()) is not None:
            self.busy = False
            if policy.warned.first("clicks"):
                warnings.warn(problem, ClickWarning, stacklevel=3)
        return changes

    def still_clicks(self, reward: float) -> bool:
        """Count a reward; False if it is a third value."""
        self.rounds += 1
        if reward:
            if reward != self.value:
                if self.value:
                    return False
                self.value = reward
            self.hits += 1
        return True

    def verdict(self) -> str | None:
        """What is wrong, looked for whenever the count is a power of two; else None."""
        if self.rounds < _FIRST_LOOK or self.rounds & (self.rounds - 1):
            return None
        rarer = min(self.hits, self.rounds - self.hits)
        if rarer < _LEAST:
            return None
        share = self.hits / self.rounds
        rare, size = rarer / self.rounds, abs(self.value)
        if self.epsilon >= size * (1.0 - rare):
            problem = f"epsilon, {self.epsilon:.3g}, covers every outcome and nothing is ever detected"
        elif rare > self.delta:
            problem = (
                f"each rarer outcome is a miss, {100 * rare:.2g} % of all where {100 * self.delta:.2g} % are allowed"
            )
        else:
            return None
        deviation = size * math.sqrt(share * (1.0 - share))
        return (
            f"rewards are 0 or {self.value:g}, {100 * share:.3g} % of them {self.value:g}: {problem}. No noise level "
            "works on single clicks; use noise='auto', or learn from means of n of them with "
            f"noise={deviation:.2g}/sqrt(n)"
        )


def warn_of_scale(policy: DLinUCB) -> None:
    """Warn, once, that a member was retired without having accepted a reward; called by the policy's review."""
    if policy.warned.first("scale"):
        warnings.warn(
            "a member was retired without having accepted a single reward: rewards fall outside a fresh member's "
            "interval; scale them down (a ridge member takes |theta| <= 1 for granted) or raise noise",
            RuntimeWarning,
            stacklevel=4,
        )
