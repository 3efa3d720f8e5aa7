"""From runs to a scoreboard: means, ratios to the oracle and to the best rival, ranks, detection, time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftbandit.arena.entrants import OURS, REFERENCE, Entrant, in_focus
from driftbandit.arena.league import entrant_of
from driftbandit.arena.scenarios import Kind, Scenario
from driftbandit.environments import TWINS
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.study import Result

TITLES: dict[Kind, str] = {
    "shifts": "Sudden shifts",
    "still": "Nothing changes",
    "drift": "Slow drift",
    "clicks": "Clicks",
    "units": "Units",
    "late": "Late rewards",
    "people": "People",
    "real": "Real data",
}


@dataclass(frozen=True)
class Score:
    """One policy in one scenario."""

    runs: int
    regret: float
    error: float
    """Standard error of the mean regret; NaN for one run."""
    reward: float
    false_alarms: float
    missed: float
    alarms: float
    delay: float
    microseconds: float
    quiet: float
    """Share of runs without a false alarm."""

    def as_dict(self) -> dict[str, float | None]:
        """Plain numbers, for JSON; NaN becomes None."""
        return {name: None if math.isnan(value) else value for name, value in vars(self).items()}


Scores = dict[tuple[str, str], Score]
"""By scenario and entrant."""


def score(results: Sequence[Result]) -> Scores:
    """Average runs, with the standard error of the regret."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.scenario, entrant_of(result.policy)), []).append(result)
    return {place: _score(runs) for place, runs in groups.items()}


