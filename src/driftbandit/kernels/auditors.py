"""Auditors of DenBand: how wrong a member is about an arm, from its residuals over the latest rewards.

A member is a ridge row ``[n, theta, A^-1]`` (see `kernels.ridge`), its auditor another over the window, ``[n, beta,
G^-1]``, and its moment the window's sum of reward * x. A ledger row holds ``[id, spawned_at, age, updates, led_at]``.
Rules hold ``[epsilon, allowance]``: what noise explains of one reward, and how wrong a member may be beyond its widths.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import TIE, Floats, Ints
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit

ID, SPAWNED_AT, AGE, UPDATES, LED_AT = range(5)
COLUMNS = 5

_STEEP = 1e-6  # a rank-one step that takes a reward out of G^-1 and divides by less costs too many digits


@jit
def verdict(
    test: Floats, audit: Floats, rules: Floats, row: Floats, auditor: Floats, x: Floats
) -> tuple[float, float, float]:
    """How wrong a member seems to be about an arm, the width of that, and how wrong it may seem."""
    bias, doubt = kernel.predict(audit, auditor, x)
    _, width = kernel.predict(test, row, x)
    return abs(bias), doubt, doubt + width + rules[1]


@jit
def trusted(test: Floats, audit: Floats, rules: Floats, bank: Floats, auditors: Floats, count: int, x: Floats) -> int:
    """The member right about an arm that may be least wrong, the oldest on a tie; -1 if none is right."""
    best, lowest = -1, math.inf
    for m in range(count):
        badness, doubt, bound = verdict(test, audit, rules, bank[m], auditors[m], x)
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
    count: int,
    features: Floats,
) -> int:
    """Index of the arm with the highest score, each by the member trusted about it; -1 where not usable."""
    if not kernel.usable(features, act[0]):
        return -1
    scores = np.empty(len(features))
    for k in range(len(features)):
        x = features[k]
        m = trusted(test, audit, rules, bank, auditors, count, x)
        if m >= 0:
            mean, width = kernel.predict(act, bank[m], x)
            scores[k] = mean + width
        else:  # a fresh member's: theta = 0, A = ridge * I
            square = 0.0
            for i in range(len(x)):
                square += x[i] * x[i]
            scores[k] = kernel.radius(act, 0.0, len(x)) * math.sqrt(square / act[0])
    return kernel.first_best(scores)


@jit
def show(
    test: Floats,
    audit: Floats,
    rules: Floats,
    bank: Floats,
    auditors: Floats,
    moments: Floats,
    ledger: Ints,
    recent: Floats,
    count: int,
    before: int,
    max_age: float,
    x: Floats,
    reward: float,
) -> None:
    """Let the members that are right about an arm learn its reward, and all auditors see it, after `before` others."""
    d, window = len(x), len(recent)
    slot = before % window
    oldest = recent[slot].copy()
    recent[slot, :d] = x
    recent[slot, d] = reward
    for m in range(count):
        badness, _, bound = verdict(test, audit, rules, bank[m], auditors[m], x)
        mean, width = kernel.predict(test, bank[m], x)
        if badness <= bound and ledger[m, AGE] < max_age and abs(mean - reward) <= width + rules[0]:
            kernel.update(test, bank[m], x, reward)
            ledger[m, UPDATES] += 1
        # Now and then from scratch, so that rounding does not pile up.
        apace = slot < window - 1
        if apace and ledger[m, AGE] >= window:
            apace = _leave(test, auditors[m], moments[m], oldest)
        ledger[m, AGE] += 1
        if apace:
            _enter(test, auditors[m], moments[m], recent[slot])
        else:
            kernel.reset(test, auditors[m], d)
            moments[m] = 0.0
            for back in range(min(ledger[m, AGE], window)):
                _enter(test, auditors[m], moments[m], recent[(slot - back) % window])
        _regress(test, auditors[m], moments[m], bank[m])


@jit
def _enter(test: Floats, auditor: Floats, moment: Floats, example: Floats) -> None:
    """Add a reward to an auditor's window."""
    d = len(moment)
    z, _, square = kernel.project(test, auditor, example[:d])
    for i in range(d):
        moment[i] += example[d] * example[i]
        z[i] /= math.sqrt(1.0 + square)
    kernel.subtract_outer(auditor, z)
    auditor[0] += 1.0


@jit
def _leave(test: Floats, auditor: Floats, moment: Floats, example: Floats) -> bool:
    """Take a reward out of an auditor's window; False, and nothing done, where that would ruin G^-1."""
    d = len(moment)
    z, _, square = kernel.project(test, auditor, example[:d])
    if not 1.0 - square > _STEEP:
        return False
    at = 1 + d
    for i in range(d):
        moment[i] -= example[d] * example[i]
        for j in range(i + 1):
            auditor[at + j] += z[i] * z[j] / (1.0 - square)
        at += i + 1
    auditor[0] -= 1.0
    return True


@jit
def _regress(test: Floats, auditor: Floats, moment: Floats, row: Floats) -> None:
    """Regress the window's residuals under the member's theta as it is now on the features.

    With G = ridge * I + sum x x' that is beta = G^-1 sum x (r - x'theta) = G^-1 (sum r x + ridge * theta) - theta, for
    which the window need not be read again.
    """
    d = len(moment)
    target = np.empty(d)
    for i in range(d):
        target[i] = moment[i] + test[0] * row[1 + i]
    z, _, _ = kernel.project(test, auditor, target)
    for i in range(d):
        auditor[1 + i] = z[i] - row[1 + i]
