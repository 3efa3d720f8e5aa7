"""Click rates that are linear in log-odds, scaled to what an average arm and the best arm of a pool should get."""

from __future__ import annotations

from functools import cache

import numpy as np

from driftbandit.core import Floats

_POINTS = 2000
"""Arms, and pools, that the averages are taken over: quantiles of their law, evenly spaced."""

_STEEPEST = 200.0
"""Largest factor of x'theta in the log-odds; beyond it a click is all but certain or all but impossible."""


def logistic(log_odds: Floats) -> Floats:
    """Probabilities with these log-odds."""
    probabilities: Floats = 1.0 / (1.0 + np.exp(-log_odds))
    return probabilities


@cache
def log_odds_line(typical: float, best: float, dim: int, pool: int) -> tuple[float, float]:
    """Intercept a and slope b of log-odds a + b x'theta, for x uniform on the sphere and theta of unit length.

    The average arm then has the click rate `typical`, and the best arm of a pool has the rate `best` on average.

    Raises
    ------
    ValueError
        If no slope makes the best of a pool that much better.

    Examples
    --------
    >>> [round(number, 2) for number in log_odds_line(0.02, 0.08, 9, 10)]
    [-4.76, 4.23]
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import, and most worlds do not need it
    from scipy.special import betaincinv  # noqa: PLC0415

    # One coordinate u of a uniform point on the sphere: (u + 1) / 2 has a Beta law.
    ranks = (np.arange(_POINTS) + 0.5) / _POINTS
    half = (dim - 1) / 2.0
    arms = 2.0 * betaincinv(half, half, ranks) - 1.0
    winners = 2.0 * betaincinv(half, half, ranks ** (1.0 / pool)) - 1.0

    def intercept(slope: float) -> float:
        middle = np.log(typical / (1.0 - typical))
        return float(
            brentq(lambda a: logistic(a + slope * arms).mean() - typical, middle - slope - 1.0, middle + slope + 1.0)
        )

    def excess(slope: float) -> float:
        return float(logistic(intercept(slope) + slope * winners).mean()) - best

    if excess(_STEEPEST) < 0.0:
        raise ValueError(
            f"clicks: if an average arm gets {typical:g}, the best of {pool} arms gets at most "
            f"{best + excess(_STEEPEST):.3g}; expected less than that as the best rate, got {best:g}"
        )
    slope = float(brentq(excess, 0.0, _STEEPEST)) if best > typical else 0.0
    return intercept(slope), slope
