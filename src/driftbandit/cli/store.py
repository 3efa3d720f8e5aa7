"""The commands that look after a store of the service: `driftbandit store check`, `sizes`, `backup` and others."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli.service import need_serve, opened_store
from driftbandit.cli.shared import AsJson, friendly_errors

AddressArgument = Annotated[str, typer.Argument(help="sqlite:PATH or postgresql://...")]
SQLiteArgument = Annotated[str, typer.Argument(help="sqlite:PATH; for PostgreSQL use its own tools.")]
_POSTGRESQL = {
    "backup": "use pg_dump --format=custom",
    "restore": "use pg_restore",
    "compact": "it gives room back by itself, or use vacuumdb --full",
}

store = typer.Typer(help="Look after a store of the service.", no_args_is_help=True)


@store.callback()
def main() -> None:
    """Look after a store of the service."""


@store.command("check")
def store_check(address: AddressArgument) -> None:
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


@store.command("sizes")
def store_sizes(address: AddressArgument, as_json: AsJson = False) -> None:
    """Say how much each loop has: events, models, snapshots, ids of closed decisions, changes.

    Bytes are those of the data; indexes and half-full pages come on top. The store may be in use meanwhile.

    Example: driftbandit store sizes sqlite:driftbandit.db
    """
    with friendly_errors(), opened_store(address) as opened:
        rows = opened.sizes()
        if as_json:
            json.dump([row._asdict() for row in rows], sys.stdout, indent=2)
            sys.stdout.write("\n")
            return
        typer.echo(f"{'kind':9}  {'rows':>13}  {'bytes':>15}  loop")
        for row in rows:
            typer.echo(f"{row.kind:9}  {row.rows:13,}  {row.bytes:15,}  {row.loop}")
        typer.echo(f"{'all':9}  {'':13}  {sum(row.bytes for row in rows):15,}")


@store.command("backup")
def store_backup(
    address: SQLiteArgument,
    file: Annotated[Path, typer.Argument(help="Where the copy goes.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Copy a store to a file, whether the service runs or not, and check the copy.

    The copy is the store as it was when the command began. For PostgreSQL see docs/service.md.

    Example: driftbandit store backup sqlite:driftbandit.db monday.db
    """
    with _sqlite(address, "backup") as path:
        from driftbandit.serving.stores.backup import backup

        backup(path, file, force=force)
        typer.echo(f"copied {path} to {file}: {file.stat().st_size:,} bytes, nothing is damaged")


@store.command("restore")
def store_restore(
    file: Annotated[Path, typer.Argument(help="A copy that `driftbandit store backup` made.")],
    address: SQLiteArgument,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a store that exists.")] = False,
) -> None:
    """Put a copy in the place of a store, after checking it. No service may be using the store.

    Example: driftbandit store restore monday.db sqlite:driftbandit.db
    """
    with _sqlite(address, "restore") as path:
        from driftbandit.serving.stores.backup import restore

        restore(file, path, force=force)
        typer.echo(f"restored {path} from {file}, nothing is damaged")


@store.command("compact")
def store_compact(address: SQLiteArgument) -> None:
    """Give back the room that deleted rows left. No service may be using the store.

    It needs as much free room on the disk as the store takes.

    Example: driftbandit store compact sqlite:driftbandit.db
    """
    with _sqlite(address, "compact") as path:
        from driftbandit.serving.stores.backup import compact

        before, after = compact(path)
        typer.echo(f"{path}: {before:,} bytes before, {after:,} after")


@store.command("delete")
def store_delete(
    address: AddressArgument,
    loop: Annotated[str, typer.Argument(help="Name of the loop.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a loop with its log, models and changes.

    A running service stops serving it within a second or so, and removes its data a few rows at a time. Without one,
    the data goes when a service starts next.

    Example: driftbandit store delete sqlite:driftbandit.db old-loop
    """
    with friendly_errors(), opened_store(address) as opened:
        import time

        if loop not in [row.name for row in opened.loops()]:
            raise ValueError(f"no loop {loop!r}")
        if not yes:
            typer.confirm(f"Delete loop {loop} and all it has learned?", abort=True)
        opened.delete_loop(loop, "store delete", int(time.time() * 1000))
        typer.echo(f"deleted {loop}")


@contextmanager
def _sqlite(address: str, command: str) -> Iterator[Path]:
    """The file of a SQLite store; other stores are refused with advice. Errors of the store are shown as such."""
    with friendly_errors():
        need_serve()
        from driftbandit.serving.server import check_address
        from driftbandit.serving.stores.base import StoreError

        check_address(address)
        if not address.startswith("sqlite:"):
            raise ValueError(f"{command}: for SQLite only; for PostgreSQL {_POSTGRESQL[command]}, see docs/service.md")
        try:
            yield Path(address.removeprefix("sqlite:"))
        except StoreError as error:
            raise ValueError(str(error)) from error
