"""The state of a young DriftUCB as the rewards that it has learned: there, they are fewer numbers than its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Floats
from driftbandit.kernels.driftucb.frames import SINGLE

SHORT = SINGLE
"""Rewards of the oldest policy that is kept in this way: with more, learning them again would take too long."""


def short_form(rewards: Floats) -> dict[str, NDArray[Any]]:
    """Rewards, each a line with the features of its arm before it, as arrays to be stored.

    Features that were learned are in single precision, unless they are too large or too small for its range.

    >>> short_form(np.array([[0.5, 1.0, 0.1]]))
    {'features': array([[0.5, 1. ]], dtype=float32), 'rewards': array([0.1])}
    """
    features = rewards[:, :-1]
    with np.errstate(over="ignore", under="ignore"):
        single = features.astype(np.float32)
    kept = single if (single == features).all() else features.copy()
    return {"features": kept, "rewards": rewards[:, -1].copy()}


def long_form(state: Mapping[str, ArrayLike], dim: int) -> Floats | None:
    """What `short_form` was given; None if the state is of another form.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """
    try:
        if set(state.keys()) != {"features", "rewards"}:
            return None
        features, rewards = np.asarray(state["features"]), np.asarray(state["rewards"])
    except (AttributeError, TypeError, ValueError):
        return None
    count = len(rewards) if rewards.ndim == 1 else 0
    if not 0 < count <= SHORT or features.shape != (count, dim):
        raise ValueError(
            f"state: expected up to {SHORT} rewards and the {dim} features of each, got arrays of shape "
            f"{rewards.shape} and {features.shape}"
        )
    if features.dtype not in (np.float32, np.float64) or rewards.dtype != np.float64:
        raise ValueError(f"state: expected floating-point numbers, got {features.dtype} and {rewards.dtype}")
    return np.column_stack([features.astype(np.float64), rewards])
