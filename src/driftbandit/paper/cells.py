"""Numbers of several seeds as cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftbandit.core import Floats
from driftbandit.evaluation.results import mean_and_std


def spread(values: Sequence[float] | Floats) -> float:
    """Standard deviation of a sample; NaN for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def seeds_cell(values: Sequence[float] | Floats) -> str:
    """Mean and standard deviation over seeds as text.

    >>> seeds_cell([61.0, 62.0, 63.0])
    '62.0 ± 1.0'
    """
    return mean_and_std(float(np.mean(values)), spread(values))
