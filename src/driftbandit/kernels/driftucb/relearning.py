"""DriftUCB learns many rewards in one go: new ones, or its first ones again, in a better frame or from a belief."""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import copy_into, fill_in, jit, jit_into
from driftbandit.kernels.driftucb import frames
from driftbandit.kernels.driftucb.ahead import NOTHING
from driftbandit.kernels.driftucb.drift import RULES, anchor_of, begin, derive, learn, units_of
from driftbandit.kernels.driftucb.rows import matrix_at
from driftbandit.kernels.driftucb.scales import (
    ALL_COUNT,
    ALL_SUM,
    ANCHORED,
    COLUMNS,
    FIRST_SQUARE,
    NOISE,
    PRIOR,
    RECENT_COUNT,
    RECENT_SUM,
    SPREAD,
    STEADY_COUNT,
    STEADY_SUM,
    TASTE,
    TRIED,
)
from driftbandit.kernels.vector_units.tiles import entry_at
from driftbandit.kernels.vector_units.vectors import padded

_TOO_LARGE = 100.0  # a typical |x|^2 that differs from the unit by this factor shows that the unit was wrong
_TOLD = 10.0  # rewards' worth of noise that being told the noise counts for


@jit
def learn_many(rules: Floats, memo: Floats, bank: Floats, features: Floats, rewards: Floats) -> tuple[int, int]:
    """Learn rewards until one raises an alarm or is not usable; how many were shown, and what `learn` said last."""
    for t in range(len(rewards)):
        fired = learn(rules, memo, bank, features[t], rewards[t], NOTHING)
        if fired != 0:
            return t + 1, fired
    return len(rewards), 0


@jit
def note(
    experts: int, memo: Floats, bank: Floats, seen: Floats, x: Floats, reward: float, fired: int
) -> tuple[int, int]:
    """As `remember`, but if another frame is better, everything begins anew in it, with nothing learned.

    Also returns the line of `seen` from which on to `relearn`, -1 if there is nothing to do.
    """
    if not frames.can_tell(x):
        return fired, -1
    count, first = int(memo[TRIED]), -1
    copy_into(seen[count], x)
    seen[count, -1] = reward
    if fired < 0 or (frames.is_due(count + 1) and memo[SPREAD] == 0.0):
        first = _begin_in_best_frame(experts, memo, bank, seen[: count + 1])
        if fired < 0 and first < 0:
            seen[count] = 0.0
            return fired, -1
        fired = max(fired, 0)
    memo[TRIED] = count + 1
    return fired, first


@jit_into
def _begin_in_best_frame(experts: int, memo: Floats, bank: Floats, seen: Floats) -> int:
    """Find the best frame for all rewards so far, one in each line of `seen` behind the arm's features.

    If it differs from the present one, everything begins anew in it; returns the line of the first reward to learn, or
    -1 if nothing changed. A frame that was told stays, and so does the raw one as long as all features are as good as
    0.
    """
    if memo[SPREAD] > 0.0 or memo[FIRST_SQUARE] == 0.0:
        return -1
    d = seen.shape[1] - 1
    sound = frames.without_odd_first(seen)
    units, anchor = np.empty(d + 1), np.empty(d + 1)
    columns, typical = frames.best_frame(sound, units, anchor)
    unit = memo[FIRST_SQUARE]
    same = columns == int(memo[COLUMNS])
    for i in range(columns):
        same = same and units[i] == units_of(memo, experts)[i] and anchor[i] == anchor_of(memo, experts)[i]
    if same and typical < _TOO_LARGE * unit and unit < _TOO_LARGE * typical:
        return -1
    memo[COLUMNS] = float(columns)
    memo[ANCHORED] = 1.0 if np.any(anchor != 0.0) else 0.0
    copy_into(units_of(memo, experts), units[:columns])
    copy_into(anchor_of(memo, experts), anchor[:columns])
    begin(memo, bank, experts, typical)
    return len(seen) - len(sound)


@jit_into
def relearn(rules: Floats, memo: Floats, bank: Floats, seen: Floats) -> None:
    """Learn all lines of `seen` again."""
    for t in range(len(seen)):
        learn(rules, memo, bank, seen[t, :-1].copy(), seen[t, -1], NOTHING)


def remember(rules: Floats, memo: Floats, bank: Floats, seen: Floats, x: Floats, reward: float, fired: int) -> int:
    """Remember a reward for which `learn` returned `fired`; if it is time, try frames on all rewards so far.

    `seen` holds a line per reward remembered, the arm's features and then the reward, and room for one more. Returns
    what `learn` returns: a reward that was not usable may be in another frame.
    """
    fired, first = note(len(rules) - RULES, memo, bank, seen, x, reward, fired)
    if first >= 0:
        relearn(rules, memo, bank, seen[first : int(memo[TRIED])])
    return fired


remember_inside = jit_into(fill_in(remember, "remember_inside"))
"""`remember` for kernels. A policy calls the other, which needs no kernel that holds `learn` once more."""


@jit
def believe(experts: int, memo: Floats, bank: Floats, mean: Floats, spread: Floats, noise: float) -> None:
    """Begin anew, from weights ~ N(mean, spread) and rewards with variance `noise`."""
    d = len(mean)
    typical = np.trace(spread) / d
    memo[COLUMNS], memo[ANCHORED], memo[SPREAD] = float(d), 1.0, typical
    copy_into(anchor_of(memo, experts), mean)
    for i in range(d):
        units_of(memo, experts)[i] = math.sqrt(spread[i, i] / typical)
    begin(memo, bank, experts, 0.0)
    memo[NOISE] = noise
    memo[RECENT_COUNT] = memo[STEADY_COUNT] = memo[ALL_COUNT] = _TOLD
    memo[RECENT_SUM] = memo[STEADY_SUM] = memo[ALL_SUM] = _TOLD * noise
    memo[TASTE] = memo[PRIOR] = typical
    for model in range(2):
        for i in range(d):
            for j in range(min(padded(i + 1), d)):
                bank[model, matrix_at(d) + entry_at(d, i, j)] = spread[i, j] / noise
    derive(memo, bank, experts)
