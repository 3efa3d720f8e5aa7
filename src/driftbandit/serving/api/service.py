"""What all handlers share: the engine's thread, a store to read from, the keys, and the open event streams."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import Keyring, digest_of
from driftbandit.serving.api.reader import Reader
from driftbandit.serving.engine.clock import Clock
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.futures import Observer
from driftbandit.serving.engine.thread import Runner
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.stores.base import Store, StoreError, Unreachable

logger = logging.getLogger("driftbandit")

Result = TypeVar("Result")

_MAX_STREAMS = 200
_MAX_EXPORTS = 4
"""How many logs are exported at once: each needs a connection to the store and memory of its own."""
_LAST_WORDS_S = 2.0
"""How long a stop waits for an engine that is still being made; the process then ends without it."""
SESSION_S = 12 * 3600
"""How long a person stays signed in to the page, in seconds."""


def _now() -> int:
    return time.time_ns() // 1_000_000


class Service:
    """A running service, as its handlers see it.

    Parameters
    ----------
    open_store : callable
        Opens the store for writing; called in the engine's thread.
    make_engine : callable
        Makes an engine; see `Runner`.
    open_reader : callable
        Opens the store for reading.
    rehearse : callable
        Called in a thread with new settings before the engine gets them. It compiles policies, which takes long the
        first time.
    secure : bool
        Whether keys are asked for.
    clock : Clock, optional
        The engine's clock, if it is to be watched.
    observer : Observer, optional
        Is told of commands.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        make_engine: Callable[[Store, Callable[[], None], Callable[[str], None]], Engine],
        open_reader: Callable[[], Store],
        *,
        rehearse: Callable[[LoopConfig], None] = lambda config: None,
        secure: bool = True,
        clock: Clock | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._open_store = open_store
        self._make_engine = make_engine
        self.open_reader = open_reader
        self.rehearse = rehearse
        self._secure = secure
        self.clock = clock
        self._observer = observer
        self.runner: Runner
        self.keyring: Keyring | None = None
        self._reader: Reader
        self.streams = 0
        """How many event streams are open."""
        self.exports = 0
        """How many logs are being exported."""
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Open the store and read the keys, then let the engine start, and stop it at the end.

        If the store cannot be reached, its opening and the keys are left for later.
        """
        self._stopping = asyncio.Event()
        watch = (lambda: None) if self.clock is None else self.clock.watch
        self.runner = runner = Runner(
            *(self._open_store, self._make_engine, asyncio.get_running_loop(), watch, self._observer)
        )
        runner.start()
        await runner.tried
        self._reader = Reader(self.open_reader)
        if self._secure:
            self.keyring = Keyring()
        if runner.opened.done():
            runner.opened.result()  # raises what keeps the store from being opened
            with suppress(Unreachable):
                await self._refresh()
        chores = asyncio.create_task(self._keep_reading())
        try:
            yield
        finally:
            self._stopping.set()
            chores.cancel()
            runner.stop()
            await asyncio.to_thread(runner.join, None if runner.started.done() else _LAST_WORDS_S)
            self._reader.close()

    async def begun(self) -> None:
        """Wait until requests can be answered; raises what keeps the engine from starting for ever."""
        await asyncio.shield(self.runner.started)
        while self.unready() is not None:
            await asyncio.sleep(0.01)

    async def _refresh(self) -> None:
        """Read the keys, which also shows whether the store can be read."""
        keyring = self.keyring
        await self.read(lambda store: store.access_keys() if keyring is None else keyring.refresh(store))

    async def _keep_reading(self) -> None:
        """Read the keys as soon as the store is open, and then every second."""
        await asyncio.wait([self.runner.opened])
        while True:
            try:
                await self._refresh()
            except StoreError as error:
                logger.warning("the store cannot be read: %s", error)
            await asyncio.sleep(1.0)

    def unready(self) -> str | None:
        """Why decisions cannot be taken or the store cannot be read; None if all is well."""
        runner = self.runner
        if not runner.ready:
            return runner.error or runner.doing
        if not runner.loaded:
            return f"{runner.loading} of {runner.shards} shards of loops are being read"
        if self._reader.error is not None:
            return f"the store cannot be read: {self._reader.error}"
        return None if self.keyring is None or self.keyring.was_read else "access keys are being read"

    async def read(self, question: Callable[[Store], Result]) -> Result:
        """Ask the store, away from the event loop."""
        if not self.runner.opened.done():
            self.runner.check_started()
        return await asyncio.to_thread(self._reader.ask, question)

    async def call(self, command: Callable[[Engine], Result]) -> Result:
        """Have the engine's thread carry out a command."""
        result: Result = await self.runner.submit(command)
        return result

    # Sessions of the page --------------------------------------------------------------------------------------------

    async def begin_session(self, key_id: str) -> str:
        """Begin a session with a key; returns its token, of which the store keeps the hash."""
        token, now = secrets.token_urlsafe(32), _now()
        await self.read(lambda store: store.add_session(digest_of(token), key_id, now + SESSION_S * 1000, now))
        return token

    async def session(self, token: str) -> str | None:
        """Id of the key with which a session began; None if there is none, or its time is over."""
        return await self.read(lambda store: store.session(digest_of(token), _now()))

    async def end_session(self, token: str) -> None:
        """End a session, for all processes at once."""
        await self.read(lambda store: store.end_session(digest_of(token)))

    # Exports and event streams ---------------------------------------------------------------------------------------

    def begin_export(self) -> None:
        """Take a place for an export, to be given back with `end_export`; raises HTTPError if there is none."""
        if self.exports >= _MAX_EXPORTS:
            raise HTTPError(429, "too many logs are being exported", {"retry-after": "10"})
        self.exports += 1

    def end_export(self) -> None:
        """Give the place of an export back."""
        self.exports -= 1

    def check_streams(self) -> None:
        """Raise HTTPError if no more event streams can be opened."""
        if self.streams >= _MAX_STREAMS:
            raise HTTPError(429, "too many streams are open", {"retry-after": "10"})

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an event stream as open."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def stops_within(self, seconds: float) -> bool:
        """Wait at most this long; when the service stops, return True at once."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return False
        return True

    @property
    def stopping(self) -> bool:
        """Whether event streams are to end."""
        return self._stopping.is_set()

    def stop_streams(self) -> None:
        """Close open event streams; new ones end at once."""
        self._stopping.set()
