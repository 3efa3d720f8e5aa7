"""How long to wait before trying again."""

from __future__ import annotations

FIRST_S = 0.1
LONGEST_S = 2.0


class Backoff:
    """Pauses between attempts, each twice as long as the one before, up to a limit.

    Parameters
    ----------
    first, longest : float
        The first pause and the longest one, in seconds.

    Examples
    --------
    >>> backoff = Backoff(0.5, 2.0)
    >>> [backoff.next() for _ in range(4)]
    [0.5, 1.0, 2.0, 2.0]
    >>> backoff.reset()
    >>> backoff.next()
    0.5
    """

    def __init__(self, first: float = FIRST_S, longest: float = LONGEST_S) -> None:
        self._first = first
        self._longest = longest
        self._pause = first

    def next(self) -> float:
        """The pause before the next attempt."""
        pause = self._pause
        self._pause = min(2.0 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """Start over after a success."""
        self._pause = self._first
