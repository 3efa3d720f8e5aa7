"""Your own log: `driftbandit evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftbandit.cli.shared import AsJson, deliver, find_own_modules, friendly_errors, names_in


def evaluate(
    log: Annotated[Path, typer.Argument(help="The log: CSV, Parquet, NDJSON or DSJSON, a file or a folder.")],
    policies: Annotated[
        str,
        typer.Option(
            help="Names from `driftbandit policies`, or your own as package.module:builder or "
            "name=package.module:builder, separated by commas."
        ),
    ] = "driftucb,dlinucb,linucb",
    items: Annotated[Path | None, typer.Option(help="Table of the arms: an id, and what describes them.")] = None,
    columns: Annotated[Path | None, typer.Option(help="TOML file that says which column is what.")] = None,
    logged: Annotated[
        str | None, typer.Option(help="How arms were drawn if no column says so: uniform or estimated.")
    ] = None,
    estimand: Annotated[
        str, typer.Option(help="shadow: policies learn every logged reward; replayed: from their own choices alone.")
    ] = "shadow",
    estimator: Annotated[
        str | None,
        typer.Option(help="dr, ips, snips, dm, sndr, switch_dr or dros. Default: dr, or ips with --interval anytime."),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Limit of the weights, for switch_dr and dros.")] = None,
    interval: Annotated[str, typer.Option(help="bootstrap, normal, or anytime, which may be looked at again.")] = (
        "bootstrap"
    ),
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
        asked: Any = {"estimand": estimand, "interval": interval}
        drawn: Any = logged
        found = evaluate_log(
            read_log(log, items=items, columns=columns, logged=drawn),
            builders,
            **asked,
            estimator=estimator,
            limit=limit,
            dim=dim,
            seed=seed,
            progress=not as_json,
        )
        title = f"What policies would have earned on {found.name}"
        artefact = Artefact("evaluate", title, text=found.text(), tables=[found.table()], data=found.as_dict())
        deliver([artefact], out, as_json)
