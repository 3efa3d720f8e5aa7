"""The command `driftbandit bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli.shared import AsJson, deliver, friendly_errors


def bench(
    sizes: Annotated[
        str, typer.Option(help="Features x arms per round, separated by commas.")
    ] = "6x10,25x25,25x1000,100x100",
    rounds: Annotated[int, typer.Option(help="Rounds of a run.", min=1)] = 5000,
    peers: Annotated[bool, typer.Option(help="Also time other packages, where installed.")] = True,
    loading: Annotated[bool, typer.Option(help="Also time reading, converting and replaying data.")] = True,
    many_features: Annotated[bool, typer.Option(help="Also compare costs at up to 1,024 features.")] = True,
    scopes: Annotated[
        int, typer.Option(help="Scopes that are timed at once beside one by one; 0 for none.", min=0)
    ] = 10_000,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; by default $DRIFTBANDIT_DATA.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the rounds.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the table to.")] = None,
    as_json: AsJson = False,
) -> None:
    r"""Time choose + learn beside NumPy and other packages, many scopes at once, and reading and replaying data.

    Other packages come with pip install 'driftbandit\[bench]'.

    Example: driftbandit bench --sizes 25x25 --no-peers --no-loading --no-many-features
    """
    with friendly_errors():
        from driftbandit.benchmarks.bench import read_sizes, run

        shapes = read_sizes(sizes)
        if not as_json:
            typer.echo("timing, about half a minute for each size ...", err=True)
        artefact = run(
            shapes,
            rounds=rounds,
            peers=peers,
            loading=loading,
            many_features=many_features,
            scopes=scopes,
            data=data,
            seed=seed,
        )
        deliver([artefact], out, as_json)
