"""DriftUCB in compiled code: one choice, one reward.

A bank of rows holds the elder (all history), the incumbent (since the last alarm), the experts, and the ladder of
`evidence`. Each is a `ridge` row ``[n, theta, matrix]`` with room for the ladder's sums; the matrix is A^-1 or,
of an expert, a covariance. `rules` are the settings followed by how much each expert keeps of what it knows a round.
`memo` is what `scales` names, then the weights of incumbent and experts, then the incumbent's theta before the latest
alarm. Few arrays, because each takes time at every call.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats
from driftbandit.kernels import evidence
from driftbandit.kernels.compile import finite, jit
from driftbandit.kernels.experts import learn_expert, start_experts, weigh
from driftbandit.kernels.ridge import LARGEST_SQUARE, absorb, multiply, squares
from driftbandit.kernels.scales import (
    ALARM_AGE,
    ALARM_EVIDENCE,
    ALARM_THRESHOLD,
    ALARMS,
    ALL_COUNT,
    ELDER_ERRORS,
    EXPERTS_LIVE,
    FEATURE_SQUARES,
    FIRST_SQUARE,
    MEMO,
    NOISE,
    PICK_VARIANCE,
    POOL_VARIANCE,
    PRIOR,
    RECENT_COUNT,
    RECENT_SUM,
    REWARD_SQUARES,
    ROUNDS,
    SHRINK,
    STEADY_COUNT,
    STEADY_SUM,
    TASTE,
    are_clicks,
    learn_noise,
    ready,
    rescale,
    tally,
    tame,
)

ELDER, INCUMBENT, EXPERTS = 0, 1, 2

# Settings.
EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX = range(6)
RULES = 6

NOT_USABLE = -1
"""Returned where features are not finite or too large."""

_SMALLEST = 1e-200  # |x|^2 below it is taken for 0
_TRIAL = 128.0  # rounds in which the unit of the features may turn out wrong
_TOO_LARGE = 100.0  # mean |x|^2 that much smaller than the unit shows that it was wrong
_FIRST_RIDGE = 0.02  # of the incumbent, in units of the first pool's mean |x|^2
_LEAST_RIDGE = 1e-6  # of a young model, in the same unit
_LARGEST = LARGEST_SQUARE * _FIRST_RIDGE
_PICKS = 0.98  # decay of the variances that steer exploration
_LIGHT = 1e-3  # a model of less weight does not act

_WEIGHT_NU = 5.0  # degrees of freedom of the likelihood that weighs models: wild rewards must not move much weight
_EVIDENCE_NU = 8.0  # most rewards' worth of noise that a young model takes over
_ERROR_CAP = 200.0  # most that a squared error counts as evidence, in units of the noise, if a new taste causes less
_TELLING = 20.0  # a model is born only if half a life's rewards of a new taste would amount to so many times the noise
_CLICK_NU = 50.0  # both, for clicks, whose errors cannot be wild
_LARGEST_LOG = 700.0  # the exponential of more is infinite, that of less than its negative 0
_CLICK_SHARE = 0.3  # part of `share` for clicks, each of which tells little: weight must be able to build up
_CLICK_EXPLORE = 0.8  # part of `explore` for clicks, whose noise is never taken for small
_CLICK_CAUTION = 3.0  # extra log-evidence for an alarm on clicks, whose errors are skewed


def memo_size(dim: int, experts: int) -> int:
    """Length of `memo`."""
    return MEMO + 1 + experts + dim


@jit
def begin(memo: Floats, bank: Floats, experts: int, square: float, dim: int) -> None:
    """Start with nothing learned, and the mean |x|^2 of the first pool as the unit of the features."""
    memo[:] = 0.0
    bank[:] = 0.0
    evidence.clear(bank[EXPERTS + experts :])
    memo[MEMO] = 1.0  # the incumbent's weight
    memo[NOISE] = 1.0
    memo[FIRST_SQUARE] = square
    for model in range(2):
        ridge = square if model == ELDER else _FIRST_RIDGE * square
        at = 1 + dim
        for i in range(dim):
            bank[model, at + i] = 1.0 / ridge
            at += i + 1


@jit
def choose(rules: Floats, memo: Floats, bank: Floats, features: Floats) -> int:
    """Index of the arm with the highest mean + c * deviation under the mixture, ties to the lowest."""
    count, d = features.shape
    experts = len(rules) - RULES
    mixture = _mixture(rules, memo, bank, d)
    total, largest, least = 0.0, 0.0, math.inf
    scores = np.empty(count)
    for k in range(count):
        mean, square = 0.0, 0.0
        for i in range(d):
            mean += features[k, i] * mixture[1 + i]
            square += features[k, i] * features[k, i]
        if not finite(square):
            return NOT_USABLE
        scores[k] = mean
        total += square / count
        largest = max(largest, square)
        least = min(least, square)
    if largest < _SMALLEST:
        return 0
    most = _LARGEST * memo[FIRST_SQUARE]
    if most == 0.0 or (least > most and memo[ROUNDS] < _TRIAL):  # if all are too large, the first pool was too small
        begin(memo, bank, experts, total, d)
        mixture = _mixture(rules, memo, bank, d)
        scores[:] = 0.0
    elif largest > most:
        return NOT_USABLE
    variances = squares(mixture, features)
    spread = memo[POOL_VARIANCE] / memo[PICK_VARIANCE] if memo[PICK_VARIANCE] > 0.0 else 1.0
    explore = min(rules[EXPLORE] * max(spread, 1.0), rules[EXPLORE_MOST])
    if are_clicks(memo):
        explore *= _CLICK_EXPLORE
    best = -math.inf
    mean_variance = 0.0
    for k in range(count):
        scores[k] += explore * math.sqrt(variances[k])
        best = max(best, scores[k])
        mean_variance += variances[k] / count
    pick = 0
    while scores[pick] < best - TIE * abs(best):
        pick += 1
    if memo[REWARD_SQUARES] > 0.0:
        memo[POOL_VARIANCE] = _PICKS * memo[POOL_VARIANCE] + mean_variance
        memo[PICK_VARIANCE] = _PICKS * memo[PICK_VARIANCE] + variances[pick]
    return pick


@jit
def _mixture(rules: Floats, memo: Floats, bank: Floats, d: int) -> Floats:
    """Row with the weighted mean of the models' means and covariances."""
    size = 1 + d + d * (d + 1) // 2
    result = np.zeros(size)
    weights = memo[MEMO : MEMO + 1 + len(rules) - RULES]
    heaviest = np.argmax(weights)
    for m in range(len(weights)):
        weight = weights[m]
        if rules[MIX] == 0.0:
            weight = 1.0 if m == heaviest else 0.0
        if weight < _LIGHT:
            continue
        row = bank[INCUMBENT + m]
        scale = weight * memo[NOISE] if m == 0 else weight
        for i in range(1, 1 + d):
            result[i] += weight * row[i]
        for i in range(1 + d, size):
            result[i] += scale * row[i]
    return result


