"""DriftUCB for many scopes: memos and banks of all scopes, and the first rewards of the young ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.batch.shelf import Arrays, Shelf, repeated
from driftbandit.core import Change, Floats, Ints
from driftbandit.kernels import frames, many
from driftbandit.kernels.scales import TRIED
from driftbandit.policies.choosing_memory.driftucb import DriftUCB

_FIRST_ROOM = 8  # rewards for which the first block of a scope has room


def _power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


class DriftUCBShelf(Shelf):
    """Memos and banks of DriftUCB.

    The first rewards of a scope, which it remembers to try frames on them, lie in blocks of a common array; a scope
    moves to a larger block when its own is full, and gives it back when it has tried enough.
    """

    loops = many.choose_driftucb, many.learn_driftucb, many.replay_driftucb

    def __init__(self, policy: DriftUCB, size: int) -> None:
        super().__init__(policy, size)
        self._rules = policy._rules
        self._memos = repeated(self._first["memo"], size)
        self._banks = repeated(self._first["bank"], size)
        self._width = policy.dim + 1
        self._seen = np.zeros(0)
        self._places = np.zeros(size, dtype=np.int64)  # where the block of a scope begins
        self._rooms = np.zeros(size, dtype=np.int64)  # how many rewards it has room for
        self._used = 0
        self._free: dict[int, list[int]] = {}  # beginnings of blocks that nobody uses, by their lines
        if len(self._first["seen"]):
            for scope in range(size):
                self._put_seen(scope, self._first["seen"])

    @property
    def state(self) -> tuple[Any, ...]:
        return self._rules, self._memos, self._banks, self._seen, self._places, self._rooms, self.rounds

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "memos": self._memos,
            "banks": self._banks,
            "seen": self._seen[: self._used],
            "places": self._places,
            "rooms": self._rooms,
            "rounds": self.rounds,
        }

    def widen(self, scopes: Ints) -> None:
        """Move the first rewards of these scopes to blocks that have room for more."""
        before = self._rooms[scopes]
        for room in np.unique(before).tolist():
            self._move(scopes[before == room], room, max(2 * room, _FIRST_ROOM))

    def _move(self, scopes: Ints, old: int, new: int) -> None:
        """Move scopes from blocks with room for `old` rewards to blocks with room for `new` ones."""
        blocks = self._free.setdefault(new, [])
        reused = [blocks.pop() for _ in range(min(len(blocks), len(scopes)))]
        more = len(scopes) - len(reused)
        places = np.append(np.array(reused, dtype=np.int64), self._used + new * self._width * np.arange(more))
        self._used += more * new * self._width
        if self._used > len(self._seen):
            self._seen = np.append(self._seen, np.zeros(self._used))
        lines = self._seen[self._places[scopes, np.newaxis] + np.arange(old * self._width)]
        self._seen[places[:, np.newaxis] + np.arange(new * self._width)] = 0.0
        self._seen[places[:, np.newaxis] + np.arange(old * self._width)] = lines
        if old:
            self._free.setdefault(old, []).extend(self._places[scopes].tolist())
        self._places[scopes], self._rooms[scopes] = places, new

    def finish(self, scopes: Ints) -> None:
        """Take back the blocks of scopes that have tried frames for the last time."""
        grown = np.unique(scopes[(self._rooms[scopes] > 0) & (self._memos[scopes, TRIED] == frames.TRIAL)])
        for scope in grown.tolist():
            self._give_back(scope)

    def _give_back(self, scope: int) -> None:
        if room := int(self._rooms[scope]):
            self._free.setdefault(room, []).append(int(self._places[scope]))
            self._rooms[scope] = 0

    def _seen_of(self, scope: int) -> Floats:
        first, room = int(self._places[scope]), int(self._rooms[scope])
        return self._seen[first : first + room * self._width].reshape(room, self._width)

    def _put_seen(self, scope: int, seen: Floats) -> None:
        self._give_back(scope)
        if len(seen):
            self._move(np.array([scope]), 0, max(_power_of_two(len(seen)), _FIRST_ROOM))
            self._seen_of(scope)[: len(seen)] = seen

    def _parts_of(self, scope: int) -> dict[str, NDArray[Any]]:
        memo = self._memos[scope]
        tried = int(memo[TRIED])
        room = 0 if tried in (0, frames.TRIAL) else _power_of_two(tried)  # as a policy object would have
        return {"memo": memo.copy(), "bank": self._banks[scope].copy(), "seen": self._seen_of(scope)[:room].copy()}

    def _put_parts(self, scope: int, state: Arrays) -> None:
        self._memos[scope], self._banks[scope] = state["memo"], state["bank"]
        self._put_seen(scope, state["seen"])

    def _conclude(self, policy: DriftUCB) -> tuple[Change, ...]:
        return policy._report_alarm()
