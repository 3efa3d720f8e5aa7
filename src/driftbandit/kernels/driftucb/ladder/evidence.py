"""A ladder of young models that compete with an incumbent: does one explain the rewards since its birth better?

Which model stands on which rung is said in `births`. The matrix of a rung's row is kept as `young` says, its head has
the sums named below; n = -1 marks an empty rung.

All errors are in units of the noise level, e^2 / (1 + x' A^-1 x) / sigma^2, and capped, so that one wild reward cannot
cause an alarm. With the noise variance integrated out under a prior worth `nu` rewards, the log-evidence of a rung
against the incumbent over the n rewards both have seen is

    (nu + n) / 2 * ln((nu + incumbent's errors) / (nu + own errors)) - sum of ln((1 + own q) / (1 + incumbent's q)) / 2.

A rung also keeps its lead: the `log_likelihood` of the rewards under its model minus that under the models that act.
When the strongest log-evidence passes the `threshold`, there is an alarm, whose numbers `memo` keeps in the slots
`ALARM_EVIDENCE`, `ALARM_THRESHOLD` and `ALARM_AGE`.

Rewards wait in a `backlog` until they could matter: the log-evidence of a rung that has not learned the latest rewards
is at most what it is with 0 for its own errors and its own q, and while that is below the threshold, there is no alarm.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import SCRATCH, borrow, flat, hold, jit, jit_inside, lines_of, scratch
from driftbandit.kernels.driftucb.ahead import fetch_row
from driftbandit.kernels.driftucb.ladder import backlog, blocks, young
from driftbandit.kernels.driftucb.ladder.blocks import LANES
from driftbandit.kernels.driftucb.mixture import click_log_chance, least_chance
from driftbandit.kernels.driftucb.rows import COUNT, THETA, learn
from driftbandit.kernels.driftucb.scales import (
    ALL_COUNT,
    FIRST_SQUARE,
    HIT_VALUE,
    HITS,
    NOISE,
    PRIOR,
    REWARD_SQUARES,
    ROUNDS,
    are_clicks,
    click_rate,
)
from driftbandit.kernels.vector_units.vectors import assign, clear, combine, fetch, padded

# Sums since a rung's birth, in the head of its row, behind the scale:
(
    THEIRS,  # the incumbent's capped errors
    OWN,  # its own capped errors
    LOG_WIDTH,  # ln((1 + own q) / (1 + incumbent's q))
    LARGEST_GAIN,  # not a sum: the most by which one of its errors was smaller than the incumbent's
    NU,  # not a sum: how many rewards' worth of noise it was born with
    NOISE_SUM,  # its own errors times the noise of their time, including the noise it was born with
    LEAD,  # log-likelihood of the rewards, minus that under the models that act
    LATE,  # not a sum: how many of the rewards that wait came before its birth
) = range(young.SCALE + 1, young.SCALE + 9)

_WITHOUT_BEST = 3.0  # log-evidence that must remain when the single most telling reward is left out
_ERROR_CAP = 200.0  # cap of a squared error, in units of the noise, if a new taste causes less
_CLICK_BIRTHS = 100.0  # births on clicks that count as having gone before
CLICK_TELLING = 4.0  # rare outcomes to be expected over half a model's life, for a birth on clicks
_MATERIAL = 1e-4  # least mean squared error of an incumbent that is wrong, in units of the rewards' mean square

_LEAST_RESERVE = 0.5  # part of a case that is reserved for the incumbent's ln(1 + q) while rewards wait,
_RESERVE = 1.5 * LANES  # at least, and in units of the latest one: enough for a block, and half as much again
_LARGEST_EXPONENT = 600.0  # exp of more than 709 is infinite
_OVERFLOW = 1e300  # a larger product of numbers above 1 may have overflowed

# Lines of a table with a column per reward that waits: numbers of its record, and sums from it to the last one.
_LINE_THEIRS, _LINE_NOISE, _LINE_CAP, _LINE_FREEDOM, _LINE_THEIR_SUM, _LINE_LOG_WIDTH_SUM, _LINE_ACTING_SUM = range(7)
_LINES = 7


@jit
def show(
    rows: Floats,
    at: int,
    x: Floats,
    surplus: float,
    theirs: float,
    q: float,
    noise: float,
    acting: float,
    nu: float,
    cap: float,
) -> bool:
    """Let a reward wait in the backlog that begins at `at`; whether it could raise an alarm.

    Parameters
    ----------
    theirs, q :
        The incumbent's squared error over 1 + q, in units of `noise`, and its q = x' A^-1 x.
    acting, nu :
        Log-likelihood of the reward under the models that act, and its degrees of freedom.
    cap :
        Cap of one squared error, in units of `noise`.
    """
    theirs, their_log_width = min(theirs, cap), math.log(1.0 + q)
    place = backlog.add(rows, at, x)
    rows[place + backlog.TARGET] = surplus
    rows[place + backlog.THEIRS] = theirs
    rows[place + backlog.THEIR_LOG_WIDTH] = their_log_width
    rows[place + backlog.ACTING] = acting + 0.5 * math.log(noise)
    rows[place + backlog.NOISE] = noise
    rows[place + backlog.CAP] = cap
    rows[place + backlog.FREEDOM] = nu
    return backlog.spend(rows, at, theirs, their_log_width)


@jit
def show_click(
    rows: Floats, at: int, memo: Floats, x: Floats, reward: float, base: float, theirs: float, acting: float
) -> bool:
    """As `show`, for a click: evidence is the log-likelihood under a rung minus that under the incumbent, `theirs`.

    `base` is what the anchor expects; a rung's model explains what is beyond it.
    """
    place = backlog.add(rows, at, x)
    rows[place + backlog.TARGET] = reward - base
    rows[place + backlog.THEIRS] = theirs
    rows[place + backlog.THEIR_LOG_WIDTH] = 0.0
    rows[place + backlog.ACTING] = acting
    rows[place + backlog.BASE] = base
    rows[place + backlog.LEAST] = least_chance(memo)
    rows[place + backlog.HIT] = 1.0 if reward != 0.0 else 0.0
    return backlog.spend(rows, at, -theirs, 0.0)


@jit
def is_time(memo: Floats, waiting: float) -> bool:
    """Whether rewards that need not be learned now are: a block is full, or the older rungs are born next."""
    return waiting >= LANES or (int(memo[ROUNDS]) + 1) % LANES == 0


@jit_inside
def fetch_heads(rows: Floats, at: int, width: int, rungs: int) -> None:
    """Fetch what says which rungs are empty; the ladder begins at the place `at`."""
    for k in range(rungs):
        fetch(rows, at + k * width, 1)


@jit_inside
def _living(ladder: Floats, row: int, width: int) -> int:
    """Where the first rung, from the place `row` on, begins that is not empty; behind the ladder if all are."""
    while row < len(ladder) and ladder[row + COUNT] < 0.0:
        row += width
    return row


@jit_inside
def _fetch_half(ladder: Floats, row: int, width: int, half: int) -> None:
    """Fetch the first or the second half of the row that begins at the place `row`, if there is one."""
    if row < len(ladder):
        fetch_row(ladder, half * (width // 2), row, width // 2)


@jit
def settle(memo: Floats, rungs: Floats, rows: Floats, at: int, units: Floats, limit: float) -> tuple[int, float]:
    """Let all rungs learn the rewards that wait in the backlog that begins at the place `at` of `rows`.

    Returns the rung with the strongest evidence, -1 if there is none, and its log-evidence. Then nothing waits, and the
    backlog's allowance is what raises no log-evidence above `limit`.
    """
    d, clicks, count = len(units), are_clicks(memo), int(rows[at + backlog.WAITING])
    length, square, table = padded(d), LANES * LANES, padded(d) * LANES
    needed = 4 * table + (3 + _LINES) * LANES + 2 * (square + length)
    owned = np.empty(needed) if needed > SCRATCH else scratch()
    clear(owned, 0, 4 * table)  # the last lines of tables, which no feature fills, stay 0
    tables = lines_of(owned, 0, 4, table)
    arms, lifted = tables[0], tables[1]
    of_rewards, rest = lines_of(owned, 4 * table, 3 + _LINES, LANES), borrow(owned)[4 * table + (3 + _LINES) * LANES :]
    errors, widths, means, told = of_rewards[0], of_rewards[1], of_rewards[2], of_rewards[3:]
    step, z = rest[2 * square : 2 * square + length], rest[2 * square + length : needed]
    room = tables[2], tables[3], rest[:square], rest[square : 2 * square], step, z
    backlog.side_by_side(rows, at, d, arms)
    if count > 0 and not clicks:
        _gather(rows, at, d, count, told)
    for i in range(d):
        assign(lifted, i * LANES, units[i] * units[i], arms, i * LANES, LANES)
    last = rows[backlog.record(at, count - 1, d) + backlog.THEIR_LOG_WIDTH] if count > 0 else 0.0
    reserve = _LEAST_RESERVE + _RESERVE * last
    backlog.empty(rows, at, reserve)
    ladder, width = flat(rungs), rungs.shape[1]
    best, strongest, following = -1, _WITHOUT_BEST, _living(ladder, 0, width)
    while following < len(ladder):
        row, following = following, _living(ladder, following + width, width)
        _fetch_half(ladder, following, width, 0)
        late = int(ladder[row + LATE])
        ladder[row + LATE] = 0.0
        if late < count:
            _learn(ladder, row, units, rows, at, late, count, arms, lifted, room, means, errors, widths)
            _fetch_half(ladder, following, width, 1)
            if clicks:
                for p in range(late, count):
                    place, error = backlog.record(at, p, d), errors[p] * math.sqrt(widths[p])
                    _sum_up_click(ladder, row, rows, place, error, memo[HIT_VALUE])
            else:
                own = means  # which are known
                _sum_up(ladder, row, told, late, count, errors, widths, own)
        without = 0.0
        if clicks:
            evidence = ladder[row + THEIRS] - ladder[row + OWN]
            without = evidence - ladder[row + LARGEST_GAIN]
            backlog.allow(rows, at, limit - evidence)
        else:
            evidence = _log_evidence(ladder, row, 0.0, strongest)
            if evidence > strongest:
                without = _log_evidence(ladder, row, ladder[row + LARGEST_GAIN], _WITHOUT_BEST)
            backlog.allow(rows, at, slack(ladder, row, reserve, limit))
        if evidence > strongest and without > _WITHOUT_BEST:
            best, strongest = row // width, evidence
    backlog.wipe(rows, at, d, count)
    hold(owned)
    return best, strongest


@jit
def _learn(
    ladder: Floats,
    row: int,
    units: Floats,
    rows: Floats,
    at: int,
    late: int,
    count: int,
    arms: Floats,
    lifted: Floats,
    room: tuple[Floats, Floats, Floats, Floats, Floats, Floats],
    means: Floats,
    errors: Floats,
    widths: Floats,
) -> None:
    """Let the rung whose row begins at `row` learn rewards `late` to `count` - 1 of the backlog.

    `arms` is their table (`blocks`), `lifted` the same times units^2, and `room` is for what is found on the way. Fills
    in the rewards' means, their widths 1 + q, and their errors over the roots of these.
    """
    d = len(units)
    products, vectors, gram, inverse, step, z = room
    if late == count - 1 and ladder[row + young.SCALE] == 0.0:  # then a block would be mostly empty
        place, x = backlog.record(at, late, d), step
        assign(x, 0, 1.0, rows, place - len(x), len(x))
        error, width = learn(ladder, row, d, x, rows[place + backlog.TARGET], z)
        errors[:], widths[:] = 0.0, 1.0
        errors[late], widths[late] = error / math.sqrt(width), width
        return
    young.multiply(ladder, row, arms, lifted, d, products)
    blocks.meet(arms, products, ladder, row + THETA, d, gram, means)
    for p in range(LANES):
        errors[p] = rows[backlog.record(at, p, d) + backlog.TARGET] - means[p] if p < count else 0.0
    blocks.factor(gram, errors, late, count, widths, inverse)
    blocks.whiten(products, inverse, errors, len(step), vectors, step)
    combine(ladder, row + THETA, 1.0, 1.0, step, 0, len(step))
    young.absorb(ladder, row, units, vectors, late, count)


@jit
def _gather(rows: Floats, at: int, d: int, count: int, told: Floats) -> None:
    """Write what the records say into the lines of `told`, one column per reward; the last columns change no sum."""
    for p in range(LANES):
        place = backlog.record(at, min(p, count - 1), d)
        told[_LINE_NOISE, p], told[_LINE_FREEDOM, p] = rows[place + backlog.NOISE], rows[place + backlog.FREEDOM]
        told[_LINE_CAP, p] = rows[place + backlog.CAP]
    their_sum, log_width, acting = 0.0, 0.0, 0.0
    for p in range(count - 1, -1, -1):
        place = backlog.record(at, p, d)
        told[_LINE_THEIRS, p] = rows[place + backlog.THEIRS]
        their_sum += told[_LINE_THEIRS, p]
        log_width += rows[place + backlog.THEIR_LOG_WIDTH]
        acting += rows[place + backlog.ACTING]
        told[_LINE_THEIR_SUM, p], told[_LINE_LOG_WIDTH_SUM, p], told[_LINE_ACTING_SUM, p] = their_sum, log_width, acting


@jit
def _sum_up(
    ladder: Floats, row: int, told: Floats, late: int, count: int, errors: Floats, widths: Floats, own: Floats
) -> None:
    """Add the rewards of a block to a rung's sums; errors are over the root of their widths 1 + q.

    Errors of rewards that it does not learn are 0, and their widths 1. Overwrites `own`.
    """
    own_sum, noise_sum, wide, tails = 0.0, 0.0, 1.0, 1.0  # two products, of which one logarithm is taken at the end
    nu, same = told[_LINE_FREEDOM, 0], True
    for p in range(LANES):
        square = errors[p] * errors[p] / told[_LINE_NOISE, p]
        own[p] = min(square, told[_LINE_CAP, p])
        own_sum += own[p]
        noise_sum += own[p] * told[_LINE_NOISE, p]
        wide *= float(widths[p])  # without the compiler, NumPy would warn of products that are infinite
        tails *= float(1.0 + square / nu)
        same = same and told[_LINE_FREEDOM, p] == nu
    gain = ladder[row + LARGEST_GAIN]
    for p in range(late, count):
        gain = max(gain, told[_LINE_THEIRS, p] - own[p])
    log_wide, log_tails = math.log(wide), (nu + 1.0) * math.log(tails)
    if not same or max(wide, tails) > _OVERFLOW:  # then each needs a logarithm of its own
        log_wide = log_tails = 0.0
        for p in range(late, count):
            nu, square = told[_LINE_FREEDOM, p], errors[p] * errors[p] / told[_LINE_NOISE, p]
            log_wide += math.log(widths[p])
            log_tails += (nu + 1.0) * math.log(1.0 + square / nu)
    ladder[row + THEIRS] += told[_LINE_THEIR_SUM, late]
    ladder[row + OWN] += own_sum
    ladder[row + NOISE_SUM] += noise_sum
    ladder[row + LOG_WIDTH] += log_wide - told[_LINE_LOG_WIDTH_SUM, late]
    ladder[row + LARGEST_GAIN] = gain
    ladder[row + LEAD] -= told[_LINE_ACTING_SUM, late] + 0.5 * (log_wide + log_tails)


@jit
def _sum_up_click(ladder: Floats, row: int, rows: Floats, place: int, error: float, hit_value: float) -> None:
    """Add a click, whose record's numbers begin at `place`, to a rung's sums; `error` is what came unexpected."""
    chance = (rows[place + backlog.BASE] + rows[place + backlog.TARGET] - error) / hit_value
    own = click_log_chance(chance, rows[place + backlog.LEAST], rows[place + backlog.HIT] > 0.0)
    theirs = rows[place + backlog.THEIRS]
    ladder[row + OWN] -= own
    ladder[row + THEIRS] -= theirs
    ladder[row + LARGEST_GAIN] = max(ladder[row + LARGEST_GAIN], own - theirs)
    ladder[row + LEAD] += own - rows[place + backlog.ACTING]


@jit
def slack(ladder: Floats, row: int, reserve: float, limit: float) -> float:
    """By how much the incumbent's errors may grow, during one more block, without log-evidence above `limit`."""
    nu, count = ladder[row + NU], ladder[row + COUNT]
    distance = 2.0 * limit + ladder[row + LOG_WIDTH] - reserve
    if distance <= 0.0:
        return -1.0
    ratio = math.exp(min(distance / (nu + count + LANES), _LARGEST_EXPONENT))
    slack: float = (nu + ladder[row + OWN]) * ratio - nu - ladder[row + THEIRS]
    return slack


