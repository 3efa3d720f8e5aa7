"""Decisions whose reward windows are open, in the order in which the windows close."""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable

import msgspec


class Open(msgspec.Struct, array_like=True, gc=False):
    """A decision whose window is open, or closed so recently that the store does not know it yet.

    Attributes
    ----------
    seq : int
        Number of its event.
    scope : str
        Whose model decided.
    epoch, shadow_epoch : int
        Which generation of models decided. Later generations do not learn its reward.
    number : int
        The arm's number, for policies that know arms by number.
    features : bytes, int or None
        The arm's features: its own bytes, a row of the present catalogue, or None.
    weight : float
        Weight of its reward in the estimate of the shadow's value: 1 / propensity if both chose the same arm, else 0.
    """

    id: str
    seq: int
    expires: int
    scope: str
    epoch: int
    shadow_epoch: int
    number: int
    features: bytes | int | None
    weight: float
    reward: float | None = None
    learned: bool = False
    closed: bool = False


class ClosedRow(msgspec.Struct, frozen=True, gc=False):
    """A decision whose window has closed, as the store knows it: where its event is, and its reward if one came."""

    loop: int
    id: str
    shard: int
    seq: int
    reward: float | None


class Due:
    """Open decisions, sorted by when their windows close; of two that close together, the earlier decision is first.

    Windows usually have one length, so new decisions go to the end of a queue. After windows were made shorter, new
    decisions may close before older ones; these new decisions are kept in a heap beside the queue.

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
        """When the next window closes; infinity if none is open."""

    def add(self, record: Open) -> None:
        """Add a decision that was made after all the others."""
        expires = record.expires
        if expires < self._last:
            heapq.heappush(self._early, (expires, record.seq, record))
            self.first = min(self.first, expires)
        else:
            if not self._queue:
                self.first = min(self.first, expires)
            self._queue.append(record)
            self._last = expires

    def time_of(self, count: int) -> int | None:
        """When about the `count`-th window from now closes; None if there are fewer."""
        return self._queue[count - 1].expires if len(self._queue) >= count else None

    def take(self, now: int) -> list[Open]:
        """Remove and return the decisions whose windows close by now."""
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


class Pending:
    """How many rewards each scope's model has yet to learn, for policies that mind (`Traits.minds_pending`).

    A decision counts from when it is made until its reward is learned or its window closes. The reward may have come
    already: if rewards are learned when windows close, the model does not know it before. Decisions of an earlier
    generation of models do not count, since the present models never learn their rewards.

    The counts depend only on the open decisions, so a snapshot or the log gives them back.

    Parameters
    ----------
    role : int
        Whether to count for the models that decide (0) or for those of the shadow policy (1).
    epoch : int
        The present generation of these models.
    records : iterable of Open
        All decisions so far that may be open.

    Examples
    --------
    >>> records = [Open("", seq, 9, "ann", epoch, 1, 0, None, 0.0) for seq, epoch in enumerate((1, 2, 2))]
    >>> pending = Pending(0, 2, records)
    >>> pending["ann"], pending["bob"]
    (2, 0)
    >>> pending.drop(records)
    >>> pending["ann"]
    0
    """

    __slots__ = ("_counts", "_epoch", "_shadow")

    def __init__(self, role: int, epoch: int, records: Iterable[Open] = ()) -> None:
        self._shadow = bool(role)
        self._epoch = epoch
        self._counts: Counter[str] = Counter()
        for record in records:
            if not (record.learned or record.closed):
                self.add(record)

    def __getitem__(self, scope: str) -> int:
        return self._counts[scope]

    def add(self, record: Open) -> None:
        """Count a new decision."""
        if self._concerns(record):
            self._counts[record.scope] += 1

    def drop(self, records: Iterable[Open]) -> None:
        """Count these decisions no longer: they are about to be learned or closed, and were neither before."""
        counts = self._counts
        for record in records:
            if self._concerns(record):
                counts[record.scope] -= 1
                if not counts[record.scope]:
                    del counts[record.scope]

    def _concerns(self, record: Open) -> bool:
        return (record.shadow_epoch if self._shadow else record.epoch) == self._epoch


def _order(record: Open) -> tuple[int, int]:
    return record.expires, record.seq
