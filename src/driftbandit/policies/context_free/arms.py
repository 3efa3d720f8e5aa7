"""What context-free policies share: statistics per arm id, bounded in number, and rewards on the scale [0, 1]."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints, as_arms, as_count
from driftbandit.kernels import arms as kernel
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.context_free.reward_scale import RewardScale
from driftbandit.state import Stateful, new_generator

_FIRST_CAPACITY = 64
_LONGEST_PERIOD = 2.0**62

Index = Literal["ucb1", "ucb_tuned"]
Rule = tuple[kernel.Rule, kernel.Settings]
"""An index and its settings."""


class ArmTable(Stateful):
    """Statistics of the arms played so far.

    At `max_arms` the half played longest ago is forgotten; a forgotten arm that returns starts afresh. A
    `ranked` table knows the best mean at any time without looking at all arms.
    """

    _parts = ("plays", "_size", "_ids", "stats")
    _growing = frozenset({"_ids", "stats"})
    _derived = frozenset({"_slots", "_tree"})

    def __init__(self, max_arms: int, extra_columns: int = 0, *, ranked: bool = False) -> None:
        self.max_arms = as_count("max_arms", max_arms, least=2)
        self.ranked = ranked
        self._ids = np.zeros(_FIRST_CAPACITY, dtype=np.int64)
        self.stats = np.zeros((_FIRST_CAPACITY, kernel.COLUMNS + extra_columns))
        self.clear()

    def __len__(self) -> int:
        return self._size

    def clear(self) -> None:
        """Forget all arms."""
        self._size = 0
        self.plays = 0.0  # a fraction if evidence is discounted
        self._ids[:] = 0
        self.stats[:] = 0.0
        self._index()

    def find(self, arm: int) -> Floats | None:
        """Statistics of an arm, or None if it has no row."""
        found = kernel.find(self._slots, self._ids, arm)
        return self.stats[found] if found >= 0 else None

    def row(self, arm: int) -> Floats:
        """Statistics of an arm, all zero if it is new."""
        found = self._place(arm)  # may replace the arrays by larger ones
        entry: Floats = self.stats[found]
        return entry

    def _place(self, arm: int) -> int:
        found = kernel.find(self._slots, self._ids, arm)
        if found >= 0:
            return found
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
        return found

    def add(self, arm: int, reward: float, now: int) -> Floats:
        """Add a reward, already on the scale [0, 1], and return the arm's statistics."""
        found = self._place(arm)
        entry: Floats = self.stats[found]
        kernel.add_reward(entry, reward, now)
        if self.ranked:
            kernel.set_leaf(self._tree, found, entry[kernel.MEAN])
        self.plays += 1.0
        return entry

    def restart(self, entry: Floats) -> None:
        """Forget the plays of one arm, given its statistics; extra columns are left alone."""
        self.plays -= entry[kernel.COUNT]
        entry[: kernel.LAST] = 0.0

    def shrink(self, factor: float) -> None:
        """Multiply every arm's number of plays by `factor` and leave the means alone."""
        self.stats[:, [kernel.COUNT, kernel.SQUARES]] *= factor
        self.plays = float(self.stats[: self._size, kernel.COUNT].sum())
        self._rank()

    def best_mean(self) -> float:
        """Highest mean of any arm with evidence, minus infinity if there is none; for ranked tables only."""
        return float(self._tree[1])

    def mean_of(self, arm: int) -> float:
        """Mean reward of an arm; minus infinity if there is no evidence for it."""
        entry = self.find(arm)
        if entry is None or entry[kernel.COUNT] <= 0.0:
            return -math.inf
        return float(entry[kernel.MEAN])

    @property
    def log_plays(self) -> float:
        """ln t of the indices, 0 before the second play."""
        return math.log(max(self.plays, 1.0))

    def rule(self, index: Index, prior_mean: float = 0.0, prior_count: float = 0.0) -> Rule:
        """UCB1 or UCB-Tuned, as the arms stand now; the prior is for UCB1."""
        if index == "ucb1":
            return kernel.UCB, (2.0 * self.log_plays, prior_mean, prior_count)
        return kernel.TUNED, (self.log_plays,)

    def best(self, pool: Ints, rule: Rule, generator: np.random.Generator) -> int:
        """Index of the pool's arm to play: a random arm without evidence, or, if all have some, the rule's best."""
        index, settings = rule
        best, unseen = index.best(self._slots, self._ids, self.stats, pool, settings, -1)
        if not unseen:
            return best
        nth = int(generator.integers(unseen))
        return index.best(self._slots, self._ids, self.stats, pool, settings, nth)[0]

    def scores(self, pool: Ints, rule: Rule) -> Floats:
        """The rule's index of every arm of the pool, infinity without evidence."""
        index, settings = rule
        return index.scores(self._slots, self._ids, self.stats, pool, settings)

    def least(self, pool: Ints, column: int) -> int:
        """Index of the pool's arm with the smallest value in a column of the statistics, ties to the lowest id."""
        return kernel.least_of_pool(self._slots, self._ids, self.stats, pool, column)

    def suspect(self, pool: Ints, leader: int, pace: float, now: int) -> int:
        """Index of the arm played longest ago that may have caught up with the leader; see the kernel."""
        return kernel.oldest_suspect(self._slots, self._ids, self.stats, pool, leader, pace, now)

    def keep(self, rows: Ints) -> None:
        """Forget all arms except those in these rows, which must be in order."""
        self._ids[: len(rows)] = self._ids[rows]
        self.stats[: len(rows)] = self.stats[rows]
        self._size = len(rows)
        self._index()

    def refill(self, arms: Ints, rewards: Floats) -> None:
        """Recompute all statistics from these rewards, and forget arms without any."""
        kernel.refill(self._slots, self._ids, self.stats, arms, rewards)
        self.keep(np.flatnonzero(self.stats[: self._size, kernel.COUNT]))

    def counts(self) -> tuple[Ints, Floats]:
        """Ids of the arms with evidence, in order, and their plays."""
        rows = np.flatnonzero(self.stats[: self._size, kernel.COUNT])
        rows = rows[np.argsort(self._ids[rows])]
        return self._ids[rows], self.stats[rows, kernel.COUNT]

    def _forget_half(self) -> None:
        age_order = np.argsort(self.stats[: self._size, kernel.LAST], kind="stable")
        self.keep(np.sort(age_order[self._size - self._size // 2 :]))

    def _index(self) -> None:
        self._slots = np.empty(4 * _power_of_two(len(self._ids)), dtype=np.int64)
        if not kernel.index_slots(self._slots, self._ids, self._size):
            raise ValueError("state: ids: an arm comes twice")
        self._tree = np.full(2 * _power_of_two(len(self._ids)) if self.ranked else 0, -math.inf)
        self._rank()

    def _rank(self) -> None:
        if self.ranked:
            kernel.set_leaves(self._tree, self.stats, self._size)

    def _after_restore(self) -> None:
        if not self._size <= len(self._ids) == len(self.stats) or not len(self._ids):
            raise ValueError("state: size, ids and stats contradict each other")
        if self._size > self.max_arms:
            raise ValueError(f"state: size: {self._size} arms are more than max_arms, {self.max_arms}")
        self._index()


def as_horizon(horizon: int, changes: int) -> float:
    """Rounds per change, or ValueError: what the tuning rules of the literature start from."""
    if as_count("changes", changes) > as_count("horizon", horizon, least=2):
        raise ValueError(f"changes: expected at most {horizon} (horizon), got {changes}")
    return horizon / changes


def is_forced(table: ArmTable, share: float) -> bool:
    """Whether the coming round is one of forced exploration, which takes about a `share` of the rounds.

    With K arms played since the table was cleared, the first K of every floor(K / share) rounds are forced, as in
    M-UCB and GLR-klUCB. `choose` and `learn` both ask, because nothing is kept between the two.
    """
    arms = len(table)
    if not arms or share <= 0.0:
        return False
    period = math.floor(min(arms / share, _LONGEST_PERIOD))
    return int(table.plays) % period < arms


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


class ArmPolicy(PolicyBase):
    """A context-free policy: takes arm ids, rewards in a known range, ignores features."""

    _parts: ClassVar[tuple[str, ...]] = (*PolicyBase._parts, "_scale", "_generator")

    def __init__(self, reward_range: tuple[float, float], seed: int) -> None:
        super().__init__()
        self._scale = RewardScale(reward_range)
        self.reward_range = self._scale.range
        self._generator = new_generator(seed)
        self.seed = int(seed)

    @property
    def clipped(self) -> int:
        """Rewards seen outside the range."""
        return self._scale.clipped

    def _index(self) -> tuple[ArmTable, Rule]:
        """The statistics that the next choice compares, and by which index."""
        raise NotImplementedError

    def _best(self, pool: Ints) -> int:
        """Index of the pool's arm with the highest index; a random arm without evidence, as long as there is one."""
        table, rule = self._index()
        return table.best(pool, rule, self._generator)

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> Floats:
        """Index of every arm of the pool; infinity for an arm without evidence, which is played first."""
        table, rule = self._index()
        return table.scores(as_arms(arms, features), rule)

    def _scaled(self, reward: float) -> float:
        """The reward on the scale [0, 1]; outside the range it is clipped, counted, and warned about once."""
        scaled = self._scale.scaled(reward)
        self._scale.note(reward, stacklevel=4)
        return scaled
