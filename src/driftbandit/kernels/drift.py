"""DriftUCB in compiled code: scales learned from the data, the models' weights, one choice, one reward.

A bank of rows holds the elder (all history), the incumbent (since the last alarm), the experts, and the ladder of
`evidence`. Each is a `ridge` row ``[n, theta, matrix]`` with room for the ladder's sums; the matrix is A^-1 or,
of an expert, a covariance. `rules` are the settings followed by how much each expert keeps of what it knows a round.
`memo` is what the names below say, then the weights of incumbent and experts, then the incumbent's theta before the
latest alarm. Few arrays, because each costs a tenth of a microsecond a call.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats
from driftbandit.kernels import evidence
from driftbandit.kernels.compile import finite, jit
from driftbandit.kernels.ridge import LARGEST_SQUARE, absorb, multiply, squares

ELDER, INCUMBENT, EXPERTS = 0, 1, 2

# Settings.
EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX = range(6)
RULES = 6

# What is remembered beside the models: sums over all rewards; the noise, recent, since it last jumped, and overall; the
# latest alarm.
(
    ROUNDS,
    REWARD_SQUARES,
    FEATURE_SQUARES,
    FIRST_SQUARE,
    RECENT_SUM,
    RECENT_COUNT,
    STEADY_SUM,
    STEADY_COUNT,
    ALL_SUM,
    ALL_COUNT,
    ELDER_ERRORS,
    ALARMS,
    HITS,
    HIT_VALUE,
    MISFITS,
    EXPERTS_LIVE,
    POOL_VARIANCE,
    PICK_VARIANCE,
    NOISE,
    TASTE,
    PRIOR,
    SHRINK,
    ALARM_EVIDENCE,
    ALARM_THRESHOLD,
    ALARM_AGE,
) = range(25)
MEMO = 25

NOT_USABLE = -1
"""Returned where features are not finite or too large."""

_NOTHING = 1e-150  # a smaller reward has no square
_WILDEST = 100.0  # a reward this many times larger than the others is a mistake, and must not set the scale
_SMALLEST = 1e-200  # |x|^2 below it is taken for 0
_TRIAL = 128.0  # rounds in which the unit of the features may turn out wrong
_TOO_LARGE = 100.0  # mean |x|^2 that much smaller than the unit shows that it was wrong
_FIRST_RIDGE = 0.02  # of the incumbent, in units of the first pool's mean |x|^2
_LEAST_RIDGE = 1e-6  # of a young model, in the same unit
_LARGEST = LARGEST_SQUARE * _FIRST_RIDGE
_PICKS = 0.98  # decay of the variances that steer exploration
_LIGHT = 1e-3  # a model of less weight does not act

_RECENT = 0.98  # decay of the recent noise, which covers about 50 rewards
_JUMP = 2.0  # factor between recent and steady noise that counts as a jump
_JUMP_COUNT = 10.0  # rewards' worth of recent noise needed to say so
_AFTER_JUMP = 5.0  # rewards' worth of steady noise that the recent one is taken for after a jump
_WILD = 20.0  # cap of a squared error in the noise, in units of its expectation
_FLOOR_AT_FIRST = 0.05  # of the mean squared reward, while there is less than one reward's worth of noise
_ROUNDING = 1e-12  # of the mean squared reward: noise below it is rounding
_CLICK_NOISE = 0.75  # least share of p (1 - p) that is noise
_LEAST_PRIOR = 0.2  # variance of a new taste, at least this share of an average taste's

_EXPERT_SPREAD = 0.3  # prior variance of an expert's weights, in units of an average taste's
_WEIGHT_NU = 5.0  # degrees of freedom of the likelihood that weighs models: wild rewards must not move much weight
_EVIDENCE_NU = 8.0  # most rewards' worth of noise that a young model takes over
_ERROR_CAP = (
    200.0  # most that a squared error counts as evidence, in units of the noise, or as much as a new taste may do
)
_CLICK_NU = 50.0  # both, for clicks, whose errors cannot be wild
_LARGEST_LOG = 700.0  # the exponential of more is infinite
_CLICK_SHARE = 0.3  # part of `share` for clicks, each of which tells little: weight must be able to build up
_CLICK_EXPLORE = 0.8  # part of `explore` for clicks, whose noise is never taken for small
_CLICK_MISFITS = 0.02  # share of other values among the rewards that are not 0, beyond which they are not clicks
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
def are_clicks(memo: Floats) -> bool:
    """Whether the rewards are 0 or one other value, but for a few strays."""
    found: bool = memo[HITS] > 0.0 and memo[MISFITS] <= _CLICK_MISFITS * memo[HITS]
    return found


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
    reward = _tame(memo, reward)
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
    _learn_noise(memo, weights, errors, variances)
    nu = min(max(memo[RECENT_COUNT], 1.0), _CLICK_NU if clicks else _WEIGHT_NU)
    if clicks:
        variances[:] = noise  # the law of a click depends on its mean alone
    if memo[EXPERTS_LIVE] > 0.0:
        acting = _learn_weights(rules[SHARE] * (_CLICK_SHARE if clicks else 1.0), weights, errors, variances, nu)
    else:
        acting = evidence.log_likelihood(errors[0], variances[0], math.log(variances[0]), nu)

    fired = 0
    if rules[DETECT] > 0.0:
        own = errors[0] ** 2 / (width * noise)
        cap = max(_ERROR_CAP, memo[PRIOR] * memo[FIRST_SQUARE] / noise)
        best, strongest = evidence.show(rungs, x, reward, z, own, width - 1.0, noise, acting, nu, clicks, cap)
        threshold = math.log((incumbent[0] + 2.0) / rules[DELTA]) + (_CLICK_CAUTION if clicks else 0.0)
        if best >= 0 and strongest > threshold and _ready(memo, d):
            fired = 1
            memo[ALARM_EVIDENCE], memo[ALARM_THRESHOLD], memo[ALARM_AGE] = strongest, threshold, rungs[best, 0]
            _replace(memo, weights, incumbent, rungs, best, memo[MEMO + 1 + experts :])

    memo[ROUNDS] += 1.0
    memo[REWARD_SQUARES] += reward * reward
    memo[FEATURE_SQUARES] += size
    if reward != 0.0:
        if memo[HITS] == 0.0:
            memo[HIT_VALUE] = reward
        elif reward != memo[HIT_VALUE]:
            memo[MISFITS] += 1.0
        memo[HITS] += 1.0
    _rescale(memo, elder, d)
    if memo[REWARD_SQUARES] > 0.0:
        if memo[EXPERTS_LIVE] == 0.0 and memo[ALL_COUNT] >= d and experts > 0:
            _start_experts(memo, weights, bank, d)
        if rules[DETECT] > 0.0 and incumbent[0] >= 2.0:
            rung = evidence.rung_of(int(memo[ROUNDS]))
            ridge = max(memo[NOISE] / memo[PRIOR], _LEAST_RIDGE * memo[FIRST_SQUARE])
            nu = min(max(memo[RECENT_COUNT], 0.5), _CLICK_NU if are_clicks(memo) else _EVIDENCE_NU)
            evidence.give_birth(rungs[rung], elder[1 : 1 + d], memo[SHRINK], ridge, nu, memo[NOISE])
    return fired


@jit
def _tame(memo: Floats, reward: float) -> float:
    """The reward, but no more than `_WILDEST` times the root mean square of those before that were not 0."""
    if abs(reward) < _NOTHING:
        return 0.0
    if memo[HITS] > 0.0:
        most = _WILDEST * math.sqrt(memo[REWARD_SQUARES] / memo[HITS])
        return min(max(reward, -most), most)
    return reward


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
            k = keep[m - 1]
            lift = (1.0 - k * k) * _EXPERT_SPREAD * memo[TASTE]
            errors[m], variances[m] = _learn_drifting(bank[INCUMBENT + m], elder, x, reward, z, k, memo, lift)
    mean, square, _ = multiply(elder, x, z)
    error, spread = reward - mean, 1.0 + max(square, 0.0)
    memo[ELDER_ERRORS] += error * error / spread
    absorb(elder, z, error, spread)
    return width


@jit
def _learn_drifting(
    row: Floats, elder: Floats, x: Floats, reward: float, z: Floats, keep: float, memo: Floats, lift: float
) -> tuple[float, float]:
    """Let an expert drift towards the elder's (shrunken) weights, its doubt grow by `lift`, then learn the reward.

    Drift makes of a covariance P the covariance keep^2 P + lift. Both are done in one pass. Returns the error and its
    variance.
    """
    d = len(x)
    fade = keep * keep
    pull = (1.0 - keep) * memo[SHRINK]
    multiply(row, x, z)
    mean, square = 0.0, 0.0
    for i in range(d):
        row[1 + i] = keep * row[1 + i] + pull * elder[1 + i]
        z[i] = fade * z[i] + lift * x[i]
        mean += row[1 + i] * x[i]
        square += z[i] * x[i]
    error, variance = reward - mean, memo[NOISE] + max(square, 0.0)
    step, shrink = error / variance, 1.0 / math.sqrt(variance)
    for i in range(d):
        row[1 + i] += step * z[i]
        z[i] *= shrink
    at = 1 + d
    for i in range(d):
        line = row[at : at + i + 1]
        for j in range(i + 1):
            line[j] = fade * line[j] - z[i] * z[j]
        line[i] += lift
        at += i + 1
    row[0] += 1.0
    return error, variance


@jit
def _learn_noise(memo: Floats, weights: Floats, errors: Floats, variances: Floats) -> None:
    """Add this round's errors to the noise: of variance v, an error e is worth noise / v rewards."""
    noise = memo[NOISE]
    worth, total = 0.0, 0.0
    for m in range(len(weights)):
        if weights[m] > 0.0:
            share = noise / variances[m]
            worth += weights[m] * share
            total += weights[m] * (share * errors[m]) ** 2
    total = min(total, _WILD * worth * noise)
    memo[RECENT_SUM] = _RECENT * memo[RECENT_SUM] + total
    memo[RECENT_COUNT] = _RECENT * memo[RECENT_COUNT] + worth
    memo[STEADY_SUM] += total
    memo[STEADY_COUNT] += worth
    memo[ALL_SUM] += total
    memo[ALL_COUNT] += worth
    if memo[RECENT_COUNT] > _JUMP_COUNT and memo[RECENT_SUM] > 0.0:
        recent = memo[RECENT_SUM] / memo[RECENT_COUNT]
        steady = memo[STEADY_SUM] / memo[STEADY_COUNT]
        if recent > _JUMP * steady or recent < steady / _JUMP:
            memo[STEADY_COUNT] = _AFTER_JUMP
            memo[STEADY_SUM] = _AFTER_JUMP * recent


