"""A ladder of young models that compete with an incumbent: does one explain the rewards since its birth better?

Rung z of the ladder holds the model that was born at the latest round divisible by 2^z and not by 2^(z + 1); it lives
for 2^(z + 1) rounds, until the next model of its rung is born; the top rung takes all births that would be higher. So
there is one young model of every age up to a factor of two, and each costs one update per round. On clicks the ladder
starts at a rung whose models see enough of them. A rung's row is a
`ridge` row ``[n, theta, A^-1]`` followed by the sums named below; n = -1 marks an empty rung. With many features, A^-1
is kept as `young` says.

All errors are in units of the noise level, e^2 / (1 + x' A^-1 x) / sigma^2, and capped, so that one wild reward cannot
cause an alarm. With the noise variance integrated out under a prior worth `nu` rewards, the log-evidence of a rung
against the incumbent over the n rewards both have seen is

    (nu + n) / 2 * ln((nu + incumbent's errors) / (nu + own errors)) - sum of ln((1 + own q) / (1 + incumbent's q)) / 2.

A rung also keeps its lead: the `log_likelihood` of the rewards under its model minus that under the models that act.
When the strongest log-evidence passes the `threshold`, there is an alarm, whose numbers `memo` keeps in the slots
`ALARM_EVIDENCE`, `ALARM_THRESHOLD` and `ALARM_AGE`.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels import young
from driftbandit.kernels.compile import jit
from driftbandit.kernels.mixture import click_log_likelihood, log_likelihood
from driftbandit.kernels.ridge import COUNT, THETA, row_size
from driftbandit.kernels.rows import absorb, multiply
from driftbandit.kernels.scales import (
    ALL_COUNT,
    FIRST_SQUARE,
    HITS,
    NOISE,
    PRIOR,
    RECENT_COUNT,
    REWARD_SQUARES,
    ROUNDS,
    SHRINK,
    are_clicks,
    click_rate,
)

RUNGS = 10
"""Models of the ladder. A young model lives for at most 2^(RUNGS - 1) rounds, on clicks for longer; where rewards are
not clicks, older models were found to add nothing."""

# Sums since a rung's birth, behind the row of its model:
(
    _THEIRS,  # the incumbent's capped errors
    _OWN,  # its own capped errors
    _LOG_WIDTH,  # ln((1 + own q) / (1 + incumbent's q))
    _LARGEST_GAIN,  # not a sum: the most by which one of its errors was smaller than the incumbent's
    _NU,  # not a sum: how many rewards' worth of noise it was born with
    _NOISE_SUM,  # its own errors times the noise of their time, including the noise it was born with
    _LEAD,  # log-likelihood of the rewards, minus that under the models that act
) = range(7)
_SUMS = 7

_WITHOUT_BEST = 3.0  # log-evidence that must remain when the single most telling reward is left out
_ERROR_CAP = 200.0  # cap of a squared error, in units of the noise, if a new taste causes less
_CLICK_BIRTHS = 100.0  # births on clicks that count as having gone before
_CLICK_TELLING = 4.0  # rare outcomes to be expected over half a model's life, for a birth on clicks
_TELLING = 20.0  # a birth needs a new taste to amount, over half the model's life, to this many times the noise
_MATERIAL = 1e-4  # least mean squared error of an incumbent that is wrong, in units of the rewards' mean square
_LEAST_RIDGE = 1e-6  # ridge of a young model, in units of the first |x|^2
_MOST_NU = 8.0  # most rewards' worth of noise that a young model takes over
_CLICK_MOST_NU = 50.0  # most rewards' worth of noise for clicks, whose errors cannot be wild


def rung_size(dim: int) -> int:
    """Length of a rung's row."""
    return row_size(dim) + _SUMS


@jit
def rung_of(born: int, rungs: int) -> int:
    """The rung of a birth: how often two divides its round, up to the top one of `rungs`."""
    rung = 0
    while born % 2 == 0 and rung < rungs - 1:
        born //= 2
        rung += 1
    return rung


@jit
def give_birth(rung: Floats, mean: Floats, units: Floats, shrink: float, ridge: float, nu: float, noise: float) -> None:
    """Start a model whose weights are N(shrink * mean, units^2 * noise / ridge) and that knows `nu` rewards' worth of
    `noise`.
    """
    d = len(mean)
    young.begin(rung, units, ridge)
    for i in range(d):
        rung[THETA + i] = shrink * mean[i]
    sums = THETA + d + d * (d + 1) // 2
    rung[sums + _NU] = nu
    rung[sums + _NOISE_SUM] = nu * noise


