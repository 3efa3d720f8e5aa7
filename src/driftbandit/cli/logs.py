"""Your own log: `driftbandit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli.shared import AsJson, deliver, friendly_errors, names_in

_CANDIDATES = "driftucb,linucb,lints,dlinucb-auto,discounted-linucb"


def audit(
    log: Annotated[
        Path | None, typer.Argument(help="CSV, Parquet, NDJSON or DSJSON file, or a folder of them.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="Table of the arms: an id, and columns that describe them.")
    ] = None,
    policies: Annotated[str, typer.Option(help="Candidates, separated by commas.")] = _CANDIDATES,
    columns: Annotated[Path | None, typer.Option(help="TOML file that says which column is what.")] = None,
    logged: Annotated[
        str | None, typer.Option(help="'uniform' or 'estimated', if propensities are not logged.")
    ] = None,
    tune: Annotated[bool, typer.Option(help="Tune LinUCB on the first half of the log.")] = True,
    example: Annotated[
        bool, typer.Option("--example", help="Make up a shop's log with known changes and audit it.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="Write the best policy, having learned the log, to this file.")
    ] = None,
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
        from driftbandit.core import unknown_name
        from driftbandit.logs import read_log
        from driftbandit.policies.registry import REGISTRY

        if example:
            log, items = write_example(out, seed)
        elif log is None:
            raise ValueError("log: expected a file or folder, or --example")
        names = names_in(policies.lower())
        if unknown := [name for name in names if name not in REGISTRY]:
            raise ValueError(unknown_name("policies", unknown[0], REGISTRY))
        grids = {"linucb-tuned": REGISTRY["linucb"].variants[0].builders(REGISTRY["linucb"])} if tune else {}
        found = ask(
            read_log(log, items=items, columns=columns, logged=logged),  # type: ignore[arg-type]
            {name: REGISTRY[name].build for name in names},
            grids=grids,
            seed=seed,
            say=lambda step: typer.secho(step, fg="bright_black", err=True),
        )
        deliver([artefact(found)], out, as_json)
        if model is not None:
            found.save_best(model)
            typer.echo(f"wrote {model}: {found.favourite}, having learned the whole log", err=as_json)
