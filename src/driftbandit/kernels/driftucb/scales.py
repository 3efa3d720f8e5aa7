"""What DriftUCB finds out about its world: the size of features, rewards and noise, and whether rewards are clicks.

All of it is kept in a flat array, `memo`, in the slots named here. The slots of experts, ladder and mixture are
described in their files. From `MEMO` on follow the weights of incumbent and experts, and what `drift` says.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit

(
    ROUNDS,  # rewards learned, except those of arms without features
    REWARD_SQUARES,  # sum of the squares of these rewards
    FEATURE_SQUARES,  # sum of |x|^2 of the arms played
    FIRST_SQUARE,  # |x|^2 of a typical arm, at first of the first one: the unit of the features; 0 before the first arm
    RECENT_SUM,  # squared errors of about the latest 50 rewards, the noise part of each
    RECENT_COUNT,  # how many rewards with exactly known means these are worth
    STEADY_SUM,  # the same two since the noise last jumped
    STEADY_COUNT,
    ALL_SUM,  # the same two for all rewards
    ALL_COUNT,
    ELDER_ERRORS,  # sum of the elder's squared errors, each over 1 + x' A^-1 x
    ALARMS,  # number of alarms
    HITS,  # rewards that were not 0
    HIT_VALUE,  # the first reward that was not 0
    MISFITS,  # how many rewards that were not 0 had another value than the first
    EXPERTS_LIVE,  # 1 once the experts have started (`experts`)
    PICK_COUNT,  # how many arms, decayed, `PICK_SHARES` sums up (`mixture`)
    PICK_SHARES,  # sum of the shares of the mixture's variance that the arms played had
    NOISE,  # variance of a reward around its mean; 1 before the first reward that is not 0
    TASTE,  # mean square of a weight: what explains rewards of this size by features of this size
    PRIOR,  # variance of a new taste's weights around the elder's
    SHRINK,  # part of the elder's weights from which a new taste starts
    ALARM_EVIDENCE,  # the latest alarm: log-evidence, its threshold, age of the new incumbent (`evidence`)
    ALARM_THRESHOLD,
    ALARM_AGE,
    COLUMNS,  # columns of the frame: the features, and one more with an intercept (`frames`)
    TRIED,  # rewards remembered for the trial of frames
    ANCHORED,  # 1 if the frame has an anchor that is not 0
    SPREAD,  # mean variance of a weight around the anchor, if that was told, else 0 (`drift`)
) = range(29)
MEMO = 29
FRAME = COLUMNS
"""From here on, the slots hold for good, whatever else is begun anew."""

_NOTHING = 1e-150  # the square of a smaller reward would be 0
_WILDEST = 100.0  # a reward this many times larger than the others is a mistake, and must not set the scale
_RECENT = 0.98  # decay of the recent noise, which covers about 50 rewards
_JUMP = 2.0  # factor between recent and steady noise that counts as a jump
_JUMP_COUNT = 10.0  # rewards' worth of recent noise needed to detect a jump
_AFTER_JUMP = 5.0  # after a jump the recent noise counts as this many rewards' worth of steady noise
_WILD = 20.0  # cap of a squared error in the noise, in units of its expectation
_FLOOR_AT_FIRST = 0.05  # share of the mean squared reward that is noise before one reward's worth of noise is known
_ROUNDING = 1e-12  # share of the mean squared reward below which noise is rounding
_CLICK_NOISE = 0.75  # least share of p (1 - p) that is noise
_LEAST_PRIOR = 0.2  # least variance of a new taste, as a share of an average taste's
_CLICK_LEAST_PRIOR = 0.5  # the same for clicks
_CLICK_MISFITS = 0.02  # share of other values among the rewards that are not 0, above which rewards are not clicks


@jit
def are_clicks(memo: Floats) -> bool:
    """Whether the rewards are 0 or one other value, with few exceptions."""
    found: bool = memo[HITS] > 0.0 and memo[MISFITS] <= _CLICK_MISFITS * memo[HITS]
    return found


@jit
def click_rate(memo: Floats) -> float:
    """Share of the rarer of the two outcomes, with one of each added."""
    rate = (memo[HITS] + 1.0) / (memo[ROUNDS] + 2.0)
    rarer: float = min(rate, 1.0 - rate)
    return rarer


@jit
def tame(memo: Floats, surplus: float) -> float:
    """The surplus of a reward, capped at `_WILDEST` times the root mean square of the earlier ones."""
    if abs(surplus) < _NOTHING:
        return 0.0
    if memo[HITS] > 0.0:
        most = _WILDEST * math.sqrt(memo[REWARD_SQUARES] / memo[HITS])
        return min(max(surplus, -most), most)
    return surplus


@jit
def tally(memo: Floats, reward: float, surplus: float, size: float) -> None:
    """Add a reward of an arm with |x|^2 = `size` to the sums; `surplus` is its part above what the anchor says."""
    memo[ROUNDS] += 1.0
    memo[REWARD_SQUARES] += surplus * surplus
    memo[FEATURE_SQUARES] += size
    if reward != 0.0:
        if memo[HITS] == 0.0:
            memo[HIT_VALUE] = reward
        elif reward != memo[HIT_VALUE]:
            memo[MISFITS] += 1.0
        memo[HITS] += 1.0


@jit
def learn_noise(memo: Floats, weights: Floats, errors: Floats, variances: Floats) -> None:
    """Add this round's errors to the noise: an error with variance v is worth noise / v rewards."""
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
def take_over_noise(memo: Floats, noise: float, worth: float) -> None:
    """Set the noise to what a new incumbent leaves unexplained; clicks keep theirs, which follows from their rate."""
    if are_clicks(memo):
        return
    memo[RECENT_COUNT] = min(memo[RECENT_COUNT], worth)
    memo[RECENT_SUM] = memo[RECENT_COUNT] * noise
    memo[STEADY_COUNT] = min(memo[STEADY_COUNT], memo[RECENT_COUNT])
    memo[STEADY_SUM] = memo[STEADY_COUNT] * noise


@jit
def rescale(memo: Floats, length: float) -> None:
    """Noise, size of a taste, prior of a new taste and trust in the elder, from all rewards so far.

    `length` is the mean square of the elder's weights in the frame's units.
    """
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
    memo[TASTE] = memo[SPREAD] if memo[SPREAD] > 0.0 else memo[REWARD_SQUARES] / memo[FEATURE_SQUARES]
    # What the elder cannot explain beyond noise shows how far tastes spread around it.
    spread = max(memo[ELDER_ERRORS] / rounds - overall, 0.0) * rounds / memo[FEATURE_SQUARES]
    least = _CLICK_LEAST_PRIOR if are_clicks(memo) else _LEAST_PRIOR
    memo[PRIOR] = min(max(spread, least * memo[TASTE]), memo[TASTE])
    # James-Stein: the elder is the mean of alarms + 1 tastes; not all are new, so the root counts them as fewer.
    tastes = math.sqrt(memo[ALARMS] + 1.0)
    memo[SHRINK] = max(0.0, 1.0 - spread / (tastes * length)) if length > 0.0 else 0.0
