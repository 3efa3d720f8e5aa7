"""The audit as a report: the answers in words, tables, a picture, and JSON."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from driftbandit.audit.audit import Audit
from driftbandit.audit.changes import WorldChange
from driftbandit.audit.trust import duration
from driftbandit.evaluation.logged import ValueRow
from driftbandit.evaluation.results import Table, number_of
from driftbandit.logs.learning import serving_command
from driftbandit.plots import COLOURS, Picture
from driftbandit.report import Artefact

_FIRST_DATE = datetime(1980, 1, 1, tzinfo=UTC).timestamp()
"""Times before this are taken for numbers of rows or steps, not for dates."""

_SECONDS_UNTIL = 4e9
"""Times beyond this (the year 2096) are not dates either."""


def artefact(found: Audit, model: str | os.PathLike[str] | None = None) -> Artefact:
    """The report of an audit; `model` is the file to which its favourite was written."""
    tables = [
        _trust_table(found),
        *([_changes_table(found), _features_table(found)] if found.changes else []),
        _policies_table(found),
        *([_tuned_table(found)] if found.tuned else []),
    ]
    return Artefact(
        name="audit",
        title=f"Audit of {Path(found.name).name}",
        text=[*_answers(found, model), *(f"Warning: {warning}" for warning in found.warnings)],
        tables=tables,
        figures={"audit": _picture(found)},
        data=as_json(found, model),
    )


def as_json(found: Audit, model: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What `audit.json` holds; its names are public and stay."""
    return {
        "log": found.name,
        "caveat": found.caveat,
        "rows": found.report.to_json(),
        "trust": {**asdict(found.trust), "warnings": found.warnings},
        "changes": [asdict(change) for change in found.changes],
        "noticed_online": found.online,
        "policies": [row.as_dict() for row in found.policies],
        "tuned": [
            {"family": tuned.family, "chosen": tuned.chosen, "tried": tuned.tried, **tuned.row.as_dict()}
            for tuned in found.tuned
        ],
        "next": next_steps(found, model),
    }


def next_steps(found: Audit, model: str | os.PathLike[str] | None = None) -> list[str]:
    """What to do now, in words, with the command that does it."""
    best = found.best
    if best is None:
        return [
            "No candidate is surely better than the logger: keep it, and log more decisions with known propensities."
        ]
    gap, unit = best.difference, "clicks" if found.trust.clicks else "reward"
    steps = [
        f"Run {best.name}: it would have earned {gap.estimate:.3g} {unit} more per decision than the logger "
        f"(95 % interval {gap.low:.3g} to {gap.high:.3g})."
    ]
    if found.changes and not found.online.get(best.name):
        noticed = [name for name, rows in found.online.items() if rows]
        does = "did not notice" if best.name in found.online else "cannot notice that"
        steps.append(
            f"The world changed, and {best.name} {does}: audit a longer log before you rely on it"
            + (f", and compare it with {noticed[0]}, which did." if noticed else ".")
        )
    policy = found.learned[found.favourite]
    command = serving_command(policy, model or "FILE", re.sub(r"[^A-Za-z0-9]+", "-", Path(found.name).stem).strip("-"))
    write = "" if model is not None else "The option --model FILE writes it, having learned the whole log. "
    if command is not None:
        steps.append(f"{write}A service that begins where the log ends: {command}")
    return steps


def _answers(found: Audit, model: str | os.PathLike[str] | None) -> list[str]:
    trust = found.trust
    unit = "clicks" if trust.clicks else "reward"
    said = [
        f"{trust.decisions:,} decisions about {number_of('arm', trust.arms)}, {trust.mean_reward:.4g} {unit} each. "
        + ("Propensities add up." if not found.warnings else "Read the warnings below first.")
        + (f" All values rest on {found.caveat}." if found.caveat else "")
    ]
    if found.changes:
        dates = _listed([_when(change) for change in found.changes])
        said.append(f"The world changed {_times(len(found.changes))}: {dates}.")
    else:
        said.append("No change of the world was found.")
    return [*said, *next_steps(found, model)]


def _trust_table(found: Audit) -> Table:
    trust, report = found.trust, found.report
    rows = [
        ("rows read", f"{report.lines:,}"),
        *((f"not used: {kind}", f"{count:,} ({_places(found, kind)})") for kind, count in report.skipped.items()),
        *((f"used, but odd: {kind}", f"{count:,} ({_places(found, kind)})") for kind, count in report.noted.items()),
        ("decisions used", f"{trust.decisions:,}"),
        ("candidates per decision", f"{trust.pool:.3g}"),
        ("smallest propensity", f"{trust.smallest:.3g}"),
        ("largest weight, uniform policy", f"{trust.largest_weight:.3g}"),
        ("decisions worth, uniform policy", f"{trust.effective:,.0f}"),
        ("mean of 1 / (candidates × propensity); 1 is right", f"{trust.uniform_mean:.4f} ± {trust.uniform_error:.4f}"),
        ("rewards came within", _waited(found)),
        ("p-value that arms were shown as their propensities say", f"{trust.p_value:.2g}"),
    ]
    return Table("Can this log be trusted?", ("", ""), tuple(rows))