@jit
def learn(rules: Floats, memo: Floats, bank: Floats, x: Floats, reward: float) -> int:
    """Learn one reward; 1 if it raised an alarm, whose numbers are then in `memo`, else 0, or NOT_USABLE."""
    d = len(x)
    reward = tame(memo, reward)
    experts = len(rules) - RULES
    size = _begin_round(memo, bank, experts, x, reward)
    if size <= 0.0:
        return 0 if size == 0.0 else NOT_USABLE
    noise = memo[NOISE]
    clicks = are_clicks(memo)
    weights = memo[MEMO : MEMO + 1 + experts]
    elder, incumbent, rungs = bank[ELDER], bank[INCUMBENT], bank[EXPERTS + experts :]
    z = np.empty(d)
    errors = np.zeros(1 + experts)
    variances = np.ones(1 + experts)
    width = _learn_models(rules[RULES:], memo, bank, x, reward, z, errors, variances)
    learn_noise(memo, weights, errors, variances)
    nu = min(max(memo[RECENT_COUNT], 1.0), _CLICK_NU if clicks else _WEIGHT_NU)
    if clicks:
        variances[:] = noise  # the law of a click depends on its mean alone
    if memo[EXPERTS_LIVE] > 0.0:
        acting = weigh(rules[SHARE] * (_CLICK_SHARE if clicks else 1.0), weights, errors, variances, nu)
    else:
        acting = evidence.log_likelihood(errors[0], variances[0], math.log(variances[0]), nu)

    fired = 0
    if rules[DETECT] > 0.0:
        own = errors[0] ** 2 / (width * noise)
        cap = max(_ERROR_CAP, memo[PRIOR] * memo[FIRST_SQUARE] / noise)
        best, strongest = evidence.show(rungs, x, reward, z, own, width - 1.0, noise, acting, nu, clicks, cap)
        threshold = math.log((incumbent[0] + 2.0) / rules[DELTA]) + (_CLICK_CAUTION if clicks else 0.0)
        if best >= 0 and strongest > threshold and ready(memo, d):
            fired = 1
            memo[ALARM_EVIDENCE], memo[ALARM_THRESHOLD], memo[ALARM_AGE] = strongest, threshold, rungs[best, 0]
            _replace(memo, weights, incumbent, rungs, best, memo[MEMO + 1 + experts :])

    tally(memo, reward, size)
    rescale(memo, elder, d)
    if memo[REWARD_SQUARES] > 0.0:
        if memo[EXPERTS_LIVE] == 0.0 and memo[ALL_COUNT] >= d and experts > 0:
            memo[EXPERTS_LIVE] = 1.0
            start_experts(memo, weights, bank[EXPERTS:], elder[1 : 1 + d])
        if rules[DETECT] > 0.0 and incumbent[0] >= 2.0:
            _renew_rung(memo, rungs, elder[1 : 1 + d])
    return fired


