"""What all handlers share: the engine's thread, a store to read from, the keys, and the open event streams."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from driftbandit.serving.api.errors import HTTPError
from driftbandit.serving.api.keys import Keyring, digest_of
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.thread import Runner
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.stores.base import Store, StoreError

Result = TypeVar("Result")

_MAX_STREAMS = 200
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
        Makes an engine from that store.
    open_reader : callable
        Opens the store for reading.
    rehearse : callable
        Called in a thread with new settings before the engine gets them. It compiles policies, which takes long the
        first time.
    secure : bool
        Whether keys are asked for.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        make_engine: Callable[[Store], Engine],
        open_reader: Callable[[], Store],
        *,
        rehearse: Callable[[LoopConfig], None] = lambda config: None,
        secure: bool = True,
    ) -> None:
        self._open_store = open_store
        self._make_engine = make_engine
        self.open_reader = open_reader
        self.rehearse = rehearse
        self._secure = secure
        self.runner: Runner
        self.keyring: Keyring | None = None
        self._reader: Store
        self._reader_lock = threading.Lock()
        self.streams = 0
        """How many event streams are open."""
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Start the engine, and stop it at the end."""
        self._stopping = asyncio.Event()
        self.runner = Runner(lambda: self._make_engine(self._open_store()), asyncio.get_running_loop())
        self.runner.start()
        await self.runner.started
        self._reader = self.open_reader()
        if self._secure:
            self.keyring = Keyring(self._reader)
        chores = asyncio.create_task(self._refresh_keys())
        try:
            yield
        finally:
            self._stopping.set()
            chores.cancel()
            self.runner.stop()
            await asyncio.to_thread(self.runner.join)
            self._reader.close()

    async def _refresh_keys(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.keyring is not None:
                try:
                    await self.read(lambda _: self.keyring.refresh())  # type: ignore[union-attr]
                except StoreError:
                    continue

    async def read(self, question: Callable[[Store], Result]) -> Result:
        """Ask the store, away from the event loop."""

        def ask() -> Result:
            with self._reader_lock:
                return question(self._reader)

        return await asyncio.to_thread(ask)

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

    # Event streams ---------------------------------------------------------------------------------------------------

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
