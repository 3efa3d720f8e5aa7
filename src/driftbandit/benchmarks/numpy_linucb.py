"""LinUCB as one would write it with NumPy: vectorised over the pool, Sherman-Morrison for the inverse."""

from __future__ import annotations

import numpy as np

from driftbandit.core import TIE, Floats


class BareNumpyLinUCB:
    """The algorithm and nothing else: no checks, no rule for ties."""

    def __init__(self, dim: int, *, ridge: float = 0.1, explore: float = 0.6) -> None:
        self.explore = explore
        self.inverse = np.eye(dim) / ridge
        self.total = np.zeros(dim)
        self.theta = np.zeros(dim)

    def scores(self, features: Floats) -> Floats:
        squares = np.einsum("kd,kd->k", features @ self.inverse, features)
        scores: Floats = features @ self.theta + self.explore * np.sqrt(squares)
        return scores

    def choose(self, features: Floats) -> int:
        return int(np.argmax(self.scores(features)))

    def learn(self, x: Floats, reward: float) -> None:
        z = self.inverse @ x
        self.inverse -= np.outer(z, z / (1.0 + x @ z))
        self.total += reward * x
        self.theta = self.inverse @ self.total


class NumpyLinUCB(BareNumpyLinUCB):
    """LinUCB in NumPy with our promises: bad input is refused, and scores within 1e-12 tie to the lowest index."""

    def choose(self, features: Floats) -> int:
        features = np.asarray(features, dtype=np.float64)
        if features.ndim != 2 or features.shape[1] != len(self.theta) or not len(features):
            raise ValueError(f"features: expected shape (K, {len(self.theta)}), got {features.shape}")
        if not np.isfinite(features).all():
            raise ValueError("features: expected finite values")
        scores = self.scores(features)
        return int(np.argmax(scores >= scores.max() - TIE))

    def learn(self, x: Floats, reward: float) -> None:
        x = np.asarray(x, dtype=np.float64)
        if x.shape != self.theta.shape:
            raise ValueError(f"features: expected shape {self.theta.shape}, got {x.shape}")
        if not np.isfinite(x).all() or not np.isfinite(reward):
            raise ValueError("features, reward: expected finite values")
        super().learn(x, reward)
