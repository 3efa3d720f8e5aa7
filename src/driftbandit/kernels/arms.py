"""Statistics per arm id: a hash table over flat arrays, and the indices of context-free policies.

Statistics rows start with ``[count, mean, sum of squared deviations, last played]``. Ids are any int64; arms that
were never played have no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from driftbandit.core import TIE, Floats, Ints
from driftbandit.kernels.compile import fill_in, jit

COUNT, MEAN, SQUARES, LAST = range(4)
COLUMNS = 4

Settings = tuple[float, ...]

_ALMOST_ONE = 1.0 - 1e-12
_NEWTON_STEPS = 100
_NEWTON_STOP = 1e-13


@jit
def find(slots: Ints, ids: Ints, key: int) -> int:
    """Row of an id, or -1 - (free place in `slots`)."""
    mask = len(slots) - 1
    # Multiplicative hashing on 31 bits: the product fits an int64, compiled or not.
    at = ((((key ^ (key >> 31)) & 0x7FFFFFFF) * 2654435761) >> 20) & mask
    while slots[at] >= 0:
        row: int = slots[at]
        if ids[row] == key:
            return row
        at = (at + 1) & mask
    return -1 - at


@jit
def index_slots(slots: Ints, ids: Ints, size: int) -> bool:
    """Fill `slots` anew from the first `size` ids; False if an id comes twice."""
    slots[:] = -1
    for row in range(size):
        place = find(slots, ids, ids[row])
        if place >= 0:
            return False
        slots[-1 - place] = row
    return True


@jit
def ucb(mean: float, count: float, level: float) -> float:
    """mean + sqrt(level / n)."""
    return mean + math.sqrt(level / count)


@jit
def ucb1(mean: float, count: float, log_rounds: float) -> float:
    """mean + sqrt(2 ln t / n)."""
    return ucb(mean, count, 2.0 * log_rounds)


@jit
def ucb_tuned(mean: float, count: float, squares: float, log_rounds: float) -> float:
    """mean + sqrt(ln t / n * min(1/4, variance + sqrt(2 ln t / n)))."""
    variance = squares / count + math.sqrt(2.0 * log_rounds / count)
    return mean + math.sqrt(log_rounds / count * min(0.25, variance))


@jit
def kl_ucb(mean: float, level: float) -> float:
    """Largest q in [mean, 1] with kl(mean, q) <= level, where kl is the divergence of two Bernoulli distributions."""
    if mean >= 1.0 or level <= 0.0:
        return min(mean, 1.0)
    # kl grows and is convex in q, and Pinsker's inequality bounds the root, so Newton's method descends to it.
    q = min(mean + math.sqrt(level / 2.0), _ALMOST_ONE)
    for _ in range(_NEWTON_STEPS):
        if q <= mean:  # by rounding
            return mean
        excess = (1.0 - mean) * math.log((1.0 - mean) / (1.0 - q)) - level
        if mean > 0.0:
            excess += mean * math.log(mean / q)
        step = excess * q * (1.0 - q) / (q - mean)
        if step <= _NEWTON_STOP:
            break
        q -= step
    return q


@jit
def _kl_index(stats: Floats, row: int, settings: Settings) -> float:
    """`kl_ucb` with level ln(t - start of the arm) / n; settings are (t, column of the start)."""
    now, column = settings
    if row < 0 or stats[row, COUNT] <= 0.0:
        return math.inf
    rounds = max(now - stats[row, int(column)], 1.0)
    return kl_ucb(stats[row, MEAN], math.log(rounds) / stats[row, COUNT])


@jit
def _ucb_index(stats: Floats, row: int, settings: Settings) -> float:
    """`ucb` with imaginary plays; settings are (level, prior mean, prior count)."""
    level, prior_mean, prior_count = settings
    count, total = prior_count, prior_count * prior_mean
    if row >= 0:
        count += stats[row, COUNT]
        total += stats[row, COUNT] * stats[row, MEAN]
    return ucb(total / count, count, level) if count > 0.0 else math.inf


@jit
def _tuned_index(stats: Floats, row: int, settings: Settings) -> float:
    """`ucb_tuned`; settings are (ln t,)."""
    (log_rounds,) = settings
    if row < 0 or stats[row, COUNT] <= 0.0:
        return math.inf
    return ucb_tuned(stats[row, MEAN], stats[row, COUNT], stats[row, SQUARES], log_rounds)


@jit
def _discounted_index(stats: Floats, row: int, settings: Settings) -> float:
    """`_ucb_index` on plays that fade; further settings: (..., discount, now, least count that is evidence)."""
    level, prior_mean, prior_count, discount, now, least = settings
    count, total = prior_count, prior_count * prior_mean
    if row >= 0:
        plays = stats[row, COUNT] * discount ** (now - stats[row, LAST])
        count += plays
        total += plays * stats[row, MEAN]
    return ucb(total / count, count, level) if count > least else math.inf


def index(stats: Floats, row: int, settings: Settings) -> float:
    """How promising an arm is, infinity without evidence; a placeholder that `fill_in` replaces.

    Row -1 is an arm without a row.
    """
    raise NotImplementedError


def best_of_pool(slots: Ints, ids: Ints, stats: Floats, pool: Ints, settings: Settings, nth: int) -> tuple[int, int]:
    """Index of the pool's best arm, ties to the lowest, and how many arms of the pool have no evidence.

    With `nth` >= 0, the index of the nth arm without evidence instead. A template: `index` is filled in for each rule.
    """
    scores = np.empty(len(pool))
    unseen = 0
    best = -math.inf
    for k in range(len(pool)):
        score = index(stats, find(slots, ids, pool[k]), settings)
        if score == math.inf:
            if unseen == nth:
                return k, 1
            unseen += 1
            score = -math.inf
        scores[k] = score
        best = max(best, score)
    for k in range(len(pool)):
        if scores[k] >= best - TIE:
            return k, unseen
    return 0, unseen


def scores_of_pool(slots: Ints, ids: Ints, stats: Floats, pool: Ints, settings: Settings) -> Floats:
    """Indices of all arms of the pool; a template as `best_of_pool` is."""
    scores = np.empty(len(pool))
    for k in range(len(pool)):
        scores[k] = index(stats, find(slots, ids, pool[k]), settings)
    return scores


class Rule(NamedTuple):
    """An index of arms: how the best arm of a pool is found, and the scores that this compares."""

    best: Callable[[Ints, Ints, Floats, Ints, Settings, int], tuple[int, int]]
    scores: Callable[[Ints, Ints, Floats, Ints, Settings], Floats]


def _rule(name: str, index: Callable[[Floats, int, Settings], float]) -> Rule:
    return Rule(
        jit(fill_in(best_of_pool, f"best_{name}", index=index)),
        jit(fill_in(scores_of_pool, f"scores_{name}", index=index)),
    )


UCB = _rule("ucb", _ucb_index)
DISCOUNTED = _rule("discounted", _discounted_index)
KL = _rule("kl", _kl_index)
TUNED = _rule("tuned", _tuned_index)


@jit
def least_of_pool(slots: Ints, ids: Ints, stats: Floats, pool: Ints, column: int) -> int:
    """Index of the pool's arm with the smallest value in a column, 0 for arms never played; ties to the lowest id."""
    best, least = 0, math.inf
    for k in range(len(pool)):
        row = find(slots, ids, pool[k])
        value = stats[row, column] if row >= 0 else 0.0
        if value < least or (value == least and pool[k] < pool[best]):
            best, least = k, value
    return best


