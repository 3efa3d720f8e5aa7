"""Many policies, many logs: replays on all cores, resumed after an interruption."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np

from driftbandit.core import Ints
from driftbandit.environments.log import Log
from driftbandit.evaluation.compare import file_name
from driftbandit.evaluation.fingerprints import builder_fingerprint, code_fingerprint
from driftbandit.evaluation.replay import Replay, replay
from driftbandit.evaluation.workers import On, check_travels, leaves_process, nothing_shared, work_off


@dataclass(frozen=True)
class Stream:
    """A log in a file, and how policies are asked about it.

    Attributes
    ----------
    name : str
        Name of the folder for its replays; different for every stream of a call.
    log : str
        File that `Log.save` wrote.
    key : str
        Fingerprint of the log; replays of a log with another fingerprint are not reused.
    seed : int
        Seed of the replay's rejection and, with the policy's name, of the policies.
    """

    name: str
    log: str
    key: str
    seed: int = 0


@dataclass(frozen=True)
class Entrant:
    """A policy to be replayed.

    Attributes
    ----------
    build : callable
        Makes the policy from a seed; must be importable from a module to run in several processes.
    scopes : str
        File with the scope of every event, as `numpy.save` writes it; empty if there are none.
    user_features : bool
        Show the user's features for every candidate.
    """

    build: Callable[[int], Any]
    scopes: str = ""
    user_features: bool = False


@dataclass(frozen=True)
class _Job:
    stream: Stream
    name: str
    entrant: Entrant
    key: str

    @property
    def place(self) -> tuple[str, str]:
        return self.stream.name, self.name

    def target(self, folder: str) -> Path:
        """Where its replay is kept."""
        return Path(folder, "replays", file_name(self.stream.name), f"{file_name(self.name)}.parquet")


def replay_all(
    streams: Mapping[Stream, Mapping[str, Entrant]],
    *,
    out: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    progress: bool = False,
    fresh: bool = False,
    on: On = "local",
) -> dict[tuple[str, str], Replay]:
    """Replay the policies of every stream.

    Parameters
    ----------
    streams : mapping of Stream to mapping of name to Entrant
        The policies to replay, by stream.
    out : path, optional
        Folder for the replays. A replay that is already there, made by the same code from the same log, is not run
        again.
    processes, progress, fresh, on :
        As in `compare`. Ray is sent the logs from this machine, each once.

    Returns
    -------
    dict
        Replays by name of the stream and of the policy.
    """
    if len({stream.name for stream in streams}) < len(streams):
        raise ValueError("streams: expected different names")
    jobs = [_job(stream, name, entrant) for stream, field in streams.items() for name, entrant in field.items()]
    if leaves_process(processes, on):
        for job in jobs:
            check_travels(f"streams: the builder of {job.name!r}", job.entrant)
    with TemporaryDirectory(prefix="driftbandit-") as shelter:
        folder = shelter if out is None else str(out)
        found = {} if fresh else {job.place: kept for job in jobs if (kept := _stored(job, folder)) is not None}
        for job in work_off(
            [job for job in jobs if job.place not in found],
            _run,
            folder=folder,
            shared=_opened if on == "ray" else nothing_shared,
            processes=processes,
            on=on,
            progress=progress,
            total=len(jobs),
            finished=len(found),
            runs_of=_one,
        ):
            found[job.place] = Replay.load(job.target(folder), _log(job.stream).rewards)
    return {job.place: found[job.place] for job in jobs}


def _one(job: _Job) -> int:
    return 1


def _job(stream: Stream, name: str, entrant: Entrant) -> _Job:
    scopes = hashlib.sha256(Path(entrant.scopes).read_bytes()).hexdigest() if entrant.scopes else ""
    facts = [code_fingerprint(), stream.key, stream.seed, name, builder_fingerprint(entrant.build)]
    key = hashlib.sha256(json.dumps([*facts, scopes, entrant.user_features]).encode()).hexdigest()
    return _Job(stream, name, entrant, key)


def _stored(job: _Job, folder: str) -> Replay | None:
    try:
        found = Replay.load(job.target(folder), _log(job.stream).rewards)
    except (FileNotFoundError, ValueError):
        return None
    return found if found.key == job.key else None


def _run(job: _Job, folder: str, *opened: Any) -> None:
    """Replay a log, which is read from its file unless it comes with the job."""
    log, scopes = opened or _opened(job)
    policy = job.entrant.build(crc32(f"{job.name}/{job.stream.seed}".encode()))
    result = replay(policy, log, scopes=scopes, user_features=job.entrant.user_features, seed=job.stream.seed)
    replace(result, key=job.key).save(job.target(folder))


def _opened(job: _Job) -> tuple[Log, Ints | None]:
    return _log(job.stream), _scopes(job.entrant.scopes, job.stream) if job.entrant.scopes else None


@lru_cache(maxsize=4)
def _log(stream: Stream) -> Log:
    """The log of a stream, mapped into memory once for all replays."""
    return Log.load(stream.log)


@lru_cache(maxsize=4)
def _scopes(path: str, stream: Stream) -> Ints:
    """The scopes of a stream's events; the stream tells versions of the file apart."""
    scopes: Ints = np.load(path)
    return scopes
