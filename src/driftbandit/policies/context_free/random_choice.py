"""RandomChoice: every candidate with the same probability.

The floor of every comparison, and the logger that makes off-policy evaluation easy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, as_arms, as_reward
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.state import new_generator


class RandomChoice(PolicyBase):
    """Plays a uniformly random arm and learns nothing.

    Parameters
    ----------
    seed : int
        Seed of the policy's own generator.

    Examples
    --------
    >>> policy = RandomChoice(seed=0)
    >>> [policy.choose(None, arms=[7, 8, 9]) for _ in range(5)]
    [2, 1, 1, 0, 0]
    """

    is_uniform = True
    _parts = (*PolicyBase._parts, "_generator")

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self._generator = new_generator(seed)
        self.seed = int(seed)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of a random arm; the pool is known by its features or its arm ids."""
        if arms is not None:
            count = len(as_arms(arms, features))
        else:
            shape = np.shape(features) if features is not None else ()
            if len(shape) != 2 or not shape[0]:
                raise ValueError(f"features: expected shape (K, d) with K at least 1, got {shape}")
            count = shape[0]
        return int(self._generator.integers(count))

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Check the reward and count the round."""
        as_reward(reward)
        self.rounds += 1
        return ()


ENTRIES = (
    Entry(
        name="random",
        title="Random",
        summary="a uniformly random arm",
        policy=RandomChoice,
        settings=from_brief("seed"),
        page="random",
        place=310,
    ),
)
