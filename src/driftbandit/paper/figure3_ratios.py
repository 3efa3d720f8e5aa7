"""Ratios of click-through rates with their intervals, kept in a file: resampling takes longest when nothing changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.replay import Replay, rate_ratio
from driftbandit.files import whole_file


class Ratios:
    """`rate_ratio` that remembers what it found for replays with the same fingerprints.

    Parameters
    ----------
    file : Path
        Where `save` keeps the intervals.
    fresh : bool
        Forget what was kept.
    """

    def __init__(self, file: Path, fresh: bool = False) -> None:
        self._file = file
        self._found: dict[str, list[float]] = {}
        self._asked: dict[str, list[float]] = {}
        if not fresh:
            with suppress(OSError, ValueError):  # not there, or damaged: found again
                self._found = dict(json.loads(file.read_text(encoding="utf-8")))
        self._kept = set(self._found)

    def __call__(self, ours: Sequence[Replay], theirs: Sequence[Replay] | None = None) -> Interval:
        """Rate of some replays over that of others, by default of the random logger."""
        keys = [[run.key for run in runs] for runs in (ours, theirs or ())]
        key = hashlib.sha256(json.dumps(keys).encode()).hexdigest()
        if key not in self._found:
            interval = rate_ratio(ours, theirs)
            self._found[key] = [interval.estimate, interval.low, interval.high]
        self._asked[key] = self._found[key]
        return Interval(*self._found[key])

    def save(self) -> None:
        """Keep the intervals that were asked for, if they are not the ones that were kept before."""
        if self._asked.keys() != self._kept:
            with whole_file(self._file) as partial:
                partial.write_text(json.dumps(self._asked), encoding="utf-8")
