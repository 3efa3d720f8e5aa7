"""DriftUCB in compiled code: what it keeps, and the order of events in one reward.

The parts have their own files: `acting` (which arm is played), `draws` (which one while answers are outstanding),
`scales` (what is known about the world), `frames` (units and intercept), `experts`, `mixture` (the weights, and who
acts), `births` (the ladder of young models) and `evidence` (what they learn, and the alarm).

A bank of rows holds the elder (all history), the incumbent (since the last alarm), the experts, and the ladder. Each is
a `ridge` row ``[n, theta, matrix]`` with room for the ladder's sums; the matrix is A^-1 or, in an expert, a covariance.
Behind the ladder, the `backlog` fills the last rows.
All models explain what a reward has beyond what the frame's anchor expects.
`rules` are the settings, followed by the share of its knowledge that each expert keeps per round. `memo` holds what
`scales` names, then the weights of incumbent and experts, then three vectors with room for the features and an
intercept: the incumbent's theta before the latest alarm, the units of the frame, and the anchor. These are few arrays,
because each costs time at every call.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import borrow, copy_into, finite, flat, hold, jit
from driftbandit.kernels.driftucb import mixture
from driftbandit.kernels.driftucb.experts import learn_expert, start_experts
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young
from driftbandit.kernels.driftucb.scales import (
    ALARM_AGE,
    ALARM_EVIDENCE,
    ALARM_THRESHOLD,
    ALARMS,
    ANCHORED,
    COLUMNS,
    ELDER_ERRORS,
    EXPERTS_LIVE,
    FIRST_SQUARE,
    FRAME,
    MEMO,
    NOISE,
    PRIOR,
    REWARD_SQUARES,
    SPREAD,
    TASTE,
    are_clicks,
    learn_noise,
    rescale,
    take_over_noise,
    tally,
    tame,
)
from driftbandit.kernels.ridge import COUNT, LARGEST_SQUARE, THETA
from driftbandit.kernels.rows import absorb, multiply
from driftbandit.kernels.vector_units.vectors import dot, padded

ELDER, INCUMBENT, EXPERTS = 0, 1, 2

# Settings.
EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX = range(6)
RULES = 6

NOT_USABLE = -1
"""Returned if features are not finite or too large."""

SMALLEST = 1e-200  # |x|^2 below this is taken to be 0
_FIRST_RIDGE = 0.02  # ridge of the incumbent, in units of the first |x|^2
_BEFORE, _UNITS, _ANCHOR = range(3)  # vectors at the end of `memo`
LARGEST = LARGEST_SQUARE * _FIRST_RIDGE  # largest |x|^2 that spoils no matrix, in the same unit


def memo_size(dim: int, experts: int) -> int:
    """Length of `memo`."""
    return MEMO + 1 + experts + 3 * (dim + 1)


def bank_shape(dim: int, experts: int) -> tuple[int, int]:
    """Shape of `bank`."""
    width = evidence.rung_size(dim + 1)
    return models_of(experts) - (-backlog.backlog_size(dim + 1) // width), width


@jit
def models_of(experts: int) -> int:
    """How many models there are, one in each of the first rows of `bank`."""
    return EXPERTS + experts + births.RUNGS


@jit
def rungs_of(bank: Floats, experts: int) -> Floats:
    """The ladder."""
    rungs: Floats = bank[EXPERTS + experts : models_of(experts)]
    return rungs


@jit
def backlog_at(bank: Floats, experts: int) -> int:
    """Where the backlog begins, in the numbers of `bank` one behind the other."""
    at: int = models_of(experts) * bank.shape[1]
    return at


@jit
def is_sound(memo: Floats, bank: Floats, experts: int) -> bool:
    """Whether the counts of ladder and backlog lead to places inside `bank`."""
    d, rungs = int(memo[COLUMNS]), rungs_of(bank, experts)
    sound = backlog.is_count(flat(bank)[backlog_at(bank, experts) + backlog.WAITING])
    for k in range(len(rungs)):
        scale = rungs[k, young.scale_at(d)]
        sound = sound and scale >= 0.0 and backlog.is_count(rungs[k, evidence.sums_at(d) + evidence.LATE])
        sound = sound and (scale == 0.0 or 2.0 * rungs[k, COUNT] <= d + 1.0)
    return sound


@jit
def before_alarm(memo: Floats, experts: int) -> Floats:
    """Theta of the incumbent before the latest alarm."""
    return _vector(memo, experts, _BEFORE)


@jit
def units_of(memo: Floats, experts: int) -> Floats:
    """Units of the frame: the size of a weight, column by column, in units of `TASTE`'s root."""
    return _vector(memo, experts, _UNITS)


@jit
def anchor_of(memo: Floats, experts: int) -> Floats:
    """Weights around which all tastes lie."""
    return _vector(memo, experts, _ANCHOR)


