"""The command `driftbandit arena`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli_shared import AsJson, deliver, friendly_errors


def arena(
    scenarios: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas, 'all', or kinds: shifts, still, drift, real. Default: all, or your own."
        ),
    ] = None,
    policies: Annotated[str | None, typer.Option(help="Names separated by commas, or 'all'. Default: all.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy of your own: package.module:builder, a function of a Brief.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="A scenario of your own: package.module:name, a Scenario or a World.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many reporting seeds, from 0. Default: 20.", min=1)] = None,
    tuning: Annotated[int, typer.Option(help="How many tuning seeds, from 1000.", min=1)] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Other defaults: a few scenarios, policies and seeds, no tuning.")
    ] = False,
    processes: Annotated[int | None, typer.Option(help="Processes; one a core by default.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder for results, tables, picture and page.")] = Path("runs/arena"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what an earlier run left in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let every policy compete in every kind of changing world.

    All play identical rounds. Rivals that say 'tuned' are told the noise and get their settings on other seeds.
    Interrupted, the same command continues. `--quick` takes about two minutes, everything takes about an hour.

    Example: driftbandit arena --scenarios drift --policies driftucb,linucb,sw-tuned --seeds 5
    """
    with friendly_errors():
        from driftbandit.arena.report import run

        sys.path.insert(0, os.getcwd())  # where your own modules are; a console script does not look there
        if scenarios is None and scenario:
            scenarios = ""
        artefact = run(
            scenarios=_names(scenarios),
            policies=_names(policies),
            own_policies=policy or [],
            own_scenarios=scenario or [],
            seeds=None if seeds is None else range(seeds),
            tuning=tuning,
            quick=quick,
            out=out,
            processes=processes,
            progress=not as_json,
            fresh=fresh,
        )
        deliver([artefact], out, as_json)


def _names(text: str | None) -> list[str] | None:
    """What a user lists; None where nothing was said, which is not the same as an empty list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