@jit
def _renew_rung(memo: Floats, rungs: Floats, theta: Floats) -> None:
    """Replace the rung whose turn it is by a new model around `theta`, if that could tell a shift from noise."""
    rung = evidence.rung_of(int(memo[ROUNDS]))
    clicks = are_clicks(memo)
    if not clicks and 2.0**rung * memo[PRIOR] * memo[FIRST_SQUARE] < _TELLING * memo[NOISE]:
        evidence.clear(rungs[rung : rung + 1])
        return
    ridge = max(memo[NOISE] / memo[PRIOR], _LEAST_RIDGE * memo[FIRST_SQUARE])
    nu = min(max(memo[RECENT_COUNT], 0.5), _CLICK_NU if clicks else _EVIDENCE_NU)
    evidence.give_birth(rungs[rung], theta, memo[SHRINK], ridge, nu, memo[NOISE])


@jit
def _begin_round(memo: Floats, bank: Floats, experts: int, x: Floats, reward: float) -> float:
    """|x|^2, 0 where there is nothing to learn, -1 where it is not usable; sets the units where they are not known."""
    size = 0.0
    for i in range(len(x)):
        size += x[i] * x[i]
    if not finite(size) or 0.0 < _LARGEST * memo[FIRST_SQUARE] < size:
        return -1.0
    if size < _SMALLEST:
        return 0.0
    trial_ends = memo[ROUNDS] == _TRIAL
    if memo[FIRST_SQUARE] == 0.0 or (
        trial_ends and _TOO_LARGE * memo[FEATURE_SQUARES] < memo[ROUNDS] * memo[FIRST_SQUARE]
    ):
        begin(memo, bank, experts, size, len(x))
    if memo[REWARD_SQUARES] == 0.0 and reward != 0.0:
        memo[NOISE] = reward * reward
        memo[TASTE] = memo[PRIOR] = reward * reward / memo[FIRST_SQUARE]
    return size


@jit
def _learn_models(
    keep: Floats,
    memo: Floats,
    bank: Floats,
    x: Floats,
    reward: float,
    z: Floats,
    errors: Floats,
    variances: Floats,
) -> float:
    """Show the reward to elder, incumbent and experts; fills in the errors of the last two and their variances.

    Returns 1 + x' A^-1 x of the incumbent.
    """
    noise = memo[NOISE]
    elder, incumbent = bank[ELDER], bank[INCUMBENT]
    mean, square, _ = multiply(incumbent, x, z)
    width = 1.0 + max(square, 0.0)
    errors[0], variances[0] = reward - mean, noise * width
    absorb(incumbent, z, errors[0], width)
    if memo[EXPERTS_LIVE] > 0.0:
        for m in range(1, len(errors)):
            row = bank[INCUMBENT + m]
            errors[m], variances[m] = learn_expert(row, elder, x, reward, z, keep[m - 1], memo)
    mean, square, _ = multiply(elder, x, z)
    error, spread = reward - mean, 1.0 + max(square, 0.0)
    memo[ELDER_ERRORS] += error * error / spread
    absorb(elder, z, error, spread)
    return width


@jit
def _replace(memo: Floats, weights: Floats, incumbent: Floats, rungs: Floats, best: int, before: Floats) -> None:
    """Make a young model the incumbent, with the weight that it has earned since its birth.

    What it leaves unexplained is the noise.
    """
    d = len(before)
    before[:] = incumbent[1 : 1 + d]
    rest = np.sum(weights[1:])
    if rest > 0.0:
        lead = min(max(evidence.lead(rungs[best], d), -_LARGEST_LOG), _LARGEST_LOG)
        heir = weights[0] / (weights[0] + rest * math.exp(-lead))
        weights[1:] *= (1.0 - heir) / rest
        weights[0] = heir
    recent, worth = evidence.noise_since(rungs[best], d)
    if not are_clicks(memo):
        memo[RECENT_COUNT] = min(memo[RECENT_COUNT], worth)
        memo[RECENT_SUM] = memo[RECENT_COUNT] * recent
        memo[STEADY_COUNT] = min(memo[STEADY_COUNT], memo[RECENT_COUNT])
        memo[STEADY_SUM] = memo[STEADY_COUNT] * recent
    incumbent[:] = rungs[best]
    evidence.clear(rungs)
    memo[ALARMS] += 1.0