@jit
def _learn_weights(share: float, weights: Floats, errors: Floats, variances: Floats, nu: float) -> float:
    """Weigh models by the likelihood of the reward, then share a little weight out again.

    Returns the log-likelihood under the mixture.
    """
    count = len(weights)
    logs = np.empty(count)
    top = -math.inf
    for m in range(count):
        logs[m] = evidence.log_likelihood(errors[m], variances[m], math.log(variances[m]), nu)
        top = max(top, logs[m])
    total = 0.0
    for m in range(count):
        weights[m] *= math.exp(logs[m] - top)
        total += weights[m]
    for m in range(count):
        fair = 0.5 if m == 0 else 0.5 / (count - 1)
        weights[m] = (1.0 - share) * weights[m] / total + share * fair
    return top + math.log(total)


@jit
def _ready(memo: Floats, d: int) -> bool:
    """Enough seen for an alarm: 2 d rewards' worth of noise and, of clicks, d of the rarer outcome."""
    rarer = min(memo[HITS], memo[ROUNDS] - memo[HITS])
    ready: bool = memo[ALL_COUNT] >= 2.0 * d and (not are_clicks(memo) or rarer >= d)
    return ready


@jit
def _replace(memo: Floats, weights: Floats, incumbent: Floats, rungs: Floats, best: int, before: Floats) -> None:
    """Make a young model the incumbent, with the weight that it has earned since its birth.

    What it leaves unexplained is the noise.
    """
    d = len(before)
    before[:] = incumbent[1 : 1 + d]
    rest = np.sum(weights[1:])
    if rest > 0.0:
        heir = weights[0] / (weights[0] + rest * math.exp(min(-evidence.lead(rungs[best], d), _LARGEST_LOG)))
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


