"""A log from a simulated world, where the truth is known: for trying out estimators, and for tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Floats, Ints, as_count
from driftbandit.environments.rounds import Rounds
from driftbandit.logs import Events

_ROUNDED = 1e-6


def make_log(
    rounds: Rounds, chances: ArrayLike | None = None, *, seed: int = 0, batch: int = 10_000
) -> Iterator[Events]:
    """Let a logger with given chances play a simulated world, and yield its log in batches.

    Parameters
    ----------
    rounds : Rounds
        The world.
    chances : array of shape (T, K), optional
        The logger's probability of every arm shown in each round; by default all alike.
    seed : int
        Seed of the logger's draws.
    batch : int
        Events per batch.

    Examples
    --------
    >>> from driftbandit import LinUCB, synthetic
    >>> from driftbandit.evaluation.logged import shadow_values
    >>> rounds = synthetic("table1", seed=0, horizon=2000)
    >>> values = shadow_values({"linucb": LinUCB(rounds.dim)}, make_log(rounds))
    >>> values["linucb"].interval().low > values["uniform"].interval().high
    True
    """
    count, arms = rounds.pools.shape
    shares: Floats = np.full((count, arms), 1.0 / arms)
    if chances is not None:
        shares = np.asarray(chances, dtype=np.float64)
    if shares.shape != (count, arms):
        raise ValueError(f"chances: expected shape ({count}, {arms}), got {shares.shape}")
    if not (shares >= 0.0).all() or (np.abs(shares.sum(axis=1) - 1.0) > _ROUNDED).any():
        raise ValueError("chances: expected probabilities that add up to 1 in every round")
    luck = np.random.default_rng(seed).random(len(rounds))
    shown: Ints = np.minimum((luck[:, None] >= np.cumsum(shares, axis=1)).sum(axis=1), arms - 1)
    scopes = np.zeros(count, dtype=np.int64)
    if rounds.scopes is not None:
        scopes = np.unique(rounds.scopes, return_inverse=True)[1].astype(np.int64)
    for start in range(0, count, as_count("batch", batch)):
        part = np.arange(start, min(start + batch, count))
        yield Events(
            features=rounds.catalogue[rounds.pools[part].ravel()],
            arms=rounds.arms[part].ravel(),
            offsets=np.arange(len(part) + 1) * arms,
            shown=shown[part],
            propensities=shares[part, shown[part]],
            rewards=rounds.rewards[part, shown[part]],
            scopes=scopes[part],
            times=part.astype(np.float64),
            rows=part,
        )
