"""Miss-rate rings: how often each member's confidence interval missed recent rewards, and what follows from it.

A ledger row holds ``[id, spawned_at, age, misses, updates, ring (window bits)]`` for one member: `misses` counts the
set bits, `age` the rounds judged, `updates` the rewards accepted. The rules are the settings of the miss test; their
slots are named below. Line numbers are those of Algorithm 1 of the dLinUCB paper (Wu, Iyer and Wang, SIGIR 2018).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import borrow, finite, jit

# Slots of a ledger row.
ID, SPAWNED_AT, AGE, MISSES, UPDATES, RING = range(6)

# Slots of the rules.
EPSILON = 0  # how far noise can move one reward
DELTA = 1  # share of misses above which a member is lost (delta_1)
SPAWN_DELTA = 2  # share of misses above which a member is no longer fine (delta_1 tilde)
SPREAD = 3  # ln(1 / delta_2) / 2; sqrt(SPREAD / n) is the half-width of a miss rate over n rounds
EXTRA = 4  # added to the denominator of the miss rate: 0 in the paper, 1 in the released code
FIRST_WIDTH = 5  # half-width before the first round: 0 in the paper, 0.5 in the released code
OPTIMISM = 6  # sqrt(ln tau): a member leads by its miss rate minus this many half-widths
STRICT = 7  # 0 compares with < and >= as Algorithm 1 prints it, 1 with <= and > as the released code does
RULES = 8

FINE, SUSPECT, LOST = range(3)
"""Standing of a member: a fine member prevents spawning, a suspect one does not, a lost one is retired."""

REVIEW, NOT_FINITE = -1, -2
"""What `judge_round` returns instead of a leader: REVIEW if the coordinator must retire or spawn members, NOT_FINITE if
nothing was learned because a prediction was not a number."""


@jit
def miss_rate(entry: Ints, rules: Floats) -> tuple[float, float]:
    """Miss rate over the window, and the half-width of its own confidence interval (lines 14 and 15)."""
    if entry[AGE] == 0:
        return 0.0, rules[FIRST_WIDTH]
    filled = min(entry[AGE], len(entry) - RING)
    return entry[MISSES] / (filled + rules[EXTRA]), math.sqrt(rules[SPREAD] / filled)


@jit
def standing(rate: float, width: float, rules: Floats) -> int:
    """Whether a member with this miss rate is fine, suspect or lost (lines 16 and 18)."""
    if rules[STRICT] != 0.0:
        fine, lost = rate <= rules[SPAWN_DELTA] + width, rate > rules[DELTA] + width
    else:
        fine, lost = rate < rules[SPAWN_DELTA] + width, rate >= rules[DELTA] + width
    if fine:
        return FINE
    return LOST if lost else SUSPECT


@jit
def lowest_rate(rate: float, width: float, rules: Floats) -> float:
    """Lower confidence bound of a miss rate; the member with the lowest leads (line 4)."""
    bound: float = rate - rules[OPTIMISM] * width
    return bound


@jit
def leader(ledger: Ints, rules: Floats, count: int) -> int:
    """Member that leads, the oldest on a tie."""
    best, lowest = 0, math.inf
    for m in range(count):
        bound = lowest_rate(*miss_rate(ledger[m], rules), rules)
        if bound < lowest:
            best, lowest = m, bound
    return best


@jit
def record(entry: Ints, missed: int) -> None:
    """Push one bit into a member's ring."""
    slot = RING + entry[AGE] % (len(entry) - RING)
    entry[MISSES] += missed - entry[slot]
    entry[slot] = missed
    entry[AGE] += 1


def predict(settings: Any, row: Floats, x: Floats) -> tuple[float, float]:
    """A model's prediction and width; a placeholder in `judge_round` that `fill_in` replaces."""
    raise NotImplementedError


def update(settings: Any, row: Floats, x: Floats, reward: float) -> object:
    """A model's update; a placeholder in `judge_round` that `fill_in` replaces."""
    raise NotImplementedError


def judge_round(
    settings: Any,
    bank: Floats,
    ledger: Ints,
    rules: Floats,
    count: int,
    x: Floats,
    reward: float,
) -> int:
    """Show one reward to every member (lines 8 to 15) and name the member that leads next (line 4).

    A template: `predict` and `update` are filled in for each model. A member whose interval missed the reward keeps its
    estimate; the others absorb it. The answer is `REVIEW` when a member is lost or none is fine, because then the
    coordinator must carry out lines 16 to 26, and `NOT_FINITE`, with nothing touched, when a prediction is not a
    number. All members are asked before the first one learns, so that bad features leave all of them as they were.
    """
    bank, ledger, x = borrow(bank), borrow(ledger), borrow(x)
    missed = np.zeros(count, dtype=np.int64)
    for m in range(count):  # line 9
        mean, width = predict(settings, bank[m], x)
        if not finite(mean) or not finite(width):
            return NOT_FINITE
        if abs(mean - reward) > width + rules[EPSILON]:  # line 10
            missed[m] = 1
    any_fine, any_lost = False, False  # line 8: a new member is created unless one is fine
    best, lowest = 0, math.inf
    for m in range(count):
        if not missed[m]:  # lines 11 to 13
            update(settings, bank[m], x, reward)
            ledger[m, UPDATES] += 1
        record(ledger[m], missed[m])
        rate, width = miss_rate(ledger[m], rules)  # lines 14 and 15
        verdict = standing(rate, width, rules)  # lines 16 and 18
        any_fine = any_fine or verdict == FINE
        any_lost = any_lost or verdict == LOST
        bound = lowest_rate(rate, width, rules)  # line 4 of the next round
        if bound < lowest:
            best, lowest = m, bound
    if any_lost or not any_fine:
        return REVIEW
    return best


def judge_rounds(
    settings: Any,
    bank: Floats,
    ledger: Ints,
    rules: Floats,
    count: int,
    leader: int,
    xs: Floats,
    rewards: Floats,
    before: Floats,
) -> tuple[int, int]:
    """Show rewards one after the other, until `judge_round` returns something other than a leader.

    A template, like `judge_round`. Returns how many rewards were shown, and the answer to the last one; `before` is
    filled with the leader's row before the last reward.
    """
    for i in range(len(rewards)):
        before[:] = bank[leader]
        leader = judge_round(settings, bank, ledger, rules, count, xs[i], rewards[i])
        if leader < 0:
            return i + 1, leader
    return len(rewards), leader
