"""The command `driftbandit data`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli.shared import AsJson, deliver, friendly_errors


class DataName(StrEnum):
    """Data sets that there are loaders for."""

    LASTFM = "lastfm"
    DELICIOUS = "delicious"
    YAHOO = "yahoo"


def data(
    name: Annotated[DataName | None, typer.Argument(help="Which data set; without one, all and their state.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--data", help="Folder of the data sets; by default $DRIFTBANDIT_DATA.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for converted files; by default $DRIFTBANDIT_CACHE, or where the data is."),
    ] = None,
    convert: Annotated[bool, typer.Option(help="Convert it, so that it opens faster.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Convert again what was converted.")] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch lastfm or delicious from GroupLens: you accept its terms.")
    ] = False,
    synthetic: Annotated[
        int | None, typer.Option(help="Make up a Yahoo! log of this many lines instead, in --out.", min=1)
    ] = None,
    days: Annotated[int, typer.Option(help="Days of a made-up log.", min=1)] = 1,
    changes: Annotated[int, typer.Option(help="Changes planted in a made-up log.", min=0)] = 3,
    compress: Annotated[bool, typer.Option("--gz", help="Compress a made-up log.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of a made-up log.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the findings to; of a made-up log (runs/yahoo).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find, check and convert the data sets of the paper, or make up a Yahoo! log.

    Example: driftbandit data lastfm --data FOLDER
    """
    with friendly_errors():
        from driftbandit.data import hetrec, yahoo
        from driftbandit.data.overview import overview
        from driftbandit.environments.datasets import DATA_SETS
        from driftbandit.evaluation.progress import progress_bar

        if synthetic is not None:
            if name is not DataName.YAHOO or download:
                raise ValueError("--synthetic: expected `driftbandit data yahoo --synthetic N`, and no --download")
            target = out or Path("runs/yahoo")
            made = yahoo.make_up(synthetic, target, seed=seed, days=days, changes=changes, compress=compress)
            deliver([made], None, as_json)
            return
        if name is None:
            if download:
                raise ValueError("--download: expected the name of a data set, lastfm or delicious")
            deliver([overview(folder)], out, as_json)
            return
        if download:
            if DATA_SETS[name].archive and not as_json:
                typer.secho(f"{name}: {DATA_SETS[name].terms}", fg="yellow", err=True)
            written = hetrec.download(name, folder)
            if not as_json:
                typer.secho("\n".join(f"wrote {file}" for file in written) or "nothing is missing", err=True)
        if name is DataName.YAHOO:
            with progress_bar("reading", wanted=not as_json) as progress:
                found = yahoo.check_yahoo(folder, cache, convert, fresh, progress)
        else:
            found = hetrec.check_hetrec(name, folder, cache, convert, fresh)
        deliver([found], out, as_json)
