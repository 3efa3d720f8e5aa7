"""What happened over time, in buckets that get coarser as they get older."""

from __future__ import annotations

import msgspec

TIERS = ((5_000, 720), (60_000, 1_440), (3_600_000, 2_160))
"""Tiers of buckets: length in milliseconds, and how many are kept (an hour, a day, 90 days in all)."""


class Bucket(msgspec.Struct, array_like=True, gc=False):
    """Counts from `start` (milliseconds since 1970) to the start of the next bucket."""

    start: int
    decisions: int = 0
    closed: int = 0
    reward: float = 0.0
    changes: int = 0
    misses: tuple[float, float, float] | None = None
    """The leading member's miss rate, and the bounds above which a member is spawned and the leading one is retired.
    Looked up once per bucket, since a look costs more than learning a reward."""

    def add(self, other: Bucket) -> None:
        """Add the counts of another bucket."""
        self.decisions += other.decisions
        self.closed += other.closed
        self.reward += other.reward
        self.changes += other.changes
        if other.misses is not None and (self.misses is None or other.misses[0] > self.misses[0]):
            self.misses = other.misses


class Series(msgspec.Struct, array_like=True):
    """Decisions, closed windows, rewards and changes over time.

    >>> series = Series()
    >>> series.at(1000).decisions += 1
    >>> series.at(7000).reward += 0.5
    >>> [(bucket.start, bucket.decisions, bucket.reward) for bucket in series.buckets(0)]
    [(0, 1, 0.0), (5000, 0, 0.5)]
    """

    tiers: list[list[Bucket]] = msgspec.field(default_factory=lambda: [[] for _ in TIERS])

    def at(self, time: int) -> Bucket:
        """The bucket of a time; times must not go backwards from call to call."""
        finest = self.tiers[0]
        length, keep = TIERS[0]
        start = time - time % length
        if finest and finest[-1].start == start:
            return finest[-1]
        if finest:
            self._roll_up(0, finest[-1])
        bucket = Bucket(start)
        finest.append(bucket)
        if len(finest) > keep:
            del finest[0]
        return bucket

    def buckets(self, tier: int) -> list[Bucket]:
        """The buckets of a tier, oldest first; the last one may still grow."""
        length, keep = TIERS[tier]
        merged: list[Bucket] = [msgspec.structs.replace(bucket) for bucket in self.tiers[tier]]
        for finer in self.tiers[:tier][::-1]:  # buckets that have not been rolled up yet
            for bucket in finer[-1:]:
                start = bucket.start - bucket.start % length
                if not merged or merged[-1].start < start:
                    merged.append(Bucket(start))
                merged[-1].add(bucket)
        return merged[-keep:]

    def _roll_up(self, tier: int, done: Bucket) -> None:
        """Add a finished bucket to the next coarser tier."""
        if tier + 1 == len(TIERS):
            return
        coarser = self.tiers[tier + 1]
        length, keep = TIERS[tier + 1]
        start = done.start - done.start % length
        if not coarser or coarser[-1].start != start:
            if coarser:
                self._roll_up(tier + 1, coarser[-1])
            coarser.append(Bucket(start))
            if len(coarser) > keep:
                del coarser[0]
        coarser[-1].add(done)
