"""Studies of many runs of which only totals are kept: one small file per world and seed, resumed after an interruption.

`compare` keeps every round of every run, which figures over time need. A study of thousands of runs that asks only for
regret and alarms would spend longer on reading those rounds back than on playing them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from driftbandit.environments.rounds import Environment
from driftbandit.evaluation.compare import file_name, play
from driftbandit.evaluation.detection import Detection, alarm_rounds
from driftbandit.evaluation.fingerprints import builder_fingerprint, joined_key, world_fingerprint
from driftbandit.evaluation.trace import Trace
from driftbandit.evaluation.workers import On, check_travels, leaves_process, work_off
from driftbandit.files import whole_file
from driftbandit.policies.registry import Builder


@dataclass(frozen=True)
class Place:
    """One world of a study: its rounds, its seeds, and who plays there, by name."""

    environment: Environment
    seeds: Sequence[int]
    policies: Mapping[str, Builder]


@dataclass(frozen=True)
class Result:
    """One run, in numbers.

    Attributes
    ----------
    scenario, policy : str
        Names of the world and of the policy.
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

    @property
    def found(self) -> int:
        """Shifts that were detected."""
        return self.alarms - self.false_alarms


@dataclass(frozen=True)
class _Job:
    """One world with one seed, what is still to be played in it, with fingerprints, and results that are kept."""

    name: str
    seed: int
    keys: dict[str, str]
    stored: dict[str, tuple[str, Result]]


def play_study(
    scenarios: Mapping[str, Place],
    *,
    out: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    progress: bool = False,
    fresh: bool = False,
    on: On = "local",
) -> dict[tuple[str, str], list[Result]]:
    """Play every policy in its worlds with every seed and keep the totals.

    Parameters
    ----------
    scenarios : mapping of name to Place
        Who plays where; in one place all policies see the same rounds.
    out : path, optional
        Folder for the results. A run whose result is already there, made by the same code from the same settings, is
        not repeated.
    processes, progress, fresh, on :
        As in `compare`.

    Returns
    -------
    dict
        Results in the order of the seeds, by scenario and policy.

    Examples
    --------
    >>> from driftbandit.environments import world
    >>> from driftbandit.policies.registry import REGISTRY
    >>> small = Place(world("table1", horizon=100), seeds=[0, 1], policies={"random": REGISTRY["random"].build})
    >>> results = play_study({"small": small}, processes=1)
    >>> [(result.seed, result.alarms) for result in results["small", "random"]]
    [(0, 0), (1, 0)]
    """
    if leaves_process(processes, on):
        for name, place in scenarios.items():
            check_travels(f"scenarios: {name!r}", place.environment)
            for policy, build in place.policies.items():
                check_travels(f"policies: the builder of {policy!r}", build)
    with TemporaryDirectory(prefix="driftbandit-") as shelter:
        folder = shelter if out is None else str(out)
        jobs = _left(scenarios, folder, fresh)
        total = sum(len(place.policies) * len(place.seeds) for place in scenarios.values())
        for _ in work_off(
            jobs,
            _run,
            folder=folder,
            shared=lambda job: (scenarios[job.name],),
            processes=processes,
            on=on,
            progress=progress,
            total=total,
            finished=total - sum(len(job.keys) for job in jobs),
            runs_of=lambda job: len(job.keys),
        ):
            pass
        results: dict[tuple[str, str], list[Result]] = {}
        for name, place in scenarios.items():
            for seed in place.seeds:
                stored = _read(folder, name, seed)
                for policy in place.policies:
                    results.setdefault((name, policy), []).append(stored[policy][1])
        return results


def _left(scenarios: Mapping[str, Place], folder: str, fresh: bool) -> list[_Job]:
    """What no file holds, or only a file that other code or other settings made."""
    jobs = []
    # A builder plays in many worlds with many seeds, and takes longer to fingerprint than a run to look up.
    builders = {id(build): build for place in scenarios.values() for build in place.policies.values()}
    made_by = {which: builder_fingerprint(build) for which, build in builders.items()}
    for name, place in scenarios.items():
        world = world_fingerprint(place.environment)
        for seed in place.seeds:
            stored = _read(folder, name, seed)
            keys = {
                policy: joined_key(world, seed, policy, made_by[id(build)]) for policy, build in place.policies.items()
            }
            left = {
                policy: key for policy, key in keys.items() if fresh or policy not in stored or stored[policy][0] != key
            }
            if left:
                jobs.append(_Job(name, seed, left, stored))
    return jobs


def _run(job: _Job, folder: str, place: Place) -> None:
    rounds = place.environment.rounds(job.seed)
    stored = dict(job.stored)
    for policy, key in job.keys.items():
        stored[policy] = key, result_of(replace(play(policy, place.policies[policy], rounds), setting=job.name))
        lines = {name: {"key": made_by, **vars(result)} for name, (made_by, result) in stored.items()}
        with whole_file(_path(folder, job.name, job.seed)) as part:
            part.write_text(json.dumps(lines, indent=1), encoding="utf-8")


def result_of(trace: Trace) -> Result:
    """The totals of a trace."""
    quality = Detection()
    alarms = alarm_rounds(trace.changes)
    if trace.detects:
        quality.add(alarms, trace.shifts, len(trace))
    return Result(
        scenario=trace.setting,
        policy=trace.policy,
        seed=trace.seed,
        regret=float(trace.regret.sum()),
        reward=float(trace.rewards.sum()),
        microseconds=1e6 * trace.seconds / len(trace),
        alarms=len(alarms),
        false_alarms=quality.false_alarms,
        missed=quality.missed,
        delay=float(median(quality.delays)) if quality.delays else float("nan"),
    )


def _path(folder: str, name: str, seed: int) -> Path:
    return Path(folder, "results", file_name(name), f"{seed}.json")


def _read(folder: str, name: str, seed: int) -> dict[str, tuple[str, Result]]:
    """Results of a world and seed with their keys; results that cannot be read are played again."""
    try:
        lines = json.loads(_path(folder, name, seed).read_text(encoding="utf-8"))
        return {policy: (line.pop("key"), Result(**line)) for policy, line in lines.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
