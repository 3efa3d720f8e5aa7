"""Tables from traces: mean and standard deviation over seeds, and detection quality."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
        Median time of a round: choose, learn and the simulator's own share.
    detection : Detection or None
        None if the policy never reported a change.
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
        """Plain numbers, for JSON; what is not a number is None."""
        detection = self.detection
        return {
            "policy": self.policy,
            "setting": self.setting,
            "seeds": self.seeds,
            "regret": self.regret,
            "regret_std": self.regret_std,
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
    if any(trace.changes for trace in traces):
        detection = Detection()
        for trace in traces:
            detection.add(alarm_rounds(trace.changes), trace.shifts, len(trace))
    return Row(
        policy=traces[0].policy,
        setting=traces[0].setting,
        seeds=len(traces),
        regret=float(totals.mean()),
        regret_std=float(totals.std(ddof=1)) if len(totals) > 1 else 0.0,
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

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [
            "| " + " | ".join(self.headings) + " |",
            "|" + "---|" + "---:|" * (len(self.headings) - 1),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.cells]
        return "\n".join(lines)


def mean_and_std(mean: float, std: float) -> str:
    """'61.2 ± 4.3', with fewer decimals where the numbers are large."""
    digits = 1 if abs(mean) < 1000 else 0
    return f"{mean:,.{digits}f} ± {std:,.{digits}f}"


def regret_table(rows: Sequence[Row], title: str) -> Table:
    """Regret, detection quality and time of every policy in one setting, best first."""
    cells = tuple(
        (
            title_of(row.policy),
            mean_and_std(row.regret, row.regret_std),
            *_detection_cells(row.detection),
            f"{row.microseconds:.1f}",
        )
        for row in best_first(rows)
    )
    headings = (
        "policy",
        "regret",
        "median delay",
        "90 % delay",
        "missed",
        "false alarms / 1,000",
        "µs / round",
    )
    return Table(title, headings, cells, "Delays in rounds; – where a policy reports no changes.")


def _detection_cells(detection: Detection | None) -> tuple[str, str, str, str]:
    if detection is None:
        return "–", "–", "–", "–"
    shifts = len(detection.delays) + detection.missed

    def rounds(value: float) -> str:
        return "–" if math.isnan(value) else f"{value:.0f}"

    return (
        rounds(detection.median_delay),
        rounds(detection.slow_delay),
        f"{detection.missed} of {shifts}",
        f"{detection.false_alarms_per_1000:.2f}",
    )
