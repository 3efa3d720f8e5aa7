"""Figure 2: regret over time in the default simulation, with true and detected changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.results import number_of, regret_table, summarise
from driftbandit.paper.table1_columns import COLUMNS, printed
from driftbandit.plots import regret_figure
from driftbandit.report import Artefact

COLUMN = COLUMNS[1]

POLICIES = ("dlinucb", "adts", "linucb", "oracle")
"""The policies that the paper draws, and the oracle; the paper leaves the context-free policies out for visibility."""


def run(
    *,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play the figure's policies and draw their regret."""
    traces = compare(
        POLICIES,
        {COLUMN.name: COLUMN.world},
        seeds,
        **options,
    )
    rows = summarise(traces)
    table = regret_table(rows, "Regret after 5,000 rounds", printed(COLUMN.world))
    return Artefact(
        name="figure2",
        title="Figure 2: regret in the simulated environment",
        text=[
            f"Noise {COLUMN.noise:g}, shift {COLUMN.shift:g}, every {COLUMN.period} rounds; "
            f"{number_of('seed', len(seeds))}.",
            "The paper's claim: LinUCB only converges in the first period, adTS adapts slowly, dLinUCB detects "
            "every change almost at once. Its final regrets below are those of Table 1.",
        ],
        tables=[table],
        figures={"figure2": regret_figure(traces, "Figure 2: regret in the simulated environment")},
        data={"rows": [row.as_dict() for row in rows]},
    )
