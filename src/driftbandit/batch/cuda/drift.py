"""DriftUCB for many scopes on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .device import WARP, Device, as_floats, as_ints, fit
from .many import CHUNKS, Many, Plan

_MEMO, _RULES = 29, 6  # in kernels.driftucb: scales.MEMO and drift.RULES
_RUNGS, _SUMS = 10, 9  # kernels.driftucb.ladder.births.RUNGS, and numbers behind a triangle
_REGISTERS = 102  # of a thread; fewer would let more warps work at a time, but not keep their numbers


class DriftUCB(Many):
    """The memos and banks of many DriftUCB policies; ``load({"memos": ..., "banks": ...})`` takes those of
    `kernels.driftucb.drift` without their backlogs: here young models learn at once.

    `learn` is `kernels.driftucb.drift.learn`: the trial of frames on a scope's first 256 rewards is left to the CPU,
    and so are choices while five or more rewards are pending.

    Parameters
    ----------
    dim : int
        Number of features.
    rules : array
        Settings of `kernels.driftucb.drift`, followed by what each expert keeps.
    device, plan :
        As in `Many`.
    """

    files = ("drift_world.cuh", "drift_learn.cuh", "drift.cu")
    names = ("memos", "banks")

    def __init__(
        self, dim: int, rules: Any, *, device: Device | None = None, plan: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(dim, device=device, plan=plan)
        self._rules = as_floats(self._xp, "rules", rules, (None,))
        self._experts = len(self._rules) - _RULES
        self._models = 2 + self._experts + _RUNGS
        most = dim + 1
        self._memo = _MEMO + 1 + self._experts + 3 * most
        self._rung = 1 + most + most * (most + 1) // 2 + _SUMS

    def add_to_memos(self, scopes: Any, slot: int, value: float) -> None:
        """Add a number to one slot of the memos of some scopes, no scope twice."""
        self._arrays["memos"][as_ints(self._xp, "scopes", scopes), slot] += value

    def memo_slots(self, scopes: Any, first: int, last: int) -> Any:
        """The slots from `first` to before `last` of the memos of some scopes; the array is on the device."""
        return self._arrays["memos"][as_ints(self._xp, "scopes", scopes), first:last]

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        memos = as_floats(self._xp, "memos", arrays["memos"], (None, self._memo))
        banks = as_floats(self._xp, "banks", arrays["banks"], (None, self._models, self._rung))
        return {
            "memos": self._xp.pad(memos, ((0, 0), (0, self._memo % 2))),
            "banks": self._xp.pad(banks, ((0, 0), (0, 0), (0, self._rung % 2))),
        }

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {"memos": arrays["memos"][:, : self._memo], "banks": arrays["banks"][:, :, : self._rung]}

    def _state(self) -> tuple[Any, ...]:
        return self._rules, self._arrays["memos"], self._arrays["banks"]

    def _macros(self, arms: int) -> tuple[Plan, int]:
        chunk = next((size for size in CHUNKS if size >= arms), CHUNKS[-1])
        macros = {"DIM": self.dim, "EXPERTS": self._experts, "GROUP": WARP, "CHUNK": chunk, **self._plan}
        shared = self._bytes(macros["CHUNK"])
        warps, blocks = fit(shared, _REGISTERS)
        return {"WARPS": warps, "LEAST_BLOCKS": blocks, **macros}, shared

    def _bytes(self, chunk: int) -> int:
        """Shared memory of one warp; as in drift.cu."""
        even = (self.dim + 3) // 2 * 2
        scratch = (self._memo + 1) // 2 * 2 + 4 * even + 3 * self._models + _RUNGS * _SUMS
        rows = (scratch + 8 + 1) // 2 * 2 + 2 * ((self._rung + 1) // 2 * 2)
        return 8 * ((rows + chunk * self.dim + 2 + 1) // 2 * 2)
