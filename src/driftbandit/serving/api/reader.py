"""A store to read from, whose connection is made anew after it was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from driftbandit.serving.stores.base import Store, StoreError
from driftbandit.serving.stores.retries import Backoff

Result = TypeVar("Result")


class Reader:
    """Asks a store questions, one at a time, from any thread.

    After an error the connection is made anew at once and the question is asked again. If that fails too, the next
    attempts wait, longer each time; questions that come meanwhile fail without waiting.

    Parameters
    ----------
    open_store : callable
        Opens the store for reading, with the first question.

    Attributes
    ----------
    error : str or None
        Why the store cannot be read at the moment.
    """

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._store: Store | None = None
        self.error: str | None = None
        self._lock = threading.Lock()
        self._backoff = Backoff()
        self._not_before = 0.0

    def ask(self, question: Callable[[Store], Result]) -> Result:
        """The answer to a question; raises StoreError if the store cannot be read."""
        with self._lock:
            if self.error is not None:
                if time.monotonic() < self._not_before:
                    raise StoreError(self.error)
            elif self._store is not None:
                try:
                    return question(self._store)
                except StoreError:
                    pass  # the connection may be lost, so try with a new one
            return self._ask_again(question)

    def _ask_again(self, question: Callable[[Store], Result]) -> Result:
        try:
            if self._store is None:
                self._store = self._open_store()
            else:
                self._store.reopen()
            answer = question(self._store)
        except StoreError as error:
            self.error = str(error)
            self._not_before = time.monotonic() + self._backoff.next()
            raise
        self.error = None
        self._backoff.reset()
        return answer

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._store is not None:
                self._store.close()