@jit
def clear(rungs: Floats) -> None:
    """Empty all rungs."""
    rungs[:] = 0.0
    rungs[:, COUNT] = -1.0


@jit
def show(
    rungs: Floats,
    units: Floats,
    x: Floats,
    reward: float,
    z: Floats,
    theirs: float,
    q: float,
    noise: float,
    acting: float,
    nu: float,
    cap: float,
) -> tuple[int, float]:
    """Show a reward to all rungs; returns the rung with the strongest evidence, -1 if none, and its log-evidence.

    Parameters
    ----------
    theirs, q :
        The incumbent's squared error over 1 + q, in units of `noise`, and its q = x' A^-1 x.
    acting, nu :
        Log-likelihood of the reward under the models that act, and its degrees of freedom.
    cap :
        Cap of one squared error, in units of `noise`.
    """
    best, strongest = -1, 0.0
    rows, first = rungs.reshape(rungs.size), THETA + len(x) + len(x) * (len(x) + 1) // 2
    theirs = min(theirs, cap)
    many = len(x) >= young.MANY  # else a call less, which counts where features are few
    log_noise, their_log_width = math.log(noise), math.log(1.0 + q)
    for k in range(len(rungs)):
        at = k * rungs.shape[1]
        if rows[at + COUNT] < 0.0:
            continue
        if many:
            mean, square = young.multiply(rungs[k], units, x, z)
        else:
            mean, square = multiply(rows, at, x, z)
        width = 1.0 + max(square, 0.0)
        log_width = math.log(width)
        error = reward - mean
        own = min(error * error / (width * noise), cap)
        if many:
            young.absorb(rungs[k], units, z, error, width)
        else:
            absorb(rows, at, z, error, width)
        sums = at + first
        rows[sums + _THEIRS] += theirs
        rows[sums + _OWN] += own
        rows[sums + _NOISE_SUM] += own * noise
        rows[sums + _LOG_WIDTH] += log_width - their_log_width
        rows[sums + _LARGEST_GAIN] = max(rows[sums + _LARGEST_GAIN], theirs - own)
        rows[sums + _LEAD] += log_likelihood(error, noise * width, log_noise + log_width, nu) - acting
        count, least = rows[at + COUNT], max(strongest, _WITHOUT_BEST)
        evidence = _log_evidence(rows, sums, count, 0.0, least)
        if evidence > least and (
            _log_evidence(rows, sums, count, rows[sums + _LARGEST_GAIN], _WITHOUT_BEST) > _WITHOUT_BEST
        ):
            best, strongest = k, evidence
    return best, strongest


@jit
def show_click(
    rungs: Floats,
    memo: Floats,
    units: Floats,
    x: Floats,
    reward: float,
    base: float,
    z: Floats,
    theirs: float,
    acting: float,
) -> tuple[int, float]:
    """As `show`, for a click: evidence is the log-likelihood under a rung minus that under the incumbent, `theirs`.

    `base` is what the anchor expects; a rung's model explains what is beyond it.
    """
    best, strongest = -1, _WITHOUT_BEST
    sums = THETA + len(x) + len(x) * (len(x) + 1) // 2
    for k in range(len(rungs)):
        rung = rungs[k]
        if rung[COUNT] < 0.0:
            continue
        mean, square = young.multiply(rung, units, x, z)
        own = click_log_likelihood(memo, reward, base + mean)
        young.absorb(rung, units, z, reward - base - mean, 1.0 + max(square, 0.0))
        gain = own - theirs
        rung[sums + _OWN] -= own
        rung[sums + _THEIRS] -= theirs
        rung[sums + _LARGEST_GAIN] = max(rung[sums + _LARGEST_GAIN], gain)
        rung[sums + _LEAD] += own - acting
        evidence = rung[sums + _THEIRS] - rung[sums + _OWN]
        if evidence > strongest and evidence - rung[sums + _LARGEST_GAIN] > _WITHOUT_BEST:
            best, strongest = k, evidence
    return best, strongest


