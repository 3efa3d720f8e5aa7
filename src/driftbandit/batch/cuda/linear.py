"""LinUCB for many scopes on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .device import WARP, Device, as_floats, fit
from .many import Many, Plan

_FEW_FEATURES = 10  # up to this many, 8 lanes serve a scope, else 16: the fastest on an H200
_CHUNK = 16  # most arms of a pool in shared memory
_SCRATCH = 72  # registers that a thread needs beside the features of an arm
_IN_REGISTERS = 32  # most features of an arm that a thread keeps in registers


class LinUCB(Many):
    """The rows of many LinUCB models; ``load({"rows": ...})`` takes rows of `kernels.ridge`.

    Parameters
    ----------
    dim : int
        Number of features.
    act, test : array of 5 numbers
        Settings of `kernels.ridge` by which arms are chosen and rewards learned.
    device, plan :
        As in `Many`.
    """

    files = ("linear.cu",)
    names = ("rows",)

    def __init__(
        self, dim: int, act: Any, test: Any, *, device: Device | None = None, plan: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(dim, device=device, plan=plan)
        self._act = as_floats(self._xp, "act", act, (5,))
        self._test = as_floats(self._xp, "test", test, (5,))
        self._triangle = dim * (dim + 1) // 2

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        dim, triangle = self.dim, self._triangle
        rows = as_floats(self._xp, "rows", arrays["rows"], (None, 1 + dim + triangle))
        found = self._xp.zeros((len(rows), row_room(dim)))
        found[:, :triangle] = rows[:, 1 + dim :]
        found[:, triangle : triangle + dim] = rows[:, 1 : 1 + dim]
        found[:, triangle + dim] = rows[:, 0]
        return {"rows": found}

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        rows, last = arrays["rows"], self._triangle + self.dim
        parts = rows[:, last : last + 1], rows[:, self._triangle : last], rows[:, : self._triangle]
        return {"rows": self._xp.concatenate(parts, axis=1)}

    def _state(self) -> tuple[Any, ...]:
        return self._act, self._test, self._arrays["rows"]

    def _macros(self, arms: int) -> tuple[Plan, int]:
        group = 8 if self.dim <= _FEW_FEATURES else 16
        macros = {"DIM": self.dim, "GROUP": group, "CHUNK": 8 if arms <= 8 else _CHUNK, "STAGES": 1, **self._plan}
        shared = _bytes(macros)
        while "GROUP" not in self._plan and macros["GROUP"] < WARP and shared > _MOST:
            macros["GROUP"] *= 2
            shared = _bytes(macros)
        warps, blocks = fit(shared, _SCRATCH + 2 * min(self.dim, _IN_REGISTERS))
        return {"WARPS": warps, "LEAST_BLOCKS": blocks, **macros}, shared


_MOST = 56 * 1024  # bytes of a warp above which it serves fewer scopes, so that more warps fit


def row_room(dim: int) -> int:
    """Numbers that one model takes on the device."""
    return (dim * (dim + 1) // 2 + dim + 2) // 2 * 2


def _bytes(macros: Mapping[str, int]) -> int:
    """Shared memory of one warp; as in linear.cu."""
    dim = macros["DIM"]
    even = (dim + 2) // 2 * 2
    scope = (row_room(dim) + 2 * even + macros["CHUNK"] * dim + 2 + 13) // 16 * 16 + 2
    return 8 * scope * macros["STAGES"] * (WARP // macros["GROUP"])
