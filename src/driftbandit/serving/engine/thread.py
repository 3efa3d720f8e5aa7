"""The engine's thread: it takes all waiting commands, carries them out, commits once, and answers them all."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.futures import Observer, Turn, deliver, settle
from driftbandit.serving.stores.base import Store, StoreError, Unreachable
from driftbandit.serving.stores.retries import Backoff

logger = logging.getLogger("driftbandit")

MAX_WAITING = 20_000
"""How many commands may wait; more are turned away."""

_GROUP = 1_000
_TOGETHER = 200
"""About how many decisions are looked up together before they are dealt with."""

_CLOSED = 1_000
"""How many windows of a loop may close before others get their turn, besides as many as there were events before: no
more are due in the long run."""

_HOUSEKEEPING_S = 1.0
_LAST_SNAPSHOT_S = 5.0
"""How long a snapshot may take when the service stops. Nothing is lost without it: the log has everything."""


class Unavailable(Exception):
    """The command could not be made durable, or the engine is not running."""


class Starting(Unavailable):
    """The engine is being made; the text says what it waits for."""


class TooBusy(Exception):
    """Too many commands wait already."""


class _Stopped(Exception):
    """The service was told to stop while it was starting."""


Call = Callable[[Engine], Any]
Ids = tuple[str, list[str]] | None
Waiting = tuple[Call, Ids, "asyncio.Future[Any]"]


class Runner(threading.Thread):
    """Runs an engine for an event loop.

    Parameters
    ----------
    open_store : callable
        Opens the store, in the thread that uses it.
    make : callable
        Makes the engine, in the same thread, from that store, a function that wakes the thread, and a function that is
        told what the start waits for. It is called again if the store cannot be used.
    loop : event loop
        Where the futures of `submit` live.
    watch : callable
        Called about once per second.
    observer : Observer, optional
        Is told of commands.

    Attributes
    ----------
    ready : bool
        Whether commands are taken.
    doing : str
        What the start waits for.
    error : str or None
        Why commands are not taken, if something is wrong.
    loading, shards : int
        How many shards of loops are being read, and how many this process serves or reads; commands for shards that are
        being read are refused with status 503.
    loaded : bool
        Whether all shards have been read that were to be read at the start, or after the last recovery.
    tried, opened, started : futures
        Done when it was tried to open the store, when the store is open, and when the engine is there. The last two
        fail if that cannot be. While the store cannot be reached, it is tried again.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        make: Callable[[Store, Callable[[], None], Callable[[str], None]], Engine],
        loop: asyncio.AbstractEventLoop,
        watch: Callable[[], object] = lambda: None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(name="driftbandit-engine", daemon=True)
        self._open_store = open_store
        self._make = make
        self._loop = loop
        self._watch = watch
        self._observer = observer
        self._waiting: deque[Waiting] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._next_check = 0.0
        self.engine: Engine | None = None
        self.ready = False
        self.doing = "starting"
        self.error: str | None = None
        self.loading = self.shards = 0
        self.loaded = False
        self._backoff = Backoff()
        self.tried: asyncio.Future[None] = loop.create_future()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.started: asyncio.Future[None] = loop.create_future()
        self._count = 0  # events of the last commit
        self.commits = 0
        self.failures = 0
        self.events = 0
        self.commit_seconds = 0.0

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return len(self._waiting)

    def submit(self, call: Call, ids: Ids = None) -> asyncio.Future[Any]:
        """Queue a command, which is called with the engine; the future gets its result once that is durable.

        `ids` are a loop and the decisions that the command names. They are looked up beforehand, together with the ids
        of other commands.
        """
        if not self.ready:
            self.check_started()
            raise Unavailable(self.error or "recovering")
        if len(self._waiting) >= MAX_WAITING:
            raise TooBusy
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._observer is not None:
            self._observer.submitted(future, time.time_ns())
        self._waiting.append((call, ids, future))
        if not self._wake.is_set():
            self._wake.set()
        return future

    def check_started(self) -> None:
        """Raise Starting if the engine was never there."""
        if not self.started.done():
            raise Starting(f"the service is starting: {self.error or self.doing}")

    def stop(self) -> None:
        """Finish the waiting commands, save a snapshot, and end."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Serve until stopped."""
        try:
            self._begin(self._open())
        except _Stopped:
            pass
        except Exception as error:
            self.error = str(error)
            for future in (self.opened, self.started):
                self._loop.call_soon_threadsafe(settle, future, error)
            self._loop.call_soon_threadsafe(settle, self.tried)
            return
        while not self._stopping or self._waiting:
            self._wake.wait(self._patience())
            self._wake.clear()
            if self.engine is None:
                self._recover()
            else:
                self._turn(self.engine)
        self._finish()

    def _open(self) -> Store:
        """Open the store; while it cannot be reached, try again after a pause."""
        while not self._stopping:
            try:
                store = self._open_store()
            except Unreachable as error:
                if self.error is None:
                    logger.error("the start waits for the store: %s", error)
                self.error = f"waiting for the store: {error}"
                self._loop.call_soon_threadsafe(settle, self.tried)
                self._wake.wait(self._backoff.next())
            else:
                self.error = None
                self._backoff.reset()
                self._loop.call_soon_threadsafe(settle, self.opened)
                self._loop.call_soon_threadsafe(settle, self.tried)
                return store
        raise _Stopped

    def _begin(self, store: Store) -> None:
        """Make the engine; while the store cannot be used, try again after a pause."""
        while not self._stopping:
            try:
                if self.error is not None:
                    store.reopen()
                engine = self._make(store, self._wake.set, self._say)
                engine.commit()
                self._look(engine)
            except _Stopped:
                break
            except StoreError as error:
                logger.error("the start waits for the store: %s", error)
                self.error = str(error)
                self._wake.wait(self._backoff.next())
            else:
                self.engine, self.error, self.ready = engine, None, True
                self._backoff.reset()
                self._loop.call_soon_threadsafe(settle, self.started)
                return
        store.close()

    def _say(self, doing: str) -> None:
        """Note what the start waits for."""
        if self._stopping:
            raise _Stopped
        self.doing = doing

    def _patience(self) -> float:
        """How long to sleep if nothing comes in."""
        if self.engine is None:
            return self._pause
        wait = min(_HOUSEKEEPING_S, max(0.0, self.engine.until_due()))
        return min(wait, self.engine.rest) if self.engine.busy else wait

    def _turn(self, engine: Engine) -> None:
        taken: list[Waiting] = []
        waiting = self._waiting
        while waiting and len(taken) < _GROUP:
            taken.append(waiting.popleft())
        if waiting:
            self._wake.set()
        futures = [future for _, _, future in taken]
        results: list[Any] = []
        began, turn = time.time_ns(), None
        try:
            engine.tick(_CLOSED + self._count, hold=True)
            taken.reverse()
            while taken:
                self._carry_out(engine, taken, results)
            carried_out = time.time_ns()
            self._commit(engine)
            turn = Turn(began, carried_out, time.time_ns())
        except Exception as error:
            self._fail(error)
            results = [Unavailable(str(error))] * len(futures)
        if futures:
            self._deliver(futures, results, turn)
        if self.engine is not None:
            try:
                self._keep_house(engine)
            except Exception as error:
                self._fail(error)

    def _deliver(self, futures: list[asyncio.Future[Any]], results: list[Any], turn: Turn | None) -> None:
        if self._observer is not None:
            self._loop.call_soon_threadsafe(self._observer.delivered, futures, turn)
        self._loop.call_soon_threadsafe(deliver, futures, results)

    def _commit(self, engine: Engine) -> None:
        started = time.perf_counter()
        self._count = count = engine.commit()
        if count:
            self.commits += 1
            self.events += count
            self.commit_seconds += time.perf_counter() - started

    def _keep_house(self, engine: Engine) -> None:
        """Serve shards that have been read, and once per second look for shards and settings of other processes."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + _HOUSEKEEPING_S
            self._watch()
            engine.refresh()
        elif not engine.adopt():
            return
        self._commit(engine)
        self._look(engine)

    def _look(self, engine: Engine) -> None:
        self.loading = engine.loading
        self.shards = self.loading + sum(len(engine.parts(name)) for name in engine.names())
        self.loaded = self.loaded or not self.loading

    @staticmethod
    def _carry_out(engine: Engine, taken: list[Waiting], results: list[Any]) -> None:
        """Carry out the last few commands of the list: no more than the processor's cache holds."""
        named: dict[str, list[str]] = {}
        calls: list[Call] = []
        count = 0
        while taken and count < _TOGETHER:
            call, ids, _ = taken.pop()
            calls.append(call)
            if ids is not None:
                named.setdefault(ids[0], []).extend(ids[1])
                count += len(ids[1])
        for name, ids_of in named.items():
            engine.look_up(name, ids_of)
        results += [engine.carry_out(call) for call in calls]

    def _fail(self, error: Exception) -> None:
        """Answer nothing more before a recovery, since memory may be ahead of the store."""
        if isinstance(error, StoreError):
            logger.error("not durable: %s", error)
        else:
            logger.error("the engine failed", exc_info=error)
        self.failures += 1
        self.error = str(error)
        self.ready = self.loaded = False
        self._broken, self.engine = self.engine, None
        self._pause = 0.0

    def _recover(self) -> None:
        assert self._broken is not None
        while self._waiting:
            _, _, future = self._waiting.popleft()
            self._deliver([future], [Unavailable(self.error or "recovering")], None)
        try:
            self._broken.recover()
            self._broken.commit()
        except Exception as error:
            self.error = str(error)
            self._pause = self._backoff.next()
            return
        self._backoff.reset()
        self._look(self._broken)
        self.engine, self.error, self.ready = self._broken, None, True

    def _finish(self) -> None:
        self.ready, self.error = False, "the service is stopping"
        if self.engine is not None:
            try:
                if not self.engine.snapshot(_LAST_SNAPSHOT_S):
                    logger.warning("no time for a last snapshot; the next start repeats more of the log")
                self.engine.store.close()
            except StoreError as error:
                logger.error("no snapshot at the end: %s", error)
