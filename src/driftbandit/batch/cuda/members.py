"""dLinUCB for many scopes on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .device import Device, as_floats, as_ints
from .linear import linear_plan
from .many import Many, Plan
from .rows import Rows

_RING = 5  # kernels.windows.RING
_RULES = 8  # kernels.windows.RULES


class DLinUCB(Many):
    """Members of many dLinUCB policies with ridge members; see `kernels.ridge` and `kernels.windows`.

    ``load`` takes 'banks' of shape (scopes, members, row_size), 'ledgers' of shape (scopes, members, 5 + window), and
    'count' and 'leader' of every scope. Where `learn` or `step` returns 1, the reward was learned and the CPU must
    review the scope (`take`, retire or spawn members, `put`) before it goes on; `step` chooses no arm there and
    returns -1.

    Parameters
    ----------
    dim : int
        Number of features.
    act, test : array of 5 numbers
        Settings of `kernels.ridge` by which arms are chosen and rewards are judged.
    rules : array of 8 numbers
        Settings of the miss test.
    dtype : {'float64', 'float32'}
        How members are stored; see `rows`.
    device, plan :
        As in `Many`.
    """

    files = ("ridge.cuh", "members.cu")
    names = ("banks", "ledgers", "count", "leader")

    def __init__(
        self,
        dim: int,
        act: Any,
        test: Any,
        rules: Any,
        *,
        dtype: str = "float64",
        device: Device | None = None,
        plan: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(dim, device=device, plan=plan)
        self._rows = Rows(self._xp, dim, dtype)
        self._act = as_floats(self._xp, "act", act, (5,))
        self._test = as_floats(self._xp, "test", test, (5,))
        self._rules = as_floats(self._xp, "rules", rules, (_RULES,))

    @property
    def room(self) -> int:
        """Members that every scope has room for."""
        return int(self._arrays["ledgers"].shape[1])

    def refresh(self) -> int:
        """Repair matrices that rounding to float32 made impossible; returns how many there were. See `rows`."""
        rows = self._arrays["banks"].reshape(-1, self._rows.room)
        return self._rows.refresh(rows, float(self._test[0]))

    def widen(self, room: int) -> None:
        """Give every scope room for so many members."""
        if (more := room - self.room) > 0:
            for name in ("banks", "ledgers"):
                self._arrays[name] = self._xp.pad(self._arrays[name], ((0, 0), (0, more), (0, 0)))

    def _laid_out(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        banks = self._xp.asarray(arrays["banks"])
        count, room, _ = banks.shape
        rows = self._rows.laid_out("banks", banks.reshape(count * room, -1))
        ledgers = self._xp.asarray(arrays["ledgers"])
        if ledgers.shape[:2] != (count, room) or ledgers.ndim != 3:
            raise ValueError(f"ledgers: expected shape ({count}, {room}, 5 + window), got {ledgers.shape}")
        return {
            "banks": rows.reshape(count, room, -1),
            "ledgers": as_ints(self._xp, "ledgers", ledgers.reshape(-1)).reshape(ledgers.shape),
            "count": as_ints(self._xp, "count", arrays["count"], count),
            "leader": as_ints(self._xp, "leader", arrays["leader"], count),
        }

    def _exchanged(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        count, room, _ = arrays["banks"].shape
        rows = self._rows.exchanged(arrays["banks"].reshape(count * room, self._rows.room))
        return {**arrays, "banks": rows.reshape(count, room, -1)}

    def _state(self) -> tuple[Any, ...]:
        held = self._arrays
        return self._act, self._test, self._rules, held["banks"], held["ledgers"], held["count"], held["leader"]

    def _macros(self, arms: int) -> tuple[Plan, int]:
        window = self._arrays["ledgers"].shape[2] - _RING
        return linear_plan(self.dim, arms, self._rows, {"ROOM": self.room, "WINDOW": window, **self._plan})
