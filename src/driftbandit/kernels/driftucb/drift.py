"""DriftUCB in compiled code: what it keeps, and the order of events in one reward.

The parts have their own files: `acting` (which arm is played), `draws` (which one while answers are outstanding),
`scales` (what is known about the world), `frames` (units and intercept), `experts`, `mixture` (the weights, and who
acts), `births` (the ladder of young models) and `evidence` (what they learn, and the alarm).

A bank of `rows` holds the elder (all history), the incumbent (since the last alarm), the experts, and the ladder.
Behind the ladder, a row has the sizes of the frame's units, and the `backlog` fills the last rows; `compact` says how a
bank is stored. All models explain what a reward has beyond what the frame's anchor expects.
`rules` are the settings, followed by the share of its knowledge that each expert keeps per round. `memo` holds what
`scales` names, then the weights of incumbent and experts, then three vectors with room for the features and an
intercept: the incumbent's theta before the latest alarm, the units of the frame, and the anchor. These are few arrays,
because each costs time at every call.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import (
    SCRATCH,
    borrow,
    copy_into,
    finite,
    flat,
    hold,
    jit,
    jit_inside,
    scratch,
)
from driftbandit.kernels.driftucb import mixture
from driftbandit.kernels.driftucb.ahead import Ahead, row_ahead
from driftbandit.kernels.driftucb.experts import drift_of, start_experts
from driftbandit.kernels.driftucb.ladder import backlog, births, evidence, young
from driftbandit.kernels.driftucb.rows import (
    COUNT,
    STEADY,
    THETA,
    absorb,
    multiply,
    note_trace,
    row_size,
    variance_at,
)
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
    ROUNDS,
    SPREAD,
    TASTE,
    are_clicks,
    learn_noise,
    rescale,
    take_over_noise,
    tally,
    tame,
)
from driftbandit.kernels.ridge import LARGEST_SQUARE
from driftbandit.kernels.vector_units.vectors import fetch, padded, weigh_arm, weigh_squares

ELDER, INCUMBENT, EXPERTS = 0, 1, 2

# Settings.
EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX = range(6)
RULES = 6

NOT_USABLE = -1
"""Returned if features are not finite or too large."""

SMALLEST = 1e-200  # |x|^2 below this is taken to be 0
_FIRST_RIDGE = 0.02  # ridge of the incumbent, in units of the first |x|^2
_CANCELLED = 1e-12  # least noise as a share of an arm's variance: with less, what is left of that is only rounding
_FAST = 20_000  # numbers that fit into a fast cache
_BEFORE, _UNITS, _ANCHOR = range(3)  # vectors at the end of `memo`
LARGEST = LARGEST_SQUARE * _FIRST_RIDGE  # largest |x|^2 that spoils no matrix, in the same unit


@jit
def memo_size(dim: int, experts: int) -> int:
    """Length of `memo`."""
    return MEMO + 1 + experts + 3 * (dim + 1)


@jit
def bank_shape(dim: int, experts: int) -> tuple[int, int]:
    """Shape of `bank`."""
    width = row_size(dim + 1)
    more = (backlog.backlog_size(dim + 1) + width - 1) // width
    return models_of(experts) + 1 + more, width


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
def sizes_at(bank: Floats, experts: int) -> int:
    """Where units^2 begin, in the numbers of `bank` one behind the other; behind them, whole vectors, 1 / units^2."""
    at: int = models_of(experts) * bank.shape[1]
    return at


@jit
def backlog_at(bank: Floats, experts: int) -> int:
    """Where the backlog begins."""
    at: int = sizes_at(bank, experts) + bank.shape[1]
    return at


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
def learn(rules: Floats, memo: Floats, bank: Floats, x: Floats, reward: float, ahead: Ahead) -> int:
    """Learn one reward; 1 if it raised an alarm, whose numbers are then in `memo`, else 0, or NOT_USABLE.

    Meanwhile those rows that `ahead` says, and all else that learning needs, of another bank are fetched.
    """
    rules, memo, bank, x = borrow(rules), borrow(memo), borrow(bank), borrow(x)
    experts = len(rules) - RULES
    units, anchor = units_of(memo, experts), anchor_of(memo, experts)
    d, length = len(units), padded(len(units))
    needed = (4 + experts) * (length + 4)
    owned = np.empty(needed) if needed > SCRATCH else scratch()
    room = borrow(owned)
    features, vectors, numbers = room[:length], room[length : (4 + experts) * length], room[(4 + experts) * length :]
    widen(x, features, d)
    base, size = weigh_arm(features, 0, anchor, 0, units)
    if memo[ANCHORED] == 0.0:
        base = 0.0
    surplus = tame(memo, reward - base)
    usable = _begin_round(memo, bank, experts, size, surplus)
    if usable <= 0:
        hold(owned)
        return usable
    weights = memo[MEMO : MEMO + 1 + experts]
    incumbent, rungs = bank[INCUMBENT], rungs_of(bank, experts)
    rows, waiting, noise, clicks = flat(bank), backlog_at(bank, experts), memo[NOISE], are_clicks(memo)
    if ahead[0] != 0:
        _fetch_rest(memo, bank, experts, length, ahead[0])
        if evidence.is_time(memo, rows[waiting + backlog.WAITING] + 1.0):  # then young models learn in this round
            evidence.fetch_heads(rows, (EXPERTS + experts) * bank.shape[1], bank.shape[1], births.RUNGS)

    total = mixture.total_variance(memo, weights, bank[INCUMBENT:])
    errors, variances = numbers[: 1 + experts], numbers[1 + experts : 2 + 2 * experts]  # of models that act
    found = numbers[2 + 2 * experts :]
    width = _learn_models(rules[RULES:], memo, bank, ahead, d, features, surplus, errors, variances, found, vectors)
    mixture.remember_pick(memo, weights, variances, total)
    learn_noise(memo, weights, errors, variances)
    nu = mixture.freedom(memo)
    acting = _weigh_models(rules[SHARE], memo, reward, incumbent[COUNT], nu, weights, errors, variances, found)

    fired = 0
    if rules[DETECT] > 0.0 and rows[waiting + backlog.ALLOWANCE] < backlog.UNLIMITED:  # else no young model lives
        if clicks:
            theirs = mixture.click_log_likelihood(memo, reward, reward - errors[0])
            telling = evidence.show_click(rows, waiting, memo, features, reward, base, theirs, acting)
        else:
            own, cap = errors[0] ** 2 / (width * noise), evidence.error_cap(memo)
            telling = evidence.show(rows, waiting, features, surplus, own, width - 1.0, noise, acting, nu, cap)
        if evidence.is_time(memo, rows[waiting + backlog.WAITING]) or (telling and evidence.ready(memo, d)):
            fired = _seek_change(rules, memo, bank, units)

    tally(memo, reward, surplus, size)
    if are_clicks(memo) != clicks:
        births.clear(rungs)  # their sums are of another kind
        backlog.wipe(rows, waiting, length, int(rows[waiting + backlog.WAITING]))
        backlog.empty(rows, waiting, 0.0)
    _end_round(rules, memo, bank, units)
    hold(owned)
    return fired


@jit_inside
def _fetch_rest(memo: Floats, bank: Floats, experts: int, length: int, ahead: int) -> None:
    """Fetch what `learn` needs, beside the models that act, of the bank `ahead`, if it is as far as this one is."""
    rows, waiting = flat(bank), backlog_at(bank, experts)
    rung = EXPERTS + experts + births.rung_of(int(memo[ROUNDS]) + 1, births.RUNGS)  # which may be born anew
    fetch(rows, ahead + sizes_at(bank, experts), 2 * length)
    fetch(rows, ahead + waiting, backlog.HEAD)
    fetch(rows, ahead + backlog.record(waiting, int(rows[waiting + backlog.WAITING]), length) - length, length)
    fetch(rows, ahead + rung * bank.shape[1], THETA + length)


@jit
def _end_round(rules: Floats, memo: Floats, bank: Floats, units: Floats) -> None:
    """Judge the scales anew, and let experts start and young models be born whose time it is."""
    experts, d, rows = len(rules) - RULES, len(units), flat(bank)
    shares = sizes_at(bank, experts) + padded(d)
    rescale(memo, weigh_squares(rows, ELDER * bank.shape[1] + THETA, rows, shares, padded(d)) / d)
    if memo[REWARD_SQUARES] == 0.0:
        return
    theta, age = bank[ELDER, THETA : THETA + d], bank[INCUMBENT, COUNT]
    if start_experts(memo, bank[EXPERTS : EXPERTS + experts], theta, units):
        _note_traces(bank, experts, d)
        mixture.share_out(memo[MEMO : MEMO + 1 + experts])
    if rules[DETECT] > 0.0 and age >= 2.0:
        rungs, waiting = rungs_of(bank, experts), backlog_at(bank, experts)
        births.renew(memo, rungs, theta, units, rows, waiting, age, rules[DELTA])


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


@jit_inside
def widen(x: Floats, features: Floats, d: int) -> None:
    """Copy an arm's features into whole vectors, with a one behind them if there are d columns, one more."""
    for i in range(len(x), len(features)):
        features[i] = 1.0 if i < d else 0.0
    copy_into(features, x)


