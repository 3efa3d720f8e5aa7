"""The logs behind Figure 3: read or made up, split into the users' and the articles' side, and kept in files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.blemishes import Report
from driftbandit.core import Ints
from driftbandit.environments.groups import group_users
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import day_files, read_yahoo
from driftbandit.environments.yahoo_converted import open_yahoo
from driftbandit.environments.yahoo_plan import Plan
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.fingerprints import code_fingerprint
from driftbandit.evaluation.workers import work_off
from driftbandit.files import whole_file

DAYS = 4
PLAN: dict[str, Any] = {
    "days": DAYS,
    "candidates": 10,
    "groups": 5,
    "changes": 2,
    "clicks": (0.02, 0.30),
    "lifetime": (18.0, 72.0),
    "common": 0.8,
    "reverse": True,
}
"""Settings of a made-up log: five groups of users, whose tastes are four fifths common to all and turn around twice."""

PLANS: dict[str, dict[str, Any]] = {
    "easy": PLAN,
    "hard": {**PLAN, "clicks": (0.02, 0.10), "share": 0.5, "reverse": False},
    "none": {**PLAN, "changes": 0},
}
"""Plans of change. Hard: a third of the clicks, and half of the articles change, to other tastes instead of opposite
ones."""

HOURS = 18
"""Articles with a shorter life take no part in the articles' side."""


@dataclass(frozen=True)
class Prepared:
    """A log prepared for replays, as files in a folder.

    Attributes
    ----------
    folder : str
        Where the files are.
    seed : int
        Seed of the log if it is made up, and of the groups.
    groups : int
        Groups of users.
    lines : int or None
        Lines to make up, or to take from an existing log; None for the whole log.
    source : str
        Folder of an existing log; empty for a log to be made up.
    plan : str
        Which of `PLANS` to make up.
    """

    folder: str
    seed: int
    groups: int
    lines: int | None
    source: str = ""
    plan: str = "easy"

    @property
    def name(self) -> str:
        """What tells the logs of a run apart."""
        return str(self.seed) if self.plan == "easy" else f"{self.plan}-{self.seed}"

    @property
    def users(self) -> Path:
        """The log that the users' side is evaluated on: the part on which groups were not fitted."""
        return Path(self.folder, "users.arrow")

    @property
    def articles(self) -> Path:
        """The same log with long-lived articles only."""
        return Path(self.folder, "articles.arrow")

    @property
    def scopes(self) -> Path:
        """Group of the user of every event."""
        return Path(self.folder, "groups.npy")

    @property
    def days(self) -> Path:
        """Folder of the day files."""
        return Path(self.source) if self.source else Path(self.folder, "days")

    @property
    def made_up(self) -> bool:
        """Whether the log is made up; an existing made-up log is recognised by its plan."""
        return (self.days / "plan.npz").exists()

    def planted(self) -> Ints | None:
        """Times of the planted changes; None if nobody knows of any."""
        return Plan.load(self.days / "plan.npz").changes if self.made_up else None

    def key(self) -> str:
        """Fingerprint of the contents of the files."""
        facts: list[Any] = [code_fingerprint("environments", "kernels"), HOURS, self.seed, self.groups, self.lines]
        if self.source:
            files = [(str(file), file.stat()) for file in day_files(self.source)]
            facts += [[name, found.st_size, found.st_mtime_ns] for name, found in files]
        else:
            facts.append(PLANS[self.plan])
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def report(self) -> Report:
        """What was found when the lines were read: how many there were, and how many were skipped."""
        return Report(**json.loads(self._report.read_text(encoding="utf-8")))

    @property
    def _report(self) -> Path:
        return Path(self.folder, "report.json")

    def ready(self) -> bool:
        """Whether all files are there, made by this code from these sources."""
        try:
            return self._report.exists() and Path(self.folder, "key").read_text(encoding="ascii") == self.key()
        except (OSError, ValueError):
            return False


def prepare(logs: Sequence[Prepared], *, processes: int | None, progress: bool, fresh: bool) -> None:
    """Make the files of these logs, except those that exist."""
    left = [log for log in logs if fresh or not log.ready()]
    for _ in work_off(
        left,
        _make,
        folder="",  # each log has its own
        processes=processes,
        progress=progress,
        total=len(logs),
        finished=len(logs) - len(left),
        runs_of=_one,
    ):
        pass


def _one(log: Prepared) -> int:
    return 1


def _make(prepared: Prepared, _: str) -> None:
    Path(prepared.folder, "key").unlink(missing_ok=True)  # from here on the files may be incomplete
    log, report = _read(prepared)
    grouped = group_users(log, prepared.groups, seed=prepared.seed)
    grouped.log.save(prepared.users)
    with whole_file(prepared.scopes) as partial, open(partial, "wb") as file:
        np.save(file, grouped.groups)
    grouped.log.only(log.lifetimes() >= 3600 * HOURS).save(prepared.articles)
    with whole_file(prepared._report) as partial:
        partial.write_text(json.dumps(asdict(report)), encoding="utf-8")
    with whole_file(Path(prepared.folder, "key")) as partial:
        partial.write_text(prepared.key(), encoding="ascii")


def _read(prepared: Prepared) -> tuple[Log, Report]:
    if prepared.source:
        log, report = open_yahoo(prepared.source)
        return (log if prepared.lines is None else log.slice(0, prepared.lines)), report
    assert prepared.lines is not None  # a made-up log has so many
    if prepared.days.exists():  # perhaps of another length
        for file in prepared.days.iterdir():
            file.unlink()
    write_synthetic(prepared.days, prepared.lines, seed=prepared.seed, compress=True, **PLANS[prepared.plan])
    return read_yahoo(prepared.days)
