"""Warm start: `driftbandit learn` writes a policy that has learned a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftbandit.cli.shared import ColumnNames, Items, LogFile, Logged, friendly_errors

if TYPE_CHECKING:
    from driftbandit.logs import DecisionLog
    from driftbandit.logs.learning import Lessons

_MOST_SHOWN = 10
"""Changes that the summary names."""


def learn(
    log: LogFile,
    model: Annotated[Path, typer.Option(help="File to write.")],
    policy: Annotated[str, typer.Option(help="A name from `driftbandit policies`.")] = "driftucb",
    items: Items = None,
    columns: ColumnNames = None,
    logged: Logged = None,
    dim: Annotated[int | None, typer.Option(help="Most features an arm may have.", min=1)] = None,
) -> None:
    """Let a policy learn a log, and write it to a file from which the library and the service go on.

    Example: driftbandit learn clicks.parquet --items items.csv --policy driftucb --model shop.policy
    """
    with friendly_errors(), _stoppable(model):
        from driftbandit.logs import read_log
        from driftbandit.logs.learning import dim_of, fit_encoder, items_at, learn_log, save_learned
        from driftbandit.policies.registry import REGISTRY
        from driftbandit.policies.untold import build_untold

        opened = read_log(log, items=items, columns=columns, logged=logged)
        contextual = policy not in REGISTRY or REGISTRY[policy].contextual
        encoder = fit_encoder(opened, dim) if contextual else None
        learner = build_untold(policy, dim_of(opened, encoder) if contextual else None)
        with _counting() as count:
            lessons = learn_log(learner, opened, encoder, progress=count)
        save_learned(model, learner, encoder, items_at(opened, lessons.until))
        named = encoder is not None or not contextual
        typer.echo("\n".join(_summary(opened, learner, lessons, model, named=named)))


@contextmanager
def _stoppable(model: Path) -> Iterator[None]:
    """Say after Ctrl-C that the file was not written."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.secho(f"stopped; {model} was not written", fg="yellow", err=True)
        raise typer.Exit(130) from error


@contextmanager
def _counting() -> Iterator[Callable[[int], None]]:
    """Show on standard error how many rewards were learned so far, if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    with console.status("learning") as status:
        yield lambda done: status.update(f"learning: {done:,} rewards")


def _summary(log: DecisionLog, policy: Any, lessons: Lessons, model: Path, *, named: bool) -> Iterator[str]:
    """What was read, learned and written, and how to go on."""
    from driftbandit.logs.learning import serving_command

    yield f"{log.name}: {log.report}"
    where = [f"row {row + 1:,} ({change.kind})" for row, change in lessons.changes[-_MOST_SHOWN:]]
    latest = f"; the last {_MOST_SHOWN}" if len(lessons.changes) > _MOST_SHOWN else ""
    count = len(lessons.changes)
    found = f"{count} change{'' if count == 1 else 's'}{latest}{': ' if where else ''}{', '.join(where)}"
    yield f"{policy!r} learned {lessons.rewards:,} rewards and found {found}"
    yield f"wrote {model} ({model.stat().st_size:,} bytes)"
    yield ""
    yield "In Python:"
    if named:
        yield "  from driftbandit import Recommender"
        yield f"  shop = Recommender.load({str(model)!r})"
    else:
        yield "  from driftbandit import load"
        yield f"  policy = load({str(model)!r})"
    if (command := serving_command(policy, model)) is not None:
        yield "In the service:"
        yield f"  {command}"
