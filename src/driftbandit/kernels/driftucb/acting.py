"""Which arm DriftUCB plays: scores of a pool under the mixture of its models.

An arm's score is its mean plus some deviations. How many these are depends on how much is known of the pool, see
`mixture.exploration`; of a large pool, `_SHOWN` arms tell that. Then only arms that can be best need a deviation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandit.core import TIE, Floats
from driftbandit.kernels.compile import borrow, copy_into, fill_in, finite, flat, jit
from driftbandit.kernels.driftucb import draws, frames, mixture
from driftbandit.kernels.driftucb.drift import (
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
from driftbandit.kernels.ridge import THETA, score_best, squares
from driftbandit.kernels.vector_units.vectors import combine, weigh_arm

_SMALL = 32  # arms of a pool all of which show how much is known of it
_SHOWN = 8  # arms of a larger pool, evenly spaced, that do


@jit
def _pick(scores: Floats, usable: bool) -> int:
    """Index of the highest score, ties to the lowest, or NOT_USABLE."""
    if not usable:
        return NOT_USABLE
    best = -math.inf
    for score in scores:
        best = max(best, score)
    pick = 0
    while scores[pick] < best - TIE * abs(best):
        pick += 1
    return pick


@jit
def _keep(scores: Floats, usable: bool) -> Floats:
    """The scores; none if features are not usable."""
    return scores if usable else scores[:0]


def finish(scores: Floats, usable: bool) -> Any:
    """What to make of the scores; a placeholder that `fill_in` replaces."""
    raise NotImplementedError


def widen(model: Floats, features: Floats, units: Floats, scores: Floats, sizes: Floats, explore: float) -> None:
    """Add `explore` deviations to the means in `scores`, at least of arms that can be best; a placeholder."""
    raise NotImplementedError


def _score(rules: Floats, memo: Floats, bank: Floats, pool: Floats, pending: int) -> Any:
    """Score every arm by mean + c * deviation under the mixture; a template, with `widen` and `finish` to fill in.

    While nothing useful is known, the mean is 0 and the deviation is |x|. With many answers `pending`, a score is the
    mean under weights drawn from the mixture.
    """
    rules, memo, bank, pool = borrow(rules), borrow(memo), borrow(bank), borrow(pool)
    experts = len(rules) - RULES
    units = units_of(memo, experts)
    count, d = len(pool), len(units)
    features = pool if pool.shape[1] == d else with_constant(pool)
    weights = memo[MEMO : MEMO + 1 + experts]
    draw = pending >= draws.OUTSTANDING
    if rules[MIX] == 0.0:
        weights = mixture.heaviest(weights)
    share, variance = 1.0, 1.0
    if mixture.acts_alone(weights):  # its own row does, times these
        model, share, variance = bank[INCUMBENT], weights[0], weights[0] * memo[NOISE]
    else:
        model = mixture.blend(memo, weights, bank[INCUMBENT:], d)
    owned = np.empty(2 * count + d)  # one array, because to make one takes as long as a few arms
    scores, sizes, theta = owned[:count], owned[count : 2 * count], owned[2 * count :]
    theta[:] = 0.0
    if memo[ANCHORED] > 0.0 and (memo[REWARD_SQUARES] > 0.0 or memo[SPREAD] > 0.0):  # else the noise has no unit yet
        copy_into(theta, anchor_of(memo, experts))
    combine(theta, 0, 1.0, share, model, THETA, d)
    if draw:
        draws.draw(model, theta, rules[EXPLORE] * math.sqrt(variance), int(memo[ROUNDS]) + pending)
    numbers = flat(features)
    largest, least = 0.0, math.inf
    for k in range(count):
        mean, size = weigh_arm(numbers, k * d, theta, 0, units)
        if not finite(size):
            return finish(scores, False)
        scores[k], sizes[k] = mean, size
        largest = max(largest, size)
        least = min(least, size)
    if largest < SMALLEST:
        scores[:] = 0.0
        return finish(scores, True)
    most = LARGEST * memo[FIRST_SQUARE]
    if memo[SPREAD] > 0.0:
        most = max(most, largest)
    if most == 0.0 or (
        least > most and memo[TRIED] < frames.TRIAL
    ):  # if all are too large, the first arm was too small
        for k in range(count):
            scores[k] = rules[EXPLORE] * math.sqrt(sizes[k])
    elif largest > most:
        return finish(scores, False)
    elif not draw:
        shown = np.arange(0, count, 1 if count <= _SMALL else (count - 1) // _SHOWN + 1)
        variances = squares(model, features, shown)
        explore = mixture.exploration(memo, rules[EXPLORE], rules[EXPLORE_MOST], model, variances, units)
        explore *= math.sqrt(variance)
        if len(shown) < count:
            widen(model, features, units, scores, sizes, explore)
        else:
            for k in range(count):
                scores[k] += explore * math.sqrt(variances[k])
    return finish(scores, True)


@jit
def _widen_best(model: Floats, features: Floats, units: Floats, means: Floats, sizes: Floats, explore: float) -> None:
    reach = explore * math.sqrt(mixture.largest_eigenvalue_bound(model, units))
    bounds = np.empty(len(means))
    for k in range(len(means)):
        bounds[k] = means[k] + reach * math.sqrt(sizes[k])
    score_best(model, features, means, bounds, explore, 0.0, TIE)
    copy_into(means, bounds)


@jit
def _widen_all(model: Floats, features: Floats, units: Floats, means: Floats, sizes: Floats, explore: float) -> None:
    variances = squares(model, features, np.arange(len(features)))
    for k in range(len(means)):
        means[k] += explore * math.sqrt(variances[k])


choose = jit(fill_in(_score, "choose", widen=_widen_best, finish=_pick))
"""Index of the arm with the highest score, or NOT_USABLE."""

arm_scores = jit(fill_in(_score, "arm_scores", widen=_widen_all, finish=_keep))
"""Scores of all arms; none if features are not usable."""
