"""DriftUCB's mixture: the weights of the models that act, the mixture of these models, and how much it explores.

Incumbent and experts act together, each with the weight that its predictions have earned. The weights stand in `memo`
from `scales.MEMO` on, the incumbent's first. The matrix of the incumbent's row is A^-1, a covariance in units of the
noise; an expert's is a covariance.

Exploration rises while the arms played are much better known than the arms shown, because otherwise nothing would show
that an arm which is no longer played has become the best. An arm's variance x'Cx is taken as a share of the total tr C,
so that a restart, which raises all variances at once, changes nothing. `learn` remembers the shares of the arms played,
in the slots `PICK_SHARES` and `PICK_COUNT`; `choose` compares the pool at hand with them and writes nothing.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import flat, jit
from driftbandit.kernels.driftucb.ahead import bit_of
from driftbandit.kernels.driftucb.rows import THETA, TRACE, matrix_at
from driftbandit.kernels.driftucb.scales import (
    HIT_VALUE,
    NOISE,
    PICK_COUNT,
    PICK_SHARES,
    RECENT_COUNT,
    REWARD_SQUARES,
    are_clicks,
    click_rate,
)
from driftbandit.kernels.ridge import bound_by_norm
from driftbandit.kernels.vector_units.instructions import WIDTH
from driftbandit.kernels.vector_units.tiles import entry_at, matrix_size, weigh_line
from driftbandit.kernels.vector_units.vectors import mix, padded

_LIGHT = 1e-3  # a model with less weight does not act
_PICKS = 0.98  # decay of the memory of arms played, which covers about 50 arms
_SLACK = 1.25  # a pool's mean variance may exceed that of the arms played by this factor by chance
_CLICK_EXPLORE = 0.8  # part of `explore` for clicks, whose noise is never taken for small

FREEDOM = 5.0  # degrees of freedom of the likelihood that weighs models: wild rewards must not move much weight
_CLICK_FREEDOM = 50.0  # degrees of freedom for clicks, whose errors cannot be wild
_LEAST_CHANCE = 0.2  # least probability of an outcome of a click, as a share of the rarer outcome's rate
_FADE = 2000.0  # age of the incumbent from which `share` falls as 1 / age
_CLICK_SHARE = 0.3  # part of `share` for clicks, each of which tells little: weight must be able to build up
_UNLIKELY = 1e-250  # least likelihood that is computed without logarithms
_LARGEST_LOG = 700.0  # exp of more is infinite, exp of less than its negative is 0


@jit
def acting_rows(weights: Floats, first: int) -> int:
    """The bits (`ahead`) of the rows that hold models that act; the incumbent is in row `first`."""
    rows = bit_of(first)
    for m in range(1, len(weights)):
        if weights[m] >= _LIGHT:
            rows |= bit_of(first + m)
    return rows


@jit
def acts_alone(weights: Floats) -> bool:
    """Whether the incumbent is the only model that acts."""
    alone: bool = acting_rows(weights, 0) == 1
    return alone


@jit
def heaviest(weights: Floats) -> Floats:
    """Weights that let the heaviest model act alone."""
    result = np.zeros(len(weights))
    result[np.argmax(weights)] = 1.0
    return result


@jit
def blend(memo: Floats, weights: Floats, bank: Floats, d: int, result: Floats) -> None:
    """Write the weighted mean of the means and covariances of the models that act into the row `result`.

    The models are in the rows of `bank`, the incumbent first.
    """
    numbers, matrix, width = flat(bank), matrix_at(d), bank.shape[1]
    result[:THETA] = 0.0
    for m in range(len(weights)):
        if weights[m] >= _LIGHT:
            result[TRACE] += weights[m] * (memo[NOISE] if m == 0 else 1.0) * numbers[m * width + TRACE]
    mix(result, THETA, weights, _LIGHT, 1.0, numbers, THETA, width, padded(d))
    mix(result, matrix, weights, _LIGHT, memo[NOISE], numbers, matrix, width, matrix_size(d))


@jit
def exploration(memo: Floats, explore: float, most: float, total: float, variance: float) -> float:
    """How many standard deviations to add to the means of a pool, whose arms have this mean variance.

    `total` is the trace of the mixture's covariance, in the frame's units.
    """
    known = memo[PICK_SHARES] * total
    if known > 0.0:
        explore = min(explore * max(memo[PICK_COUNT] * variance / (_SLACK * known), 1.0), most)
    return explore * _CLICK_EXPLORE if are_clicks(memo) else explore


@jit
def largest_eigenvalue_bound(rows: Floats, at: int, units: Floats, trace: float) -> float:
    """Upper bound on the largest eigenvalue of the matrix of the row that begins at `at`, in the frame's units."""
    d = len(units)
    shares, totals = np.zeros(padded(d)), np.zeros(WIDTH)
    for i in range(d):
        shares[i] = 1.0 / (units[i] * units[i])
    for i in range(d):
        lines = min(d - i // WIDTH * WIDTH, WIDTH)
        weigh_line(rows, at + matrix_at(d) + entry_at(d, i, 0), i, lines, shares, shares[i], totals)
    return bound_by_norm(trace, np.sum(totals), d)


@jit
def total_variance(memo: Floats, weights: Floats, rows: Floats) -> float:
    """Trace of the mixture's covariance, in the frame's units."""
    total: float = weights[0] * memo[NOISE] * rows[0, TRACE]
    for m in range(1, len(weights)):
        total += weights[m] * rows[m, TRACE]
    return total


@jit
def remember_pick(memo: Floats, weights: Floats, variances: Floats, total: float) -> None:
    """Note the share of the total variance that an arm had before its reward was learned.

    `variances` are the variances of the models' errors: noise variance plus the arm's variance. Before the first reward
    that is not 0 the noise is unknown, and nothing is noted.
    """
    if memo[REWARD_SQUARES] == 0.0 or total == 0.0:
        return
    variance = 0.0
    for m in range(len(weights)):
        if weights[m] > 0.0:
            variance += weights[m] * max(variances[m] - memo[NOISE], 0.0)
    memo[PICK_SHARES] = _PICKS * memo[PICK_SHARES] + variance / total
    memo[PICK_COUNT] = _PICKS * memo[PICK_COUNT] + 1.0


@jit
def freedom(memo: Floats) -> float:
    """Degrees of freedom of the likelihood of a reward: no more than the rewards' worth of noise that is known."""
    most = _CLICK_FREEDOM if are_clicks(memo) else FREEDOM
    nu: float = min(max(memo[RECENT_COUNT], 1.0), most)
    return nu


@jit
def log_likelihood(error: float, variance: float, log_variance: float, nu: float) -> float:
    """Log-density, but for a constant, of Student's t with `nu` degrees of freedom."""
    value: float = -0.5 * (log_variance + (nu + 1.0) * math.log(1.0 + error * error / (nu * variance)))
    return value


@jit
def click_log_likelihood(memo: Floats, reward: float, mean: float) -> float:
    """Log-probability of a click, or of none, if the expected reward is `mean`."""
    return click_log_chance(mean / memo[HIT_VALUE], least_chance(memo), reward != 0.0)


@jit
def click_log_chance(chance: float, least: float, hit: bool) -> float:
    """Log-probability of a click, or of none, if that of a click is `chance`, but at least `least`, as of none."""
    chance = min(max(chance, least), 1.0 - least)
    return math.log(chance if hit else 1.0 - chance)


@jit
def least_chance(memo: Floats) -> float:
    """Least probability of an outcome: a fifth of the rate of the rarer one."""
    return _LEAST_CHANCE * click_rate(memo)


@jit
def weigh(memo: Floats, share: float, weights: Floats, logs: Floats) -> float:
    """Weigh models by the log-likelihood of the reward, then redistribute `share` of the weight, half of it to the
    incumbent.

    Returns the log-likelihood under the mixture. Overwrites `logs`.
    """
    if are_clicks(memo):
        share *= _CLICK_SHARE
    top, total = -math.inf, 0.0
    for log in logs:
        top = max(top, log)
    for m in range(len(weights)):
        logs[m] = weights[m] * math.exp(logs[m] - top)
        total += logs[m]
    _take_shares(share, weights, logs, total)
    return top + math.log(total)


@jit
def weigh_by_errors(share: float, weights: Floats, errors: Floats, variances: Floats, likely: Floats) -> float:
    """As `weigh`, by the `log_likelihood` of these errors with `FREEDOM` degrees of freedom; `likely` is room.

    This takes one logarithm instead of two, and an exponential, for each model. Returns minus infinity, and changes no
    weight, if no model makes the reward likely enough to be told from 0.
    """
    total = 0.0
    for m in range(len(weights)):
        tail = float(1.0 + errors[m] * errors[m] / (FREEDOM * variances[m]))  # else NumPy would warn of infinite powers
        likely[m] = weights[m] / (math.sqrt(variances[m]) * tail * tail * tail)  # to the power of (FREEDOM + 1) / 2
        total += likely[m]
    if total < _UNLIKELY:
        return -math.inf
    _take_shares(share, weights, likely, total)
    return math.log(total)


@jit
def _take_shares(share: float, weights: Floats, earned: Floats, total: float) -> None:
    for m in range(len(weights)):
        weights[m] = (1.0 - share) * earned[m] / total + share * _fair(m, len(weights))


@jit
def faded(share: float, age: float) -> float:
    """The share redistributed when the incumbent has learned `age` rewards: an old one need not prove itself daily."""
    return share * min(1.0, _FADE / (age + 1.0))


@jit
def share_out(weights: Floats) -> None:
    """Give half of the weight to the incumbent and the rest to the experts in equal parts."""
    for m in range(len(weights)):
        weights[m] = _fair(m, len(weights))


@jit
def inherit(weights: Floats, lead: float) -> None:
    """Multiply the incumbent's weight by exp(`lead`), the likelihood ratio of its successor against the mixture."""
    rest = np.sum(weights[1:])
    if rest > 0.0:
        lead = min(max(lead, -_LARGEST_LOG), _LARGEST_LOG)
        heir = weights[0] / (weights[0] + rest * math.exp(-lead))
        for m in range(1, len(weights)):
            weights[m] *= (1.0 - heir) / rest
        weights[0] = heir


@jit
def _fair(model: int, count: int) -> float:
    return 0.5 if model == 0 else 0.5 / (count - 1)
