"""What `ManyScopes` does on a GPU: the same calls, with NumPy or CuPy arrays; what comes back is on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from driftbandit.batch.checks import called, not_learned, not_usable
from driftbandit.batch.on_gpu import GpuScopes, to_host
from driftbandit.core import Change, Ints

_PENDING = 5  # from this many unanswered choices on, DriftUCB draws its weights, which only the CPU does


class GpuCalls:
    """Checks arguments, splits calls in which scopes repeat, and says what could not be used.

    Parameters
    ----------
    scopes : GpuScopes
        The policies.
    dim : int
        Number of features.
    bounds : (float, float)
        Lowest and highest reward.
    """

    def __init__(self, scopes: GpuScopes, dim: int, bounds: tuple[float, float]) -> None:
        self.scopes, self._dim, self._bounds = scopes, dim, bounds
        self._xp = scopes.xp

    def choose(self, scopes: Any, features: Any, counts: Any, pending: Any) -> Any:
        """As `ManyScopes.choose_many`."""
        who = self._who(scopes)
        pools, offsets = self._pools(features, counts, who)
        if int(np.max(to_host(self._xp, pending), initial=0)) >= _PENDING:
            raise ValueError("pending: expected less than five on a GPU; with more, use device='cpu'")
        if not self.scopes.draws or self._different(who):
            return self._checked(who, pools, offsets, self.scopes.choose(who, pools, offsets))
        arms = self._xp.empty(len(who), dtype=np.int64)
        for part in self._in_turns(who):  # a scope's draws come one after the other
            parts = [np.arange(*offsets_of) for offsets_of in _spans(self._xp, offsets, part)]
            ends = np.append(0, np.cumsum([len(each) for each in parts]))
            arms[part] = self.scopes.choose(who[part], pools[np.concatenate(parts)], ends)
        return self._checked(who, pools, offsets, arms)

    def learn(self, scopes: Any, features: Any, rewards: Any) -> list[tuple[int, Change]]:
        """As `ManyScopes.learn_many`."""
        who = self._who(scopes)
        played, values = self._lessons(features, rewards, len(who))
        if self._different(who):
            status, found = self.scopes.learn(who, played, values)
        else:
            status, found = self._xp.empty(len(who), dtype=np.int64), []
            for part in self._in_turns(who):
                became, some = self.scopes.learn(who[part], played[part], values[part])
                status[part] = 0 if became is None else became
                found += [(int(part[item]), change) for item, change in some]
            found.sort(key=lambda each: each[0])
        self._check_status(who, played, status, found)
        return found

    def step(
        self, scopes: Any, played: Any, rewards: Any, features: Any, counts: Any
    ) -> tuple[list[tuple[int, Change]], Any]:
        """As `ManyScopes.step_many`."""
        who = self._who(scopes)
        if not self._different(who):
            return self.learn(who, played, rewards), self.choose(who, features, counts, 0)
        pools, offsets = self._pools(features, counts, who)
        with called("played"):
            lessons, values = self._lessons(played, rewards, len(who))
        status, found, arms = self.scopes.step(who, lessons, values, pools, offsets)
        self._check_status(who, lessons, status, found)
        return found, self._checked(who, pools, offsets, arms)

    def rounds(self) -> Ints:
        """Rewards that each scope has learned."""
        rounds: Ints = np.array(to_host(self._xp, self.scopes.rounds))
        return rounds

    # Arguments -------------------------------------------------------------------------------------------------------

    def _who(self, scopes: Any) -> Any:
        xp = self._xp
        if scopes is None or scopes is self.scopes.everyone:
            return self.scopes.everyone
        array = xp.asarray(scopes)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise ValueError(f"scopes: expected whole numbers of shape (n,), got {array.dtype} of shape {array.shape}")
        if array.size and bool(((array < 0) | (array >= self.scopes.size)).any()):
            raise ValueError(f"scopes: expected numbers from 0 to {self.scopes.size - 1}")
        return array.astype(np.int64, copy=False)

    def _pools(self, features: Any, counts: Any, scopes: Any) -> tuple[Any, Any]:
        xp, count = self._xp, len(scopes)
        array = self._floats("features", features)
        if counts is None:
            if array.ndim != 3 or array.shape[0] != count or array.shape[2] != self._dim or not array.shape[1]:
                raise ValueError(f"features: expected shape ({count}, K, {self._dim}), got {array.shape}")
            return array.reshape(-1, self._dim), array.shape[1] * xp.arange(count + 1, dtype=np.int64)
        sizes = xp.asarray(counts)
        if sizes.shape != (count,) or sizes.dtype.kind not in "iu" or (count and int(sizes.min()) < 1):
            raise ValueError(f"counts: expected {count} whole numbers of at least 1")
        offsets = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(sizes.astype(np.int64))])
        if array.shape != (int(offsets[-1]), self._dim):
            raise ValueError(f"features: expected shape ({int(offsets[-1])}, {self._dim}), got {array.shape}")
        return array, offsets

    def _lessons(self, features: Any, rewards: Any, count: int) -> tuple[Any, Any]:
        played, values = self._floats("features", features), self._floats("rewards", rewards)
        if played.shape != (count, self._dim) or values.shape != (count,):
            expected = f"({count}, {self._dim}) and ({count},)"
            raise ValueError(f"features, rewards: expected shapes {expected}, got {played.shape} and {values.shape}")
        low, high = self._bounds
        if count and not (float(values.min()) >= low and float(values.max()) <= high):  # the kernels check the features
            raise ValueError(f"rewards: expected numbers from {low:g} to {high:g}; nothing was done")
        return played, values

    def _floats(self, name: str, values: Any) -> Any:
        array = self._xp.asarray(values)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: expected real numbers, got dtype {array.dtype}")
        return self._xp.ascontiguousarray(array, dtype=np.float64)

    # Answers ---------------------------------------------------------------------------------------------------------

    def _checked(self, who: Any, pools: Any, offsets: Any, arms: Any) -> Any:
        """The arms, or an error that says which pool is not usable."""
        if len(arms) and int(arms.min()) < 0:
            bad = int(self._xp.argmax(arms < 0))
            pool = to_host(self._xp, pools[int(offsets[bad]) : int(offsets[bad + 1])])
            raise not_usable(f"decision {bad}", int(who[bad]), pool)
        return arms

    def _check_status(self, who: Any, played: Any, status: Any, found: list[tuple[int, Change]]) -> None:
        if status is not None and len(status) and int(status.min()) < 0:
            bad = to_host(self._xp, self._xp.flatnonzero(status < 0)).tolist()
            raise not_learned(bad, len(status), int(who[bad[0]]), to_host(self._xp, played[bad[0]]), found)

    # Scopes that repeat ----------------------------------------------------------------------------------------------

    def _different(self, who: Any) -> bool:
        """Whether no scope repeats; quick if they are in order."""
        return (
            who is self.scopes.everyone
            or len(who) < 2
            or bool((who[1:] > who[:-1]).all())
            or len(self._xp.unique(who)) == len(who)
        )

    def _in_turns(self, who: Any) -> Iterator[Any]:
        """Items such that no scope repeats: first the first ones of all scopes, then the second ones, and so on."""
        scopes = to_host(self._xp, who)
        order = np.argsort(scopes, kind="stable")
        owners = scopes[order]
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        turns = np.empty(len(scopes), dtype=np.int64)
        turns[order] = np.arange(len(scopes)) - np.repeat(starts, np.diff(np.append(starts, len(scopes))))
        for turn in range(int(turns.max(initial=-1)) + 1):
            yield np.flatnonzero(turns == turn)


def _spans(xp: Any, offsets: Any, items: Any) -> list[tuple[int, int]]:
    """Where the pools of some items begin and end."""
    ends = to_host(xp, offsets)
    return list(zip(ends[items].tolist(), ends[items + 1].tolist(), strict=True))
