"""A progress bar for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Progress = Callable[[int, int | None], None]
"""Called with the amount done and the total, which is None if it is not known."""


@contextmanager
def progress_bar(what: str, *, wanted: bool, unit: str = "") -> Iterator[Progress]:
    """Show a bar while the block runs, and yield the function that moves it.

    In a terminal the bar is on standard error and vanishes at the end; in a notebook it stays below the cell. Nothing
    is shown if standard error is a file or a pipe.

    Parameters
    ----------
    what : str
        Text before the bar, in a terminal.
    wanted : bool
        False shows nothing.
    unit : str
        What is counted, such as 'runs'; without it the bar shows a percentage.

    Examples
    --------
    >>> with progress_bar("playing", wanted=False) as progress:
    ...     progress(1, 10)
    """
    shown: Progress = _silent
    if wanted:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter:
            shown = _in_notebook()
        elif console.is_terminal:
            from rich import progress as rich

            counted = (rich.MofNCompleteColumn(), rich.TextColumn(unit)) if unit else (rich.TaskProgressColumn(),)
            columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), *counted, rich.TimeRemainingColumn())
            with rich.Progress(*columns, console=console, transient=True) as bar:
                task = bar.add_task(what, total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total)
            return
    yield shown


def _silent(done: int, total: int | None) -> None:
    """Show nothing."""


def _in_notebook() -> Progress:
    """IPython's own bar, which needs no widgets; it appears when the total is known, if ever."""
    bars: list[Any] = []

    def show(done: int, total: int | None) -> None:
        if total is None:
            return
        if not bars:
            bars.append(import_module("IPython.display").ProgressBar(total))  # installed with every notebook
            bars[0].display()
        bars[0].progress = done

    return show
