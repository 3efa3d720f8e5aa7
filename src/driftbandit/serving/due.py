"""Open decisions in the order in which their windows close."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable

Entry = tuple[int, int, str]


class Due:
    """Entries (expiry, number of the event, id), smallest first.

    Windows are equally long as a rule, so that new entries go to the end of a queue. Those that are due before the end,
    because somebody made windows shorter, are kept in a heap beside it.

    >>> due = Due([(5, 1, "a")])
    >>> due.add((9, 2, "b")); due.add((7, 3, "c"))
    >>> [due.pop(8), due.pop(8), due.pop(8), due.next()]
    [(5, 1, 'a'), (7, 3, 'c'), None, 9]
    """

    __slots__ = ("_early", "_queue")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._queue = deque(sorted(entries))
        self._early: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Take in an entry."""
        queue = self._queue
        if queue and entry < queue[-1]:
            heapq.heappush(self._early, entry)
        else:
            queue.append(entry)

    def next(self) -> float:
        """When the next one is due."""
        first: float = self._queue[0][0] if self._queue else math.inf
        return min(first, self._early[0][0]) if self._early else first

    def pop(self, now: int) -> Entry | None:
        """Remove the first entry if it is due by now."""
        queue, early = self._queue, self._early
        if early and (not queue or early[0] < queue[0]):
            return heapq.heappop(early) if early[0][0] <= now else None
        return queue.popleft() if queue and queue[0][0] <= now else None
