"""What a loop did that the store does not have yet."""

from __future__ import annotations

import msgspec

from driftbandit.core import Change
from driftbandit.serving.loop.events import AnyEvent, Run, encode


class Found(msgspec.Struct, frozen=True):
    """A change that a policy detected, with the weights of the model in charge before it."""

    scope: str
    time: int
    seq: int
    number: int
    change: Change
    before: bytes | None


class Outbox:
    """What the store does not have yet.

    Parameters
    ----------
    number, shard : int
        Which loop, as the store knows it, and which of its shards.

    Attributes
    ----------
    events : list
        The latest events, up to the loop's last.
    sealed : list of Run
        Earlier events, already encoded.
    closed : list
        Decisions that closed: id, number of the event, reward.
    found : list of Found
        Changes that were detected.
    stored : int
        Number of the last event that the store has.
    saved_at : int
        The last event that the store's snapshot includes.
    told_at : int
        The last event that the store's tally includes.
    """

    __slots__ = ("_number", "_shard", "closed", "events", "found", "saved_at", "sealed", "stored", "told_at")

    def __init__(self, number: int = 0, shard: int = 0) -> None:
        self._number = number
        self._shard = shard
        self.events: list[AnyEvent] = []
        self.sealed: list[Run] = []
        self.closed: list[tuple[str, int, float | None]] = []
        self.found: list[Found] = []
        self.stored = 0
        self.saved_at = 0
        self.told_at = 0

    @property
    def last(self) -> int:
        """Number of the last event that was logged; the loop's state has the same number unless a command failed."""
        return (self.sealed[-1].last if self.sealed else self.stored) + len(self.events)

    def seal(self, least: int = 1) -> None:
        """Encode the latest events if there are at least `least`."""
        count = len(self.events)
        if count >= least:
            last = self.last
            self.sealed.append(Run(self._number, self._shard, last - count + 1, last, encode(self.events)))
            self.events.clear()

    def keep_logged(self) -> None:
        """Forget everything that no event stands for: what a command did that failed half way.

        Closed decisions are forgotten altogether. Repeating the log brings back those that did close.
        """
        last = self.last
        self.closed = []
        self.found = [found for found in self.found if found.seq <= last]