@jit
def oldest_suspect(slots: Ints, ids: Ints, stats: Floats, pool: Ints, leader: int, pace: float, now: int) -> int:
    """Index of the arm played longest ago among those that may have caught up with the leader, or the leader.

    An arm played s rounds ago may have caught up if it was at most pace * sqrt(s) behind. A leader without a row leads
    because it was never played; otherwise all arms of the pool have rows.
    """
    front = find(slots, ids, pool[leader])
    if front < 0:
        return leader
    best, oldest = leader, math.inf
    for k in range(len(pool)):
        row = find(slots, ids, pool[k])
        last = stats[row, LAST]
        behind = stats[front, MEAN] - stats[row, MEAN]
        if row != front and last < oldest and behind <= pace * math.sqrt(now - last):
            best, oldest = k, last
    return best


@jit
def add_reward(entry: Floats, reward: float, now: int) -> None:
    """Running count, mean and squared deviations (Welford)."""
    entry[COUNT] += 1.0
    gap = reward - entry[MEAN]
    entry[MEAN] += gap / entry[COUNT]
    entry[SQUARES] += gap * (reward - entry[MEAN])
    entry[LAST] = now


@jit
def remove_reward(entry: Floats, reward: float) -> None:
    """Remove one reward from the count and the mean."""
    entry[COUNT] -= 1.0
    entry[MEAN] = entry[MEAN] - (reward - entry[MEAN]) / entry[COUNT] if entry[COUNT] > 0.0 else 0.0


@jit
def refill(slots: Ints, ids: Ints, stats: Floats, arms: Ints, rewards: Floats) -> None:
    """Recompute the statistics from these rewards alone; their arms must have rows."""
    stats[:] = 0.0
    for i in range(len(arms)):
        row = find(slots, ids, arms[i])
        if row >= 0:
            add_reward(stats[row], rewards[i], i)


@jit
def set_leaf(tree: Floats, row: int, value: float) -> None:
    """Change one leaf of a tree in which every node is the larger of its two children; the root is at 1."""
    at = len(tree) // 2 + row
    tree[at] = value
    while at > 1:
        at //= 2
        larger = max(tree[2 * at], tree[2 * at + 1])
        if tree[at] == larger:
            return
        tree[at] = larger


@jit
def set_leaves(tree: Floats, stats: Floats, size: int) -> None:
    """Fill a tree of maxima with the means of the first `size` rows, minus infinity for rows without evidence."""
    half = len(tree) // 2
    tree[half:] = -math.inf
    for row in range(size):
        if stats[row, COUNT] > 0.0:
            tree[half + row] = stats[row, MEAN]
    for at in range(half - 1, 0, -1):
        tree[at] = max(tree[2 * at], tree[2 * at + 1])
