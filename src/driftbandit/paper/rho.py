"""The rho study of Section 4.1: what if a shift changes only a share of the arms?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.results import Row, Table, difference, mean_and_std, number_of, summarise
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.paper.verdicts import Claim, judged, verdict_table
from driftbandit.plots import COLOURS, Picture
from driftbandit.report import Artefact

SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)

PAPER = {0.1: (57.59, 3.44), 1.0: (54.07, 3.95)}
"""The paper gives a regret for rho = 1 and one for 'smaller' rho, which is set at 0.1 here."""


_MUCH = 0.15  # share by which regret may differ and still be called not much affected


def run(
    *,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play dLinUCB at every share of changed arms."""
    base = COLUMNS[2].world
    settings = {f"rho {share:g}": replace(base, share=share) for share in SHARES}
    traces = compare(["dlinucb"], settings, seeds, **options)
    rows = summarise(traces)
    cells = []
    for share, row in zip(SHARES, rows, strict=True):
        detection = row.detection
        printed = mean_and_std(*PAPER[share]) if share in PAPER else "–"
        gap = difference(row.regret, PAPER[share][0]) if share in PAPER else "–"
        delay = f"{detection.median_delay:.0f}" if detection and detection.delays else "–"
        missed = f"{detection.missed} of {detection.missed + len(detection.delays)}" if detection else "–"
        cells.append((f"{share:g}", printed, mean_and_std(row.regret, row.regret_std), gap, delay, missed))
    claims = _claims({share: row.regret for share, row in zip(SHARES, rows, strict=True)})
    return Artefact(
        name="rho",
        title="The rho study: shifts that change only a share of the arms",
        text=[
            f"Noise 0.01, shift 0.9, a shift every 800 rounds; {number_of('seed', len(seeds))}. In each period a "
            "share 1 - rho of the arms is projected onto the null space of the latest change of theta; at rho = 0 "
            "nothing changes.",
            "The paper's claim: lowest regret at rho = 0; above 0, 54.07 ± 3.95 at rho = 1 and little more "
            "(57.59 ± 3.44) where rho is smaller.",
        ],
        tables=[
            Table(
                "Regret and detection by share of changed arms",
                ("rho", "paper", "ours", "difference", "median delay", "missed"),
                tuple(cells),
                "Delays in rounds.",
            ),
            verdict_table(claims),
        ],
        figures={"rho": share_figure(rows, SHARES, {k: v[0] for k, v in PAPER.items()})},
        data={
            "rows": [{"share": s, **r.as_dict()} for s, r in zip(SHARES, rows, strict=True)],
            "claims": [claim.as_dict() for claim in claims],
        },
    )


def _claims(regret: dict[float, float]) -> list[Claim]:
    """What the paper says about the share, against the regret by share."""
    whole = regret[1.0]
    parts = [value for share, value in regret.items() if 0.0 < share < 1.0]
    apart = max(abs(value - whole) for value in parts) / max(whole, 1e-9)
    return [
        Claim(
            "Regret is lowest where nothing changes (rho = 0).",
            f"{regret[0.0]:.1f} there, at least {min(whole, *parts):.1f} elsewhere.",
            judged(regret[0.0] < min(whole, *parts)),
        ),
        Claim(
            "Regret is not affected too much where rho is smaller than 1.",
            f"At most {100.0 * apart:.0f} % away from the {whole:.1f} at rho = 1; the paper's figures differ by 7 %.",
            judged(apart <= _MUCH, apart <= 2.0 * _MUCH),
        ),
    ]


def share_figure(rows: Sequence[Row], shares: Sequence[float], paper: dict[float, float]) -> Picture:
    """Regret and detection delay against the share of arms that a shift changes.

    Parameters
    ----------
    rows : sequence of Row
        One per share, in order.
    shares : sequence of float
        Shares of changed arms.
    paper : dict
        Regret that the paper gives, by share.
    """
    figure = Picture(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(
        shares,
        [row.regret for row in rows],
        yerr=[np.nan_to_num(row.regret_std) for row in rows],
        marker="o",
        capsize=3,
        color=COLOURS[0],
        label="dLinUCB, ours",
    )
    left.plot(list(paper), list(paper.values()), "D", color=COLOURS[1], label="dLinUCB, paper", zorder=5)
    left.set_xlabel("share of arms that a shift changes (rho)")
    left.set_ylabel("accumulated regret")
    left.set_ylim(bottom=0)
    left.legend(loc="lower right")
    left.grid(alpha=0.25)
    seen = [
        (share, row.detection.median_delay, row.detection.slow_delay)
        for share, row in zip(shares, rows, strict=True)
        if row.detection is not None and row.detection.delays
    ]
    if seen:
        where, median, slow = zip(*seen, strict=True)
        right.plot(where, median, marker="o", color=COLOURS[0], label="median")
        right.plot(where, slow, marker="o", color=COLOURS[5], linestyle="--", label="90th percentile")
        right.legend()
    right.set_xlabel("share of arms that a shift changes (rho)")
    right.set_ylabel("detection delay, rounds")
    right.set_xlim(left.get_xlim())
    right.set_ylim(bottom=0)
    right.grid(alpha=0.25)
    return figure
