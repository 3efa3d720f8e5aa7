"""Work on all cores or on a Ray cluster: jobs that leave their results in files, and a progress bar."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager
from typing import Literal, TypeVar, get_args

from driftbandit.core import as_count
from driftbandit.evaluation.progress import progress_bar
from driftbandit.kernels.compile import NOTICE

Job = TypeVar("Job")

On = Literal["local", "ray"]
"""Where work is done: in processes on this machine, or on a Ray cluster."""

CANNOT_PICKLE = (pickle.PicklingError, AttributeError, TypeError)
"""What `pickle` raises for a lambda, a local function and the like."""

_SIGNAL_ON_PARENTS_DEATH = 1  # Linux's PR_SET_PDEATHSIG


def leaves_process(processes: int | None, on: On) -> bool:
    """Whether work may be done in another process than this one; ValueError if either argument makes no sense."""
    check_on(on)
    return as_processes(processes) > 1 or on == "ray"


def check_on(on: str) -> None:
    """Refuse to work in a place that nobody knows."""
    if on not in get_args(On):
        raise ValueError(f"on: expected {' or '.join(map(repr, get_args(On)))}, got {on!r}")


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
            "or pass processes=1 and no Ray"
        ) from error


def nothing_shared(job: object) -> tuple[()]:
    """For jobs that bring all they need."""
    return ()


def work_off(
    jobs: Sequence[Job],
    work: Callable[..., object],
    *,
    folder: str,
    shared: Callable[[Job], Sequence[object]] = nothing_shared,
    processes: int | None,
    on: On = "local",
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
    work : callable
        Called as ``work(job, folder, *shared(job))``; leaves its results in files in that folder, under names that no
        other job uses.
    folder : str
        Where the files are to be. On Ray a job is given another folder, from which its files are brought here.
    shared : callable
        What a job needs besides itself. Objects that several jobs share travel to each machine of a Ray cluster once.
    processes, on :
        As in `compare`.
    total, finished, runs_of :
        What the progress bar counts: all runs, runs already done, and runs per job.
    """
    with _ctrl_c_noted() as check, ExitStack() as ending:
        workers: Generator[list[Job]] | None = None
        if on == "ray" and jobs:
            from driftbandit.evaluation.on_ray import run_on_ray  # noqa: PLC0415 - which needs a part of this module

            workers = run_on_ray(jobs, work, folder=folder, shared=shared, most=processes)
        elif as_processes(processes) > 1 and len(jobs) > 1:
            workers = _in_parallel(jobs, work, folder, shared, as_processes(processes))
        if workers:
            ending.enter_context(closing(workers))  # also if a traceback keeps them
            next(workers)  # starts the workers before the bar starts a thread
        show = ending.enter_context(progress_bar("playing", wanted=progress, unit="runs"))
        show(finished, total)
        for done in workers or ([_after(work, job, folder, *shared(job))] for job in jobs):
            for job in done:
                finished += runs_of(job)
                show(finished, total)
                yield job
                check()


class _CtrlC:
    """What Ctrl-C does while work is done, and how often it came."""

    presses = 0

    @staticmethod
    def note(number: int, frame: object) -> None:
        """Count it, and raise it."""
        _CtrlC.presses += 1
        raise KeyboardInterrupt


@contextmanager
def _ctrl_c_noted() -> Iterator[Callable[[], None]]:
    """Count presses of Ctrl-C, and yield a function that raises KeyboardInterrupt if there was one in this block.

    Each raises it at once, but it may never arrive: Python drops it in some callbacks of an import, and so does pandas,
    whose compiled parts look for other modules and take any exception to say that there is none. If Ctrl-C does
    something of the user's own, or this is not the main thread, nothing is counted.
    """
    before = _CtrlC.presses

    def check() -> None:
        if _CtrlC.presses > before:
            raise KeyboardInterrupt

    mine = _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if mine:
            signal.signal(signal.SIGINT, _CtrlC.note)
        yield check
    finally:
        if mine and _in_main_thread() and signal.getsignal(signal.SIGINT) is _CtrlC.note:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _after(work: Callable[..., object], job: Job, folder: str, *shared: object) -> Job:
    work(job, folder, *shared)
    return job


def _in_parallel(
    jobs: Sequence[Job],
    work: Callable[..., object],
    folder: str,
    shared: Callable[[Job], Sequence[object]],
    processes: int,
) -> Generator[list[Job]]:
    """Jobs as they are done; first an empty list, once the workers have started.

    Whatever ends this generator early ends the workers too.
    """
    # Forked workers start at once and need no import guard in the user's script. But a fork of a process that uses Ray
    # has Ray's signal handler, which ends Ray for everybody when the worker is ended.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() and not _uses_ray() else "spawn"
    context = multiprocessing.get_context(method)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        min(processes, len(jobs)), context, initializer=_follow_parent, initargs=(NOTICE.share(context),)
    ) as pool:
        try:
            futures = [pool.submit(_after, work, job, folder, *shared(job)) for job in jobs]
            yield []
            for future in as_completed(futures):
                yield [future.result()]
        except BaseException:
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise


def _uses_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _follow_parent(turn: object) -> None:
    """Leave Ctrl-C to the parent, end with it, and share its lock, so that the compile message is shown once."""
    NOTICE.take(turn)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SIGNAL_ON_PARENTS_DEATH, signal.SIGKILL)
