"""Many users with tastes of their own that have something in common, and few rounds for each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.environments import paths
from driftbandit.environments.drawing import REACH, draw_pools
from driftbandit.environments.rounds import Rounds


@dataclass(frozen=True)
class People:
    """Settings of a world of users, whose tastes never change.

    The taste of a user is sqrt(shared) times the common taste plus sqrt(1 - shared) times an own one, scaled to unit
    length; common and own tastes are anywhere on the unit sphere, so that the tastes of two users have a correlation of
    about `shared`. Users come in random order. Arms are as in a `World` with ``features='sphere'``.

    Attributes
    ----------
    users, visits : int
        Users, and rounds for each of them.
    shared : float
        How much of a taste is common to everyone, from 0 to 1.
    groups : int
        Users of one group have the same taste: every group has an own taste instead of every user. 0 for no groups.
    dim, arms, pool : int
        Features, arms in the catalogue, arms shown in a round.
    noise : float
        Standard deviation of a reward.

    Examples
    --------
    >>> rounds = People(users=3, visits=2, shared=0.5).rounds(seed=0)
    >>> len(rounds), sorted(rounds.scopes.tolist())
    (6, [0, 0, 1, 1, 2, 2])
    """

    users: int = 1000
    visits: int = 50
    shared: float = 0.5
    groups: int = 0
    dim: int = 10
    arms: int = 1000
    pool: int = 10
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("users", "visits", "dim", "arms", "pool"):
            object.__setattr__(self, name, as_count(name, getattr(self, name)))
        object.__setattr__(self, "groups", as_count("groups", self.groups, least=0))
        object.__setattr__(self, "shared", as_number("shared", self.shared, 0.0, 1.0))
        object.__setattr__(self, "noise", as_number("noise", self.noise, 0.0))
        if self.pool > self.arms:
            raise ValueError(f"pool: expected at most {self.arms} (arms), got {self.pool}")
        if self.groups > self.users:
            raise ValueError(f"groups: expected at most {self.users} (users), got {self.groups}")

    @property
    def horizon(self) -> int:
        """Number of rounds."""
        return self.users * self.visits

    def rounds(self, seed: int) -> Rounds:
        """All rounds; the same seed and settings give the same rounds, bit for bit."""
        arm_rng, taste_rng, pool_rng, order_rng, noise_rng = (
            np.random.default_rng([as_count("seed", seed, least=0), part]) for part in range(5)
        )
        draw = paths.sphere_thetas(self.dim)
        catalogue = draw(arm_rng, self.arms)
        common = draw(taste_rng, 1)
        own = draw(taste_rng, self.groups or self.users)
        tastes = paths.unit(np.sqrt(self.shared) * common + np.sqrt(1.0 - self.shared) * own)
        users = order_rng.permutation(np.repeat(np.arange(self.users), self.visits))
        pools = draw_pools(self.horizon, self.arms, self.pool, pool_rng)
        means = (catalogue @ tastes.T)[pools, users[:, None] % len(tastes)]
        margin = REACH * self.noise
        return Rounds(
            catalogue=catalogue,
            pools=pools,
            arms=pools,
            means=means,
            rewards=means + self.noise * noise_rng.standard_normal((self.horizon, 1)),
            shifts=np.empty(0, dtype=np.int64),
            noise=self.noise,
            reward_range=(-1.0 - margin, 1.0 + margin),
            seed=seed,
            scopes=users,
        )
