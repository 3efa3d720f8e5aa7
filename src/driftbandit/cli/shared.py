"""What all commands share: how errors are reported, and how results are shown."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from driftbandit.evaluation.results import Table
    from driftbandit.report import Artefact

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what an earlier run left in --out.")]
Processes = Annotated[
    int | None, typer.Option(help="Processes; one per core by default. Results do not depend on it.", min=1)
]
On = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Where to run: on this machine, or on the Ray cluster of RAY_ADDRESS; see docs/scale.md."),
]
_LOG = typer.Argument(help="The log: CSV, Parquet, NDJSON or DSJSON, a file or a folder; see docs/logs.md.")
LogFile = Annotated[Path, _LOG]
LogFileOrNone = Annotated[Path | None, _LOG]
Items = Annotated[Path | None, typer.Option(help="Table of the arms: an id, and columns that describe them.")]
ColumnNames = Annotated[Path | None, typer.Option(help="TOML file that says which column is what.")]
Logged = Annotated[
    Literal["uniform", "estimated"] | None,
    typer.Option(help="How arms were drawn if no column has propensities."),
]
UnusedSeed = Annotated[int, typer.Option(help="Accepted for uniformity; nothing is drawn here.", min=0)]


def names_in(text: str) -> list[str]:
    """Names that a user separates by commas.

    >>> names_in("dlinucb, linucb,")
    ['dlinucb', 'linucb']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def find_own_modules() -> None:
    """Make modules in the current folder importable; a console script would not find them."""
    sys.path.insert(0, os.getcwd())


@contextmanager
def friendly_errors(*, resumes: bool = False) -> Iterator[None]:
    """Turn errors that the user can fix into one line without a traceback; `resumes` is what is said after Ctrl-C."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:  # ImportError: an extra is not installed
        if isinstance(error, BrokenPipeError) and _reader_left():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the rest would be an error at the end
            raise typer.Exit(1) from error
        typer.secho(f"error: {'; '.join(str(error).splitlines())}", fg="red", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        typer.secho(f"stopped{'; the same command continues where it was' if resumes else ''}", fg="yellow", err=True)
        raise typer.Exit(130) from error


def _reader_left() -> bool:
    """Whether whoever read standard output, such as `head`, has stopped; else it is another pipe that broke."""
    if sys.platform == "win32" or sys.stdout is None:
        return False
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), select.POLLOUT)
    except ValueError:  # it is closed, or no file at all
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


# Columns of a page if there is no terminal.
_PAGE_WIDTH = 120

# A column of numbers narrower than this cannot be read.
_NARROWEST = 9


def deliver(artefacts: Sequence[Artefact], out: Path | None, as_json: bool) -> None:
    """Write the artefacts and show them."""
    from rich.console import Console

    from driftbandit.report import publish

    # No markup: names of files may have brackets.
    console = Console(width=None if sys.stdout.isatty() else _PAGE_WIDTH, markup=False)
    data: dict[str, Any] = {}
    for artefact in artefacts:
        files = publish(artefact, out) if out is not None else []
        data[artefact.name] = artefact.data
        if as_json:
            continue
        console.print(artefact.title, style="bold", highlight=False, soft_wrap=True)
        for paragraph in artefact.text:
            console.print(paragraph, highlight=False, soft_wrap=True)
        for table in artefact.tables:
            _show(console, table)
        for path in files:
            typer.echo(f"wrote {path}")
    if as_json:
        json.dump(data if len(data) > 1 else next(iter(data.values())), sys.stdout, indent=2)
        sys.stdout.write("\n")


def _show(console: Any, table: Table) -> None:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(
        title=table.title,
        caption=table.note or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0) if console.width >= 100 else 0,
        pad_edge=False,
    )
    columns = list(zip(table.headings, *table.cells, strict=True))
    if len(columns) * _NARROWEST > console.width:
        console.print(f"{table.title}: too wide for here, see the files below", style="italic", highlight=False)
        return
    # Every column has a space behind it and a divider before it, and the last a divider behind it.
    fits = sum(max(len(cell) for cell in column) + 2 for column in columns) + 1 <= console.width
    for number, heading in enumerate(table.headings):
        right = table.numbers and number
        grid.add_column(heading, justify="right" if right else "left", no_wrap=table.numbers and fits)
    for row in table.cells:
        grid.add_row(*row)
    console.print(grid)
