"""What all scopes have in common: weights of scope u ~ N(g, tau^2 I), reward = x'w_u + N(0, sigma^2).

The unknown ratio lam = sigma^2 / tau^2 is one of a few guesses, a factor of 4 apart, up to infinity, where all scopes
are alike. For each guess the rest is exact. With S = sum of x x' and b = sum of reward * x over the earlier rewards of
this scope, M = (lam I + S)^-1 and v = lam M x, the next reward of the scope has

    mean b'M x + v'g,    variance sigma^2 (1 + x'M x + v'P v),    if g ~ N(g, sigma^2 P).

So every reward is one observation of g with features v. These shrink as the scope's own rewards take over: however many
rewards a scope gives, it adds at most lam I to what is known of g. Guesses are weighed by how well they predicted. That
arms were chosen in view of earlier rewards does no harm, since every reward is predicted from all that came before.

A guess is a row as in `kernels.ridge`, ``[count, g (d), lower triangle of P]``, and behind it ``[evidence, squares,
freedom]``: log-likelihood of the rewards, their sum of squared standardised errors, and how many errors that sum is
worth. The sums of a scope are ``[b (d), lower triangle of S]``.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import finite, jit
from driftbandit.kernels.packed import add_outer, factor, invert, product, solve

# Ratios lam, in units of |x|^2 of the first reward's features; the last stands for infinity.
_FINITE = np.array([4.0**power for power in range(-5, 7)])
GUESSES = len(_FINITE) + 1

# Logarithm of a ratio that is as good as infinite.
_ALIKE = math.log(4.0**8)

# Slots behind a guess's ridge row, counted from its end.
EVIDENCE, SQUARES, FREEDOM = range(-3, 0)

# Variance of g before any reward, in units of sigma^2 / |x|^2: as good as no prior.
_VAGUE = 1e4

# Rewards after which the noise and the evidence of a guess are mostly forgotten.
_MEMORY = 20_000.0


def guess_size(dim: int) -> int:
    """Length of a guess's row."""
    return ridge.row_size(dim) + 3


def sums_size(dim: int) -> int:
    """Length of a scope's sums."""
    return dim + dim * (dim + 1) // 2


@jit
def start(bank: Floats, square: float, dim: int) -> None:
    """Begin with vague guesses, for features of this |x|^2."""
    bank[:] = 0.0
    at = ridge.THETA + dim
    for i in range(dim):
        bank[:, at + i] = _VAGUE / square
        at += i + 1


@jit
def learn(bank: Floats, sums: Floats, square: float, x: Floats, reward: float) -> bool:
    """Absorb a reward of the scope with these sums, also into the sums; False, and no change, if not usable."""
    d = len(x)
    size = 0.0
    for i in range(d):
        size += x[i] * x[i]
    if not size <= ridge.LARGEST_SQUARE * square or not finite(reward):
        return False
    informed = True
    losses = np.zeros(len(bank))
    factored = np.empty(len(sums) - d)
    v, z = np.empty(d), np.empty(d)
    for k in range(len(bank)):
        own, fit = 0.0, 0.0
        v[:] = x
        if k < len(_FINITE):
            lam = _FINITE[k] * square
            factor(sums[d:], lam, d, factored)
            solve(factored, v)
            for i in range(d):
                own += v[i] * x[i]
                fit += v[i] * sums[i]
            for i in range(d):
                v[i] *= lam
        row = bank[k]
        mean, shared, length = ridge.multiply(row, v, z)
        error = reward - fit - mean
        variance = 1.0 + own + max(shared, 0.0)
        if row[FREEDOM] < 1.0 or not row[SQUARES] > 0.0:
            informed = False
        else:
            ratio = error * error / (variance * row[SQUARES])
            spread = variance * row[SQUARES] / row[FREEDOM]
            losses[k] = 0.5 * math.log(spread) + 0.5 * (row[FREEDOM] + 1.0) * math.log(1.0 + ratio)
        # Later errors count for more, because they come from better fits.
        fade = 1.0 - 1.0 / min(row[ridge.COUNT] + 2.0, _MEMORY)
        row[SQUARES] = fade * row[SQUARES] + error * error / variance
        row[FREEDOM] = fade * row[FREEDOM] + (1.0 + own) / variance
        ridge.absorb(row, z, error, variance)
        _fade(row, min(length / ((1.0 + own) * square), 1.0) / _MEMORY, _VAGUE / square, d)
    if informed:
        for k in range(len(bank)):
            bank[k, EVIDENCE] -= losses[k]
        best = bank[:, EVIDENCE].max()
        for k in range(len(bank)):
            bank[k, EVIDENCE] = (bank[k, EVIDENCE] - best) * (1.0 - 1.0 / _MEMORY)
    for i in range(d):
        sums[i] += reward * x[i]
    add_outer(sums[d:], x)
    return True


@jit
def _fade(row: Floats, share: float, most: float, d: int) -> None:
    """Forget this share of what is known of g: P -> D P D. A weight whose variance is above `most` keeps it."""
    start = ridge.THETA + d
    grow = np.ones(d)
    at = start
    for i in range(d):
        if row[at + i] < most:
            grow[i] = math.sqrt(1.0 + share)
        at += i + 1
    at = start
    for i in range(d):
        for j in range(i + 1):
            row[at + j] *= grow[i] * grow[j]
        at += i + 1


@jit
def belief(bank: Floats, square: float, taste: float, mean: Floats, spread: Floats) -> float:
    """Write mean and covariance (packed) of a new scope's weights, averaged over the guesses by their likelihood.

    Of the ratio lam the logarithm is averaged, so that an unlikely guess of a huge tau^2 does not decide. Of g it is
    also believed that its weights are N(0, taste), with `taste` the squared reward per squared feature: what is
    unknown is not larger than what is known. Returns the variance of the noise; 0 if it is not known yet.
    """
    d = len(mean)
    fitted = np.zeros(d)
    common = np.zeros(len(spread))
    total, noise, logs = 0.0, 0.0, 0.0
    for k in range(len(bank)):
        row = bank[k]
        if not row[FREEDOM] > 0.0:
            return 0.0
        share = math.exp(row[EVIDENCE])
        variance = row[SQUARES] / row[FREEDOM]
        total += share
        noise += share * variance
        logs += share * (math.log(_FINITE[k]) if k < len(_FINITE) else _ALIKE)
        for i in range(d):
            fitted[i] += share * row[ridge.THETA + i]
        for i in range(len(spread)):
            common[i] += share * variance * row[ridge.THETA + d + i]
    precision = np.empty(len(spread))
    for i in range(len(spread)):
        common[i] /= total
    if not noise > 0.0 or not taste > 0.0 or not invert(common, d, precision):
        return 0.0
    weighted = np.empty(d)
    product(precision, fitted, weighted)
    at = 0
    for i in range(d):
        precision[at + i] += 1.0 / taste
        weighted[i] /= total
        at += i + 1
    if not invert(precision, d, spread):
        return 0.0
    product(spread, weighted, mean)
    noise /= total
    at = 0
    for i in range(d):
        spread[at + i] += noise / (math.exp(logs / total) * square)
        at += i + 1
    return noise
