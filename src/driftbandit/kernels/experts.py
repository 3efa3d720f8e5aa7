"""DriftUCB's experts: Kalman filters that forget at different speeds, and the weights of all models that act.

An expert is a `ridge` row ``[n, theta, covariance]``.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.evidence import log_likelihood
from driftbandit.kernels.ridge import multiply
from driftbandit.kernels.scales import NOISE, SHRINK, TASTE

_EXPERT_SPREAD = 0.3  # prior variance of an expert's weights, in units of an average taste's


@jit
def learn_expert(
    row: Floats, elder: Floats, x: Floats, reward: float, z: Floats, keep: float, memo: Floats
) -> tuple[float, float]:
    """Let an expert drift towards the elder's (shrunken) weights and into doubt, then learn the reward.

    Drift makes of a covariance P the covariance keep^2 P + lift. Both are done in one pass. Returns the error and its
    variance.
    """
    d = len(x)
    fade = keep * keep
    lift = (1.0 - fade) * _EXPERT_SPREAD * memo[TASTE]
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
def weigh(share: float, weights: Floats, errors: Floats, variances: Floats, nu: float) -> float:
    """Weigh models by the likelihood of the reward, then share a little weight out again.

    Returns the log-likelihood under the mixture.
    """
    count = len(weights)
    logs = np.empty(count)
    top = -math.inf
    for m in range(count):
        logs[m] = log_likelihood(errors[m], variances[m], math.log(variances[m]), nu)
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
def start_experts(memo: Floats, weights: Floats, experts: Floats, theta: Floats) -> None:
    """Give every expert these weights, full doubt, and an even share of half the weight of all models."""
    d = len(theta)
    weights[0] = 0.5
    for m in range(1, len(weights)):
        weights[m] = 0.5 / (len(weights) - 1)
        row = experts[m - 1]
        row[:] = 0.0
        at = 1 + d
        for i in range(d):
            row[1 + i] = theta[i]
            row[at + i] = _EXPERT_SPREAD * memo[TASTE]
            at += i + 1
