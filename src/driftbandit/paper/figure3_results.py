"""The tables of Figure 3: rates, ratios and delays of detection, from replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftbandit.core import Ints
from driftbandit.environments.log import Log
from driftbandit.evaluation.detection import ALARMS, Detection
from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.replay import Replay
from driftbandit.evaluation.results import Table, detection_cells
from driftbandit.paper.figure3_logs import HOURS, PLANS, Prepared
from driftbandit.paper.figure3_ratios import Ratios

Replays = Mapping[str, Mapping[str, Sequence[Replay]]]
"""Replays by side and policy, one per log; the side 'others' has users with other settings."""

CLAIMS = (
    ("users", "uniform-dLinUCB", "uniform-LinUCB", "about +50 %"),
    ("users", "uniform-dLinUCB", "N-LinUCB", "+15 %"),
    ("users", "uniform-dLinUCB", "CLUB", "+25 %"),
    ("users", "N-dLinUCB", "N-LinUCB", "above"),
    ("users", "uniform-adTS", "uniform-LinUCB", "below"),
    ("users", "WMDUCB1", "uniform-LinUCB", "below"),
    ("users", "uniform-LR member", "uniform-LinUCB", "–"),
    ("users", "uniform-LR member", "uniform-dLinUCB", "–"),
    ("articles", "dLinUCB", "LinUCB", "above"),
    ("articles", "adTS", "LinUCB", "below at first"),
    ("articles", "LR member", "LinUCB", "–"),
)
"""Side, two policies, and what the paper says about the rate of the first against that of the second."""


SIDES = ("users", "articles")
DETECTORS = ("dLinUCB", "LR member", "adTS", "WMDUCB1")
"""How the names of policies that look for changes end."""


class Side:
    """One side of a log: its events, and the owner of the model that learns from each."""

    def __init__(self, prepared: Prepared, kind: str) -> None:
        self.kind = kind
        self.log = Log.load(prepared.users if kind == "users" else prepared.articles)
        self.groups = np.load(prepared.scopes)
        self.planted = prepared.planted()
        start = int(self.log.times[0]) if len(self.log) else 0
        self.hours = (self.log.times - start) / 3600.0
        self.planted_hours = np.empty(0) if self.planted is None else (self.planted - start) / 3600.0

    def owners(self, name: str) -> Ints:
        """Owner of the model that learns from each event, for this policy."""
        if self.kind == "articles":
            return self.log.displayed().astype(np.int64)
        return self.groups if name.startswith("N-") else np.zeros(len(self.log), dtype=np.int64)

    def count(self, name: str, replay: Replay, rewards: Detection, seconds: Detection) -> None:
        """Count a replay's alarms against the planted changes, model by model, in rewards and in seconds.

        A change counts for a model that learned both before and after it.
        """
        assert self.planted is not None  # only for made-up logs
        owners = self.owners(name)
        alarms = [(event, change.round) for event, change in replay.changes if change.kind in ALARMS]
        places = np.searchsorted(self.log.times, self.planted)
        for owner in np.unique(owners[replay.matched]):
            own = replay.matched[owners[replay.matched] == owner]
            shifts = np.searchsorted(own, places)
            lived = (shifts > 0) & (shifts < len(own))
            mine = [(event, round_) for event, round_ in alarms if owners[event] == owner]
            rewards.add([round_ for _, round_ in mine], shifts[lived], len(own))
            seconds.add([int(self.log.times[event]) + 1 for event, _ in mine], self.planted[lived], len(own))


def counted(sides: Sequence[Side], name: str, runs: Sequence[Replay]) -> tuple[Detection, Detection]:
    """Alarms of a policy's replays, one per side, against the planted changes: in rewards, and in seconds."""
    rewards, seconds = Detection(), Detection()
    for side, run in zip(sides, runs, strict=True):
        side.count(name, run, rewards, seconds)
    return rewards, seconds


def rate_table(replays: Replays, ratio: Ratios) -> Table:
    """Rate of every policy, beside the random logger's."""
    cells = []
    for kind in SIDES:
        for name, runs in replays[kind].items():
            clicks, matched = sum(run.rewards.sum() for run in runs), sum(len(run.matched) for run in runs)
            rate = f"{clicks / matched:.4f}" if matched else "–"
            cells.append((f"{kind}: {name}", *_cells(ratio(runs)), rate, f"{matched:,}"))
    headings = ("side and policy", "normalised", "interval", "rate", "events")
    note = (
        "Normalised: divided by the random logger's rate, with a 95 % bootstrap interval over blocks of consecutive "
        f"events; events: those that count. Articles: only those that lived at least {HOURS} hours."
    )
    return Table("Click-through rate", headings, tuple(cells), note)


