"""DriftUCB's experts: Kalman filters that forget at different speeds and revert to the elder, the fit of all history.

They follow drift that is too slow to raise an alarm. An expert is a `ridge` row ``[n, theta, covariance]``. All experts
start together, once the elder is worth something, and never start again; the slot `EXPERTS_LIVE` of `memo` says whether
they have started. An expert with a memory of M rounds keeps 1 - 1 / M of what it knows per round.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit, jit_inside
from driftbandit.kernels.driftucb.scales import ALL_COUNT, EXPERTS_LIVE, NOISE, ROUNDS, SHRINK, SPREAD, TASTE
from driftbandit.kernels.ridge import THETA
from driftbandit.kernels.rows import absorb_drifted, multiply_drifted

BELIEVES = 64
"""Rewards after which it no longer matters what was believed before the first."""

_CANCELLED = 1e-12  # least noise as a share of an arm's variance: with less, what is left of that is only rounding
_EXPERT_SPREAD = 0.3  # prior variance of an expert's weights, in units of an average taste's


@jit_inside
def learn_expert(
    rows: Floats,
    at: int,
    elder: int,
    units: Floats,
    x: Floats,
    lifted: Floats,
    reward: float,
    z: Floats,
    keep: float,
    memo: Floats,
) -> tuple[float, float]:
    """Let an expert drift towards the elder's (shrunken) weights and into doubt, then learn the reward.

    `at` and `elder` are the places in `rows` at which their rows begin, `lifted` is units^2 * x. Drift turns a
    covariance P into keep^2 P + lift * diag(units^2). Drift and learning are done in one pass. x, lifted and z are
    `padded`. Returns the error and its variance.
    """
    d = len(units)
    fade = keep * keep
    lift = (1.0 - fade) * _EXPERT_SPREAD * memo[TASTE]
    drift = keep, (1.0 - keep) * memo[SHRINK], fade, lift
    mean, square = multiply_drifted(rows, at, elder, d, drift, x, lifted, z)
    error, variance = reward - mean, max(memo[NOISE], _CANCELLED * square) + max(square, 0.0)
    absorb_drifted(rows, at, elder, d, drift, z, error, variance)
    place = at + THETA + d
    for i in range(d):
        rows[place + i] += lift * units[i] * units[i]
        place += i + 1
    return error, variance


@jit
def start_experts(memo: Floats, experts: Floats, theta: Floats, units: Floats) -> bool:
    """Give every expert the elder's weights and full doubt, if it is time; returns whether it was time.

    It is time once, when there is one reward's worth of noise for each feature; with a belief, after `BELIEVES`
    rewards.
    """
    d = len(theta)
    if memo[EXPERTS_LIVE] > 0.0 or memo[ALL_COUNT] < d or len(experts) == 0:
        return False
    if memo[SPREAD] > 0.0 and memo[ROUNDS] < BELIEVES:
        return False
    memo[EXPERTS_LIVE] = 1.0
    for m in range(len(experts)):
        row = experts[m]
        row[:] = 0.0
        at = THETA + d
        for i in range(d):
            row[THETA + i] = theta[i]
            row[at + i] = _EXPERT_SPREAD * memo[TASTE] * units[i] * units[i]
            at += i + 1
    return True
