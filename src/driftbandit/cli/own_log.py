"""Your own log: `driftbandit audit` and `driftbandit evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from driftbandit.cli.shared import (
    AsJson,
    ColumnNames,
    Items,
    LogFile,
    LogFileOrNone,
    Logged,
    On,
    deliver,
    find_own_modules,
    friendly_errors,
    names_in,
)

_CANDIDATES = "driftucb,linucb,lints,dlinucb-auto,discounted-linucb"


def audit(
    log: LogFileOrNone = None,
    items: Items = None,
    policies: Annotated[str, typer.Option(help="Candidates, as in `driftbandit evaluate`.")] = _CANDIDATES,
    columns: ColumnNames = None,
    logged: Logged = None,
    tune: Annotated[bool, typer.Option(help="Tune LinUCB on the first half of the log.")] = True,
    example: Annotated[
        bool, typer.Option("--example", help="Make up a shop's log with known changes and audit it.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="Write the best policy, having learned the log, to this file.")
    ] = None,
    on: On = "local",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("runs/audit"),
    as_json: AsJson = False,
) -> None:
    """Did my world change, and what should I run?

    Reads a log of decisions, checks it, dates changes of the world and names what changed, and says what candidates
    would have earned. Every row that cannot be used is counted.

    Example: driftbandit audit --example
    """
    with friendly_errors():
        from driftbandit.audit.audit import audit as ask
        from driftbandit.audit.example import write_example
        from driftbandit.audit.report import artefact
        from driftbandit.evaluation.builders import builders_of
        from driftbandit.logs import read_log
        from driftbandit.policies.registry import REGISTRY

        if on == "ray" and not tune:
            raise ValueError("--on ray: only the tuning runs there; leave out --no-tune, or --on ray")
        if example:
            given = {"LOG": log, "--items": items, "--columns": columns, "--logged": logged}
            if unused := [name for name, value in given.items() if value is not None]:
                raise ValueError(f"--example: makes up a log of its own; leave out {', '.join(unused)}")
            log, items = write_example(out, seed)
        elif log is None:
            raise ValueError("log: expected a file or folder, or --example")
        find_own_modules()
        candidates = builders_of(names_in(policies))
        grids = {"linucb-tuned": REGISTRY["linucb"].variants[0].builders(REGISTRY["linucb"])} if tune else {}
        found = ask(
            read_log(log, items=items, columns=columns, logged=logged),
            candidates,
            grids=grids,
            seed=seed,
            on=on,
            say=lambda step: typer.secho(step, fg="bright_black", err=True),
        )
        if model is not None:
            found.save_best(model)
            typer.echo(f"wrote {model}: {found.favourite}, having learned the whole log", err=as_json)
        deliver([artefact(found, model)], out, as_json)


def evaluate(
    log: LogFile,
    policies: Annotated[
        str,
        typer.Option(
            help="Names from `driftbandit policies`, or your own as package.module:builder or "
            "name=package.module:builder, separated by commas."
        ),
    ] = "driftucb,dlinucb,linucb",
    items: Items = None,
    columns: ColumnNames = None,
    logged: Logged = None,
    estimand: Annotated[
        Literal["shadow", "replayed"],
        typer.Option(help="shadow: policies learn every logged reward; replayed: from their own choices alone."),
    ] = "shadow",
    estimator: Annotated[
        str | None,
        typer.Option(help="dr, ips, snips, dm, sndr, switch_dr or dros. Default: dr, or ips with --interval anytime."),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Limit of the weights, for switch_dr and dros.")] = None,
    interval: Annotated[
        Literal["bootstrap", "normal", "anytime"], typer.Option(help="anytime may be looked at again and again.")
    ] = "bootstrap",
    dim: Annotated[int | None, typer.Option(help="Most features to make of the columns.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the table to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what policies would have earned on a log of your own.

    A table of the logger, uniform choice, the best arm and the policies: value with its interval, difference to the
    logger on the same decisions, and a verdict. docs/evaluation.md explains the two questions and the estimators,
    docs/logs.md the columns of a log.

    Example: driftbandit evaluate clicks.csv --items items.csv --policies driftucb,linucb
    """
    with friendly_errors():
        from driftbandit.evaluation.builders import builders_of
        from driftbandit.evaluation.logged import evaluate_log
        from driftbandit.logs import read_log
        from driftbandit.report import Artefact

        find_own_modules()
        builders = builders_of(names_in(policies))
        found = evaluate_log(
            read_log(log, items=items, columns=columns, logged=logged),
            builders,
            estimand=estimand,
            interval=interval,
            estimator=estimator,
            limit=limit,
            dim=dim,
            seed=seed,
            progress=not as_json,
        )
        title = f"What policies would have earned on {found.name}"
        artefact = Artefact("evaluate", title, text=found.text(), tables=[found.table()], data=found.as_dict())
        deliver([artefact], out, as_json)
