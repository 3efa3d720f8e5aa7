"""Work that takes seconds, in a thread of its own, while the engine goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Task(Generic[Result]):
    """Work that is under way.

    Parameters
    ----------
    work : callable
        What to do.
    background : bool
        Whether to do it in another thread; otherwise it is done when the object has been made.

    Attributes
    ----------
    done : bool
        Whether it has ended.
    result, error :
        What it returned, or the exception that it raised; the other one is None.

    Examples
    --------
    >>> task = Task(lambda: 1 + 1, background=False)
    >>> task.done, task.result, task.error
    (True, 2, None)
    """

    def __init__(self, work: Callable[[], Result], *, background: bool) -> None:
        self._work = work
        self.done = False
        self.result: Result | None = None
        self.error: Exception | None = None
        if background:
            threading.Thread(target=self._run, name="driftbandit-archive", daemon=True).start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:
            self.error = error
        self.done = True
