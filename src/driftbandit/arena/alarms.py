"""One policy's alarms, scenario by scenario: false ones where nothing changes, and how soon shifts are found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from driftbandit.arena.entrants import OURS, Entrant
from driftbandit.arena.scenarios import Changes, Scenario
from driftbandit.arena.scoreboard import Score, Scores
from driftbandit.evaluation.results import Table


def alarm_tables(
    scores: Scores, scenarios: Mapping[str, Scenario], entrants: Mapping[str, Entrant], focus: str = OURS
) -> list[Table]:
    """Alarms of the policy in focus in still worlds and in worlds with shifts; none for a policy that never alarms."""
    if focus != OURS and not any(found.alarms for (_, policy), found in scores.items() if policy == focus):
        return []
    title = entrants[focus].title if focus in entrants else focus
    return [still_table(scores, scenarios, focus, title), shift_table(scores, scenarios, focus, title)]


def still_table(
    scores: Scores, scenarios: Mapping[str, Scenario], policy: str = OURS, title: str = "DriftUCB"
) -> Table:
    """Alarms of a policy where nothing changes; all of them are false."""
    return Table(
        f"Alarms of {title} where nothing changes",
        ("scenario", "what it is", "runs", "alarms per run", "runs without alarm"),
        tuple(
            (name, what, str(found.runs), f"{found.false_alarms:.2f}", f"{found.quiet:.0%}")
            for name, what, found in _places(scores, scenarios, "still", policy)
        ),
        "All of these alarms are false.",
    )


def shift_table(
    scores: Scores, scenarios: Mapping[str, Scenario], policy: str = OURS, title: str = "DriftUCB"
) -> Table:
    """Shifts that a policy found, how soon, and its false alarms beside them."""
    lines = []
    for name, what, found in _places(scores, scenarios, "shifts", policy):
        hits = found.alarms - found.false_alarms
        lines.append(
            (
                name,
                what,
                str(found.runs),
                f"{hits / (hits + found.missed):.0%}" if hits + found.missed else "",
                "" if math.isnan(found.delay) else f"{found.delay:,.0f}",
                f"{found.false_alarms:.2f}",
            )
        )
    return Table(
        f"Shifts that {title} found",
        ("scenario", "what it is", "runs", "found", "median delay", "false alarms per run"),
        tuple(lines),
        "A shift is found by the first alarm before the next shift; any other alarm is false. Delays are in rewards: "
        "the median over runs of each run's median.",
    )


def _places(
    scores: Scores, scenarios: Mapping[str, Scenario], changes: Changes, policy: str
) -> Iterator[tuple[str, str, Score]]:
    """Name, title and score of the simulated scenarios of this sort that a policy played, serving everyone as one."""
    for name, scenario in scenarios.items():
        if scenario.changes == changes and scenario.kind not in ("people", "real") and (name, policy) in scores:
            yield name, scenario.title, scores[name, policy]
