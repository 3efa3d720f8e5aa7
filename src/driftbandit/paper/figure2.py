"""Figure 2: regret over time in the default simulation, with true and detected changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.results import Row, number_of, regret_table, summarise
from driftbandit.paper.table1_columns import COLUMNS, printed
from driftbandit.paper.verdicts import Claim, judged, verdict_table
from driftbandit.plots import regret_figure
from driftbandit.report import Artefact

COLUMN = COLUMNS[1]

POLICIES = ("dlinucb", "adts", "linucb", "oracle")
"""The policies that the paper draws, and the oracle; the paper leaves the context-free policies out for visibility."""


_AT_ONCE = 0.05  # share of a period


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
    claims = _claims({row.policy: row for row in rows}, COLUMN.period)
    return Artefact(
        name="figure2",
        title="Figure 2: regret in the simulated environment",
        text=[
            f"Noise {COLUMN.noise:g}, shift {COLUMN.shift:g}, every {COLUMN.period} rounds; "
            f"{number_of('seed', len(seeds))}.",
            "The paper's claim: LinUCB only converges in the first period, adTS adapts slowly, dLinUCB detects "
            "every change almost at once. Its final regrets below are those of Table 1.",
        ],
        tables=[table, verdict_table(claims)],
        figures={"figure2": regret_figure(traces, "Figure 2: regret in the simulated environment")},
        data={"rows": [row.as_dict() for row in rows], "claims": [claim.as_dict() for claim in claims]},
    )


def _claims(rows: dict[str, Row], period: int) -> list[Claim]:
    """What the paper says about the three policies, against what they did."""
    ours, slow, still = rows["dlinucb"], rows["adts"], rows["linucb"]
    found, late = ours.detection, slow.detection
    assert found is not None, "dLinUCB looks for changes"
    assert late is not None, "so does adTS"
    return [
        Claim(
            "dLinUCB detects every change almost at once.",
            f"Median delay {found.median_delay:.0f} of {period} rounds, {found.missed} missed, "
            f"{found.false_alarms} false alarms.",
            judged(found.missed == 0 and found.false_alarms == 0 and found.median_delay < _AT_ONCE * period),
        ),
        Claim(
            "adTS adapts slowly.",
            f"Median delay {late.median_delay:.0f} rounds, {late.missed} missed.",
            judged(late.median_delay > 2.0 * found.median_delay),
        ),
        Claim(
            "dLinUCB has the lowest regret, then adTS, then LinUCB.",
            f"{ours.regret:.1f}, {slow.regret:.0f} and {still.regret:.0f}.",
            judged(ours.regret < slow.regret < still.regret, ours.regret < min(slow.regret, still.regret)),
        ),
    ]