@jit
def _begin_round(memo: Floats, bank: Floats, experts: int, size: float, surplus: float) -> int:
    """1 if a reward of an arm with |x|^2 = `size` can be learned, 0 if it tells nothing, or NOT_USABLE; sets the units
    if they are not known.
    """
    if not finite(size):
        return NOT_USABLE
    if size < SMALLEST:
        return 0
    if memo[FIRST_SQUARE] == 0.0:
        if memo[SPREAD] == 0.0:
            begin(memo, bank, experts, size)
        memo[FIRST_SQUARE] = size
    if size > LARGEST * memo[FIRST_SQUARE]:
        if memo[SPREAD] == 0.0:
            return NOT_USABLE
        memo[FIRST_SQUARE] = size  # what was told does not depend on it
    if memo[REWARD_SQUARES] == 0.0 and surplus != 0.0 and memo[SPREAD] == 0.0:
        memo[NOISE] = surplus * surplus
        memo[TASTE] = memo[PRIOR] = surplus * surplus / memo[FIRST_SQUARE]
    return 1


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
        for i in range(d):
            bank[model, variance_at(d, i)] = units[i] * units[i] / ridge if ridge > 0.0 else 0.0
    derive(memo, bank, experts)


@jit
def derive(memo: Floats, bank: Floats, experts: int) -> None:
    """Fill in what follows from the rest of a bank: sizes of units, and traces."""
    units, numbers, at = units_of(memo, experts), flat(bank), sizes_at(bank, experts)
    for i in range(len(units)):
        numbers[at + i] = units[i] * units[i]
        numbers[at + padded(len(units)) + i] = 1.0 / numbers[at + i]
    _note_traces(bank, experts, len(units))


