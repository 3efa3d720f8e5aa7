"""A warning for rewards that are clicks, on which the miss test with a given noise cannot work."""

from __future__ import annotations

import math

_FIRST_LOOK = 64
_LEAST = 5  # of the rarer outcome, before its rate is trusted


class ClickWarning(UserWarning):
    """Rewards are 0 or one other value, and the noise that a policy was given is no use on them."""


class ClickWatch:
    """Looks at rewards as they come until one shows that they are not clicks."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.value = 0.0
        self.rounds = self.hits = 0

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
        """What is wrong, now and then: None when it is too early to look, or nothing is wrong."""
        if self.rounds < _FIRST_LOOK or self.rounds & (self.rounds - 1):  # at powers of two
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
