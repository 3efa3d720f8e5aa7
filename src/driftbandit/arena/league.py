"""Play the arena: tune rivals on some seeds, play everyone on others, keep one line per run, resume later."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from driftbandit.arena.entrants import Entrant
from driftbandit.arena.scenarios import Scenario
from driftbandit.evaluation.compare import play
from driftbandit.evaluation.detection import Detection, alarm_rounds
from driftbandit.evaluation.fingerprints import code_fingerprint, run_key
from driftbandit.evaluation.trace import Trace
from driftbandit.evaluation.workers import as_processes, check_travels, work_off
from driftbandit.files import whole_file
from driftbandit.policies.registry import Builder

FIRST_TUNING_SEED = 1000
"""First tuning seed (on real data the only one); the scoreboard never shows tuning seeds."""


@dataclass(frozen=True)
class Job:
    """One scenario with one seed, and what is still to be played in it."""

    name: str
    scenario: Scenario
    seed: int
    variants: dict[str, Builder]
    folder: str


@dataclass(frozen=True)
class Result:
    """One run, in numbers.

    Attributes
    ----------
    scenario, policy : str
        Names.
    seed : int
        Seed of the rounds.
    regret, reward, microseconds : float
        Accumulated regret and reward; time per round.
    alarms, false_alarms, missed : int
        Alarms, alarms that no shift explains, and shifts without an alarm; 0 if the policy does not look for changes.
    delay : float
        Median delay of the detections; NaN without a detection.
    """

    scenario: str
    policy: str
    seed: int
    regret: float
    reward: float
    microseconds: float
    alarms: int
    false_alarms: int
    missed: int
    delay: float


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
    processes, progress, fresh :
        As in `compare`.

    Returns
    -------
    results : list of Result
        One per run, on `seeds`.
    chosen : dict
        For entrants with a grid: the variant that did best on the tuning seeds, by scenario and entrant.
    """
    folder = str(out)
    processes = as_processes(processes)
    if processes > 1:
        for name, world in scenarios.items():
            check_travels(f"scenarios: {name!r}", world)
        for name, entrant in entrants.items():
            check_travels(f"policies: the builder of {name!r}", entrant)
    options: dict[str, Any] = {"processes": processes, "progress": progress}
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
    trials = _play(scenarios, tuning, variants, folder, fresh, options)
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
    played = _play(scenarios, reporting, field, folder, fresh, options)
    return [result for runs in played.values() for result in runs], chosen


def seeds_of(scenario: Scenario, seeds: Sequence[int] | None) -> list[int]:
    """The reporting seeds of a scenario: those that were asked for, or its own number of them."""
    return list(range(scenario.seeds) if seeds is None else seeds)[: scenario.most_seeds]


def _variant(name: str, label: str) -> str:
    return f"{name} [{label}]" if label else name


def entrant_of(policy: str) -> str:
    """Name of the entrant that a result's policy is a variant of."""
    return policy.split(" [", maxsplit=1)[0]


def _play(
    scenarios: Mapping[str, Scenario],
    seeds: Mapping[str, Sequence[int]],
    field: Mapping[str, Mapping[str, Builder]],
    folder: str,
    fresh: bool,
    options: dict[str, Any],
) -> dict[tuple[str, str], list[Result]]:
    jobs = []
    for name, scenario in scenarios.items():
        for seed in seeds[name]:
            done = {} if fresh else _read(folder, name, seed)
            left = {
                policy: build
                for policy, build in field[name].items()
                if done.get(policy, ("", None))[0] != _key(scenario, seed, policy, build)
            }
            if left:
                jobs.append(Job(name, scenario, seed, left, folder))
    total = sum(len(field[name]) * len(seeds[name]) for name in scenarios)
    to_do = sum(len(job.variants) for job in jobs)
    for _ in work_off(
        jobs, _run, total=total, finished=total - to_do, runs_of=lambda job: len(job.variants), **options
    ):
        pass
    results: dict[tuple[str, str], list[Result]] = {}
    for name in scenarios:
        for seed in seeds[name]:
            stored = _read(folder, name, seed)
            for policy in field[name]:
                results.setdefault((name, policy), []).append(stored[policy][1])
    return results


def _run(job: Job) -> None:
    rounds = job.scenario.environment.rounds(job.seed)
    stored = _read(job.folder, job.name, job.seed)
    for policy, build in job.variants.items():
        key = _key(job.scenario, job.seed, policy, build)
        stored[policy] = key, _result(job, policy, play(policy, build, rounds))
        lines = {name: {"key": made_by, **vars(result)} for name, (made_by, result) in stored.items()}
        with whole_file(_path(job.folder, job.name, job.seed)) as part:
            part.write_text(json.dumps(lines, indent=1), encoding="utf-8")


def _key(scenario: Scenario, seed: int, policy: str, build: Builder) -> str:
    """Fingerprint of a run and of this file, which turns a run into numbers."""
    return f"{run_key(scenario.environment, seed, policy, build)}-{code_fingerprint('arena/league.py')[:16]}"


def _result(job: Job, policy: str, trace: Trace) -> Result:
    quality = Detection()
    alarms = alarm_rounds(trace.changes)
    if trace.detects:
        quality.add(alarms, trace.shifts, len(trace))
    return Result(
        scenario=job.name,
        policy=policy,
        seed=job.seed,
        regret=float(trace.regret.sum()),
        reward=float(trace.rewards.sum()),
        microseconds=1e6 * trace.seconds / len(trace),
        alarms=len(alarms),
        false_alarms=quality.false_alarms,
        missed=quality.missed,
        delay=float(median(quality.delays)) if quality.delays else float("nan"),
    )


def _path(folder: str, name: str, seed: int) -> Path:
    return Path(folder, "results", name, f"{seed}.json")


def _read(folder: str, name: str, seed: int) -> dict[str, tuple[str, Result]]:
    """Results of a scenario and seed with their keys; results that cannot be read are played again."""
    try:
        lines = json.loads(_path(folder, name, seed).read_text(encoding="utf-8"))
        return {policy: (line.pop("key"), Result(**line)) for policy, line in lines.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