def _score(runs: list[Result]) -> Score:
    regrets = [run.regret for run in runs]
    delays = [run.delay for run in runs if not math.isnan(run.delay)]
    return Score(
        runs=len(runs),
        regret=float(np.mean(regrets)),
        error=float(np.std(regrets, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else math.nan,
        reward=float(np.mean([run.reward for run in runs])),
        false_alarms=float(np.mean([run.false_alarms for run in runs])),
        missed=float(np.mean([run.missed for run in runs])),
        alarms=float(np.mean([run.alarms for run in runs])),
        delay=float(np.median(delays)) if delays else math.nan,
        microseconds=float(np.median([run.microseconds for run in runs])),
        quiet=float(np.mean([run.false_alarms == 0 for run in runs])),
    )


def best_rival(scores: Scores, scenario: str, entrants: Mapping[str, Entrant]) -> str | None:
    """The rival of least regret in a scenario."""
    rivals = [name for name, entrant in entrants.items() if entrant.rival and (scenario, name) in scores]
    return min(rivals, key=lambda name: scores[scenario, name].regret, default=None)


def scoreboard(
    scores: Scores,
    scenarios: Mapping[str, Scenario],
    entrants: Mapping[str, Entrant],
    chosen: Mapping[tuple[str, str], str],
    focus: str = OURS,
) -> Table:
    """One line per scenario: regret of the policy in focus, of the oracle and of its best rival, ratios, and rank."""
    lines = []
    for name in scenarios:
        own = scores.get((name, in_focus(scenarios[name].kind, focus)))
        best = best_rival(scores, name, entrants)
        if own is None or best is None:
            continue
        rival = scores[name, best]
        reference = scores.get((name, REFERENCE)) if scenarios[name].changes == "shifts" else None
        fairly = [scores[name, other].regret for other, e in entrants.items() if e.rival and (name, other) in scores]
        settings = chosen.get((name, best))
        lines.append(
            (
                name,
                _mean(own),
                _mean(reference) if reference else "",
                _ratio(own, reference) if reference else "",
                _mean(rival),
                _ratio(own, rival),
                entrants[best].title + (f" ({settings})" if settings else ""),
                f"{1 + sum(regret < own.regret for regret in fairly)} of {1 + len(fairly)}",
            )
        )
    title = entrants[focus].title if focus in entrants else focus
    told, among, who = ", told nothing", " Among people, every user has a DriftUCB.", "we win"
    if focus != OURS:
        told, among, who = "", "", f"{title} wins"
    return Table(
        f"Scoreboard: regret of {title}{told}",
        ("scenario", title, "oracle", "/ oracle", "best rival", "/ rival", "which", "rank"),
        tuple(lines),
        "Mean ± standard error. The oracle restarts at the true shifts and is told the noise. Rivals that say 'tuned' "
        f"are told the noise and play the settings that did best on other seeds of the same scenario.{among} Below 1 "
        f"{who}.",
    )


def regret_tables(scores: Scores, scenarios: Mapping[str, Scenario], entrants: Mapping[str, Entrant]) -> list[Table]:
    """Regret of everyone: one table per kind of scenario, with policies down and scenarios across."""
    tables = []
    for kind, title in TITLES.items():
        names = [name for name, scenario in scenarios.items() if scenario.kind == kind]
        lines = [
            (entrant.title, *(_mean(scores.get((name, policy))) for name in names))
            for policy, entrant in entrants.items()
            if any((name, policy) in scores for name in names)
        ]
        if names and lines:
            tables.append(Table(f"{title}: regret", ("policy", *names), tuple(lines)))
    real = [name for name, scenario in scenarios.items() if scenario.kind == "real"]
    if real:
        lines = [
            (
                entrant.title,
                *(f"{scores[name, policy].reward:,.0f}" if (name, policy) in scores else "" for name in real),
            )
            for policy, entrant in entrants.items()
            if "real" in entrant.kinds
        ]
        tables.append(Table("Real data: total reward", ("policy", *real), tuple(lines)))
    return tables


def twin_table(scores: Scores, entrants: Mapping[str, Entrant]) -> Table:
    """Regret in awkward units as a multiple of the same policy's regret in the same rounds in sensible ones."""
    played = {name for name, _ in scores}
    names = [name for name, twin in TWINS.items() if {name, twin} <= played]
    lines = [
        (
            entrant.title,
            *(
                _ratio(scores[name, policy], scores[TWINS[name], policy]) if (name, policy) in scores else ""
                for name in names
            ),
        )
        for policy, entrant in entrants.items()
        if any((name, policy) in scores for name in names)
    ]
    return Table(
        "Units: regret as a multiple of that in sensible units",
        ("policy", *names),
        tuple(lines),
        "The same rounds, with columns of like size and, beside an offset, a constant column. A policy that does not "
        "mind units has 1.",
    )


def detection_table(scores: Scores, scenarios: Mapping[str, Scenario], entrants: Mapping[str, Entrant]) -> Table:
    """Detection quality of policies that report changes, in simulated worlds with shifts and in still ones."""
    simulated = {name: scenario for name, scenario in scenarios.items() if scenario.kind != "real"}
    shifts = [name for name, scenario in simulated.items() if scenario.changes == "shifts"]
    still = [name for name, scenario in simulated.items() if scenario.changes == "still"]
    lines = []
    for policy, entrant in entrants.items():
        moved = [scores[name, policy] for name in shifts if (name, policy) in scores]
        quiet = [scores[name, policy] for name in still if (name, policy) in scores]
        if not any(s.alarms for s in [*moved, *quiet]):
            continue
        delays = [s.delay for s in moved if not math.isnan(s.delay)]
        lines.append(
            (
                entrant.title,
                f"{np.median(delays):.0f}" if delays else "",
                _average([s.missed for s in moved]),
                _average([s.false_alarms for s in moved]),
                _average([s.false_alarms for s in quiet]),
            )
        )
    return Table(
        "Detection",
        ("policy", "median delay", "missed per run", "false alarms per run, shifts", "false alarms per run, still"),
        tuple(lines),
        "Only policies that ever reported a change. Delays are in rounds: the median over scenarios of their medians.",
    )


def time_table(scores: Scores, entrants: Mapping[str, Entrant]) -> Table:
    """Time per round, as a multiple of LinUCB's in the same run."""
    lines = []
    base = {name: s.microseconds for (name, policy), s in scores.items() if policy == "linucb"}
    for policy, entrant in entrants.items():
        ratios = [
            s.microseconds / base[name] for (name, other), s in scores.items() if other == policy and name in base
        ]
        times = [s.microseconds for (_, other), s in scores.items() if other == policy]
        if times:
            ratio = f"{np.median(ratios):.1f}" if ratios else ""
            lines.append((entrant.title, f"{np.median(times):.1f}", ratio))
    return Table(
        "Time of a round",
        ("policy", "microseconds", "times LinUCB"),
        tuple(lines),
        "Choose, learn and the simulator's own share; medians over scenarios, measured while all cores were at work.",
    )


def _ratio(ours: Score, theirs: Score) -> str:
    return f"{ours.regret / theirs.regret:.2f}" if theirs.regret else ""


def _average(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f}" if values else ""


def _mean(score: Score | None) -> str:
    if score is None:
        return ""
    digits = 0 if score.regret >= 1000 else 1
    error = "" if math.isnan(score.error) else f" ± {score.error:,.{digits}f}"
    return f"{score.regret:,.{digits}f}{error}"
