"""The service's time, which no change of the machine's clock can turn back or throw far ahead."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger("driftbandit")

_STEP_MS = 1_000
"""How far the machine's clock must move against the service's between two looks to count as a step."""


def wall() -> int:
    """The machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady() -> int:
    """Milliseconds since the machine started, sleep included; nobody can set this clock."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(which) // 1_000_000


class Clock:
    """Milliseconds since 1970: the machine's clock when the process started, and since then a clock that nobody sets.

    `watch`, called about once per second, logs and counts the steps of the machine's clock.

    Parameters
    ----------
    wall, steady : callable
        The machine's clock, and one that only ever runs forwards.

    Attributes
    ----------
    steps : int
        How often the machine's clock was seen to jump.

    Examples
    --------
    >>> machine, running = [5_000_000], [7]
    >>> clock = Clock(lambda: machine[0], lambda: running[0])
    >>> machine[0], running[0] = 1_400_000, 107
    >>> clock(), clock.off
    (5000100, -3600.1)
    """

    def __init__(self, wall: Callable[[], int] = wall, steady: Callable[[], int] = steady) -> None:
        self._wall, self._steady = wall, steady
        self._base = wall() - steady()
        self._seen = 0
        self.steps = 0

    def __call__(self) -> int:
        """The time."""
        return self._base + self._steady()

    @property
    def off(self) -> float:
        """Seconds by which the machine's clock is ahead of the service's."""
        return (self._wall() - self()) / 1000.0

    def watch(self) -> None:
        """Log and count a step of the machine's clock since the last look."""
        off = self._wall() - self()
        if abs(off - self._seen) >= _STEP_MS:
            self.steps += 1
            logger.warning(
                "the machine's clock was set by %+.1f s; the service goes on without it until it is started again",
                (off - self._seen) / 1000.0,
            )
        self._seen = off
