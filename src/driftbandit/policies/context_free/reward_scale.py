"""Rewards of a known range on the scale [0, 1]."""

from __future__ import annotations

import warnings

from driftbandit.core import LARGEST, as_number, as_reward
from driftbandit.state import Stateful


class RewardScale(Stateful):
    """Maps rewards to [0, 1].

    Without a range, rewards must lie in [0, 1], and others raise ValueError. With a range, rewards are scaled; those
    outside it are clipped, counted, and warned about once.

    Examples
    --------
    >>> RewardScale((-1.0, 3.0)).scaled(0.0)
    0.25
    >>> RewardScale(None).scaled(1.5)
    Traceback (most recent call last):
    ...
    ValueError: reward: expected a number in [0, 1], got 1.5
    """

    _parts = ("clipped",)

    def __init__(self, reward_range: tuple[float, float] | None) -> None:
        self.strict = reward_range is None
        ends = (0.0, 1.0) if reward_range is None else reward_range
        if not isinstance(ends, tuple | list) or len(ends) != 2:
            raise ValueError(f"reward_range: expected the lowest and the highest reward, got {reward_range!r}")
        self.low = as_number("reward_range", ends[0])
        self.high = as_number("reward_range", ends[1], self.low, LARGEST, open_low=True)
        self.range = None if self.strict else (self.low, self.high)
        """As it was given."""
        self.clipped = 0
        """Rewards seen outside the range."""

    def scaled(self, reward: float) -> float:
        """The reward on the scale [0, 1]; changes nothing."""
        if self.strict:
            return as_reward(reward, 0.0, 1.0)
        return min(max((as_reward(reward) - self.low) / (self.high - self.low), 0.0), 1.0)

    def note(self, reward: float, stacklevel: int = 3) -> None:
        """Count a reward outside the range, once it has been learned; the warning points at the caller's caller."""
        if self.strict or self.low <= float(reward) <= self.high:
            return
        if not self.clipped:
            warnings.warn(
                f"reward {reward} is outside reward_range ({self.low:g}, {self.high:g}) and was clipped; "
                "pass the range of your rewards",
                RuntimeWarning,
                stacklevel=stacklevel,
            )
        self.clipped += 1