@jit
def holds(memo: Floats, rung: Floats, d: int) -> bool:
    """Whether strong evidence makes an alarm: enough was seen, and the incumbent is wrong by more than rounding.

    Without noise, the bias of its ridge alone would be evidence.
    """
    wrong = rung[THEIRS] * memo[NOISE] / rung[COUNT]
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
        return math.log((age * min(1.0, click_rate(memo) / CLICK_TELLING) + _CLICK_BIRTHS) / delta)
    return math.log((age + 2.0) / delta)


@jit
def ready(memo: Floats, d: int) -> bool:
    """Whether enough was seen for an alarm: 2 d rewards' worth of noise and, with clicks, 2 d of the rarer outcome."""
    rarer = min(memo[HITS], memo[ROUNDS] - memo[HITS])
    ready: bool = memo[ALL_COUNT] >= 2.0 * d and (not are_clicks(memo) or rarer >= 2.0 * d)
    return ready


@jit
def noise_since(rung: Floats) -> tuple[float, float]:
    """Estimate of the noise variance from a rung's prior and its own errors, and how many rewards it is worth."""
    worth = rung[NU] + rung[COUNT]
    return rung[NOISE_SUM] / worth, worth


@jit
def lead(rung: Floats) -> float:
    """Log-likelihood ratio of a rung against the models that acted since its birth."""
    found: float = rung[LEAD]
    return found


@jit
def _log_evidence(ladder: Floats, row: int, left_out: float, least: float) -> float:
    """Log-evidence of the rung whose row begins at `row`, without errors worth `left_out`; `least` if that is more."""
    nu = ladder[row + NU]
    ratio = (nu + ladder[row + THEIRS] - left_out) / (nu + ladder[row + OWN])
    worth, log_width = nu + ladder[row + COUNT], ladder[row + LOG_WIDTH]
    if 0.5 * (worth * (ratio - 1.0) - log_width) <= least:  # ln r <= r - 1: most rungs need no logarithm
        return least
    evidence: float = 0.5 * (worth * math.log(ratio) - log_width)
    return evidence