@jit
def _note_traces(bank: Floats, experts: int, d: int) -> None:
    for model in range(INCUMBENT, EXPERTS + experts):
        note_trace(flat(bank), model * bank.shape[1], d, sizes_at(bank, experts) + padded(d))


@jit
def _learn_models(
    keep: Floats,
    memo: Floats,
    bank: Floats,
    ahead: Ahead,
    d: int,
    x: Floats,
    reward: float,
    errors: Floats,
    variances: Floats,
    found: Floats,
    vectors: Floats,
) -> float:
    """Show the reward to elder, incumbent and experts; fills in the errors of incumbent and experts and their
    variances.

    All models that fit into a fast cache find out their errors before one of them learns, so that none of them waits
    for another. What they find has room in `found` and `vectors`. Returns 1 + x' A^-1 x of the incumbent.
    """
    noise, length = memo[NOISE], len(x)
    rows, width, sizes = flat(bank), bank.shape[1], sizes_at(bank, len(keep))
    models = EXPERTS + len(keep) if memo[EXPERTS_LIVE] > 0.0 else EXPERTS
    means, squares, lifted, z = found[:models], found[models:], vectors[:length], vectors[length:]
    for i in range(length):
        lifted[i] = rows[sizes + i] * x[i]
    spread = 1.0
    at_once = models if models * width <= _FAST else 1
    for last in range(models, 0, -at_once):  # the elder comes last, as experts revert to what it was
        for m in range(last - at_once, last):
            drift = drift_of(keep[m - EXPERTS], memo) if m >= EXPERTS else STEADY
            means[m], squares[m] = multiply(rows, m * width, 0, d, drift, lifted, x, z, m * length, row_ahead(ahead, m))
        for m in range(last - 1, last - at_once - 1, -1):
            drift = drift_of(keep[m - EXPERTS], memo) if m >= EXPERTS else STEADY
            least = noise if m >= EXPERTS else 1.0
            error, variance = reward - means[m], max(least, _CANCELLED * squares[m]) + max(squares[m], 0.0)
            fetched = row_ahead(ahead, m)
            absorb(rows, m * width, 0, d, drift, rows, sizes, z, m * length, error, variance, fetched)
            if m == ELDER:
                memo[ELDER_ERRORS] += error * error / variance
                continue
            note_trace(rows, m * width, d, sizes + length)
            if m == INCUMBENT:
                spread, variance = variance, noise * variance
            errors[m - INCUMBENT], variances[m - INCUMBENT] = error, variance
    return spread


@jit
def _weigh_models(
    share: float,
    memo: Floats,
    reward: float,
    age: float,
    nu: float,
    weights: Floats,
    errors: Floats,
    variances: Floats,
    room: Floats,
) -> float:
    """Weigh the incumbent, which has learned `age` rewards, and the experts by the likelihood of a reward.

    Returns the log-likelihood under the mixture. Overwrites `variances`, those of the models' errors.
    """
    live, clicks, share = memo[EXPERTS_LIVE] > 0.0, are_clicks(memo), mixture.faded(share, age)
    if live and not clicks and nu == mixture.FREEDOM:
        acting: float = mixture.weigh_by_errors(share, weights, errors, variances, room)
        if acting > -math.inf:
            return acting
    logs = variances
    for m in range(len(logs) if live else 1):
        if clicks:
            logs[m] = mixture.click_log_likelihood(memo, reward, reward - errors[m])
        else:
            logs[m] = mixture.log_likelihood(errors[m], variances[m], math.log(variances[m]), nu)
    return mixture.weigh(memo, share, weights, logs) if live else logs[0]


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
    mixture.inherit(weights, evidence.lead(rungs[best]))
    noise, worth = evidence.noise_since(rungs[best])
    take_over_noise(memo, noise, worth)
    copy_into(incumbent, rungs[best])
    young.unfold(incumbent, units)
    _note_traces(bank, experts, d)
    births.clear(rungs)
    memo[ALARMS] += 1.0
