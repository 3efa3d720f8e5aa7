"""DriftUCB's alarms, scenario by scenario: false ones where nothing changes, and how soon shifts are found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from driftbandit.arena.entrants import OURS
from driftbandit.arena.scenarios import Changes, Scenario
from driftbandit.arena.scoreboard import Score, Scores
from driftbandit.evaluation.results import Table


def still_table(scores: Scores, scenarios: Mapping[str, Scenario]) -> Table:
    """Alarms of DriftUCB where nothing changes; all of them are false."""
    return Table(
        "Alarms of DriftUCB where nothing changes",
        ("scenario", "what it is", "runs", "alarms per run", "runs without alarm"),
        tuple(
            (name, title, str(found.runs), f"{found.false_alarms:.2f}", f"{found.quiet:.0%}")
            for name, title, found in _places(scores, scenarios, "still")
        ),
        "All of these alarms are false.",
    )


def shift_table(scores: Scores, scenarios: Mapping[str, Scenario]) -> Table:
    """Shifts that DriftUCB found, how soon, and its false alarms beside them."""
    lines = []
    for name, title, found in _places(scores, scenarios, "shifts"):
        hits = found.alarms - found.false_alarms
        lines.append(
            (
                name,
                title,
                str(found.runs),
                f"{hits / (hits + found.missed):.0%}" if hits + found.missed else "",
                "" if math.isnan(found.delay) else f"{found.delay:,.0f}",
                f"{found.false_alarms:.2f}",
            )
        )
    return Table(
        "Shifts that DriftUCB found",
        ("scenario", "what it is", "runs", "found", "median delay", "false alarms per run"),
        tuple(lines),
        "A shift is found by the first alarm before the next shift; any other alarm is false. Delays are in rewards: "
        "the median over runs of each run's median.",
    )


def _places(scores: Scores, scenarios: Mapping[str, Scenario], changes: Changes) -> Iterator[tuple[str, str, Score]]:
    """Name, title and score of the simulated scenarios of this sort that DriftUCB played, serving everyone as one."""
    for name, scenario in scenarios.items():
        if scenario.changes == changes and scenario.kind not in ("people", "real") and (name, OURS) in scores:
            yield name, scenario.title, scores[name, OURS]
