"""Auditors of DenBand: how wrong a member is about an arm, from its residuals over the latest rewards.

A member is a ridge row ``[n, theta, A^-1]`` (see `kernels.ridge`), and its auditor is a ridge row over a window, with G
instead of A; the bias, beta, is the regression of the member's residuals in the window on the features. A ledger row
holds ``[id, spawned_at, age, updates, led_at]``. Rules hold ``[epsilon, allowance]``: how far noise can move one
reward, and how wrong a member may be beyond its widths.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats, Ints
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels import windowed
from driftbandit.kernels.compile import jit

ID, SPAWNED_AT, AGE, UPDATES, LED_AT = range(5)
COLUMNS = 5

EPSILON, ALLOWANCE = range(2)


@jit
def verdict(
    test: Floats, audit: Floats, rules: Floats, row: Floats, auditor: Floats, bias: Floats, x: Floats
) -> tuple[float, float, float]:
    """How wrong a member seems to be about an arm, the width of that estimate, and how wrong it is allowed to seem."""
    wrong = 0.0
    for i in range(len(x)):
        wrong += bias[i] * x[i]
    _, doubt = kernel.predict(audit, auditor, x)
    _, width = kernel.predict(test, row, x)
    return abs(wrong), doubt, doubt + width + rules[ALLOWANCE]


@jit
def trusted(
    test: Floats,
    audit: Floats,
    rules: Floats,
    bank: Floats,
    auditors: Floats,
    biases: Floats,
    count: int,
    x: Floats,
) -> int:
    """Among members right about an arm, the one that may be least wrong, ties to the oldest; -1 if none is right."""
    best, lowest = -1, math.inf
    for m in range(count):
        badness, doubt, bound = verdict(test, audit, rules, bank[m], auditors[m], biases[m], x)
        if badness <= bound and badness - doubt < lowest - TIE:
            best, lowest = m, badness - doubt
    return best


@jit
def best_arm(
    act: Floats,
    test: Floats,
    audit: Floats,
    rules: Floats,
    bank: Floats,
    auditors: Floats,
    biases: Floats,
    count: int,
    features: Floats,
) -> int:
    """Index of the arm with the highest score; -1 if features are not usable."""
    return kernel.first_best(arm_scores(act, test, audit, rules, bank, auditors, biases, count, features))


@jit
def arm_scores(
    act: Floats,
    test: Floats,
    audit: Floats,
    rules: Floats,
    bank: Floats,
    auditors: Floats,
    biases: Floats,
    count: int,
    features: Floats,
) -> Floats:
    """Score of every arm, given by the member trusted about the arm; NaN if features are not usable."""
    scores = np.full(len(features), math.nan)
    if not kernel.usable(features, act[kernel.RIDGE]):
        return scores
    for k in range(len(features)):
        x = features[k]
        m = trusted(test, audit, rules, bank, auditors, biases, count, x)
        if m >= 0:
            mean, width = kernel.predict(act, bank[m], x)
            scores[k] = mean + width
        else:  # score of a fresh member: theta = 0, A = ridge * I
            square = 0.0
            for i in range(len(x)):
                square += x[i] * x[i]
            scores[k] = kernel.radius(act, 0.0, len(x)) * math.sqrt(square / act[kernel.RIDGE])
    return scores


@jit
def show(
    test: Floats,
    audit: Floats,
    rules: Floats,
    bank: Floats,
    auditors: Floats,
    biases: Floats,
    ledger: Ints,
    recent: Floats,
    count: int,
    before: int,
    max_age: float,
    x: Floats,
    reward: float,
) -> None:
    """Let members that are right about an arm learn its reward, which follows `before` others; all auditors see it."""
    d, window = len(x), len(recent)
    slot = before % window
    oldest = recent[slot].copy()
    recent[slot, :d] = x
    recent[slot, d] = reward
    for m in range(count):
        badness, _, bound = verdict(test, audit, rules, bank[m], auditors[m], biases[m], x)
        mean, width = kernel.predict(test, bank[m], x)
        if badness <= bound and ledger[m, AGE] < max_age and abs(mean - reward) <= width + rules[EPSILON]:
            kernel.update(test, bank[m], x, reward)
            ledger[m, UPDATES] += 1
        ledger[m, AGE] += 1
        kernel.update(test, auditors[m], x, reward)
        # The window moves on by two rank-one steps; now and then it is recomputed, so that rounding does not pile up.
        sound = slot < window - 1
        if sound and ledger[m, AGE] > window:
            sound = windowed.remove(test, auditors[m], oldest[:d], oldest[d])
        if not sound:
            kernel.reset(test, auditors[m], d)
            for back in range(min(ledger[m, AGE], window)):
                past = recent[(slot - back) % window]
                kernel.update(test, auditors[m], past[:d], past[d])
        _compare(test, auditors[m], bank[m], biases[m])


@jit
def _compare(test: Floats, auditor: Floats, row: Floats, bias: Floats) -> None:
    """Regress the window's residuals, under the member's present theta, on the features.

    With G = ridge * I + sum x x' and b = sum r x that is beta = G^-1 (b - sum x x'theta), and G^-1 b is the window's
    own estimate: beta = G^-1 b - theta + ridge * G^-1 theta, for which the window need not be read again.
    """
    d = len(bias)
    theta = row[kernel.THETA : kernel.THETA + d]
    kernel.multiply(auditor, theta, bias)
    for i in range(d):
        bias[i] = auditor[kernel.THETA + i] - theta[i] + test[kernel.RIDGE] * bias[i]