@jit
def _rescale(memo: Floats, elder: Floats, d: int) -> None:
    """Noise, size of a taste, prior of a new taste and trust in the elder, from all rewards so far."""
    if memo[REWARD_SQUARES] == 0.0:
        return
    rounds = memo[ROUNDS]
    mean_square = memo[REWARD_SQUARES] / rounds
    overall = memo[ALL_SUM] / memo[ALL_COUNT]
    noise = memo[STEADY_SUM] / memo[STEADY_COUNT]
    if are_clicks(memo):
        rate = (memo[HITS] + 1.0) / (rounds + 2.0)
        noise = max(overall, _CLICK_NOISE * rate * (1.0 - rate) * memo[HIT_VALUE] ** 2)
    if memo[RECENT_COUNT] < 1.0:
        noise = max(noise, _FLOOR_AT_FIRST * mean_square)
    memo[NOISE] = max(noise, _ROUNDING * mean_square)
    memo[TASTE] = memo[REWARD_SQUARES] / memo[FEATURE_SQUARES]
    # What the elder cannot explain beyond noise is how far tastes spread around it.
    spread = max(memo[ELDER_ERRORS] / rounds - overall, 0.0) * rounds / memo[FEATURE_SQUARES]
    memo[PRIOR] = min(max(spread, _LEAST_PRIOR * memo[TASTE]), memo[TASTE])
    length = 0.0
    for i in range(d):
        length += elder[1 + i] * elder[1 + i] / d
    # James-Stein: the elder is the mean of alarms + 1 tastes, which are not all new: the root counts them as fewer.
    tastes = math.sqrt(memo[ALARMS] + 1.0)
    memo[SHRINK] = max(0.0, 1.0 - spread / (tastes * length)) if length > 0.0 else 0.0


@jit
def _start_experts(memo: Floats, weights: Floats, bank: Floats, d: int) -> None:
    """Give every expert the elder's weights, full doubt, and an even share of half the weight."""
    memo[EXPERTS_LIVE] = 1.0
    weights[0] = 0.5
    for m in range(1, len(weights)):
        weights[m] = 0.5 / (len(weights) - 1)
        row = bank[INCUMBENT + m]
        row[:] = 0.0
        at = 1 + d
        for i in range(d):
            row[1 + i] = bank[ELDER, 1 + i]
            row[at + i] = _EXPERT_SPREAD * memo[TASTE]
            at += i + 1