@jit
def _vector(memo: Floats, experts: int, which: int) -> Floats:
    first = MEMO + 1 + experts
    at = first + which * ((len(memo) - first) // 3)
    vector: Floats = memo[at : at + int(memo[COLUMNS])]
    return vector


@jit
def learn(rules: Floats, memo: Floats, bank: Floats, x: Floats, reward: float) -> int:
    """Learn one reward; 1 if it raised an alarm, whose numbers are then in `memo`, else 0, or NOT_USABLE."""
    rules, memo, bank, x = borrow(rules), borrow(memo), borrow(bank), borrow(x)
    experts = len(rules) - RULES
    units = units_of(memo, experts)
    d = len(units)
    arm = x if d == len(x) else with_one(x)
    x = borrow(arm)
    base = dot(anchor_of(memo, experts), 0, x, 0, d) if memo[ANCHORED] > 0.0 else 0.0
    surplus = tame(memo, reward - base)
    size = _begin_round(memo, bank, experts, x, surplus, units)
    if size <= 0.0:
        hold(arm)
        return 0 if size == 0.0 else NOT_USABLE
    weights = memo[MEMO : MEMO + 1 + experts]
    elder, incumbent, rungs = bank[ELDER], bank[INCUMBENT], rungs_of(bank, experts)
    rows, waiting, noise, clicks = flat(bank), backlog_at(bank, experts), memo[NOISE], are_clicks(memo)
    owned = np.empty((2, 1 + experts))
    of_models = borrow(owned)
    errors, variances = of_models[0], of_models[1]  # of models with weight; those without have none

    total = mixture.total_variance(memo, weights, bank[INCUMBENT:], units)
    width = _learn_models(rules[RULES:], memo, bank, units, x, surplus, errors, variances)
    mixture.remember_pick(memo, weights, variances, total)
    learn_noise(memo, weights, errors, variances)
    nu, logs = mixture.freedom(memo), variances  # of the likelihoods, from here on
    acting = _weigh_models(rules[SHARE], memo, reward, incumbent[COUNT], nu, weights, errors, logs)

    fired = 0
    if rules[DETECT] > 0.0 and rows[waiting + backlog.ALLOWANCE] < backlog.UNLIMITED:  # else no young model lives
        if clicks:
            telling = evidence.show_click(rows, waiting, memo, x, reward, base, logs[0], acting)
        else:
            own, cap = errors[0] ** 2 / (width * noise), evidence.error_cap(memo)
            telling = evidence.show(rows, waiting, x, surplus, own, width - 1.0, noise, acting, nu, cap)
        if evidence.is_time(memo, rows[waiting + backlog.WAITING]) or (telling and evidence.ready(memo, d)):
            fired = _seek_change(rules, memo, bank, units)

    tally(memo, reward, surplus, size)
    if are_clicks(memo) != clicks:
        births.clear(rungs)  # their sums are of another kind
        backlog.wipe(rows, waiting, d, int(rows[waiting + backlog.WAITING]))
        backlog.empty(rows, waiting, 0.0)
    rescale(memo, elder, units)
    if memo[REWARD_SQUARES] > 0.0:
        theta = elder[THETA : THETA + d]
        if start_experts(memo, bank[EXPERTS : EXPERTS + experts], theta, units):
            mixture.share_out(weights)
        if rules[DETECT] > 0.0 and incumbent[COUNT] >= 2.0:
            births.renew(memo, rungs, theta, units, rows, waiting, incumbent[COUNT], rules[DELTA])
    hold(owned)
    hold(arm)
    return fired


@jit
def settle(rules: Floats, memo: Floats, bank: Floats) -> None:
    """Let young models learn the rewards that wait, none of which raises an alarm."""
    experts = len(rules) - RULES
    limit = evidence.threshold(memo, bank[INCUMBENT, COUNT], rules[DELTA])
    rungs, rows, units = rungs_of(bank, experts), flat(bank), units_of(memo, experts)
    evidence.settle(memo, rungs, rows, backlog_at(bank, experts), units, limit)


@jit
def with_constant(features: Floats) -> Floats:
    """The features with a column of ones behind them."""
    count, d = features.shape
    result = np.ones((count, d + 1))
    for k in range(count):
        copy_into(result[k], features[k])
    return result


@jit
def with_one(x: Floats) -> Floats:
    """The features of an arm with a one behind them."""
    result = np.ones(len(x) + 1)
    copy_into(result, x)
    return result


@jit
def _begin_round(memo: Floats, bank: Floats, experts: int, x: Floats, surplus: float, units: Floats) -> float:
    """|x|^2, 0 if there is nothing to learn, -1 if it is not usable; sets the units if they are not known."""
    size = size_of(x, units)
    if not finite(size):
        return -1.0
    if size < SMALLEST:
        return 0.0
    if memo[FIRST_SQUARE] == 0.0:
        if memo[SPREAD] == 0.0:
            begin(memo, bank, experts, size)
        memo[FIRST_SQUARE] = size
    if size > LARGEST * memo[FIRST_SQUARE]:
        if memo[SPREAD] == 0.0:
            return -1.0
        memo[FIRST_SQUARE] = size  # what was told does not depend on it
    if memo[REWARD_SQUARES] == 0.0 and surplus != 0.0 and memo[SPREAD] == 0.0:
        memo[NOISE] = surplus * surplus
        memo[TASTE] = memo[PRIOR] = surplus * surplus / memo[FIRST_SQUARE]
    return size


@jit
def size_of(x: Floats, units: Floats) -> float:
    """|x|^2 in the frame's units."""
    size = 0.0
    for i in range(len(x)):
        size += (x[i] * units[i]) ** 2
    return size


@jit
def begin(memo: Floats, bank: Floats, experts: int, size: float) -> None:
    """Start with nothing learned, and |x|^2 = `size` as the unit of the features."""
    memo[:FRAME] = 0.0
    bank[:] = 0.0
    births.clear(rungs_of(bank, experts))
    memo[MEMO : MEMO + 1 + experts] = 0.0
    memo[MEMO] = 1.0  # the incumbent's weight
    memo[NOISE] = 1.0
    memo[FIRST_SQUARE] = size
    units = units_of(memo, experts)
    d = len(units)
    for model in range(2):
        ridge = size if model == ELDER else _FIRST_RIDGE * size
        at = THETA + d
        for i in range(d):
            bank[model, at + i] = units[i] * units[i] / ridge if ridge > 0.0 else 0.0
            at += i + 1


@jit
def _learn_models(
    keep: Floats,
    memo: Floats,
    bank: Floats,
    units: Floats,
    x: Floats,
    reward: float,
    errors: Floats,
    variances: Floats,
) -> float:
    """Show the reward to elder, incumbent and experts; fills in the errors of incumbent and experts and their
    variances.

    Returns 1 + x' A^-1 x of the incumbent.
    """
    noise, d = memo[NOISE], len(x)
    rows, width = flat(bank), bank.shape[1]
    owned = np.zeros((3, padded(d)))
    vectors = borrow(owned)
    features, lifted, z = vectors[0], vectors[1], vectors[2]
    for i in range(d):
        features[i], lifted[i] = x[i], units[i] * units[i] * x[i]
    if memo[EXPERTS_LIVE] > 0.0:  # before the elder learns, to which they revert
        for m in range(1, len(errors)):
            at = (INCUMBENT + m) * width
            errors[m], variances[m] = learn_expert(
                rows, at, ELDER * width, units, features, lifted, reward, z, keep[m - 1], memo
            )
    spread = 1.0
    for model in (ELDER, INCUMBENT):
        mean, square = multiply(rows, model * width, d, features, z)
        error, spread = reward - mean, 1.0 + max(square, 0.0)
        absorb(rows, model * width, d, z, error, spread)
        if model == ELDER:
            memo[ELDER_ERRORS] += error * error / spread
        else:
            errors[0], variances[0] = error, noise * spread
    hold(owned)
    return spread


@jit
def _weigh_models(
    share: float, memo: Floats, reward: float, age: float, nu: float, weights: Floats, errors: Floats, logs: Floats
) -> float:
    """Weigh the incumbent, which has learned `age` rewards, and the experts by the likelihood of a reward.

    `logs` holds the variances of their errors, and gets the logarithms of their likelihoods. Returns that of the
    mixture's.
    """
    live = memo[EXPERTS_LIVE] > 0.0
    for m in range(len(logs) if live else 1):
        if are_clicks(memo):
            logs[m] = mixture.click_log_likelihood(memo, reward, reward - errors[m])
        else:
            logs[m] = mixture.log_likelihood(errors[m], logs[m], math.log(logs[m]), nu)
    acting: float = logs[0]
    return mixture.weigh(memo, mixture.faded(share, age), weights, logs) if live else acting


@jit
def _seek_change(rules: Floats, memo: Floats, bank: Floats, units: Floats) -> int:
    """Let young models learn the rewards that wait; 1 if one of them then replaces the incumbent, else 0."""
    experts = len(rules) - RULES
    rungs, rows, waiting = rungs_of(bank, experts), flat(bank), backlog_at(bank, experts)
    threshold = evidence.threshold(memo, bank[INCUMBENT, COUNT], rules[DELTA])
    best, strongest = evidence.settle(memo, rungs, rows, waiting, units, threshold)
    if best < 0 or strongest <= threshold or not evidence.holds(memo, rungs[best], len(units)):
        return 0
    memo[ALARM_EVIDENCE], memo[ALARM_THRESHOLD], memo[ALARM_AGE] = strongest, threshold, rungs[best, COUNT]
    _replace(memo, bank, experts, best, units)
    backlog.empty(rows, waiting, 0.0)
    return 1


@jit
def _replace(memo: Floats, bank: Floats, experts: int, best: int, units: Floats) -> None:
    """Make a young model the incumbent, with the weight that it has earned since its birth.

    What the new incumbent leaves unexplained is the noise.
    """
    d = len(units)
    incumbent, rungs, weights = bank[INCUMBENT], rungs_of(bank, experts), memo[MEMO : MEMO + 1 + experts]
    copy_into(before_alarm(memo, experts), incumbent[THETA : THETA + d])
    mixture.inherit(weights, evidence.lead(rungs[best], d))
    noise, worth = evidence.noise_since(rungs[best], d)
    take_over_noise(memo, noise, worth)
    copy_into(incumbent, rungs[best])
    young.unfold(incumbent, units)
    births.clear(rungs)
    memo[ALARMS] += 1.0
