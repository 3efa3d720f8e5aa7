"""Threads that work on parts of an array; compiled loops let go of the GIL, so that threads do run at the same time."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from driftbandit.core import Ints

_PARTS_PER_THREAD = 4  # a thread that finds hard scopes leaves other parts to the others
_PART = 300_000  # nanoseconds that are worth a thread's while


def default_threads() -> int:
    """As many as there are cores; one in a worker process, beside which others run."""
    return 1 if multiprocessing.parent_process() is not None else os.cpu_count() or 1


def share_out(work: Callable[[slice], None], owners: Ints | Sequence[int], threads: int, effort: float) -> None:
    """Call `work` with parts of `owners`, in which equal values lie together and are never in two parts.

    An item takes about `effort` nanoseconds. Parts are large enough to be worth a thread's while, and there are no more
    helpers than parts.
    """
    count, smallest = len(owners), max(1, int(_PART / effort))
    parts = min(_PARTS_PER_THREAD * threads, count // smallest)
    if threads == 1 or parts < 2:
        work(slice(0, count))
        return
    ends = np.linspace(0, count, parts + 1).astype(np.int64)
    for i in range(1, parts):  # up to the first item of another owner
        while ends[i] < count and owners[ends[i]] == owners[ends[i] - 1]:
            ends[i] += 1
    ends = np.maximum.accumulate(ends)
    left = iter([slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)])

    def help_out() -> None:
        for part in left:
            work(part)

    others = [_helpers(threads - 1).submit(help_out) for _ in range(min(threads, parts) - 1)]
    help_out()
    for other in others:
        other.result()


@lru_cache(maxsize=4)
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="driftbandit-batch")


os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not survive a fork
