"""What context-free policies share: statistics per arm id, bounded in number, and rewards on the scale [0, 1]."""

from __future__ import annotations

import math
import warnings
from typing import ClassVar, Literal

import numpy as np

from driftbandit.core import LARGEST, Floats, Ints, as_count, as_number, as_reward
from driftbandit.kernels import arms as kernel
from driftbandit.policies.base import PolicyBase
from driftbandit.state import Stateful, new_generator

_FIRST_CAPACITY = 64

Index = Literal["ucb1", "ucb_tuned"]


class ArmTable(Stateful):
    """Statistics of the arms played so far.

    At `max_arms` the half that was played longest ago is forgotten; such an arm starts afresh if it returns.
    """

    _parts = ("plays", "_size", "_ids", "stats")
    _growing = frozenset({"_ids", "stats"})
    _derived = frozenset({"_slots"})

    def __init__(self, max_arms: int, extra_columns: int = 0) -> None:
        self.max_arms = as_count("max_arms", max_arms, least=2)
        self._ids = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.stats = np.zeros((_FIRST_CAPACITY, kernel.COLUMNS + extra_columns))
        self.clear()

    def __len__(self) -> int:
        return self._size

    def clear(self) -> None:
        """Forget all arms."""
        self._size = 0
        self.plays = 0.0  # may be a fraction where evidence is discounted
        self._ids[:] = 0
        self.stats[:] = 0.0
        self._index()

    def row(self, arm: int) -> Floats:
        """Statistics of an arm, all zero if it is new."""
        found = kernel.find(self._slots, self._ids, arm)
        if found >= 0:
            entry: Floats = self.stats[found]
            return entry
        if self._size == self.max_arms:
            self._forget_half()
        if self._size == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self.stats = np.concatenate([self.stats, np.zeros_like(self.stats)])
            self._index()
        found = self._size
        self._ids[found] = arm
        self.stats[found] = 0.0
        self._slots[-1 - kernel.find(self._slots, self._ids, arm)] = found
        self._size += 1
        fresh: Floats = self.stats[found]
        return fresh

    def add(self, arm: int, reward: float, now: int) -> Floats:
        """Add a reward, already on the scale [0, 1], and return the arm's statistics."""
        entry = self.row(arm)
        kernel.add_reward(entry, reward, now)
        self.plays += 1.0
        return entry

    def best_mean(self) -> float:
        """Highest mean of any arm with evidence; minus infinity if there is none."""
        stats = self.stats[: self._size]
        return float(stats[:, kernel.MEAN].max(initial=-math.inf, where=stats[:, kernel.COUNT] > 0.0))

    def mean_of(self, arm: int) -> float:
        """Mean reward of an arm; minus infinity if there is no evidence for it."""
        found = kernel.find(self._slots, self._ids, arm)
        if found < 0 or self.stats[found, kernel.COUNT] <= 0.0:
            return -math.inf
        return float(self.stats[found, kernel.MEAN])

    def pick(
        self,
        pool: Ints,
        index: Index,
        generator: np.random.Generator,
        prior_mean: float = 0.0,
        prior_count: float = 0.0,
    ) -> int:
        """Index of the pool's arm to play: a random one without evidence if there is any, else the best."""
        best, unseen = kernel.best_of_pool(
            self._slots,
            self._ids,
            self.stats,
            pool,
            math.log(max(self.plays, 1)),
            kernel.UCB1 if index == "ucb1" else kernel.TUNED,
            prior_mean,
            prior_count,
        )
        if not unseen:
            return best
        nth = int(generator.integers(unseen))
        return kernel.nth_unseen(self._slots, self._ids, self.stats, pool, nth)

    def _forget_half(self) -> None:
        age_order = np.argsort(self.stats[: self._size, kernel.LAST], kind="stable")
        keep = np.sort(age_order[self._size - self._size // 2 :])
        self._ids[: len(keep)] = self._ids[keep]
        self.stats[: len(keep)] = self.stats[keep]
        self._size = len(keep)
        self._index()

    def _index(self) -> None:
        self._slots = np.empty(4 * _power_of_two(len(self._ids)), dtype=np.int64)
        if not kernel.index_slots(self._slots, self._ids, self._size):
            raise ValueError("state: ids: an arm comes twice")

    def _after_restore(self) -> None:
        if not self._size <= len(self._ids) == len(self.stats) or not len(self._ids):
            raise ValueError("state: size, ids and stats contradict each other")
        if self._size > self.max_arms:
            raise ValueError(f"state: size: {self._size} arms are more than max_arms, {self.max_arms}")
        self._index()


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class ArmPolicy(PolicyBase):
    """A context-free policy: takes arm ids, rewards in a known range, ignores features."""

    _parts: ClassVar[tuple[str, ...]] = (*PolicyBase._parts, "clipped", "_generator")

    def __init__(self, reward_range: tuple[float, float], seed: int) -> None:
        super().__init__()
        if not isinstance(reward_range, tuple | list) or len(reward_range) != 2:
            raise ValueError(f"reward_range: expected the lowest and the highest reward, got {reward_range!r}")
        low, high = reward_range
        self._low = as_number("reward_range", low, -LARGEST, LARGEST)
        self._high = as_number("reward_range", high, self._low, LARGEST, open_low=True)
        self._generator = new_generator(seed)
        self.clipped = 0
        """Rewards seen outside the range."""

    def _scaled(self, reward: float) -> float:
        """The reward on the scale [0, 1]; outside the range it is clipped, counted, and warned about once."""
        scaled = (as_reward(reward) - self._low) / (self._high - self._low)
        if 0.0 <= scaled <= 1.0:
            return scaled
        if not self.clipped:
            warnings.warn(
                f"reward {reward} is outside reward_range ({self._low:g}, {self._high:g}) and was clipped; "
                "pass the range of your rewards",
                RuntimeWarning,
                stacklevel=3,
            )
        self.clipped += 1
        return min(max(scaled, 0.0), 1.0)
