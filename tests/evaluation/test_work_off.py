"""Jobs on several processes: Ctrl-C ends them, whenever it comes."""

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from driftbandit.evaluation.workers import work_off


@pytest.fixture(autouse=True)
def heeded():
    """Let Ctrl-C do what it usually does: it is ignored where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def note(job, folder, *shared):
    """A job that takes a moment and leaves a file."""
    time.sleep(0.05)
    Path(folder, f"{job}.txt").write_text("done", encoding="utf-8")


def jobs_in(folder, *, processes=2, jobs=40, **options):
    return work_off(
        range(jobs),
        note,
        folder=str(folder),
        processes=processes,
        progress=False,
        total=jobs,
        finished=0,
        runs_of=lambda job: 1,
        **options,
    )


def drop_a_ctrl_c():
    """Press Ctrl-C where exceptions are dropped, as Python does while it imports a module."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_ctrl_c_that_was_dropped_on_the_way_still_ends_the_work(tmp_path, processes):
    jobs = jobs_in(tmp_path, processes=processes)
    next(jobs)
    drop_a_ctrl_c()
    with pytest.raises(KeyboardInterrupt) as kept:  # as a console keeps the traceback, and what was under way
        next(jobs)
    time.sleep(0.3)
    played = len(list(tmp_path.iterdir()))
    assert played < 40
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) == played, kept


def test_the_handler_of_ctrl_c_is_given_back(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    assert sorted(jobs_in(tmp_path, jobs=3)) == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is before
    with suppress(KeyboardInterrupt):
        for _ in jobs_in(tmp_path, jobs=3):
            raise KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_was_set_meanwhile_stays(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    jobs = jobs_in(tmp_path, jobs=3)
    next(jobs)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        jobs.close()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_work_that_ends_in_another_thread_harms_nobody(tmp_path):
    jobs = jobs_in(tmp_path, processes=1, jobs=3)
    done, found = [next(jobs)], []

    def finish():
        done.extend(jobs)
        found.append(True)

    thread = threading.Thread(target=finish)
    thread.start()
    thread.join()
    assert (done, found) == ([0, 1, 2], [True])
    later = jobs_in(tmp_path, processes=1)
    next(later)
    drop_a_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        next(later)


def test_work_within_work_ends_too(tmp_path):
    outer = jobs_in(tmp_path, processes=1)
    next(outer)
    inner = jobs_in(tmp_path, processes=1)
    next(inner)
    drop_a_ctrl_c()
    for jobs in (inner, outer):
        with pytest.raises(KeyboardInterrupt):
            next(jobs)


def test_another_handler_of_ctrl_c_is_left_alone(tmp_path):
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        for _ in jobs_in(tmp_path, jobs=3):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) == 3


def test_work_is_done_outside_of_the_main_thread_too(tmp_path):
    done = []
    thread = threading.Thread(target=lambda: done.extend(jobs_in(tmp_path, jobs=3)))
    thread.start()
    thread.join()
    assert sorted(done) == [0, 1, 2]


def test_a_ctrl_c_while_jobs_are_handed_out_ends_the_workers(tmp_path):
    def shared(job):
        if job == 39:
            raise KeyboardInterrupt
        return ()

    with pytest.raises(KeyboardInterrupt):
        list(jobs_in(tmp_path, shared=shared))
    assert len(list(tmp_path.iterdir())) < 39
