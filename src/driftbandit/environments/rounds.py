"""Simulated rounds: everything that happens, drawn once, so that every policy sees the same world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints


class Environment(Protocol):
    """Where rounds come from: a dataclass of settings that makes them from a seed.

    An environment that reads files also has a method `fingerprint`, without arguments: its text changes when the files
    do, so that results from other files are not reused.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def rounds(self, seed: int) -> Rounds:
        """All rounds; the same seed gives the same rounds, bit for bit."""
        ...


@dataclass(frozen=True, eq=False)
class Rounds:
    """A simulated environment as arrays.

    Attributes
    ----------
    catalogue : array of shape (A, d)
        Feature vectors.
    pools : array of shape (T, K)
        Catalogue rows shown in each round.
    arms : array of shape (T, K)
        Ids of the arms shown; the row of the catalogue unless an arm's features change with time.
    means : array of shape (T, K)
        Expected rewards of the arms shown.
    rewards : array of shape (T, K)
        Rewards of the arms shown, if played.
    shifts : array of int
        First round of each new regime.
    noise : float
        Standard deviation of a reward, which policies may be told.
    reward_range : (float, float)
        Bounds of (almost) all rewards, which context-free policies may be told.
    seed : int
        Seed that the rounds were drawn with.
    scopes : array of shape (T,), optional
        Who is served in each round, such as the user; only policies that take a scope are told. None if there is only
        one scope.
    batch, delay : int
        When rewards are learned: those of a batch of rounds together and in order, after the choice `delay` rounds
        after the batch's last one. So the reward of round t is learned after the choice of round
        ``(t // batch + 1) * batch - 1 + delay``; by default after its own. What is still outstanding after the last
        choice is learned then.
    """

    catalogue: Floats
    pools: Ints
    arms: Ints
    means: Floats
    rewards: Floats
    shifts: Ints
    noise: float
    reward_range: tuple[float, float]
    seed: int = 0
    scopes: NDArray[Any] | None = None
    batch: int = 1
    delay: int = 0

    def __len__(self) -> int:
        return len(self.pools)

    def __repr__(self) -> str:
        rows, dim = self.catalogue.shape
        shifts = f"{len(self.shifts)} shift" + ("" if len(self.shifts) == 1 else "s")
        late = f", batch {self.batch:,}" if self.batch > 1 else ""
        late += f", delay {self.delay:,}" if self.delay else ""
        return (
            f"Rounds({len(self):,} rounds, {self.pools.shape[1]} arms shown in each, catalogue of {rows:,} x {dim}, "
            f"{shifts}, noise {self.noise:g}{late}, seed {self.seed})"
        )

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.catalogue.shape[1])

    def regret_of(self, choices: Ints) -> Floats:
        """Pseudo-regret of each round: expected reward of its best arm minus that of the chosen arm."""
        chosen = np.take_along_axis(self.means, choices[:, None], axis=1)[:, 0]
        regret: Floats = self.means.max(axis=1) - chosen
        return regret
