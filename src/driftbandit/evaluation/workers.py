"""Work on all cores: jobs that leave their results in files, a progress bar, and workers that end with their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from driftbandit.core import as_count
from driftbandit.evaluation.progress import progress_bar
from driftbandit.kernels.compile import NOTICE

Job = TypeVar("Job")

CANNOT_PICKLE = (pickle.PicklingError, AttributeError, TypeError)
"""What `pickle` raises for a lambda, a local function and the like."""

_SIGNAL_ON_PARENTS_DEATH = 1  # Linux's PR_SET_PDEATHSIG


def as_processes(processes: int | None) -> int:
    """Number of processes, one per core by default, or ValueError."""
    return os.cpu_count() or 1 if processes is None else as_count("processes", processes)


def check_travels(what: str, thing: object) -> None:
    """Refuse what cannot be sent to another process, before anything was played."""
    try:
        pickle.dumps(thing)
    except CANNOT_PICKLE as error:
        raise ValueError(
            f"{what} cannot be sent to other processes ({error}); define it with def or class at the top of a module, "
            "or pass processes=1"
        ) from error


def work_off(
    jobs: Sequence[Job],
    work: Callable[[Job], object],
    *,
    processes: int,
    progress: bool,
    total: int,
    finished: int,
    runs_of: Callable[[Job], int],
) -> Iterator[Job]:
    """Do all jobs and yield each when it is done; results must be left in files.

    A result sent through a pipe could be cut off when its worker is ended, and the pool would wait for the rest for
    ever.

    Parameters
    ----------
    total, finished, runs_of :
        What the progress bar counts: all runs, runs already done, and runs per job.
    """
    workers = _in_parallel(jobs, work, processes) if processes > 1 and len(jobs) > 1 else None
    if workers:
        next(workers)  # forks the workers before the bar starts a thread
    with progress_bar("playing", wanted=progress, unit="runs") as show:
        show(finished, total)
        for done in workers or ([_after(work, job)] for job in jobs):
            for job in done:
                finished += runs_of(job)
                show(finished, total)
                yield job


def _after(work: Callable[[Job], object], job: Job) -> Job:
    work(job)
    return job


def _in_parallel(jobs: Sequence[Job], work: Callable[[Job], object], processes: int) -> Iterator[list[Job]]:
    """Jobs as they are done; first an empty list, once the workers have started.

    Whatever ends this generator early ends the workers too.
    """
    # Forked workers start at once and need no import guard in the user's script.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        min(processes, len(jobs)), context, initializer=_follow_parent, initargs=(NOTICE.share(context),)
    ) as pool:
        futures = [pool.submit(_after, work, job) for job in jobs]
        try:
            yield []
            for future in as_completed(futures):
                yield [future.result()]
        except BaseException:
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise


def _follow_parent(turn: object) -> None:
    """Leave Ctrl-C to the parent, end with it, and share its lock, so that the compile message is shown once."""
    NOTICE.take(turn)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_ON_PARENTS_DEATH, signal.SIGKILL)
