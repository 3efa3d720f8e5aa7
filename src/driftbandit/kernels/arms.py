"""Statistics per arm id: a hash table over flat arrays, and the indices of context-free policies.

Statistics rows start with ``[count, mean, sum of squared deviations, last played]``. Ids are any int64; arms that
were never played have no row.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats, Ints
from driftbandit.kernels.compile import jit

COUNT, MEAN, SQUARES, LAST = range(4)
COLUMNS = 4

UCB1, TUNED = range(2)


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
def ucb1(mean: float, count: float, log_rounds: float) -> float:
    """mean + sqrt(2 ln t / n)."""
    return mean + math.sqrt(2.0 * log_rounds / count)


@jit
def ucb_tuned(mean: float, count: float, squares: float, log_rounds: float) -> float:
    """mean + sqrt(ln t / n * min(1/4, variance + sqrt(2 ln t / n)))."""
    variance = squares / count + math.sqrt(2.0 * log_rounds / count)
    return mean + math.sqrt(log_rounds / count * min(0.25, variance))


@jit
def best_of_pool(
    slots: Ints,
    ids: Ints,
    stats: Floats,
    pool: Ints,
    log_rounds: float,
    rule: int,
    prior_mean: float,
    prior_count: float,
) -> tuple[int, int]:
    """Index of the pool's best arm, ties to the lowest, and how many of its arms have no evidence at all."""
    scores = np.empty(len(pool))
    unseen = 0
    best = -math.inf
    for k in range(len(pool)):
        row = find(slots, ids, pool[k])
        count, total, squares = prior_count, prior_count * prior_mean, 0.0
        if row >= 0:
            count += stats[row, COUNT]
            total += stats[row, COUNT] * stats[row, MEAN]
            squares = stats[row, SQUARES]
        if count <= 0.0:
            unseen += 1
            scores[k] = -math.inf
        elif rule == UCB1:
            scores[k] = ucb1(total / count, count, log_rounds)
        else:
            scores[k] = ucb_tuned(total / count, count, squares, log_rounds)
        best = max(best, scores[k])
    for k in range(len(pool)):
        if scores[k] >= best - TIE:
            return k, unseen
    return 0, unseen


@jit
def nth_unseen(slots: Ints, ids: Ints, stats: Floats, pool: Ints, nth: int) -> int:
    """Index of the nth arm of the pool, from 0, that has no evidence."""
    for k in range(len(pool)):
        row = find(slots, ids, pool[k])
        if row < 0 or stats[row, COUNT] <= 0.0:
            if nth == 0:
                return k
            nth -= 1
    return -1


@jit
def add_reward(entry: Floats, reward: float, now: int) -> None:
    """Running count, mean and squared deviations (Welford)."""
    entry[COUNT] += 1.0
    gap = reward - entry[MEAN]
    entry[MEAN] += gap / entry[COUNT]
    entry[SQUARES] += gap * (reward - entry[MEAN])
    entry[LAST] = now