@jit
def holds(memo: Floats, rung: Floats, d: int) -> bool:
    """Whether strong evidence makes an alarm: enough was seen, and the incumbent is wrong by more than rounding.

    Without noise, the bias of its ridge alone would be evidence.
    """
    wrong = rung[THETA + d + d * (d + 1) // 2 + _THEIRS] * memo[NOISE] / rung[COUNT]
    return ready(memo, d) and (are_clicks(memo) or wrong > _MATERIAL * memo[REWARD_SQUARES] / memo[ROUNDS])


@jit
def error_cap(memo: Floats) -> float:
    """Cap of one squared error, in units of the noise: `_ERROR_CAP`, or what a new taste would cause if more."""
    cap: float = max(_ERROR_CAP, memo[PRIOR] * memo[FIRST_SQUARE] / memo[NOISE])
    return cap


@jit
def threshold(memo: Floats, age: float, delta: float) -> float:
    """Log-evidence above which a young model replaces an incumbent that has learned `age` rewards.

    On clicks, births are rare, and each may raise a false alarm: what counts is how many there were.
    """
    if are_clicks(memo):
        return math.log((age * min(1.0, click_rate(memo) / _CLICK_TELLING) + _CLICK_BIRTHS) / delta)
    return math.log((age + 2.0) / delta)


@jit
def ready(memo: Floats, d: int) -> bool:
    """Whether enough was seen for an alarm: 2 d rewards' worth of noise and, with clicks, 2 d of the rarer outcome."""
    rarer = min(memo[HITS], memo[ROUNDS] - memo[HITS])
    ready: bool = memo[ALL_COUNT] >= 2.0 * d and (not are_clicks(memo) or rarer >= 2.0 * d)
    return ready


@jit
def renew(memo: Floats, rungs: Floats, theta: Floats, units: Floats) -> None:
    """Replace the rung whose turn it is by a new model around `theta`, if the model could tell a shift from noise."""
    clicks = are_clicks(memo)
    lowest = lowest_rung(memo) if clicks else 0
    rung = rung_of(int(memo[ROUNDS]), lowest + RUNGS)
    if rung < lowest:
        return
    rung %= RUNGS  # of the rungs above the lowest, each has a row of its own
    if not clicks and 2.0**rung * memo[PRIOR] * memo[FIRST_SQUARE] < _TELLING * memo[NOISE]:
        clear(rungs[rung : rung + 1])
        return
    ridge = max(memo[NOISE] / memo[PRIOR], _LEAST_RIDGE * memo[FIRST_SQUARE])
    nu = min(max(memo[RECENT_COUNT], 0.5), _CLICK_MOST_NU if clicks else _MOST_NU)
    give_birth(rungs[rung], theta, units, memo[SHRINK], ridge, nu, memo[NOISE])


@jit
def lowest_rung(memo: Floats) -> int:
    """The lowest rung whose models live long enough on clicks: 2^rung rounds bring `_CLICK_TELLING` rare outcomes."""
    rung: int = math.ceil(np.log2(_CLICK_TELLING / click_rate(memo)))  # Numba 0.59 has no math.log2
    return max(rung, 0)


@jit
def noise_since(rung: Floats, dim: int) -> tuple[float, float]:
    """Estimate of the noise variance from a rung's prior and its own errors, and how many rewards it is worth."""
    sums = THETA + dim + dim * (dim + 1) // 2
    worth = rung[sums + _NU] + rung[COUNT]
    return rung[sums + _NOISE_SUM] / worth, worth


@jit
def lead(rung: Floats, dim: int) -> float:
    """Log-likelihood ratio of a rung against the models that acted since its birth."""
    found: float = rung[THETA + dim + dim * (dim + 1) // 2 + _LEAD]
    return found


@jit
def _log_evidence(rows: Floats, sums: int, count: float, left_out: float, least: float) -> float:
    """Log-evidence over `count` rewards, from the sums that begin at the place `sums`, without errors worth `left_out`;
    `least` if it is not more.
    """
    nu = rows[sums + _NU]
    ratio = (nu + rows[sums + _THEIRS] - left_out) / (nu + rows[sums + _OWN])
    worth, log_width = nu + count, rows[sums + _LOG_WIDTH]
    if 0.5 * (worth * (ratio - 1.0) - log_width) <= least:  # ln r <= r - 1: most rungs need no logarithm
        return least
    evidence: float = 0.5 * (worth * math.log(ratio) - log_width)
    return evidence
