"""Miss-rate rings: how often each member's confidence interval missed the reward lately, and what follows from it.

A ledger row holds ``[id, spawned_at, age, misses, updates, ring (window bits)]`` for one member: `misses` counts the
set bits, `age` the rounds judged, `updates` the rewards accepted. Rules hold ``[epsilon, delta, spawn_delta, ln(1 /
window_delta) / 2, extra, first_width, sqrt(ln window), strict]``; `extra` is added to the denominator of the miss
rate, and a strict rule compares with <= and > where Algorithm 1 prints < and >=.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import finite, jit

ID, SPAWNED_AT, AGE, MISSES, UPDATES, RING = range(6)

FINE, SUSPECT, LOST = range(3)
"""Standing of a member: keeps others from being spawned, no longer does, must be retired."""

REVIEW, NOT_FINITE = -1, -2
"""What `judge_round` answers instead of a leader: members must be spawned or retired; nothing was learned."""


@jit
def miss_rate(entry: Ints, rules: Floats) -> tuple[float, float]:
    """Miss rate over the window, and the half-width of its own confidence interval."""
    if entry[AGE] == 0:
        return 0.0, rules[5]
    filled = min(entry[AGE], len(entry) - RING)
    return entry[MISSES] / (filled + rules[4]), math.sqrt(rules[3] / filled)


@jit
def standing(rate: float, width: float, rules: Floats) -> int:
    """Whether a member with this miss rate is fine, suspect or lost (lines 16 to 20 of Algorithm 1)."""
    if rules[7] != 0.0:
        fine, lost = rate <= rules[2] + width, rate > rules[1] + width
    else:
        fine, lost = rate < rules[2] + width, rate >= rules[1] + width
    if fine:
        return FINE
    return LOST if lost else SUSPECT


@jit
def lowest_rate(rate: float, width: float, rules: Floats) -> float:
    """Lower confidence bound of a miss rate; the member with the lowest leads (line 4)."""
    bound: float = rate - rules[6] * width
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
    """A model's prediction and width; stands in `judge_round` for what `fill_in` puts there."""
    raise NotImplementedError


def update(settings: Any, row: Floats, x: Floats, reward: float) -> object:
    """A model's update; stands in `judge_round` for what `fill_in` puts there."""
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
    """Show one reward to every member (lines 9 to 21) and name the next leader.

    A template: `predict` and `update` are filled in for each model. A member whose interval missed the reward keeps its
    estimate; the others absorb it. Answers `REVIEW` when a member is lost or none is fine, `NOT_FINITE`, with
    nothing touched, when a prediction is not a number.
    """
    missed = np.zeros(count, dtype=np.int64)
    for m in range(count):
        mean, width = predict(settings, bank[m], x)
        if not finite(mean) or not finite(width):
            return NOT_FINITE
        if abs(mean - reward) > width + rules[0]:
            missed[m] = 1
    any_fine, any_lost = False, False
    best, lowest = 0, math.inf
    for m in range(count):
        if not missed[m]:
            update(settings, bank[m], x, reward)
            ledger[m, UPDATES] += 1
        record(ledger[m], missed[m])
        rate, width = miss_rate(ledger[m], rules)
        verdict = standing(rate, width, rules)
        any_fine = any_fine or verdict == FINE
        any_lost = any_lost or verdict == LOST
        bound = lowest_rate(rate, width, rules)
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
    """Show rewards one after the other, until `judge_round` answers something else than a leader.

    A template, like `judge_round`. Returns how many were shown, the last of them included, and the last answer;
    `before` becomes what the leader knew before the last.
    """
    for i in range(len(rewards)):
        before[:] = bank[leader]
        leader = judge_round(settings, bank, ledger, rules, count, xs[i], rewards[i])
        if leader < 0:
            return i + 1, leader
    return len(rewards), leader
