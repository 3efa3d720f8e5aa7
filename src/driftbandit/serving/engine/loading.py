"""Reading shards of loops from the store, in a thread of its own: the engine serves other shards meanwhile."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from driftbandit.serving.engine.storage import History, Source, load_loop
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Room
from driftbandit.serving.stores.base import Damaged, Store, StoreError
from driftbandit.serving.stores.rows import LoopRow

logger = logging.getLogger("driftbandit")


class Job:
    """One shard of a loop that is to be read.

    Parameters
    ----------
    row, shard : LoopRow, int
        What to read.
    whole_log : bool
        Whether to repeat the whole log, because a snapshot or a model is damaged. The job does so by itself where it
        comes upon such damage.

    Attributes
    ----------
    wanted : bool
        False once nobody waits for the result, for example because the process has lost the shard meanwhile.
    loop : Loop or None
        The result.
    error : str or None
        Why there is no result.
    """

    __slots__ = ("error", "loop", "row", "shard", "source", "wanted", "whole_log")

    def __init__(self, row: LoopRow, shard: int, whole_log: bool = False) -> None:
        self.row = row
        self.shard = shard
        self.whole_log = whole_log
        self.wanted = True
        self.source: Source
        self.loop: Loop | None = None
        self.error: str | None = None

    def read(self, store: Store, room: Room, history: History | None) -> None:
        """Read the shard; raises StoreError if the store cannot be read."""
        try:
            try:
                self._load(store, room, history)
            except Damaged as damage:
                if not damage.rest or self.whole_log:
                    raise
                logger.error("%s; the whole log is repeated instead", damage)
                self.whole_log = True
                self._load(store, room, history)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, Damaged):
                raise
            logger.exception("loop %r, shard %d cannot be read", self.row.name, self.shard)
            self.error = f"{type(error).__name__}: {error}"

    def _load(self, store: Store, room: Room, history: History | None) -> None:
        self.source = Source(store, self.row.number, self.shard)
        self.loop = load_loop(self.source, self.row, room, whole_log=self.whole_log, history=history)


class Loader:
    """Carries out jobs one after the other.

    Parameters
    ----------
    store : Store
        The engine's store.
    room : Room
        How much memory there is.
    background : bool
        Whether to read in another thread, over a connection of its own, which lasts while there are jobs. Otherwise
        jobs are done at once.
    wake : callable
        Called from the other thread when a job is done.
    history : callable, optional
        Reads old events that went out of the store.
    """

    def __init__(
        self,
        store: Store,
        room: Room,
        background: bool,
        wake: Callable[[], None],
        history: History | None = None,
    ) -> None:
        self._history = history
        self._store = store
        self._room = room
        self._background = background
        self._jobs: deque[Job] = deque()
        self._done: deque[Job] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = wake

    def add(self, job: Job, *, at_once: bool = False) -> None:
        """Carry out a job, now or soon."""
        if at_once or not self._background:
            job.read(self._store, self._room, self._history)
            self._done.append(job)
            return
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="driftbandit-loader", daemon=True)
                self._thread.start()

    def done(self) -> list[Job]:
        """The jobs that were done since the last call and are still wanted."""
        found = []
        while self._done:
            job = self._done.popleft()
            if job.wanted:
                found.append(job)
        return found

    def _run(self) -> None:
        """Carry out all jobs, and end."""
        store: Store | None = None
        while True:
            with self._lock:
                while self._jobs and not self._jobs[0].wanted:
                    self._jobs.popleft()
                if not self._jobs:
                    self._thread = None
                    break
                job = self._jobs.popleft()
            try:
                if store is None:
                    store = self._store.reader()
                job.read(store, self._room, self._history)
            except StoreError as error:
                logger.error("loop %r, shard %d cannot be read: %s", job.row.name, job.shard, error)
                job.error = str(error)
                _close(store)
                store = None
            self._done.append(job)
            self._wake()
        _close(store)


def _close(store: Store | None) -> None:
    if store is not None:
        try:
            store.close()
        except StoreError as error:
            logger.warning("%s", error)
