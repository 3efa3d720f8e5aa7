"""Taylor's change-point analysis: does a short series wander further from its mean than a shuffled one?

The range of the cumulative sums of (D_i - mean D) is large if the level of the series changed; random permutations of
the same numbers show how large it gets without a change. Taylor, 2000; used by adTS on distances between windows.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats


def cusum_range(series: Floats) -> Floats:
    """Range of the cumulative sums around the mean, starting from 0, along the last axis.

    >>> float(cusum_range(np.array([1.0, 1, 1, 1, 5, 5, 5, 5])))
    8.0
    """
    sums = np.cumsum(series - series.mean(axis=-1, keepdims=True), axis=-1)
    spread: Floats = np.maximum(sums.max(axis=-1), 0.0) - np.minimum(sums.min(axis=-1), 0.0)
    return spread


def change_confidence(series: Floats, resamples: int, generator: Generator) -> float:
    """Share of random permutations whose range stays below that of the series.

    >>> series = np.array([1.0, 1, 1, 1, 5, 5, 5, 5])
    >>> abs(change_confidence(series, 4000, np.random.default_rng(0)) - 62 / 70) < 0.02
    True
    """
    shuffled = generator.permuted(np.tile(series, (resamples, 1)), axis=1)
    # Rounding must not let a permutation with the same range count as smaller.
    observed = cusum_range(series) * (1.0 - 1e-9)
    return float(np.mean(cusum_range(shuffled) < observed))
