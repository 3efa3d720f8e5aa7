"""LinUCB for many scopes on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .device import Device, Gpu, Kernel, as_floats, as_ints, fit, source

_GROUPS = (32, 16, 10, 8, 6, 5, 4)  # lanes that serve one scope
_SHARED = 56 * 1024  # a warp that needs more leaves too few of them on a multiprocessor
_SCRATCH = 72  # registers that a thread needs beside the features of an arm
_IN_REGISTERS = 32  # most features of an arm that a thread keeps in registers


class LinUCB:
    """The rows of many LinUCB models, and the kernels that choose and learn with them.

    Parameters
    ----------
    dim : int
        Number of features.
    act, test : array of 5 numbers
        Settings of `kernels.ridge` by which arms are chosen and rewards learned.
    device : Device, optional
        Where kernels run; by default the current GPU.
    plan : mapping, optional
        Macros of the kernels that replace those found by itself; for measurements.
    """

    def __init__(
        self, dim: int, act: Any, test: Any, *, device: Device | None = None, plan: Mapping[str, int] | None = None
    ) -> None:
        self.dim = dim
        self.device = device or Gpu()
        self._xp = self.device.xp
        self._act = as_floats(self._xp, "act", act, (5,))
        self._test = as_floats(self._xp, "test", test, (5,))
        self._plan = dict(plan or {})
        self._width = -(-(1 + dim + dim * (dim + 1) // 2) // 2) * 2
        self._rows = self._xp.zeros((0, self._width))
        self._kernels: dict[tuple[int, int], tuple[dict[str, Kernel], dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Take the state of all scopes: 'rows' of `kernels.ridge`, shape (scopes, row_size)."""
        triangle = self.dim * (self.dim + 1) // 2
        rows = as_floats(self._xp, "rows", arrays["rows"], (None, 1 + self.dim + triangle))
        self._rows = self._xp.zeros((len(rows), self._width))
        self._rows[:, :triangle] = rows[:, 1 + self.dim :]
        self._rows[:, triangle : triangle + self.dim] = rows[:, 1 : 1 + self.dim]
        self._rows[:, triangle + self.dim] = rows[:, 0]

    def save(self) -> dict[str, Any]:
        """The state of all scopes, as `load` takes it; the arrays are on the device."""
        triangle = self.dim * (self.dim + 1) // 2
        rows = self._rows
        parts = rows[:, triangle + self.dim :][:, :1], rows[:, triangle : triangle + self.dim], rows[:, :triangle]
        return {"rows": self._xp.concatenate(parts, axis=1)}

    def choose(self, scopes: Any, features: Any, offsets: Any) -> Any:
        """Index of the arm to play in each pool; -1 where features are not usable.

        Pool i belongs to ``scopes[i]`` and is ``features[offsets[i]:offsets[i + 1]]``.
        """
        scopes, features, offsets = self._pools(scopes, features, offsets)
        arms = self._xp.empty(len(scopes), dtype=np.int64)
        self._start("choose", scopes, features, self._act, scopes, features, offsets, arms)
        return arms

    def learn(self, scopes: Any, features: Any, rewards: Any) -> Any:
        """Learn one reward of each scope, no scope twice; 0 where it was learned, -1 where it was not usable."""
        scopes, features, rewards = self._lessons(scopes, features, rewards)
        status = self._xp.empty(len(scopes), dtype=np.int64)
        self._start("learn", scopes, None, self._test, scopes, features, rewards, status)
        return status

    def step(self, scopes: Any, played: Any, rewards: Any, features: Any, offsets: Any) -> tuple[Any, Any]:
        """Learn the last reward of each scope, then choose its next arm: what `learn` and `choose` return."""
        scopes, played, rewards = self._lessons(scopes, played, rewards)
        scopes, features, offsets = self._pools(scopes, features, offsets)
        status, arms = self._xp.empty((2, len(scopes)), dtype=np.int64)
        self._start(
            "step", scopes, features, self._act, self._test, scopes, played, rewards, features, offsets, status, arms
        )
        return status, arms

    def _pools(self, scopes: Any, features: Any, offsets: Any) -> tuple[Any, Any, Any]:
        scopes = as_ints(self._xp, "scopes", scopes)
        return (
            scopes,
            as_floats(self._xp, "features", features, (None, self.dim)),
            as_ints(self._xp, "offsets", offsets, len(scopes) + 1),
        )

    def _lessons(self, scopes: Any, features: Any, rewards: Any) -> tuple[Any, Any, Any]:
        scopes = as_ints(self._xp, "scopes", scopes)
        return (
            scopes,
            as_floats(self._xp, "features", features, (len(scopes), self.dim)),
            as_floats(self._xp, "rewards", rewards, (len(scopes),)),
        )

    def _start(self, name: str, scopes: Any, features: Any, *arguments: Any) -> None:
        if not len(scopes):
            return
        arms = 1 if features is None else max(-(-len(features) // len(scopes)), 1)
        kernels, macros = self._built(arms, learns=name != "choose")
        warps, shared = macros["WARPS"], macros["WARPS"] * _bytes(self.dim, macros)
        groups = -(-len(scopes) // (warps * (32 // macros["GROUP"])))
        blocks = min(groups, self.device.multiprocessors() * macros["LEAST_BLOCKS"] * self._plan.get("ROUNDS", 1))
        kernels[name](blocks, warps, shared, np.int64(len(scopes)), self._rows, *arguments)

    def _built(self, arms: int, *, learns: bool) -> tuple[dict[str, Kernel], dict[str, int]]:
        """Kernels for pools of about this many arms, and their macros."""
        group, chunk = shape_for(self.dim, arms)
        if (group, chunk) not in self._kernels:
            macros = {"DIM": self.dim, "GROUP": group, "CHUNK": chunk, "STAGES": 1, **self._plan}
            macros.pop("ROUNDS", None)
            registers = _SCRATCH + 2 * min(self.dim, _IN_REGISTERS)
            warps, blocks = fit(_bytes(self.dim, macros), registers)
            macros = {"WARPS": warps, "LEAST_BLOCKS": blocks, **macros}
            names = ("choose", "learn", "step")
            self._kernels[group, chunk] = self.device.compile(source("lanes.cuh", "linear.cu"), macros, names), macros
        return self._kernels[group, chunk]


def shape_for(dim: int, arms: int) -> tuple[int, int]:
    """Lanes that serve one scope whose pool has so many arms, and how many of these arms lie in shared memory.

    Examples
    --------
    >>> shape_for(25, 10), shape_for(6, 10), shape_for(25, 1000)
    ((10, 10), (10, 10), (32, 32))
    """
    best = None
    for group in _GROUPS:
        chunk = max(group, min(arms, 2 * group))
        need = _bytes(dim, {"DIM": dim, "GROUP": group, "CHUNK": chunk, "STAGES": 1})
        if group < 32 and need > _SHARED:
            continue
        cost = -(-arms // group) / (32 // group) + 0.01 / group
        if best is None or cost < best[0]:
            best = cost, group, chunk
    assert best is not None
    return best[1], best[2]


def _bytes(dim: int, macros: Mapping[str, int]) -> int:
    """Shared memory of one warp; as in linear.cu."""
    row = (dim * (dim + 1) // 2 + dim + 2) // 2 * 2
    even = (dim + 2) // 2 * 2
    scope = (row + 2 * even + macros["CHUNK"] * dim + 2 + 13) // 16 * 16 + 2
    return 8 * scope * macros["STAGES"] * (32 // macros["GROUP"])
