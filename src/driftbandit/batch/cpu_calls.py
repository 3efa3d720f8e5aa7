"""What `ManyScopes` does on the CPU: calls with NumPy arrays, shared out to threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.batch.checks import (
    as_counts,
    as_lines,
    as_offsets,
    as_rewards,
    as_scopes,
    called,
    check_squares,
    not_learned,
    not_usable,
)
from driftbandit.batch.shelf import Shelf
from driftbandit.batch.threads import share_out
from driftbandit.batch.turns import are_different, by_scope
from driftbandit.core import Change, Floats, Ints
from driftbandit.kernels import many


class CpuCalls:
    """Checks arguments, hands parts of a call to threads, and says what could not be used.

    Parameters
    ----------
    shelf : Shelf
        The policies.
    threads : int
        Threads that work at the same time.
    bounds : (float, float)
        Lowest and highest reward.
    """

    def __init__(self, shelf: Shelf, threads: int, bounds: tuple[float, float]) -> None:
        self._shelf, self._threads, self._bounds = shelf, threads, bounds
        self._dim: int = shelf.policy.dim

    def choose(
        self, scopes: ArrayLike | None, features: ArrayLike, counts: ArrayLike | None, pending: ArrayLike
    ) -> Ints:
        """As `ManyScopes.choose_many`."""
        who, shelf = self._who(scopes), self._shelf
        pools, offsets = as_offsets(features, counts, len(who), self._dim)
        waiting = as_counts("pending", pending, len(who), 0)
        if shelf.draws:  # a refused pool must not cost the others their draws
            check_squares(pools, shelf.largest_square(), self._threads)
        order = by_scope(who) if shelf.draws else np.arange(len(who))
        arms = np.empty(len(who), dtype=np.int64)
        self._choose(who, pools, offsets, waiting, order, arms)
        return arms

    def learn(self, scopes: ArrayLike | None, features: ArrayLike, rewards: ArrayLike) -> list[tuple[int, Change]]:
        """As `ManyScopes.learn_many`."""
        who, shelf = self._who(scopes), self._shelf
        arms, values = self._lessons(features, rewards, len(who))
        status = np.full(len(who), many.LEFT)
        found = self._teach(who, status, lambda order, part: shelf.learn(who, arms, values, order, status, part))
        self._check_status(who, arms, status, found)
        return found

    def step(
        self,
        scopes: ArrayLike | None,
        played: ArrayLike,
        rewards: ArrayLike,
        features: ArrayLike,
        counts: ArrayLike | None,
    ) -> tuple[list[tuple[int, Change]], Ints]:
        """As `ManyScopes.step_many`."""
        who, shelf = self._who(scopes), self._shelf
        pools, offsets = as_offsets(features, counts, len(who), self._dim)
        check_squares(pools, shelf.largest_square(), self._threads)
        with called("played"):
            lessons, values = self._lessons(played, rewards, len(who))
        if not are_different(who):  # a scope learns all its rewards before it chooses
            return self.learn(who, lessons, values), self.choose(who, pools, np.diff(offsets), 0)
        status, arms = np.full(len(who), many.LEFT), np.full(len(who), many.NOT_ASKED)

        def run(order: Ints, part: slice) -> None:
            shelf.step(who, lessons, values, pools, offsets, order, status, arms, part)

        found = self._teach(who, status, run)
        self._check_status(who, lessons, status, found)
        self._choose(who, pools, offsets, np.zeros_like(who), np.flatnonzero(arms == many.NOT_ASKED), arms)
        return found, arms

    def replay(self, scopes: Ints, events: tuple[Any, ...], count: int) -> tuple[Ints, Ints, list[tuple[int, Change]]]:
        """As `ManyScopes.replay`."""
        shelf = self._shelf
        arms, status = np.full(count, -1), np.full(count, many.LEFT)
        found = self._teach(scopes, status, lambda order, part: shelf.replay(scopes, events, order, arms, status, part))
        return arms, status, found

    # Arguments -------------------------------------------------------------------------------------------------------

    def _who(self, scopes: ArrayLike | None) -> Ints:
        return np.arange(self._shelf.size) if scopes is None else as_scopes(scopes, self._shelf.size)

    def _lessons(self, features: ArrayLike, rewards: ArrayLike, count: int) -> tuple[Floats, Floats]:
        """Features of arms that were played, so many, and their rewards, or ValueError."""
        arms = as_lines(features, count, self._dim)
        values = as_rewards(rewards, count, *self._bounds)
        check_squares(arms, self._shelf.largest_square(), self._threads)
        return arms, values

    # Work ------------------------------------------------------------------------------------------------------------

    def _choose(self, who: Ints, pools: Floats, offsets: Ints, pending: Ints, order: Ints, arms: Ints) -> None:
        """Write the choices for the decisions in `order` into `arms`; ValueError if a pool was refused, also before."""
        shelf = self._shelf

        def run(part: slice) -> None:
            shelf.choose(who, pools, offsets, pending, order, arms, part)

        share_out(run, who[order], self._threads, shelf.effort)
        if (bad := np.flatnonzero(arms < 0)).size:
            raise not_usable(f"decision {bad[0]}", int(who[bad[0]]), pools[offsets[bad[0]] : offsets[bad[0] + 1]])

    def _teach(self, scopes: Ints, status: Ints, run: Callable[[Ints, slice], None]) -> list[tuple[int, Change]]:
        """Learn all rewards; returns the changes with the places of the rewards that revealed them, in that order."""
        share = partial(share_out, threads=self._threads, effort=self._shelf.effort)
        taught = self._shelf.teach(scopes, status, run, share)
        return [(item, change) for item, changes in sorted(taught, key=lambda each: each[0]) for change in changes]

    @staticmethod
    def _check_status(who: Ints, played: Floats, status: Ints, found: list[tuple[int, Change]]) -> None:
        if (bad := np.flatnonzero(status < 0)).size:
            raise not_learned(bad.tolist(), len(who), int(who[bad[0]]), played[bad[0]], found)
