"""Logged decisions as arrays, ready for a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftbandit.core import Floats, Ints


@dataclass(frozen=True, eq=False, slots=True)
class Events:
    """Some consecutive decisions of a log, in the order in which they were made.

    A log larger than memory is a sequence of these.

    Attributes
    ----------
    features : array of shape (m, d)
        Features of all candidates, one pool after the other.
    arms : array of int64, shape (m,)
        Their ids, as rows of the catalogue of arms.
    offsets : array of int64, shape (n + 1,)
        Where each decision's pool starts in `features` and `arms`, and the end of the last.
    shown : array of int64, shape (n,)
        Position of the displayed arm in its pool.
    propensities : array of shape (n,)
        Probability with which the logger displayed it; NaN if unknown.
    rewards : array of shape (n,)
        What it earned.
    scopes : array of int64, shape (n,)
        Who asked; all 0 if the log does not say.
    times : array of shape (n,)
        When, in seconds; the number of the row if the log does not say.
    rows : array of int64, shape (n,)
        Number of the row in the log, from 0.

    Examples
    --------
    >>> events = Events(
    ...     features=[[1.0], [2.0], [3.0]], arms=[7, 8, 7], offsets=[0, 2, 3], shown=[1, 0],
    ...     propensities=[0.5, 1.0], rewards=[0.0, 1.0], scopes=[0, 0], times=[60.0, 61.0], rows=[0, 1],
    ... )
    >>> len(events), events.dim, events.pool(0).tolist(), events.shown_places().tolist()
    (2, 1, [[1.0], [2.0]], [1, 2])
    """

    features: Floats
    arms: Ints
    offsets: Ints
    shown: Ints
    propensities: Floats
    rewards: Floats
    scopes: Ints
    times: Floats
    rows: Ints

    def __post_init__(self) -> None:
        for name in ("arms", "offsets", "shown", "scopes", "rows"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int64))
        for name in ("features", "propensities", "rewards", "times"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        if self.features.ndim != 2 or len(self.features) != len(self.arms):
            raise ValueError(f"features: expected a row for each of {len(self.arms)} arms, got {self.features.shape}")
        count = len(self.shown)
        if len(self.offsets) != count + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.arms):
            raise ValueError(f"offsets: expected {count + 1} numbers from 0 to {len(self.arms)}")
        if ((self.shown < 0) | (self.shown >= np.diff(self.offsets))).any():
            raise ValueError("shown: expected positions in the pools, none of them empty")
        for name in ("propensities", "rewards", "scopes", "times", "rows"):
            if getattr(self, name).shape != (count,):
                raise ValueError(f"{name}: expected shape ({count},), got {getattr(self, name).shape}")
        if not np.isfinite(self.rewards).all() or not np.isfinite(self.features).all():
            raise ValueError("rewards, features: expected finite numbers")

    def __len__(self) -> int:
        return len(self.shown)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    def pool(self, event: int) -> Floats:
        """Features of the candidates of a decision."""
        return self.features[self.offsets[event] : self.offsets[event + 1]]

    def shown_places(self) -> Ints:
        """Where the displayed arms are in `features` and `arms`."""
        return self.offsets[:-1] + self.shown
