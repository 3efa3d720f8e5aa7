"""The commands `driftbandit keys`: access keys of the service."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from driftbandit.cli.service import (
    DEFAULT_STORE,
    NewStoreOption,
    StoreOption,
    milliseconds_of,
    need_serve,
    opened_store,
)
from driftbandit.cli.shared import AsJson, friendly_errors

keys = typer.Typer(help="Create, list and revoke access keys of the service.", no_args_is_help=True)


@keys.command("create")
@keys.command("add", hidden=True)
def keys_create(
    name: Annotated[str, typer.Argument(help="Whose key it is, for the list.")],
    role: Annotated[str, typer.Option(help="decide, read or admin.")] = "decide",
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid, such as 90d, 12h or 30m; without, until it is revoked.")
    ] = None,
    loops: Annotated[str | None, typer.Option(help="Loops that it is for, with commas between; without, all.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second that it may make; without, --rate of serve.", min=0.1)
    ] = None,
    store: NewStoreOption = DEFAULT_STORE,
) -> None:
    """Make a key and print it; it is never shown again.

    Example: driftbandit keys create website --role decide --expires 90d --loops news,shop
    """
    with friendly_errors():
        need_serve()
        from driftbandit.serving.api.keys import check_key, create_key
        from driftbandit.serving.stores.base import without_password

        for_loops = None if loops is None else [part.strip() for part in loops.split(",")]
        seconds = None if expires is None else milliseconds_of("--expires", expires) / 1000.0
        check_key(name, role, for_loops)  # checked before a missing store is made
        with opened_store(store, create=True) as opened:
            row, secret = create_key(opened, name, role, seconds=seconds, loops=for_loops, rate=rate)
        typer.echo(f"key {row.id} ({role}) for {name} in {without_password(store)}; it is shown only now:", err=True)
        typer.echo(secret)


@keys.command("list")
def keys_list(store: StoreOption = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """List keys, without their secrets.

    Example: driftbandit keys list
    """
    with friendly_errors(), opened_store(store) as opened:
        from driftbandit.serving.engine.messages import iso

        rows = [
            {
                "id": row.id,
                "name": row.name,
                "role": row.role,
                "revoked": row.revoked is not None,
                "expires": None if row.expires is None else iso(row.expires),
                "loops": row.loops,
                "rate": row.rate,
            }
            for row in opened.access_keys()
        ]
        if as_json:
            json.dump(rows, sys.stdout, indent=2)
            sys.stdout.write("\n")
        for row in [] if as_json else rows:
            typer.echo(f"{row['id']}  {row['role']:6}  {row['name']}{_limits_of(row)}")


def _limits_of(row: dict[str, Any]) -> str:
    """What a key's line in the list ends with."""
    found = ["revoked"] if row["revoked"] else []
    if row["expires"] is not None:
        found.append(f"until {row['expires'][:16]}Z")
    if row["loops"] is not None:
        found.append("for " + ", ".join(row["loops"]))
    if row["rate"] is not None:
        found.append(f"{row['rate']:g} requests a second")
    return f"  ({'; '.join(found)})" if found else ""


@keys.command("revoke")
def keys_revoke(
    key: Annotated[str, typer.Argument(help="Its id, from `driftbandit keys list`.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Revoke a key; a running service notices within a second or so.

    Example: driftbandit keys revoke 1a2b3c4d
    """
    with friendly_errors(), opened_store(store) as opened:
        import time

        if not key.isprintable() or not opened.revoke_key(key, int(time.time() * 1000)):
            raise ValueError(f"no key {key!r}")
        typer.echo(f"revoked {key}")
