"""How regret grows: with the number of changes, the stage length, the dimension, the horizon and the size of a shift.

Every axis is a row of worlds that differ in one number. The slope of log regret over that number is set beside the
slope of the paper's bound (Theorem 3.3) over the same worlds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.paired import Paired, paired
from driftbandit.evaluation.results import Table, number_of
from driftbandit.evaluation.study import Place, play_study
from driftbandit.paper.cells import seeds_cell
from driftbandit.paper.growth_axes import (
    AXES,
    CHANGES,
    PAIRS,
    POLICIES,
    Axis,
    Found,
    place_of,
    promised,
    promised_slopes,
    regrets,
    slope,
)
from driftbandit.paper.growth_picture import growth_figure
from driftbandit.paper.table1_columns import COLUMNS
from driftbandit.report import Artefact


def run(
    *,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play all policies along all axes, and several members against one in the six columns of Table 1."""
    everyone = {name: build for name, (_, build) in POLICIES.items()}
    members = {name: everyone[name] for pair in PAIRS for name in pair}
    found = play_study(
        {
            **{place_of(axis, at): Place(axis.worlds[at], seeds, everyone) for axis in AXES for at in axis.worlds},
            **{column.name: Place(column.world, seeds, members) for column in COLUMNS},
        },
        **options,
    )
    return Artefact(
        name="growth",
        title="How regret grows",
        text=[
            f"Noise 0.05, shift 0.9, a shift every 800 of 5,000 rounds, 10 features, except for the one number that an "
            f"axis varies; {number_of('seed', len(seeds))}. 'One member' sets spawn_delta to delta, the case of "
            "Theorem 3.3.",
            "A slope is that of a line through log regret over log number, with a 95 % interval from a bootstrap over "
            "seeds. A slope of 1 means proportional, 0 means that the number makes no difference.",
        ],
        tables=[
            slope_table(found),
            cost_table(found),
            *(axis_table(found, axis) for axis in AXES),
            member_table(found),
        ],
        figures={"growth": growth_figure(found)},
        data=_data(found),
    )


def slope_table(found: Found) -> Table:
    """Slopes along all axes, the bound's first."""
    bounds = [promised_slopes(axis) for axis in AXES]
    lines = [
        ("bound of Theorem 3.3", *(f"{whole:.2f}" for whole, _ in bounds)),
        ("  its part for learning", *(f"{learning:.2f}" for _, learning in bounds)),
    ]
    for policy, (title, _) in POLICIES.items():
        lines.append((title, *(_with_interval(found, axis, policy) for axis in AXES)))
    return Table(
        "Slopes",
        ("policy", *(axis.name for axis in AXES)),
        tuple(lines),
        "Slope of log regret [95 % interval]. The bound's part for learning is 2 G R(S), which grows like "
        "sqrt(S) log S; the rest, the window and a constant per stage, is 61 % of it in this world.",
    )


def _with_interval(found: Found, axis: Axis, policy: str, first: int | None = None) -> str:
    fitted = slope(found, axis, policy, first)
    return f"{fitted.estimate:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]"


def cost_table(found: Found) -> Table:
    """What one more stage costs, from point to point along the number of stages."""
    stages = CHANGES.values
    lines = []
    for policy, (title, _) in POLICIES.items():
        means = regrets(found, CHANGES, policy).mean(axis=1)
        costs = (np.diff(means) / np.diff(stages)).tolist()
        lines.append((title, *(f"{cost:.1f}" for cost in costs), _with_interval(found, CHANGES, policy, _FEW)))
    return Table(
        "Regret of one more stage",
        (
            "policy",
            *(f"{few:g} to {many:g} stages" for few, many in itertools.pairwise(stages)),
            f"slope, {stages[0]:g} to {stages[_FEW - 1]:g} stages",
        ),
        tuple(lines),
        "The same cost everywhere means that regret is a straight line. The first stage has no change to detect and "
        "costs less, which lifts the slope of the logarithms above 1, the more so the fewer the stages.",
    )


_FEW = 3
"""Points of the number of stages whose slope is shown apart."""


def axis_table(found: Found, axis: Axis) -> Table:
    """Regret of every policy along one axis, the bound, and how many shifts were found."""
    lines = [
        (title, *(seeds_cell(row) for row in regrets(found, axis, policy))) for policy, (title, _) in POLICIES.items()
    ]
    lines.append(("bound of Theorem 3.3", *(f"{value:,.0f}" for value in promised(axis)[0])))
    for policy in ("dlinucb", "driftucb"):
        counts = [
            (_total(found, axis, at, policy, "found"), _total(found, axis, at, policy, "missed")) for at in axis.worlds
        ]
        if any(map(sum, counts)):
            lines.append(
                (f"shifts found by {POLICIES[policy][0]}", *(f"{hits} of {hits + missed}" for hits, missed in counts))
            )
    return Table(axis.title, (axis.label, *(f"{value:,g}" for value in axis.values)), tuple(lines))


def _total(found: Found, axis: Axis, at: float, policy: str, what: str) -> int:
    return sum(getattr(result, what) for result in found[place_of(axis, at), policy])


def several_against_one(found: Found, several: str, one: str) -> list[Paired]:
    """Regret of several members minus that of one, in every column of Table 1."""
    return [
        paired(*([result.regret for result in found[column.name, policy]] for policy in (several, one)))
        for column in COLUMNS
    ]


def member_table(found: Found) -> Table:
    """Several members against one in the columns of Table 1."""
    lines = []
    for pair in PAIRS:
        for policy in pair:
            rows = [[result.regret for result in found[column.name, policy]] for column in COLUMNS]
            lines.append((POLICIES[policy][0], *(seeds_cell(row) for row in rows)))
        lines.append(("  difference", *map(str, several_against_one(found, *pair))))
    return Table(
        "Several members against one",
        ("policy", *(column.name for column in COLUMNS)),
        tuple(lines),
        "Columns are those of Table 1: noise, shift, period. The difference is several minus one, with the two-sided "
        "p-value of Wilcoxon's signed-rank test over seeds.",
    )


def _data(found: Found) -> dict[str, Any]:
    axes = []
    for axis in AXES:
        policies = {}
        for policy in POLICIES:
            fitted = slope(found, axis, policy)
            policies[policy] = {
                "regret": regrets(found, axis, policy).mean(axis=1).tolist(),
                "slope": fitted.estimate,
                "slope_interval": [fitted.low, fitted.high],
                "found": [_total(found, axis, at, policy, "found") for at in axis.worlds],
                "missed": [_total(found, axis, at, policy, "missed") for at in axis.worlds],
            }
        bound, learning = promised_slopes(axis)
        axes.append(
            {
                "axis": axis.name,
                "values": axis.values,
                "bound": promised(axis)[0],
                "bound_slope": bound,
                "learning_slope": learning,
                "policies": policies,
            }
        )
    members = {
        several: [{"difference": test.difference, "p": test.p} for test in several_against_one(found, several, one)]
        for several, one in PAIRS
    }
    return {"axes": axes, "several_minus_one": members}
