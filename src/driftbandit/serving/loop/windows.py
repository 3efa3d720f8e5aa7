"""Open decisions in the order in which their windows close."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable

from driftbandit.serving.loop.records import Open


class Due:
    """Open decisions, those that are due first come first; of two that are due together, the one made first.

    Windows are equally long as a rule, so that new ones go to the end of a queue. Those that are due before the end,
    because somebody made windows shorter, are kept in a heap beside it.

    >>> due = Due()
    >>> for seq, expires in enumerate((5, 9, 7)):
    ...     due.add(Open("", seq, expires, "", 0, 0, 0, None, 0.0))
    >>> [record.expires for record in due.take(8)], due.first
    ([5, 7], 9)
    """

    __slots__ = ("_early", "_last", "_queue", "first")

    def __init__(self, records: Iterable[Open] = ()) -> None:
        self._queue = deque(sorted(records, key=_order))
        self._early: list[tuple[int, int, Open]] = []
        self._last = self._queue[-1].expires if self._queue else 0
        self.first: float = self._queue[0].expires if self._queue else math.inf
        """When the first of them is due."""

    def add(self, record: Open) -> None:
        """Take in a decision, made after all others."""
        expires = record.expires
        if expires < self._last:
            heapq.heappush(self._early, (expires, record.seq, record))
            self.first = min(self.first, expires)
        else:
            if not self._queue:
                self.first = min(self.first, expires)
            self._queue.append(record)
            self._last = expires

    def take(self, now: int) -> list[Open]:
        """Remove those that are due by now."""
        queue, early = self._queue, self._early
        taken: list[Open] = []
        while queue and queue[0].expires <= now:
            taken.append(queue.popleft())
        if early and early[0][0] <= now:
            while early and early[0][0] <= now:
                taken.append(heapq.heappop(early)[2])
            taken.sort(key=_order)
        self.first = min(queue[0].expires if queue else math.inf, early[0][0] if early else math.inf)
        return taken


def _order(record: Open) -> tuple[int, int]:
    return record.expires, record.seq
