"""LinUCB and LinTS for many scopes on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .device import WARP, Device, as_floats, fit
from .many import CHUNKS, Many, Plan
from .rows import Rows

_FEW_FEATURES = 10  # up to this many, 8 lanes serve a scope, else 16: the fastest on an H200
_SCRATCH, _PER_FEATURE, _MOST_REGISTERS = 26, 4, 128  # registers of a thread
_MOST_BYTES = 56 * 1024  # a warp that needs more shared memory serves fewer scopes, so that more warps fit


class LinUCB(Many):
    """The rows of many LinUCB models; ``load({"rows": ...})`` takes rows of `kernels.ridge`.

    Parameters
    ----------
    dim : int
        Number of features.
    act, test : array of 5 numbers
        Settings of `kernels.ridge` by which arms are chosen and rewards learned.
    dtype : {'float64', 'float32'}
        How rows are stored; see `rows`.
    device, plan :
        As in `Many`.
    """

    files: tuple[str, ...] = ("ridge.cuh", "linear.cu")
    names: tuple[str, ...] = ("rows",)

    def __init__(
        self,
        dim: int,
        act: Any,
        test: Any,
        *,
        dtype: str = "float64",
        device: Device | None = None,
        plan: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(dim, device=device, plan=plan)
        self._rows = Rows(self._xp, dim, dtype)
        self._act = as_floats(self._xp, "act", act, (5,))
        self._test = as_floats(self._xp, "test", test, (5,))
        self._nothing = self._xp.zeros(1, dtype=np.int64)

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": self._rows.laid_out("rows", arrays["rows"])}

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": self._rows.exchanged(arrays["rows"])}

    def refresh(self) -> int:
        """Repair matrices that rounding to float32 made impossible; returns how many there were. See `rows`."""
        return self._rows.refresh(self._arrays["rows"], float(self._test[0]))

    def _state(self) -> tuple[Any, ...]:
        return self._act, self._test, self._arrays["rows"], self._nothing, self._nothing

    def _macros(self, arms: int) -> tuple[Plan, int]:
        return linear_plan(self.dim, arms, self._rows, {"STAGES": 1, "SAMPLES": 0, "WORDS": 0, **self._plan})


class LinTS(LinUCB):
    """The rows and generators of many LinTS models; ``load({"rows": ..., "words": ...})`` takes rows of `kernels.ridge`
    and words of `kernels.pcg64`.

    The numbers drawn are those of NumPy. Choosing moves a scope's generator on, so that a scope may be in a call only
    once.

    Parameters
    ----------
    dim : int
        Number of features.
    act, test : array of 5 numbers
        Settings of `kernels.ridge`; the last of `act` is the scale of the draws.
    tables : three arrays of 256 numbers
        Tables ki, wi and fi of NumPy's ziggurat.
    dtype : {'float64', 'float32'}
        How rows are stored; see `rows`.
    device, plan :
        As in `Many`.
    """

    files = ("ridge.cuh", "sampling.cuh", "linear.cu")
    names = ("rows", "words")

    def __init__(
        self,
        dim: int,
        act: Any,
        test: Any,
        tables: tuple[Any, Any, Any],
        *,
        dtype: str = "float64",
        device: Device | None = None,
        plan: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(dim, act, test, dtype=dtype, device=device, plan=plan)
        ki, wi, fi = (np.asarray(table) for table in tables)
        whole = [ki.astype(np.uint64).view(np.int64), *(table.astype(np.float64).view(np.int64) for table in (wi, fi))]
        self._tables = self._xp.asarray(np.concatenate(whole))

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        words = self._xp.asarray(arrays["words"])
        if words.dtype not in (np.int64, np.uint64) or words.ndim != 2 or words.shape[1] < 4:
            raise ValueError(f"words: expected 4 or more words per scope, got {words.dtype} of shape {words.shape}")
        return {**super()._laid_out(arrays), "words": words.view(np.int64)}

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {**super()._exchanged(arrays), "words": arrays["words"]}

    def _state(self) -> tuple[Any, ...]:
        return self._act, self._test, self._arrays["rows"], self._arrays["words"], self._tables

    def _macros(self, arms: int) -> tuple[Plan, int]:
        words = self._arrays["words"].shape[1]
        return linear_plan(self.dim, arms, self._rows, {"STAGES": 1, "SAMPLES": 1, "WORDS": words, **self._plan})


def linear_plan(dim: int, arms: int, rows: Rows, given: Mapping[str, int]) -> tuple[Plan, int]:
    """Macros of kernels whose groups work on one row at a time, and bytes of shared memory of one warp."""
    chunk = next((size for size in CHUNKS if size >= arms), CHUNKS[-1])
    macros = {
        "DIM": dim,
        "SINGLE": int(rows.single),
        "GROUP": 8 if dim <= _FEW_FEATURES else 16,
        "CHUNK": chunk,
        **given,
    }
    while "GROUP" not in given and macros["GROUP"] < WARP and _bytes(macros, rows.room) > _MOST_BYTES:
        macros["GROUP"] *= 2
    warps, blocks = fit(_bytes(macros, rows.room), min(_SCRATCH + _PER_FEATURE * dim, _MOST_REGISTERS))
    return {"WARPS": warps, "LEAST_BLOCKS": blocks, **macros}, _bytes(macros, rows.room)


def _bytes(macros: Mapping[str, int], row: int) -> int:
    """Shared memory of one warp; as in linear.cu and members.cu."""
    dim = macros["DIM"]
    even = (dim + 2) // 2 * 2
    scope = (row + 2 * even + macros["CHUNK"] * dim + 2 + 13) // 16 * 16 + 2
    return 8 * scope * macros.get("STAGES", 1) * (WARP // macros["GROUP"])
