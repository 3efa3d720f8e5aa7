"""Tables from traces: mean and standard deviation over seeds, and detection quality."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftbandit.evaluation.detection import Detection, alarm_rounds
from driftbandit.evaluation.trace import Trace
from driftbandit.policies.registry import title_of


@dataclass(frozen=True)
class Row:
    """One policy in one setting, over all seeds.

    Attributes
    ----------
    policy, setting : str
        Names as in the traces.
    seeds : int
        Number of runs.
    regret, regret_std : float
        Mean and standard deviation (of the sample) of the accumulated pseudo-regret.
    reward : float
        Mean accumulated reward.
    microseconds : float
        Median time per round: choose, learn and the simulator's own share.
    detection : Detection or None
        None if the policy does not look for changes.
    """

    policy: str
    setting: str
    seeds: int
    regret: float
    regret_std: float
    reward: float
    microseconds: float
    detection: Detection | None

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, for JSON; NaN becomes None."""
        detection = self.detection
        return {
            "policy": self.policy,
            "setting": self.setting,
            "seeds": self.seeds,
            "regret": self.regret,
            "regret_std": _number(self.regret_std),
            "reward": self.reward,
            "microseconds": self.microseconds,
            "median_delay": _number(detection.median_delay) if detection else None,
            "slow_delay": _number(detection.slow_delay) if detection else None,
            "missed": detection.missed if detection else None,
            "false_alarms_per_1000": _number(detection.false_alarms_per_1000) if detection else None,
        }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def summarise(traces: Iterable[Trace]) -> list[Row]:
    """One row per setting and policy, in the order of the traces."""
    groups: dict[tuple[str, str], list[Trace]] = {}
    for trace in traces:
        groups.setdefault((trace.setting, trace.policy), []).append(trace)
    return [_row(group) for group in groups.values()]


def _row(traces: Sequence[Trace]) -> Row:
    totals = np.array([trace.regret.sum() for trace in traces])
    detection = None
    if any(trace.detects or trace.changes for trace in traces):
        detection = Detection()
        for trace in traces:
            detection.add(alarm_rounds(trace.changes), trace.shifts, len(trace))
    return Row(
        policy=traces[0].policy,
        setting=traces[0].setting,
        seeds=len(traces),
        regret=float(totals.mean()),
        regret_std=float(totals.std(ddof=1)) if len(totals) > 1 else math.nan,
        reward=float(np.mean([trace.rewards.sum() for trace in traces])),
        microseconds=float(np.median([trace.seconds / len(trace) for trace in traces]) * 1e6),
        detection=detection,
    )


def best_first(rows: Iterable[Row]) -> list[Row]:
    """Rows by rising regret."""
    return sorted(rows, key=lambda row: row.regret)


@dataclass(frozen=True)
class Table:
    """A table ready to be shown: a title, headings, and cells as text."""

    title: str
    headings: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    note: str = ""
    numbers: bool = True
    """Whether all columns but the first hold numbers, which are aligned right."""

    def markdown(self) -> str:
        """The table as Markdown."""
        rule = "|---|" + ("---:|" if self.numbers else "---|") * (len(self.headings) - 1)
        lines = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (self.headings, *self.cells)
        ]
        return "\n".join([lines[0], rule, *lines[1:]])


def number_of(thing: str, count: int) -> str:
    """'1 seed', '10 seeds'."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def mean_and_std(mean: float, std: float) -> str:
    """'61.2 ± 4.3', with fewer decimals where the numbers are large; '61.2' if there is no deviation to speak of."""
    digits = 1 if abs(mean) < 100 else 0
    return f"{mean:,.{digits}f}" + (f" ± {std:,.{digits}f}" if not math.isnan(std) else "")


def regret_table(
    rows: Sequence[Row],
    title: str,
    paper: Mapping[str, tuple[float, float]] | None = None,
    *,
    timing: bool = False,
) -> Table:
    """Regret, detection quality and time of every policy in one setting, best first.

    Parameters
    ----------
    rows : sequence of Row
        The policies.
    title : str
        Heading of the table.
    paper : mapping, optional
        The paper's mean and standard deviation by policy, shown beside ours with the difference.
    timing : bool
        Show the time per round too, which differs from run to run.
    """
    cells = []
    for row in best_first(rows):
        printed: tuple[str, ...] = ()
        if paper is not None:
            printed = ("–", "–")
            if row.policy in paper:
                mean, std = paper[row.policy]
                printed = (mean_and_std(mean, std), difference(row.regret, mean))
        cells.append(
            (
                title_of(row.policy),
                mean_and_std(row.regret, row.regret_std),
                *printed,
                *detection_cells(row.detection),
                *((f"{row.microseconds:.1f}",) if timing else ()),
            )
        )
    headings = (
        "policy",
        "regret",
        *(("paper", "diff.") if paper is not None else ()),
        "delay",
        "missed",
        "false",
        *(("µs",) if timing else ()),
    )
    note = ("paper, diff.: the paper's regret, and ours against it; " if paper is not None else "") + (
        "delay: rounds from a shift to its detection, median (90 %); missed: shifts not detected; "
        "false: false alarms per 1,000 rounds" + ("; µs: per round, the simulator's share included." if timing else ".")
    )
    return Table(title, headings, tuple(cells), note)


def difference(ours: float, paper: float) -> str:
    """Ours against the paper's, in per cent."""
    return f"{100.0 * (ours / paper - 1.0):+.0f} %"


def detection_cells(detection: Detection | None) -> tuple[str, str, str]:
    """Delay, missed shifts and false alarms as text; dashes for a policy that does not look for changes."""
    if detection is None:
        return "–", "–", "–"
    shifts = len(detection.delays) + detection.missed
    delay = f"{detection.median_delay:.0f} ({detection.slow_delay:.0f})" if detection.delays else "–"
    return delay, f"{detection.missed}/{shifts}", f"{detection.false_alarms_per_1000:.2f}"
