"""Jobs on the machines of a Ray cluster. No other file imports Ray.

A job runs in a folder of its own on whichever machine has a free core. The files that it leaves there travel back and
are written where a local run would have left them, so the machines need no folder in common.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import node, python_version
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from driftbandit.environments.log import Log
from driftbandit.evaluation.fingerprints import code_fingerprint
from driftbandit.extras import pip_install
from driftbandit.files import whole_file

Job = TypeVar("Job")
Result = TypeVar("Result")

RETRIES = 5
"""How often a job is run again whose worker process or machine was lost."""

_AT_ONCE = 1000
"""Most jobs handed to Ray at the same time, unless fewer are asked for; it starts as many as there are free cores."""

_PATIENCE = 1.0
"""Seconds for cancelled jobs to stop before their workers are ended."""

_ANSWER = 10.0
"""Seconds for a cluster to take a connection. Ray itself would try for many minutes."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # reports nothing to its makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # no warning of a change to come
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no messages on standard output, where our JSON goes
}

_LIBRARIES = ("numba", "numpy", "scipy")


def run_on_ray(
    jobs: Sequence[Job],
    work: Callable[..., object],
    *,
    folder: str,
    shared: Callable[[Job], Sequence[object]],
    most: int | None,
) -> Generator[list[Job]]:
    """Jobs as they are done, their files in `folder`; first an empty list, once Ray has started.

    Whatever ends this generator early cancels all jobs that are not done.

    Parameters
    ----------
    jobs, work, folder, shared :
        As in `workers.work_off`. An object that several jobs share is sent to each machine once.
    most : int, optional
        Most jobs at the same time, by default as many as the cluster has free cores.
    """
    ray = connected()
    task = ray.remote(_away).options(num_cpus=1, max_retries=RETRIES)
    common = ray.put((work, _made_of()))
    put: dict[int, tuple[object, Any]] = {}  # the objects too, because the id of one that is gone may be given again

    def reference(thing: object) -> Any:
        if id(thing) not in put:
            put[id(thing)] = thing, ray.put(_packed(thing))
        return put[id(thing)][1]

    waiting = deque(jobs)
    running: dict[Any, Job] = {}

    def start() -> None:
        while waiting and len(running) < (most or _AT_ONCE):
            job = waiting.popleft()
            running[task.remote(common, _packed(job), *map(reference, shared(job)))] = job

    try:
        yield []
        start()
        while running:
            (done, *_), _ = ray.wait(list(running))
            job = running.pop(done)
            start()  # before the files are written, so that no core waits for that
            for path, content in _result(ray, done).items():
                with whole_file(Path(folder, path)) as partial:
                    partial.write_bytes(content)
            yield [job]
    finally:
        _cancel(ray, list(running))


@contextmanager
def started_on_ray(
    work: Callable[..., Result], jobs: Sequence[object], *shared: object
) -> Iterator[Callable[[], list[Result]]]:
    """Start ``work(job, *shared)`` for all jobs, and yield the function that waits for the results, in order.

    Jobs that are not done at the end of the block are cancelled.
    """
    ray = connected()
    task = ray.remote(_brought).options(num_cpus=1, max_retries=RETRIES)
    common, *things = map(ray.put, ((work, _made_of()), *map(_packed, shared)))
    left = deque(task.remote(common, _packed(job), *things) for job in jobs)
    try:
        yield lambda: [_unpacked(_result(ray, left.popleft())) for _ in jobs]
    finally:
        _cancel(ray, list(left))


def connected() -> Any:
    """Ray, connected to the cluster that `RAY_ADDRESS` names or that runs on this machine, else to a new local one.

    Raises
    ------
    ImportError
        If Ray is not installed.
    ConnectionError
        If nothing answers where `RAY_ADDRESS` says.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)  # read when Ray is imported
    try:
        import ray  # noqa: PLC0415 - only this needs it, and it is slow to import
    except ImportError as error:
        raise ImportError(
            f"running on Ray needs Ray, which is not installed for Python {python_version()}: {pip_install('scale')}; "
            "if pip finds none, Ray does not support this Python yet"
        ) from error
    if not ray.is_initialized():
        _knock(os.environ.get("RAY_ADDRESS", ""))
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    return ray


def _knock(address: str) -> None:
    """Raise an error in one line if `address` names a cluster, and nobody answers there."""
    if address in ("", "auto", "local"):  # Ray finds a cluster on this machine, or starts one
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"RAY_ADDRESS: expected HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"RAY_ADDRESS: no Ray cluster answers at {address} ({error}); unset it to start one on this machine"
        ) from error


def _result(ray: Any, done: Any) -> Any:
    """What a job returned; if it raised an error, the same error."""
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise ChildProcessError(
            f"Ray lost a job and running it again up to {RETRIES} times did not help: {error}"
        ) from error


def _cancel(ray: Any, unfinished: list[Any]) -> None:
    """Cancel jobs, and end the workers of those that go on.

    Ray 2.60 may crash if it is told to end a worker that is just being given its job, hence the pause.
    """
    for job in unfinished:
        ray.cancel(job)
    deaf = ray.wait(unfinished, num_returns=len(unfinished), timeout=_PATIENCE)[1] if unfinished else []
    for job in deaf:
        ray.cancel(job, force=True)


def _packed(thing: object) -> object:
    """What is sent instead of a thing: its pickle, since arrays that Ray itself sends arrive read-only.

    The arrays of a log are read-only everywhere, and all processes of a machine may look at the same ones.
    """
    if isinstance(thing, Log):
        return thing
    from ray import cloudpickle  # noqa: PLC0415 - as in `connected`

    return _Packed(cloudpickle.dumps(thing))


def _unpacked(sent: object) -> Any:
    return pickle.loads(sent.content) if isinstance(sent, _Packed) else sent


@dataclass(frozen=True)
class _Packed:
    content: bytes


def _away(common: tuple[Callable[..., object], str], job: object, *shared: object) -> dict[str, bytes]:
    """Do a job on some machine; returns the files that it left, by their path."""
    with TemporaryDirectory(prefix="driftbandit-") as folder:
        _there(common, job, folder, *shared)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _brought(common: tuple[Callable[..., object], str], job: object, *shared: object) -> object:
    """Do a job on some machine; returns its result, packed."""
    return _packed(_there(common, job, *shared))


def _there(common: tuple[Callable[..., Result], str], *sent: object) -> Result:
    """Do a job on some machine, if it has the code of the machine that sent it."""
    work, made_of = common
    if made_of != _made_of():
        raise ValueError(f"{node()} has other code than the machine that sent the job: {_made_of()}, not {made_of}")
    return work(*map(_unpacked, sent))


def _made_of() -> str:
    """What has to be the same on all machines for the same results."""
    return f"driftbandit {code_fingerprint()[:12]}, " + ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
