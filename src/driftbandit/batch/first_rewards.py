"""The first rewards of DriftUCB's scopes, which each remembers to try frames on them, in blocks of one large array."""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats, Ints

_FIRST_ROOM = 8  # rewards for which the first block of a scope has room


class FirstRewards:
    """Lines of numbers for each of many scopes; a scope moves to a larger block when its own is full.

    Parameters
    ----------
    size : int
        Number of scopes.
    width : int
        Numbers of a line.

    Attributes
    ----------
    numbers : array
        All blocks, one behind the other.
    places, rooms : array of shape (size,)
        Where the block of each scope begins, and for how many lines it has room.

    Examples
    --------
    >>> first = FirstRewards(2, width=3)
    >>> first.widen(np.array([1]))
    >>> first.of(1).shape, first.of(0).shape
    ((8, 3), (0, 3))
    """

    def __init__(self, size: int, width: int) -> None:
        self.width = width
        self.numbers = np.zeros(0)
        self.places = np.zeros(size, dtype=np.int64)
        self.rooms = np.zeros(size, dtype=np.int64)
        self._used = 0
        self._free: dict[int, list[int]] = {}  # beginnings of blocks that nobody uses, by their lines

    def of(self, scope: int) -> Floats:
        """The block of a scope."""
        first, room = int(self.places[scope]), int(self.rooms[scope])
        return self.numbers[first : first + room * self.width].reshape(room, self.width)

    def put(self, scope: int, lines: Floats) -> None:
        """Replace the lines of a scope."""
        self.give_back(scope)
        if len(lines):
            self._move(np.array([scope]), 0, max(_power_of_two(len(lines)), _FIRST_ROOM))
            self.of(scope)[: len(lines)] = lines

    def widen(self, scopes: Ints) -> None:
        """Move the lines of these scopes, which are all different, to blocks with more room."""
        before = self.rooms[scopes]
        for room in np.unique(before).tolist():
            self._move(scopes[before == room], room, max(2 * room, _FIRST_ROOM))

    def give_back(self, scope: int) -> None:
        """Leave the block of a scope to others."""
        if room := int(self.rooms[scope]):
            self._free.setdefault(room, []).append(int(self.places[scope]))
            self.rooms[scope] = 0

    def _move(self, scopes: Ints, old: int, new: int) -> None:
        """Move scopes from blocks with room for `old` lines to blocks with room for `new` ones."""
        blocks = self._free.setdefault(new, [])
        reused = [blocks.pop() for _ in range(min(len(blocks), len(scopes)))]
        more = len(scopes) - len(reused)
        places = np.append(np.array(reused, dtype=np.int64), self._used + new * self.width * np.arange(more))
        self._used += more * new * self.width
        if self._used > len(self.numbers):
            self.numbers = np.append(self.numbers, np.zeros(self._used))
        lines = self.numbers[self.places[scopes, np.newaxis] + np.arange(old * self.width)]
        self.numbers[places[:, np.newaxis] + np.arange(new * self.width)] = 0.0
        self.numbers[places[:, np.newaxis] + np.arange(old * self.width)] = lines
        if old:
            self._free.setdefault(old, []).extend(self.places[scopes].tolist())
        self.places[scopes], self.rooms[scopes] = places, new


def _power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`.

    >>> [_power_of_two(count) for count in (1, 2, 3, 256)]
    [1, 2, 4, 256]
    """
    return 1 << (count - 1).bit_length()
