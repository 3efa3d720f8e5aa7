"""Ridge regression on the last few rewards only: when a reward comes in, the oldest goes out.

A row starts like that of `driftbandit.kernels.ridge`, so that the same kernels score a pool, and continues with ``[next
slot, ring of (x, reward)]``. A reward that leaves is taken out of A^-1 by the rank-one formula with the opposite sign,
which loses digits. So the row is recomputed from its ring whenever the ring has gone round, which adds the cost of one
update per round, and at once if digits were lost.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit

_LEAST_ROOM = 1e-4
"""Below this 1 - x' A^-1 x, taking x out of A^-1 loses too many digits."""

_ROUNDING = 1e-9


def row_size(dim: int, window: int) -> int:
    """Length of a row."""
    return kernel.row_size(dim) + 1 + window * (dim + 1)


@jit
def update(settings: Floats, row: Floats, x: Floats, reward: float, window: int) -> bool:
    """Absorb one reward and drop the oldest beyond `window`; False, without an update, if not usable."""
    d = len(x)
    if not kernel.update(settings, row, x, reward):
        return False
    start = kernel.THETA + d + d * (d + 1) // 2
    slot = int(row[start])
    entry = row[start + 1 + slot * (d + 1) : start + 1 + (slot + 1) * (d + 1)]
    full = row[kernel.COUNT] > window
    kept_digits = True
    if full:
        kept_digits = remove(settings, row, entry[:d], entry[d])
    entry[:d] = x
    entry[d] = reward
    slot = (slot + 1) % window
    row[start] = slot
    if full and (slot == 0 or not kept_digits):
        _rebuild(settings, row, d, window)
    return True


@jit
def remove(settings: Floats, row: Floats, x: Floats, reward: float) -> bool:
    """Take one reward out of theta and A^-1; False if they must be recomputed."""
    d = len(x)
    z, mean, square = kernel.project(settings, row, x)
    room = 1.0 - square
    if not room >= _LEAST_ROOM:
        return False
    step = (reward - mean) / room
    stretch = 1.0 / math.sqrt(room)
    for i in range(d):
        row[kernel.THETA + i] -= step * z[i]
        z[i] *= stretch
    at = kernel.THETA + d
    # A is at least ridge * I, so no diagonal entry of its inverse can be above this.
    most = (1.0 + _ROUNDING) / settings[kernel.RIDGE]
    fine = True
    for i in range(d):
        line = row[at : at + i + 1]
        for j in range(i + 1):
            line[j] += z[i] * z[j]
        fine = fine and 0.0 < line[i] <= most
        at += i + 1
    row[kernel.COUNT] -= 1.0
    return fine


@jit
def _rebuild(settings: Floats, row: Floats, d: int, window: int) -> None:
    start = kernel.THETA + d + d * (d + 1) // 2
    kernel.reset(settings, row[:start], d)
    for slot in range(window):
        at = start + 1 + slot * (d + 1)
        kernel.update(settings, row, row[at : at + d], row[at + d])