def _waited(found: Audit) -> str:
    trust = found.trust
    if trust.half_within is None or trust.most_within is None:
        return "unknown (no column 'rewarded')"
    return f"{duration(trust.half_within)} (half of them), {duration(trust.most_within)} (99 %)"


def _places(found: Audit, kind: str) -> str:
    return ", ".join(f"{file}:{line}" for file, line in found.report.examples[kind][:3])


def _changes_table(found: Audit) -> Table:
    rows = tuple(
        (
            _when(change),
            f"{change.row:,} ({change.low_row:,} to {change.high_row:,})",
            f"at most {100.0 * change.false_alarm_rate:.1f} %",
            f"{change.cost:.3g}",
            _noticed(change, found),
        )
        for change in found.changes
    )
    return Table(
        "Did the world change?",
        ("when", "row (95 % interval)", "false alarms", "cost per decision", "noticed by policies, decisions later"),
        rows,
        note=(
            "Found by looking at the whole log. 'False alarms' says in how many logs of the same shape, in which "
            "nothing changes, a change as strong would be found. Cost is what acting on the old tastes loses until "
            "the next change."
        ),
        numbers=False,
    )


def _features_table(found: Audit) -> Table:
    """One row for each feature whose weight changed; the date stands in the first row of each change."""
    rows = []
    for change in found.changes:
        features = [(one.name, f"{one.before:+.2f}", f"{one.after:+.2f}") for one in change.features]
        for place, cells in enumerate(features or [("no feature by itself", "", "")]):
            rows.append(("" if place else _when(change), *cells))
    weights = "the log-odds of a click" if found.trust.clicks else "units of reward"
    return Table(
        "What changed?",
        ("when", "feature", "weight before", "after"),
        tuple(rows),
        note=f"Weights are in {weights}.",
        numbers=False,
    )


def _noticed(change: WorldChange, found: Audit) -> str:
    """How many decisions later each policy noticed, before the next change."""
    later = [other.row for other in found.changes if other.row > change.row]
    end = min(later, default=math.inf)
    said = []
    for name, rows in found.online.items():
        after = [row for row in rows if change.low_row <= row < end]
        said.append(f"{name} {after[0] - change.row:+,}" if after else f"{name} not")
    return ", ".join(said) or "no candidate looks for changes"


def _policies_table(found: Audit) -> Table:
    return _values_table(
        "Which policy would have earned more?",
        found.policies,
        "Each policy watched the log and learned every logged reward. The value is the mean over time of what the "
        "policy as it was then would have earned (shadow value, doubly robust), with 95 % bootstrap intervals; "
        "differences are estimated on the same decisions."
        + (f" All values rest on {found.caveat}." if found.caveat else ""),
    )


def _tuned_table(found: Audit) -> Table:
    return _values_table(
        "Which settings?",
        [tuned.row for tuned in found.tuned],
        "Settings were chosen on the first half of the log; values and differences are those of the second half.",
    )


def _values_table(title: str, rows: Sequence[ValueRow], note: str) -> Table:
    cells = tuple((row.name, str(row.value), str(row.difference), row.verdict) for row in rows)
    return Table(title, ("policy", "value", "minus logger", "verdict"), cells, note=note, numbers=False)


def _picture(found: Audit) -> Picture:
    course = found.course
    figure = Picture(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(course.rows, course.policy, color=COLOURS[0], label=f"{course.name}, estimated")
    axes.plot(course.rows, course.logger, color=COLOURS[6], label="logger")
    for number, change in enumerate(found.changes):
        label = "change found, 95 % interval" if not number else None
        axes.axvspan(change.low_row, change.high_row, color=COLOURS[1], alpha=0.15, linewidth=0)
        axes.axvline(change.row, color=COLOURS[1], label=label)
    axes.set_xlabel("decision")
    axes.set_ylabel("clicks per decision" if found.trust.clicks else "reward per decision")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlim(0, max(int(course.rows[-1]), 1))
    if found.trust.lowest >= 0.0:
        axes.set_ylim(bottom=0.0)
    noticed = found.online.get(course.name, [])
    if noticed:
        floor = axes.get_ylim()[0]
        label = f"noticed by {course.name}"
        axes.plot(noticed, [floor] * len(noticed), "^", ms=9, color=COLOURS[2], clip_on=False, label=label)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, columnspacing=1.2, handlelength=1.4)
    return figure


def _when(change: WorldChange) -> str:
    if not _FIRST_DATE <= change.time < _SECONDS_UNTIL:
        return f"row {change.row:,}"
    return datetime.fromtimestamp(change.time, UTC).strftime("%d %b %Y %H:%M UTC")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
