"""How large the shifts of Table 1 are: what the authors' simulator draws, and the table with the stated sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from driftbandit.core import Floats
from driftbandit.environments.paths import positive_thetas
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.paired import paired
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.paper.cells import seeds_cell
from driftbandit.paper.table1_columns import COLUMNS, Column
from driftbandit.policies.registry import REGISTRY, title_of

_PAIRS = 200_000
_ENDS = (1.0, 99.0)

EXACT = (*COLUMNS[2:5], *(Column(0.05, shift, 800) for shift in (0.9, 0.2, 0.1)))
"""The columns of Table 1 that differ in the shift only, and three with more noise, two of which the paper lacks."""

POLICIES = ("dlinucb", "dlinucb-paper", "driftucb", "linucb", "oracle")


def drawn_distances(seed: int = 0) -> Floats:
    """Distances between pairs of tastes, drawn as the authors' simulator draws them, before any is rejected."""
    rng = np.random.default_rng(seed)
    draw = positive_thetas(COLUMNS[0].world.dim)
    gaps: Floats = np.linalg.norm(draw(rng, _PAIRS) - draw(rng, _PAIRS), axis=1)
    return gaps


def distance_facts(gaps: Floats) -> dict[str, Any]:
    """Ends of the middle 98 % of the distances, and the share of draws that every shift of Table 1 rejects."""
    low, high = np.percentile(gaps, _ENDS).tolist()
    sizes = sorted({column.shift for column in COLUMNS})
    return {"low": low, "high": high, "rejected": {f"{size:g}": float((gaps < size).mean()) for size in sizes}}


def distance_table(facts: Mapping[str, Any]) -> Table:
    """What a stated shift does to the draws."""
    return Table(
        "How far redrawn tastes lie apart",
        ("stated shift", "draws rejected"),
        tuple((size, f"{100.0 * share:.1f} %") for size, share in facts["rejected"].items()),
        f"Of {_PAIRS:,} pairs of tastes, drawn as the authors' simulator draws them, 98 % lie {facts['low']:.2f} to "
        f"{facts['high']:.2f} apart. A taste that is nearer than the stated shift is drawn again.",
    )


def play_exact(seeds: Sequence[int], **options: Unpack[CompareOptions]) -> dict[tuple[str, str], list[Result]]:
    """Worlds whose shifts have exactly the stated size."""
    builders = {name: REGISTRY[name].build for name in POLICIES}
    return play_study(
        {_place(column): Place(replace(column.world, rule="exact"), seeds, builders) for column in EXACT},
        **options,
    )


def _place(column: Column) -> str:
    return f"exact {column.name}"


def exact_table(found: Mapping[tuple[str, str], Sequence[Result]]) -> Table:
    """Regret with shifts of exactly the stated size, detections, and dLinUCB against LinUCB."""
    regret = {
        (name, column): [result.regret for result in found[_place(column), name]]
        for name in POLICIES
        for column in EXACT
    }
    lines = []
    for name in POLICIES:
        cells = [regret[name, column] for column in EXACT]
        lines.append((title_of(name), *(seeds_cell(cell) for cell in cells)))
    for name in ("dlinucb", "driftucb"):
        hits = [sum(result.found for result in found[_place(column), name]) for column in EXACT]
        missed = [sum(result.missed for result in found[_place(column), name]) for column in EXACT]
        counts = [f"{some} of {some + others}" for some, others in zip(hits, missed, strict=True)]
        lines.append((f"shifts found by {title_of(name)}", *counts))
    tests = [str(paired(regret["dlinucb", column], regret["linucb", column])) for column in EXACT]
    lines.append(("dLinUCB minus LinUCB", *tests))
    return Table(
        "Table 1 with shifts of exactly the stated size",
        ("policy", *(column.name for column in EXACT)),
        tuple(lines),
        "Preset exact-v1: theta turns in a random direction, so that the old taste and the new are exactly the stated "
        "distance apart. The paper has no columns of noise 0.05 with shifts 0.2 and 0.1. In brackets: the two-sided "
        "p-value of Wilcoxon's signed-rank test over seeds.",
    )


def exact_data(found: Mapping[tuple[str, str], Sequence[Result]]) -> list[dict[str, Any]]:
    """The same in numbers."""
    return [
        {
            "policy": name,
            "setting": column.name,
            "regret": float(np.mean([result.regret for result in found[_place(column), name]])),
            "found": sum(result.found for result in found[_place(column), name]),
            "missed": sum(result.missed for result in found[_place(column), name]),
        }
        for column in EXACT
        for name in POLICIES
    ]
