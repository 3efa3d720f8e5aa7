"""Which arm DriftUCB plays: scores of a pool under the mixture of its models.

An arm's score is its mean plus some deviations. How many these are depends on how much is known of the pool, see
`mixture.exploration`; of a large pool, `_SHOWN` arms tell that. Then only arms that can be best need a deviation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandit.core import TIE, Floats
from driftbandit.kernels.compile import (
    SCRATCH,
    borrow,
    copy_into,
    fill_in,
    finite,
    flat,
    hold,
    jit,
    jit_inside,
    scratch,
)
from driftbandit.kernels.driftucb import draws, frames, mixture
from driftbandit.kernels.driftucb.ahead import Ahead, fetch_pieces
from driftbandit.kernels.driftucb.drift import (
    EXPERTS,
    EXPLORE,
    EXPLORE_MOST,
    INCUMBENT,
    LARGEST,
    MIX,
    NOT_USABLE,
    RULES,
    SMALLEST,
    anchor_of,
    units_of,
    with_constant,
)
from driftbandit.kernels.driftucb.rows import THETA, TRACE, matrix_at, row_size, score_best
from driftbandit.kernels.driftucb.scales import (
    ANCHORED,
    FIRST_SQUARE,
    MEMO,
    NOISE,
    REWARD_SQUARES,
    ROUNDS,
    SPREAD,
    TRIED,
)
from driftbandit.kernels.forms import forms_with_tiles, in_groups, side_by_side, weigh_with_tiles
from driftbandit.kernels.vector_units.groups import ARMS, expect, expect_lines
from driftbandit.kernels.vector_units.vectors import combine, padded, weigh_arm

_SMALL = 32  # arms of a pool all of which show how much is known of it
_SHOWN = 8  # arms of a larger pool, evenly spaced, that do


@jit
def _pick(owned: Floats, scores: Floats, usable: bool) -> int:
    """Index of the highest score, ties to the lowest, or NOT_USABLE; `owned` holds the scores."""
    pick = NOT_USABLE
    if usable:
        best = -math.inf
        for score in scores:
            best = max(best, score)
        pick = 0
        while scores[pick] < best - TIE * abs(best):
            pick += 1
    hold(owned)
    return pick


@jit
def _keep(owned: Floats, scores: Floats, usable: bool) -> Floats:
    """The scores; none if features are not usable."""
    result = np.empty(len(scores) if usable else 0)
    copy_into(result, scores[: len(result)])
    hold(owned)
    return result


def finish(owned: Floats, scores: Floats, usable: bool) -> Any:
    """What to make of the scores; a placeholder that `fill_in` replaces."""
    raise NotImplementedError


def widen(
    rows: Floats, at: int, features: Floats, units: Floats, scores: Floats, sizes: Floats, explore: float
) -> None:
    """Add `explore` deviations to the means in `scores`, at least of arms that can be best; a placeholder."""
    raise NotImplementedError


@jit_inside
def _weights(rules: Floats, memo: Floats, experts: int) -> Floats:
    """How much each model counts."""
    weights: Floats = memo[MEMO : MEMO + 1 + experts]
    return mixture.heaviest(weights) if rules[MIX] == 0.0 else weights


@jit_inside
def _begin_weights(memo: Floats, experts: int, theta: Floats) -> None:
    """Overwrite weights by the frame's anchor."""
    theta[:] = 0.0
    if memo[ANCHORED] > 0.0 and (memo[REWARD_SQUARES] > 0.0 or memo[SPREAD] > 0.0):  # else the noise has no unit yet
        copy_into(theta, anchor_of(memo, experts))


@jit_inside
def _expect_all(
    features: Floats, step: int, theta: Floats, units: Floats, arms: Floats, means: Floats, sizes: Floats
) -> None:
    """Fill in theta'x and |units * x|^2 of all arms; if each of them shows how much is known, `arms` gets them all."""
    count, d = features.shape
    if step == 1:
        side_by_side(features, 1, count, arms)
        for k in range(0, len(means), ARMS):
            expect(arms, k * d, theta, units, means, sizes, k)
        return
    numbers, grouped = flat(features), count - count % ARMS
    for k in range(0, grouped, ARMS):
        expect_lines(numbers, k * d, theta, units, means, sizes, k)
    for k in range(grouped, count):
        means[k], sizes[k] = weigh_arm(numbers, k * d, theta, 0, units)


@jit_inside
def _extremes(sizes: Floats) -> tuple[float, float]:
    """The smallest and the largest size, which is infinite if one is not finite."""
    least, largest = math.inf, 0.0
    for size in sizes:
        if not finite(size):
            return least, math.inf
        largest = max(largest, size)
        least = min(least, size)
    return least, largest


