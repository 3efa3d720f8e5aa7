"""What all kinds of policies have in common on a GPU: checks of arguments, loading and saving, starting kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .device import WARP, Device, Gpu, Kernel, as_floats, as_ints, source

_PART = 1 << 14  # scopes whose state is converted at a time

CHUNKS = (4, 10, 16)
"""Arms of a pool that may lie in shared memory at a time; few sizes, because each is compiled anew."""

Plan = dict[str, int]


class Many:
    """The state of many scopes on a device, and kernels that choose and learn with it.

    Subclasses say how the state lies on the device (`_laid_out`, `_exchanged`), what kernels take (`_state`) and how
    they are compiled (`_macros`).

    Parameters
    ----------
    dim : int
        Number of features.
    device : Device, optional
        Where kernels run; by default the current GPU.
    plan : mapping, optional
        Macros of the kernels that replace those found by itself; for measurements.
    """

    files: tuple[str, ...]
    """The source of the kernels."""
    names: tuple[str, ...]
    """The arrays of a state, by the names under which they are loaded and saved."""

    def __init__(self, dim: int, *, device: Device | None = None, plan: Mapping[str, int] | None = None) -> None:
        self.dim = dim
        self.device = device or Gpu()
        self._xp = self.device.xp
        self._plan = dict(plan or {})
        self._arrays: dict[str, Any] = {}
        self._built: dict[tuple[tuple[str, int], ...], tuple[dict[str, Kernel], Plan, int]] = {}

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values()))) if self._arrays else 0

    # State -----------------------------------------------------------------------------------------------------------

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Take the state of all scopes: arrays whose first axis counts scopes, as the CPU's kernels have them."""
        missing = [name for name in self.names if name not in arrays]
        if missing:
            raise ValueError(f"arrays: expected {', '.join(self.names)}; {', '.join(missing)} missing")
        size = len(arrays[self.names[0]])
        self._arrays = {}
        for start in range(0, max(size, 1), _PART):
            part = slice(start, min(start + _PART, size))
            for name, values in self._laid_out({name: arrays[name][part] for name in self.names}).items():
                if name not in self._arrays:
                    self._arrays[name] = self._xp.zeros((size, *values.shape[1:]), dtype=values.dtype)
                self._arrays[name][part] = values

    def fill(self, arrays: Mapping[str, Any], size: int) -> None:
        """Give the state of one scope, arrays whose first axis has length 1, to `size` scopes."""
        self.load(arrays)
        self._arrays = {name: self._xp.repeat(array, size, axis=0) for name, array in self._arrays.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of the state on the device."""
        return sum(int(array.nbytes) for array in self._arrays.values())

    def save(self) -> dict[str, Any]:
        """The state of all scopes, as `load` takes it; the arrays are on the device."""
        return self._exchanged(self._arrays)

    def take(self, scopes: Any) -> dict[str, Any]:
        """The state of some scopes, as `load` takes it; the arrays are on the device."""
        scopes = as_ints(self._xp, "scopes", scopes)
        return self._exchanged({name: array[scopes] for name, array in self._arrays.items()})

    def put(self, scopes: Any, arrays: Mapping[str, Any]) -> None:
        """Replace the state of some scopes, no scope twice, by what `take` returned or the CPU made of it."""
        scopes = as_ints(self._xp, "scopes", scopes)
        for name, values in self._laid_out(arrays).items():
            if len(values) != len(scopes):
                raise ValueError(f"{name}: expected the state of {len(scopes)} scopes, got {len(values)}")
            self._arrays[name][scopes] = values

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays as the CPU has them, as they lie on the device."""
        raise NotImplementedError

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays as they lie on the device, as the CPU has them."""
        raise NotImplementedError

    # Kernels ---------------------------------------------------------------------------------------------------------

    def choose(self, scopes: Any, features: Any, offsets: Any) -> Any:
        """Index of the arm to play in each pool; -1 where features are not usable.

        Pool i belongs to ``scopes[i]`` and is ``features[offsets[i]:offsets[i + 1]]``.
        """
        scopes = as_ints(self._xp, "scopes", scopes)
        pools = self._pools(features, offsets, len(scopes))
        arms = self._xp.empty(len(scopes), dtype=np.int64)
        self._start("choose", len(scopes), len(pools[0]), scopes, *pools, arms)
        return arms

    def learn(self, scopes: Any, features: Any, rewards: Any) -> Any:
        """Learn one reward of each scope, no scope twice.

        Returns 0 where the reward was learned, -1 where it was not usable and changed nothing, and 1 where it was
        learned and revealed a change.
        """
        scopes = as_ints(self._xp, "scopes", scopes)
        lessons = self._lessons(features, rewards, len(scopes))
        status = self._xp.empty(len(scopes), dtype=np.int64)
        self._start("learn", len(scopes), 0, scopes, *lessons, status)
        return status

    def step(self, scopes: Any, played: Any, rewards: Any, features: Any, offsets: Any) -> tuple[Any, Any]:
        """Learn the last reward of each scope, then choose its next arm: what `learn` and `choose` return."""
        scopes = as_ints(self._xp, "scopes", scopes)
        lessons = self._lessons(played, rewards, len(scopes))
        pools = self._pools(features, offsets, len(scopes))
        status, arms = self._xp.empty((2, len(scopes)), dtype=np.int64)
        self._start("step", len(scopes), len(pools[0]), scopes, *lessons, *pools, status, arms)
        return status, arms

    def _pools(self, features: Any, offsets: Any, count: int) -> tuple[Any, Any]:
        return (
            as_floats(self._xp, "features", features, (None, self.dim)),
            as_ints(self._xp, "offsets", offsets, count + 1),
        )

    def _lessons(self, features: Any, rewards: Any, count: int) -> tuple[Any, Any]:
        return (
            as_floats(self._xp, "features", features, (count, self.dim)),
            as_floats(self._xp, "rewards", rewards, (count,)),
        )

    def _state(self) -> tuple[Any, ...]:
        """What kernels take before scopes: settings and the arrays."""
        raise NotImplementedError

    def _macros(self, arms: int) -> tuple[Plan, int]:
        """Macros of kernels for pools of about this many arms, and bytes of shared memory that one warp needs."""
        raise NotImplementedError

    def _start(self, name: str, count: int, arms: int, *arguments: Any) -> None:
        if not count:
            return
        kernels, macros, shared = self._kernels(-(-arms // count))
        warps = macros["WARPS"]
        blocks = -(-count // (warps * (WARP // macros["GROUP"])))
        blocks = min(blocks, self.device.multiprocessors() * macros["LEAST_BLOCKS"])
        kernels[name](blocks, warps, warps * shared, np.int64(count), *self._state(), *arguments)

    def _kernels(self, arms: int) -> tuple[dict[str, Kernel], Plan, int]:
        macros, shared = self._macros(arms)
        key = tuple(macros.items())
        if key not in self._built:
            kernels = self.device.compile(source("lanes.cuh", *self.files), macros, ("choose", "learn", "step"))
            self._built[key] = kernels, macros, shared
        return self._built[key]
