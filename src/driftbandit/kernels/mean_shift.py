"""Two neighbouring windows: how far apart are the sums of the newer and the older half of the latest rewards?

A row holds ``[samples, sum of the older half, sum of the newer half, ring]``; the length of the ring, which is even, is
the length of both halves together.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit

SAMPLES, OLDER, NEWER, RING = range(4)


@jit
def add(row: Floats, reward: float) -> float:
    """Add a reward and return the distance of both sums, 0 until the ring is full."""
    window = len(row) - RING
    samples = int(row[SAMPLES])
    place = RING + samples % window
    passing = row[RING + (samples + window // 2) % window]  # from the newer half to the older one
    row[OLDER] += passing - row[place]
    row[NEWER] += reward - passing
    row[place] = reward
    row[SAMPLES] += 1.0
    if (samples + 1) % window == 0:  # add up anew, so that rounding errors do not pile up
        row[OLDER] = row[RING : RING + window // 2].sum()
        row[NEWER] = row[RING + window // 2 :].sum()
    return abs(row[NEWER] - row[OLDER]) if samples + 1 >= window else 0.0
