"""DriftUCB's experts: Kalman filters that forget at different speeds and revert to the elder, the fit of all history.

They follow drift that is too slow to raise an alarm. The matrix of an expert's row is a covariance. All experts start
together, once the elder is worth something, and never start again; the slot `EXPERTS_LIVE` of `memo` says whether
they have started. An expert with a memory of M rounds keeps 1 - 1 / M of what it knows per round.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit, jit_inside
from driftbandit.kernels.driftucb.rows import THETA, variance_at
from driftbandit.kernels.driftucb.scales import ALL_COUNT, EXPERTS_LIVE, ROUNDS, SHRINK, SPREAD, TASTE
from driftbandit.kernels.vector_units.tiles import Drift

BELIEVES = 64
"""Rewards after which it no longer matters what was believed before the first."""

_EXPERT_SPREAD = 0.3  # prior variance of an expert's weights, in units of an average taste's


@jit_inside
def drift_of(keep: float, memo: Floats) -> Drift:
    """How an expert that keeps so much of what it knows drifts towards the elder's (shrunken) weights and doubt."""
    fade = keep * keep
    return keep, (1.0 - keep) * memo[SHRINK], fade, (1.0 - fade) * _EXPERT_SPREAD * memo[TASTE]


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
        for i in range(d):
            row[THETA + i] = theta[i]
            row[variance_at(d, i)] = _EXPERT_SPREAD * memo[TASTE] * units[i] * units[i]
    return True
