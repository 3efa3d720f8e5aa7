"""The commands that look after a store of the service: `driftbandit store check`."""

from __future__ import annotations

from typing import Annotated

import typer

from driftbandit.cli.service import opened_store
from driftbandit.cli.shared import friendly_errors

store = typer.Typer(help="Look after a store of the service.", no_args_is_help=True)


@store.callback()
def main() -> None:
    """Look after a store of the service."""


@store.command("check")
def store_check(address: Annotated[str, typer.Argument(help="sqlite:PATH or postgresql://...")]) -> None:
    """Read everything in a store, and list what is damaged: events, snapshots, models.

    Exit status 1 if anything is. The store may be in use meanwhile.

    Example: driftbandit store check sqlite:driftbandit.db
    """
    with friendly_errors(), opened_store(address) as opened:
        found = 0
        for line in opened.damage():
            typer.echo(line)
            found += 1
        if found:
            typer.echo(f"damaged: {found}", err=True)
            raise typer.Exit(1)
        typer.echo("nothing is damaged", err=True)
