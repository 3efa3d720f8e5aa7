"""Many policies, many worlds, many seeds: on all cores, with a progress bar, and resumed after an interruption."""

from __future__ import annotations

import itertools
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from driftbandit.core import as_count, unknown_name
from driftbandit.environments.rounds import Environment, Rounds
from driftbandit.evaluation.builders import build_policy
from driftbandit.evaluation.fingerprints import builder_fingerprint, joined_key, world_fingerprint
from driftbandit.evaluation.simulate import simulate
from driftbandit.evaluation.trace import Trace
from driftbandit.evaluation.workers import On, check_travels, leaves_process, work_off
from driftbandit.policies.choosing_memory.click_warning import ClickWarning
from driftbandit.policies.registry import REGISTRY, Brief, Builder


@dataclass(frozen=True)
class Job:
    """One world with one seed, and the policies that are still to play it, with the fingerprints of their runs."""

    setting: str
    seed: int
    keys: dict[str, str]


class CompareOptions(TypedDict, total=False):
    """Keywords of `compare` that functions built on it pass through."""

    out: str | os.PathLike[str] | None
    processes: int | None
    progress: bool
    fresh: bool
    on: On


def compare(
    policies: Iterable[str] | Mapping[str, Builder | None],
    settings: Mapping[str, Environment],
    seeds: Sequence[int],
    *,
    out: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    progress: bool = False,
    fresh: bool = False,
    on: On = "local",
) -> list[Trace]:
    """Play every policy in every world with every seed, all on identical rounds.

    Parameters
    ----------
    policies : names, or mapping of name to builder
        Names from the registry, or your own: a builder makes a policy from a `Brief` and must be importable from a
        module to run in several processes. None stands for the registry's policy of that name.
    settings : mapping of name to Environment
        Simulated worlds (`World`) or data sets (`LastFM`, `Delicious`).
    seeds : sequence of int
        The worlds' seeds; policies draw from generators of their own, seeded from the world's seed and their name.
    out : path, optional
        Folder for the traces. A run whose trace is already there, made by the same code from the same settings, is not
        repeated; runs of lambdas and other builders that cannot be pickled always are.
    processes : int, optional
        Number of processes, by default one per core. The results do not depend on it. On Ray: how many worlds and seeds
        are played at the same time, by default as many as the cluster has cores.
    progress : bool
        Show a progress bar, in a terminal or a notebook.
    fresh : bool
        Run everything again.
    on : {'local', 'ray'}
        Where to play: on this machine, or on a Ray cluster, which needs the extra ``scale``. The results do not depend
        on it. See docs/scale.md.

    Returns
    -------
    list of Trace
        In the order of settings, policies, seeds.

    Examples
    --------
    >>> from driftbandit.environments import world
    >>> traces = compare(["linucb", "random"], {"small": world("table1", horizon=200)}, seeds=[0], processes=1)
    >>> [(trace.policy, len(trace)) for trace in traces]
    [('linucb', 200), ('random', 200)]
    """
    entrants = _entrants(policies)
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings: expected a mapping of names to environments, got {type(settings).__name__}")
    for name, environment in settings.items():
        if not hasattr(environment, "rounds") or not is_dataclass(environment):
            raise ValueError(f"settings: {name!r}: expected a World or another environment, got {environment!r}")
    if not isinstance(seeds, Iterable):
        raise ValueError(f"seeds: expected a sequence of whole numbers, got {seeds!r}")
    if not entrants or not settings or not len(seeds):
        raise ValueError("compare: expected at least one policy, one setting and one seed")
    seeds = [as_count("seeds", seed, least=0) for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError("seeds: expected every seed once")
    if leaves_process(processes, on):
        for name, build in entrants.items():
            check_travels(f"policies: the builder of {name!r}", build)
        for setting, world in settings.items():
            check_travels(f"settings: {setting!r}", world)
    worlds = {setting: world_fingerprint(world) for setting, world in settings.items()}
    builders = {name: builder_fingerprint(build) for name, build in entrants.items()}
    order = list(itertools.product(settings, entrants, seeds))
    keys = {(s, name, seed): joined_key(worlds[s], seed, name, builders[name]) for s, name, seed in order}
    done: dict[tuple[str, str, int], Trace] = {}
    if out is not None and not fresh:
        for place in order:
            found = _stored(str(out), *place)
            if found and found.key == keys[place]:
                done[place] = found
    jobs: list[Job] = []
    for setting, seed in itertools.product(settings, seeds):
        left = [name for name in entrants if (setting, name, seed) not in done]
        if left:
            jobs.append(Job(setting, seed, {name: keys[setting, name, seed] for name in left}))
    with TemporaryDirectory(prefix="driftbandit-") as shelter:
        folder = shelter if out is None else str(out)
        for job in work_off(
            jobs,
            _run,
            folder=folder,
            shared=lambda job: (settings[job.setting], entrants),
            processes=processes,
            on=on,
            progress=progress,
            total=len(order),
            finished=len(done),
            runs_of=lambda job: len(job.keys),
        ):
            for name in job.keys:
                done[job.setting, name, job.seed] = Trace.load(trace_path(folder, job.setting, name, job.seed))
    return [done[place] for place in order]


def _entrants(policies: Iterable[str] | Mapping[str, Builder | None]) -> dict[str, Builder | None]:
    """Builders by name; None stands for the package's own policies, which need not travel between processes."""
    if isinstance(policies, str) or not isinstance(policies, Iterable):
        raise ValueError(f"policies: expected names or a mapping of names to builders, got {policies!r}")
    given = dict(policies) if isinstance(policies, Mapping) else dict.fromkeys(policies)
    for name, build in given.items():
        if build is not None and not callable(build):
            raise ValueError(f"policies: {name!r}: expected something that builds a policy, got {build!r}")
    if unknown := [str(name) for name, build in given.items() if build is None and name not in REGISTRY]:
        raise ValueError(unknown_name("policies", unknown, REGISTRY))
    return {
        name: REGISTRY[name].build if build is None and not REGISTRY.is_shipped(name) else build
        for name, build in given.items()
    }


def trace_path(folder: str, setting: str, name: str, seed: int) -> Path:
    """Where the trace of one run is kept."""
    return Path(folder, "traces", file_name(setting), file_name(name), f"{seed}.parquet")


def file_name(label: str) -> str:
    """A label as a file name; a checksum distinguishes labels that would give the same name."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in label)
    return safe if safe == label.strip(".") else f"{safe}-{zlib.crc32(label.encode()):08x}"


def _stored(folder: str, setting: str, name: str, seed: int) -> Trace | None:
    try:
        return Trace.load(trace_path(folder, setting, name, seed))
    except (FileNotFoundError, ValueError):
        return None


def _run(job: Job, folder: str, world: Environment, entrants: Mapping[str, Builder | None]) -> None:
    """Make the rounds of one world and seed once, and play the job's policies in them."""
    rounds = world.rounds(job.seed)
    for name, key in job.keys.items():
        trace = replace(play(name, entrants[name], rounds), setting=job.setting, key=key)
        trace.save(trace_path(folder, job.setting, name, job.seed))


def play(name: str, build: Builder | None, rounds: Rounds) -> Trace:
    """Build a policy for these rounds and play them; without a builder, the registry's policy of that name."""
    brief = Brief(
        dim=rounds.dim,
        noise=rounds.noise,
        reward_range=rounds.reward_range,
        shifts=rounds.shifts.tolist(),
        seed=rounds.seed,
    )
    policy = build_policy(name, build or REGISTRY[name].build, brief)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClickWarning)  # for users who chose the noise; here the world did
        return simulate(policy, rounds, name=name)
