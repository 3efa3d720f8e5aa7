"""Table 1: accumulated regret under six combinations of noise, shift and period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.paired import Paired, paired
from driftbandit.evaluation.results import (
    Row,
    Table,
    difference,
    mean_and_std,
    regret_table,
    summarise,
)
from driftbandit.evaluation.trace import Trace
from driftbandit.paper.table1_columns import COLUMNS, PAPER
from driftbandit.paper.table1_noise import noise_table, play_noise, tried, world_spread
from driftbandit.paper.table1_picture import table1_figure
from driftbandit.paper.table1_shifts import (
    distance_facts,
    distance_table,
    drawn_distances,
    exact_data,
    exact_table,
    play_exact,
)
from driftbandit.policies.registry import title_of
from driftbandit.report import Artefact

# Played in the same worlds, although the paper's table has no row for them.
OTHERS = ("dlinucb-paper", "dlinucb-released", "lints", "gamma-restart", "ucb1", "random", "oracle", "oracle-paper")


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
    exact, noisy = play_exact(seeds, **options), play_noise(seeds, **options)
    gaps = drawn_distances()
    facts = distance_facts(gaps)
    tests = compared(traces)
    between, within = world_spread(noisy)
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
            _test_table(tests),
            distance_table(facts),
            exact_table(exact),
            noise_table(noisy),
            *detections,
        ],
        figures={"table1": table1_figure(rows, gaps, tried(noisy))},
        data={
            "rows": [_record(row) for row in rows.values()],
            "tests": {
                f"{ours} - {theirs}": [{"difference": test.difference, "p": test.p} for test in found]
                for (ours, theirs), found in tests.items()
            },
            "distances": facts,
            "exact": exact_data(exact),
            "noise": {"regret": tried(noisy), "std_between_worlds": between, "std_within_a_world": within},
        },
    )


_COMPARED = (
    *(("dlinucb", name) for name in PAPER if name != "dlinucb"),
    ("adts", "linucb"),
    ("meta-bandit", "wmducb1"),
    ("dlinucb-paper", "dlinucb"),
    ("dlinucb-released", "dlinucb"),
)
"""Ours and theirs: the paper's order of policies, and the printed and released variants against the tuned one."""


def compared(traces: Sequence[Trace]) -> dict[tuple[str, str], list[Paired]]:
    """Paired tests over seeds, column by column."""
    regret: dict[tuple[str, str], list[float]] = {}
    for trace in traces:
        regret.setdefault((trace.policy, trace.setting), []).append(float(trace.regret.sum()))
    return {
        (ours, theirs): [paired(regret[ours, column.name], regret[theirs, column.name]) for column in COLUMNS]
        for ours, theirs in _COMPARED
    }


def _test_table(tests: dict[tuple[str, str], list[Paired]]) -> Table:
    return Table(
        "Paired tests over seeds",
        ("difference of regret", *(column.name for column in COLUMNS)),
        tuple((f"{title_of(a)} minus {title_of(b)}", *map(str, found)) for (a, b), found in tests.items()),
        "Mean difference on the same seeds and, in brackets, the two-sided p-value of Wilcoxon's signed-rank test. "
        "With ten seeds no p-value is below 0.002. 'dLinUCB' has the settings that reproduce the paper's table, "
        "'printed' is Algorithm 1 as it stands in the paper.",
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
