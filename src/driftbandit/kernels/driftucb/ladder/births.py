"""Births of young models: which rung of the ladder is renewed in which round, and how a young model begins.

Rung z of the ladder holds the model that was born at the latest round divisible by 2^z and not by 2^(z + 1); it lives
for 2^(z + 1) rounds, until the next model of its rung is born; the top rung takes all births that would be higher. So
there is one young model of every age up to a factor of two. On clicks the ladder starts at a rung whose models see
enough of them.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.ladder import backlog, evidence, young
from driftbandit.kernels.driftucb.rows import COUNT, THETA
from driftbandit.kernels.driftucb.scales import (
    FIRST_SQUARE,
    NOISE,
    PRIOR,
    RECENT_COUNT,
    ROUNDS,
    SHRINK,
    are_clicks,
    click_rate,
)

RUNGS = 10
"""Models of the ladder. A young model lives for at most 2^(RUNGS - 1) rounds, on clicks for longer; where rewards are
not clicks, older models were found to add nothing."""

_TELLING = 20.0  # a birth needs a new taste to amount, over half the model's life, to this many times the noise
_LEAST_RIDGE = 1e-6  # ridge of a young model, in units of the first |x|^2
_MOST_NU = 8.0  # most rewards' worth of noise that a young model takes over
_CLICK_MOST_NU = 50.0  # most rewards' worth of noise for clicks, whose errors cannot be wild


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
    rung[evidence.NU] = nu
    rung[evidence.NOISE_SUM] = nu * noise


@jit
def clear(rungs: Floats) -> None:
    """Empty all rungs."""
    rungs[:] = 0.0
    rungs[:, COUNT] = -1.0


@jit
def renew(
    memo: Floats, rungs: Floats, theta: Floats, units: Floats, rows: Floats, at: int, age: float, delta: float
) -> None:
    """Replace the rung whose turn it is by a new model around `theta`, if the model could tell a shift from noise.

    The backlog begins at the place `at` of `rows`; `age` and `delta` are as in `evidence.threshold`.
    """
    clicks = are_clicks(memo)
    lowest = lowest_rung(memo) if clicks else 0
    turn = rung_of(int(memo[ROUNDS]), lowest + RUNGS)
    if turn < lowest:
        return
    turn %= RUNGS  # of the rungs above the lowest, each has a row of its own
    rung = rungs[turn]
    if not clicks and 2.0**turn * memo[PRIOR] * memo[FIRST_SQUARE] < _TELLING * memo[NOISE]:
        if rung[COUNT] >= 0.0:
            clear(rungs[turn : turn + 1])
        return
    ridge = max(memo[NOISE] / memo[PRIOR], _LEAST_RIDGE * memo[FIRST_SQUARE])
    nu = min(max(memo[RECENT_COUNT], 0.5), _CLICK_MOST_NU if clicks else _MOST_NU)
    give_birth(rung, theta, units, memo[SHRINK], ridge, nu, memo[NOISE])
    rung[evidence.LATE] = rows[at + backlog.WAITING]
    slack = evidence.threshold(memo, age, delta)  # of the log-evidence of clicks, which is 0 now
    if not clicks:
        slack = evidence.slack(rung, 0, rows[at + backlog.LOG_ALLOWANCE], slack)
    backlog.allow(rows, at, slack)


@jit
def lowest_rung(memo: Floats) -> int:
    """The lowest rung whose models live long enough on clicks: 2^rung rounds bring `CLICK_TELLING` rare outcomes."""
    rung: int = math.ceil(np.log2(evidence.CLICK_TELLING / click_rate(memo)))  # Numba 0.59 has no math.log2
    return max(rung, 0)
