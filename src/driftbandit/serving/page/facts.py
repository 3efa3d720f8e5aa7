"""What the page shows of a loop, gathered in the engine's thread and drawn elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from driftbandit.serving.api.views import partial, totals
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.reading import describe
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.series import TIERS, Bucket
from driftbandit.serving.page.story import ALARMS, Event, latest
from driftbandit.serving.page.svg import Times

MOST_EVENTS = 1_000
"""How many of the latest changes the page looks at."""

SPANS = {"hour": 0, "day": 1, "90 days": 2}
"""Tiers by how far back they reach."""

_MOST_POINTS = 180
_SHORTEST = 60_000
_RECENT = 15_000


@dataclass(frozen=True, slots=True)
class Facts:
    """A loop as it stands.

    Attributes
    ----------
    name, config, version :
        The loop and its settings.
    now : int
        Milliseconds since 1970.
    tier : int
        Which of `TIERS` the buckets come from.
    buckets : list of Bucket
        What happened over time, oldest first.
    totals : dict
        Counts since the beginning.
    scope : str or None
        Whose model is shown; None if there is none yet.
    model : dict or None
        That model.
    events : list of Event
        Its changes, oldest first.
    all_events : list of Event
        The latest changes of all scopes.
    most_changed : list of (scope, changes, time of the last)
        The most changed scopes.
    partial : str or None
        Of what part of the loop buckets and model are; None if they are of all of it.
    """

    name: str
    config: LoopConfig
    version: int
    now: int
    tier: int
    buckets: list[Bucket]
    totals: dict[str, Any]
    scope: str | None
    model: dict[str, Any] | None
    events: list[Event]
    all_events: list[Event]
    most_changed: list[tuple[str, int, int]]
    partial: str | None = None

    @property
    def times(self) -> Times:
        """The time shown: from the first bucket, or as far back as the tier reaches, to now."""
        length, keep = TIERS[self.tier]
        end = -(-self.now // length) * length
        first = self.buckets[0].start if self.buckets else end
        return Times(max(end - length * keep, min(first, end - _SHORTEST)), end)

    @property
    def alarms(self) -> list[Event]:
        """Changes of the shown model that signal a change in the world."""
        return [event for event in self.events if event.kind in ALARMS]

    @property
    def marks(self) -> list[tuple[int, str]]:
        """Times and labels of the loop's marks, oldest first."""
        marks = self.config.marks or []
        return sorted((round(mark.time.timestamp() * 1000.0), mark.label) for mark in marks)

    @property
    def present(self) -> list[Event]:
        """Changes of the shown model since its settings last changed."""
        return [] if self.model is None else latest(self.events, self.model["rounds"])

    def points(self) -> list[Bucket]:
        """Whole buckets, joined until there are few enough to draw."""
        length = TIERS[self.tier][0]
        times, step = self.times, self.step
        joined: dict[int, Bucket] = {}
        for bucket in self.buckets:
            if times.start <= bucket.start and bucket.start + length <= self.now:
                start = times.start + (bucket.start - times.start) // step * step
                joined.setdefault(start, Bucket(start)).add(bucket)
        return [bucket for _, bucket in sorted(joined.items())]

    @property
    def step(self) -> int:
        """Milliseconds from one of `points` to the next."""
        length = TIERS[self.tier][0]
        times = self.times
        return length * max(1, math.ceil((times.end - times.start) / length / _MOST_POINTS))


def recent(buckets: Sequence[Bucket], now: int, length: int) -> tuple[float, float | None]:
    """Decisions a second, and mean reward, over the latest few whole buckets.

    >>> recent([Bucket(0, 50, 40, 10.0), Bucket(5_000, 70, 60, 15.0), Bucket(10_000, 1, 1, 1.0)], 11_000, 5_000)
    (12.0, 0.25)
    """
    end = now - now % length
    seconds = max(_RECENT, length)
    latest = [bucket for bucket in buckets if end - seconds <= bucket.start < end]
    if not latest:
        return 0.0, None
    closed = sum(bucket.closed for bucket in latest)
    reward = sum(bucket.reward for bucket in latest)
    lasted = (end - latest[0].start) / 1000.0
    return sum(bucket.decisions for bucket in latest) / lasted, reward / closed if closed else None


def merged(engine: Engine, name: str, tier: int, last: int | None = None) -> list[Bucket]:
    """A loop's buckets, summed over all its shards in this process; with `last`, only the last few."""
    found: dict[int, Bucket] = {}
    for part in engine.parts(name):
        for bucket in part.series.buckets(tier)[-last if last else None :]:
            found.setdefault(bucket.start, Bucket(bucket.start)).add(bucket)
    return [bucket for _, bucket in sorted(found.items())]


def model_of(engine: Engine, name: str, scope: str) -> dict[str, Any] | None:
    """A scope's model; None if this process never met the scope."""
    return next((found for part in engine.parts(name) if (found := describe(part, scope)) is not None), None)


@dataclass(frozen=True, slots=True)
class Brief:
    """One loop of the overview."""

    name: str
    config: LoopConfig
    totals: dict[str, Any]
    buckets: list[Bucket]
    now: int
    last: Event | None
    partial: str | None = None


def brief(engine: Engine, name: str, now: int, last: Event | None) -> Brief:
    """Gather a loop's line of the overview."""
    config = engine.configuration(name).config
    return Brief(name, config, totals(engine, name), merged(engine, name, 0, 60), now, last, partial(engine, name))
