"""Play the arena: tune rivals on some seeds, play everyone on others, keep one line per run, resume later."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftbandit.arena.entrants import Entrant
from driftbandit.arena.scenarios import Scenario
from driftbandit.evaluation.study import Place, Result, play_study
from driftbandit.evaluation.workers import On, check_travels, leaves_process

FIRST_TUNING_SEED = 1000
"""First tuning seed (on real data the only one); the scoreboard never shows tuning seeds."""


def play_all(
    scenarios: Mapping[str, Scenario],
    entrants: Mapping[str, Entrant],
    seeds: Sequence[int] | None = None,
    *,
    out: str | os.PathLike[str],
    tuning_seeds: Sequence[int] = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 3),
    processes: int | None = None,
    progress: bool = False,
    fresh: bool = False,
    on: On = "local",
) -> tuple[list[Result], dict[tuple[str, str], str]]:
    """Play every entrant in every scenario of its kinds.

    Parameters
    ----------
    scenarios, entrants : mappings
        Who plays where.
    seeds : sequence of int, optional
        Reporting seeds; by default as many from 0 as each scenario says.
    out : path
        Folder for the results. A run whose result is already there, made by the same code, is not repeated.
    tuning_seeds : sequence of int
        Seeds that choose among an entrant's variants; of real data, only the first is played.
    processes, progress, fresh, on :
        As in `compare`.

    Returns
    -------
    results : list of Result
        One per run, on `seeds`.
    chosen : dict
        For entrants with a grid: the variant that did best on the tuning seeds, by scenario and entrant.
    """
    if leaves_process(processes, on):  # before anything is tuned
        for name, world in scenarios.items():
            check_travels(f"scenarios: {name!r}", world)
        for name, entrant in entrants.items():
            check_travels(f"policies: the builder of {name!r}", entrant)
    options: dict[str, Any] = {"out": out, "processes": processes, "progress": progress, "fresh": fresh, "on": on}
    grids = {name: entrant for name, entrant in entrants.items() if len(entrant.variants) > 1}
    tuning = {
        name: list(tuning_seeds)[: 1 if scenario.kind == "real" else None] for name, scenario in scenarios.items()
    }
    variants = {
        place: {
            _variant(name, label): build
            for name, entrant in grids.items()
            if scenario.kind in entrant.kinds
            for label, build in entrant.variants.items()
        }
        for place, scenario in scenarios.items()
    }
    trials = play_study(
        {name: Place(world.environment, tuning[name], variants[name]) for name, world in scenarios.items()}, **options
    )
    chosen = {}
    for scenario in scenarios:
        for name, entrant in grids.items():
            if scenarios[scenario].kind not in entrant.kinds:
                continue
            means = {
                label: np.mean([r.regret for r in trials[scenario, _variant(name, label)]])
                for label in entrant.variants
            }
            chosen[scenario, name] = min(means, key=lambda label: means[label])
    reporting = {name: seeds_of(scenario, seeds) for name, scenario in scenarios.items()}
    field = {
        scenario: {
            _variant(name, label): entrant.variants[label]
            for name, entrant in entrants.items()
            if scenarios[scenario].kind in entrant.kinds
            for label in [chosen.get((scenario, name), next(iter(entrant.variants)))]
        }
        for scenario in scenarios
    }
    played = play_study(
        {name: Place(world.environment, reporting[name], field[name]) for name, world in scenarios.items()}, **options
    )
    return [result for runs in played.values() for result in runs], chosen


def seeds_of(scenario: Scenario, seeds: Sequence[int] | None) -> list[int]:
    """The reporting seeds of a scenario: those that were asked for, or its own number of them."""
    return list(range(scenario.seeds) if seeds is None else seeds)[: scenario.most_seeds]


def _variant(name: str, label: str) -> str:
    return f"{name} [{label}]" if label else name


def entrant_of(policy: str) -> str:
    """Name of the entrant that a result's policy is a variant of."""
    return policy.split(" [", maxsplit=1)[0]