def claims_table(replays: Replays, ratio: Ratios) -> Table:
    """Ratios of rates beside the paper's."""
    cells = []
    for kind, ours, theirs, said in CLAIMS:
        pair = replays[kind][ours], replays[kind][theirs]
        cells.append((f"{kind}: {ours} over {theirs}", said, *_cells(ratio(*pair)), _spread(*pair)))
        if kind == "articles":
            late = [[second_half(run) for run in runs] for runs in pair]
            cells.append(
                ("  second half", "above" if ours == "dLinUCB" else "–", *_cells(ratio(*late)), _spread(*late))
            )
    note = (
        "The interval is about the events of these logs, not about other logs; the last column has the lowest and the "
        "highest ratio on a single log."
    )
    return Table("Ratios of click-through rates", ("ratio", "paper", "ours", "interval", "by log"), tuple(cells), note)


def _spread(ours: Sequence[Replay], theirs: Sequence[Replay]) -> str:
    ratios = [one.rate / other.rate for one, other in zip(ours, theirs, strict=True) if other.rate > 0.0]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else "–"


def second_half(run: Replay) -> Replay:
    """The part of a replay in the second half of the log."""
    middle = len(run.logged) // 2
    late = run.matched >= middle
    return Replay(run.matched[late] - middle, run.rewards[late], run.logged[middle:], (), 0.0, f"{run.key} second half")


def first_half(run: Replay) -> Replay:
    """The part of a replay in the first half of the log."""
    middle = len(run.logged) // 2
    early = run.matched < middle
    return Replay(run.matched[early], run.rewards[early], run.logged[:middle], (), 0.0, f"{run.key} first half")


def detection_table(sides: Sequence[Side], replays: Replays) -> Table:
    """How well the policies that look for changes found the planted changes."""
    cells = []
    for kind in SIDES:
        for name, runs in replays[kind].items():
            if not name.endswith(DETECTORS):
                continue
            rewards, seconds = counted([side for side in sides if side.kind == kind], name, runs)
            hours = f"{seconds.median_delay / 3600:.1f} ({seconds.slow_delay / 3600:.1f})" if seconds.delays else "–"
            delay, missed, false = detection_cells(rewards)
            cells.append((f"{kind}: {name}", delay, hours, missed, false))
    note = (
        "delay: from a planted change to its detection, in rewards that the model learned and in hours of the log, "
        "median (90 %); missed: of the changes in the life of every model; false: other alarms per 1,000 rewards."
    )
    return Table("Planted changes", ("side and policy", "delay", "hours", "missed", "false"), tuple(cells), note)


def plans_table(
    sides: Mapping[Prepared, Side], found: Mapping[tuple[str, str], Replay], policies: Sequence[str], ratio: Ratios
) -> Table:
    """Rates and detection of the shared policies by plan of change."""
    cells = []
    for plan in dict.fromkeys(log.plan for log in sides):
        logs = [log for log in sides if log.plan == plan]
        for name in policies:
            runs = [found[f"users-{log.name}", name] for log in logs]
            rewards, _ = counted([sides[log] for log in logs], name, runs)
            detects = name.endswith(DETECTORS)
            alarms = f"{_alarms(runs) / len(logs):.1f}" if detects else "–"
            quality = detection_cells(rewards if detects else None)
            cells.append((f"{plan}: {name}", *_cells(ratio(runs)), alarms, *quality))
    counts = ", ".join(f"{plan} {sum(log.plan == plan for log in sides)}" for plan in PLANS)
    low, high = PLANS["hard"]["clicks"]
    note = (
        f"Number of logs: {counts}. easy: as above. hard: click rates between {low:g} and {high:g}, and a change moves "
        f"the tastes for {PLANS['hard']['share']:.0%} of the articles to other features, instead of turning all of "
        "them around. none: as easy, without a change; all alarms are false. alarms: per log; other columns as above."
    )
    headings = ("plan and policy", "normalised", "interval", "alarms", "delay", "missed", "false")
    return Table("Easy, hard and no changes", headings, tuple(cells), note)


def settings_table(replays: Replays, note: str, ratio: Ratios) -> Table:
    """Rates and alarms of the shared policies, and of the same policies with other settings."""
    shared = {name: replays["users"][name] for name in ("uniform-dLinUCB", "uniform-LinUCB")}
    cells = []
    for name, runs in {**shared, **replays["others"]}.items():
        cells.append((name, *_cells(ratio(runs)), f"{_alarms(runs):,}"))
    return Table("What the settings do", ("policy", "normalised", "interval", "alarms"), tuple(cells), note)


def _alarms(runs: Sequence[Replay]) -> int:
    return sum(change.kind in ALARMS for run in runs for _, change in run.changes)


def _cells(interval: Interval) -> tuple[str, str]:
    if np.isnan(interval.estimate):
        return "–", "–"
    return f"{interval.estimate:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"


def plain_rows(replays: Replays, ratio: Ratios) -> list[dict[str, Any]]:
    """Plain numbers, for JSON."""
    rows = []
    for kind, name, runs in ((kind, name, runs) for kind, field in replays.items() for name, runs in field.items()):
        interval = ratio(runs)
        numbers = {"normalised": interval.estimate, "low": interval.low, "high": interval.high}
        plain = {key: None if np.isnan(value) else value for key, value in numbers.items()}
        events = sum(len(run.matched) for run in runs)
        rows.append({"side": kind, "policy": name, **plain, "events": events, "alarms": _alarms(runs)})
    return rows
