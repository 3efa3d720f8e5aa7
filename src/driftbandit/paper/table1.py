"""Table 1: accumulated regret under six combinations of noise, shift and period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from driftbandit.environments import Simulated, World
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.results import (
    Row,
    Table,
    difference,
    mean_and_std,
    regret_table,
    summarise,
)
from driftbandit.policies.registry import title_of
from driftbandit.report import Artefact


@dataclass(frozen=True)
class Column:
    """One column of Table 1."""

    noise: float
    shift: float
    period: int

    @property
    def name(self) -> str:
        """As in the paper's heading: noise, shift, period."""
        return f"{self.noise:g}, {self.shift:g}, {self.period}"

    @property
    def world(self) -> World:
        """The world of this column."""
        return World(noise=self.noise, shift=self.shift, period=self.period)


COLUMNS = (
    Column(0.1, 0.9, 800),
    Column(0.05, 0.9, 800),
    Column(0.01, 0.9, 800),
    Column(0.01, 0.5, 800),
    Column(0.01, 0.1, 800),
    Column(0.01, 0.9, 400),
)

PAPER: dict[str, tuple[tuple[float, float], ...]] = {
    "dlinucb": (
        (87.46, 3.61),
        (65.94, 2.30),
        (54.07, 3.95),
        (44.94, 2.90),
        (46.12, 4.63),
        (111.72, 4.87),
    ),
    "adts": (
        (360.75, 39.59),
        (249.63, 27.26),
        (207.95, 22.28),
        (189.07, 18.39),
        (177.55, 20.36),
        (412.55, 14.53),
    ),
    "linucb": (
        (436.84, 40.23),
        (386.10, 21.88),
        (347.19, 14.95),
        (264.87, 21.53),
        (226.87, 32.15),
        (405.82, 33.38),
    ),
    "meta-bandit": (
        (1822.31, 80.67),
        (1340.01, 29.94),
        (1354.03, 22.29),
        (1329.51, 18.93),
        (1402.63, 24.85),
        (1388.81, 115.91),
    ),
    "wmducb1": (
        (2219.36, 142.16),
        (1652.99, 21.33),
        (1635.35, 73.96),
        (1464.11, 89.16),
        (1506.55, 41.52),
        (1691.75, 48.09),
    ),
}
"""Mean and standard deviation of ten runs, as printed."""

# Played in the same worlds, although the paper's table has no row for them.
OTHERS = ("dlinucb-paper", "dlinucb-released", "lints", "gamma-restart", "ucb1", "random", "oracle", "oracle-paper")


def printed(world_settings: Simulated) -> dict[str, tuple[float, float]] | None:
    """The paper's numbers for a world that is a column of Table 1, else None."""
    for index, column in enumerate(COLUMNS):
        if column.world == world_settings:
            return {name: cells[index] for name, cells in PAPER.items()}
    return None


def run(
    *,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play all policies in all six columns and set the results beside the paper's."""
    traces = compare(
        (*PAPER, *OTHERS),
        {column.name: column.world for column in COLUMNS},
        seeds,
        **options,
    )
    rows = {(row.policy, row.setting): row for row in summarise(traces)}
    names = [column.name for column in COLUMNS]
    detections = [
        regret_table(
            [row for row in rows.values() if row.setting == name and row.detection is not None],
            f"Detection at {name}",
        )
        for name in names
    ]
    return Artefact(
        name="table1",
        title="Table 1: accumulated regret with different noise, shift and period",
        text=[
            "Columns are (noise, shift, period). Mean ± standard deviation; the paper ran 10 seeds, ours are "
            f"{len(seeds)}. The difference is ours against the paper's mean.",
            "The world is the authors' simulator (preset 'table1-v1'), because the one that the paper's text "
            "describes cannot exist.",
            "The context-free policies follow their own papers. With 1,000 arms, 10 of them shown per round, every "
            "arm is played about five times, and they stay closer to random play than the paper reports; its "
            "versions of them were never released.",
        ],
        tables=[
            Table("Paper and ours", ("policy", *names), tuple(_beside(rows))),
            Table(
                "Not in the paper",
                ("policy", *names),
                tuple((title_of(name), *(_cell(rows[name, column]) for column in names)) for name in OTHERS),
                "OracleLinUCB is told the true shifts.",
            ),
            *detections,
        ],
        data={"rows": [_record(row) for row in rows.values()]},
    )


def _beside(rows: dict[tuple[str, str], Row]) -> list[tuple[str, ...]]:
    lines = []
    for name, printed in PAPER.items():
        ours = [rows[name, column.name] for column in COLUMNS]
        lines.append((f"{title_of(name)}, paper", *(mean_and_std(*cell) for cell in printed)))
        lines.append((f"{title_of(name)}, ours", *(_cell(row) for row in ours)))
        gaps = [difference(row.regret, cell[0]) for row, cell in zip(ours, printed, strict=True)]
        lines.append(("  difference", *gaps))
    return lines


def _cell(row: Row) -> str:
    return mean_and_std(row.regret, row.regret_std)


def _record(row: Row) -> dict[str, Any]:
    names = [column.name for column in COLUMNS]
    printed = PAPER.get(row.policy)
    mean, std = printed[names.index(row.setting)] if printed else (None, None)
    return {**row.as_dict(), "paper_regret": mean, "paper_regret_std": std}