def _score(rules: Floats, memo: Floats, bank: Floats, pool: Floats, pending: int, ahead: Ahead) -> Any:
    """Score every arm by mean + c * deviation under the mixture; a template, with `widen` and `finish` to fill in.

    While nothing useful is known, the mean is 0 and the deviation is |x|. With many answers `pending`, a score is the
    mean under weights drawn from the mixture. Meanwhile those rows that `ahead` says of another bank are fetched.
    """
    rules, memo, bank, pool = borrow(rules), borrow(memo), borrow(bank), borrow(pool)
    experts = len(rules) - RULES
    units = units_of(memo, experts)
    count, d = len(pool), len(units)
    features = pool if pool.shape[1] == d else with_constant(pool)
    weights = _weights(rules, memo, experts)
    alone, draw = mixture.acts_alone(weights), pending >= draws.OUTSTANDING
    step = 1 if count <= _SMALL else (count - 1) // _SHOWN + 1
    shown = (count - 1) // step + 1
    length, size, whole, seen = padded(d), 0 if alone else row_size(d), in_groups(count), in_groups(shown)
    needed = length + size + 2 * whole + seen * (1 + d)
    owned = np.empty(needed) if needed > SCRATCH else scratch()
    room = borrow(owned)
    fetch_pieces(flat(bank), bank.shape[1], EXPERTS + experts, ahead, 0)
    theta, rest = room[:length], room[length + size :]
    scores, sizes, squares, arms = (
        rest[:whole],
        rest[whole:],
        rest[2 * whole : 2 * whole + seen],
        rest[2 * whole + seen : 2 * whole + seen * (1 + d)],
    )

    if alone:  # its own row does, times these
        rows, at, share, variance = flat(bank), INCUMBENT * bank.shape[1], weights[0], weights[0] * memo[NOISE]
    else:
        rows, at, share, variance = room, length, 1.0, 1.0
        mixture.blend(memo, weights, bank[INCUMBENT:], d, room[length : length + size])
    fetch_pieces(flat(bank), bank.shape[1], EXPERTS + experts, ahead, 1)
    _begin_weights(memo, experts, theta)
    combine(theta, 0, 1.0, share, rows, at + THETA, length)
    if draw:
        draws.draw(rows, at, theta[:d], rules[EXPLORE] * math.sqrt(variance), int(memo[ROUNDS]) + pending)
    _expect_all(features, step, theta, units, arms, scores, sizes)
    fetch_pieces(flat(bank), bank.shape[1], EXPERTS + experts, ahead, 2)
    scores, sizes = scores[:count], sizes[:count]
    least, largest = _extremes(sizes)
    if not finite(largest):
        return finish(owned, scores, False)
    if largest < SMALLEST:
        scores[:] = 0.0
        return finish(owned, scores, True)
    most = LARGEST * memo[FIRST_SQUARE]
    if memo[SPREAD] > 0.0:
        most = max(most, largest)
    if most == 0.0 or (
        least > most and memo[TRIED] < frames.TRIAL
    ):  # if all are too large, the first arm was too small
        for k in range(count):
            scores[k] = rules[EXPLORE] * math.sqrt(sizes[k])
    elif largest > most:
        return finish(owned, scores, False)
    elif not draw:
        if step > 1:
            side_by_side(features, step, shown, arms)
        weigh_with_tiles(rows, at + matrix_at(d), arms, d, squares)
        total = rows[at + TRACE]
        explore = mixture.exploration(
            memo, rules[EXPLORE], rules[EXPLORE_MOST], total, np.sum(squares[:shown]) / shown
        ) * math.sqrt(variance)
        if step > 1:
            widen(rows, at, features, units, scores, sizes, explore)
        else:
            for k in range(count):
                scores[k] += explore * math.sqrt(squares[k])
    return finish(owned, scores, True)


@jit
def _widen_best(
    rows: Floats, at: int, features: Floats, units: Floats, means: Floats, sizes: Floats, explore: float
) -> None:
    reach = explore * math.sqrt(mixture.largest_eigenvalue_bound(rows, at, units, rows[at + TRACE]))
    for k in range(len(means)):
        sizes[k] = means[k] + reach * math.sqrt(sizes[k])
    score_best(rows[at:], features, means, sizes, explore, 0.0, TIE)
    copy_into(means, sizes)


@jit
def _widen_all(
    rows: Floats, at: int, features: Floats, units: Floats, means: Floats, sizes: Floats, explore: float
) -> None:
    squares = forms_with_tiles(rows, at + matrix_at(len(units)), features, np.arange(len(features)))
    for k in range(len(means)):
        means[k] += explore * math.sqrt(squares[k])


choose = jit(fill_in(_score, "choose", widen=_widen_best, finish=_pick))
"""Index of the arm with the highest score, or NOT_USABLE."""

arm_scores = jit(fill_in(_score, "arm_scores", widen=_widen_all, finish=_keep))
"""Scores of all arms; none if features are not usable."""
