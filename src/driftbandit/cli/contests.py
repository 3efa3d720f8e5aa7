"""Policies against each other: `driftbandit compare`, `arena`, and `policies`, which lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli.shared import (
    AsJson,
    Fresh,
    On,
    Processes,
    UnusedSeed,
    deliver,
    find_own_modules,
    friendly_errors,
    names_in,
)

OwnPolicies = Annotated[
    list[str] | None,
    typer.Option(help="A policy of your own: [name=]package.module:builder, a function of a Brief. May come again."),
]


def compare(
    policies: Annotated[
        str, typer.Option(help="Names from `driftbandit policies`, separated by commas, or 'all'.")
    ] = "usual",
    policy: OwnPolicies = None,
    preset: Annotated[str, typer.Option(help="Simulated world; see docs/environments.md.")] = "table1",
    dim: Annotated[int | None, typer.Option(help="Number of features.")] = None,
    arms: Annotated[int | None, typer.Option(help="Arms in the catalogue.")] = None,
    pool: Annotated[int | None, typer.Option(help="Arms shown in a round.")] = None,
    noise: Annotated[float | None, typer.Option(help="Standard deviation of rewards.")] = None,
    shift: Annotated[float | None, typer.Option(help="Smallest size of a shift.")] = None,
    share: Annotated[float | None, typer.Option(help="Share of arms that a shift changes.")] = None,
    period: Annotated[int | None, typer.Option(help="Rounds between shifts.")] = None,
    clicks: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest click rate, in a world of clicks.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Number of rounds.")] = None,
    seed: Annotated[int, typer.Option(help="First seed; the others follow it.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 10,
    processes: Processes = None,
    on: On = "local",
    out: Annotated[Path, typer.Option(help="Folder for traces, table, picture and report.")] = Path("runs/compare"),
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Play policies in a simulated world and compare their regret.

    By default: the paper's policies in the world of column 2 of its Table 1, ten seeds. Interrupted, the same command
    continues.

    Example: driftbandit compare --policies dlinucb,linucb,oracle --policy mine=my.module:build --noise 0.1
    """
    with friendly_errors(resumes=True):
        from driftbandit.arena.comparison import field, run
        from driftbandit.environments import world
        from driftbandit.evaluation.builders import own_builders
        from driftbandit.paper.table1_columns import printed

        given: dict[str, object] = {"dim": dim, "arms": arms, "pool": pool, "noise": noise, "shift": shift}
        given |= {"share": share, "period": period, "clicks": clicks, "horizon": horizon}
        settings = world(preset, **{name: value for name, value in given.items() if value is not None})
        find_own_modules()
        artefact = run(
            {**dict.fromkeys(field(names_in(policies.lower()))), **own_builders(policy or [])},
            preset,
            settings,
            range(seed, seed + seeds),
            paper=printed(settings),
            out=out,
            processes=processes,
            progress=not as_json,
            fresh=fresh,
            on=on,
        )
        deliver([artefact], out, as_json)


def arena(
    scenarios: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas, or kinds: shifts, still, drift, clicks, units, late, people, real; 'long' "
            "for the long ones, 'all' for all others. Default: all, or your own."
        ),
    ] = None,
    policies: Annotated[str | None, typer.Option(help="Names separated by commas, or 'all'. Default: all.")] = None,
    policy: OwnPolicies = None,
    focus: Annotated[
        str | None, typer.Option(help="Whom the scoreboard is about: a name, or that of your own. Default: driftucb.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="A scenario of your own: package.module:name, a Scenario or a World.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many reporting seeds, from 0. Default: 20 or fewer.", min=1)
    ] = None,
    tuning: Annotated[int, typer.Option(help="How many tuning seeds, from 1000.", min=1)] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Other defaults: a few scenarios, policies and seeds, no tuning.")
    ] = False,
    processes: Processes = None,
    on: On = "local",
    out: Annotated[Path, typer.Option(help="Folder for results, tables, picture and page.")] = Path("runs/arena"),
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Let every policy compete in every kind of changing world.

    All play identical rounds. Rivals that say 'tuned' are told the noise and get their settings on other seeds.
    Interrupted, the same command continues. `--quick` takes about two minutes, all scenarios take about an hour, long
    ones, which play only if asked for, another.

    Example: driftbandit arena --scenarios drift --policies driftucb,linucb,sw-tuned --seeds 5 --focus sw-tuned
    """
    with friendly_errors(resumes=True):
        from driftbandit.arena.report import run

        find_own_modules()
        if scenarios is None and scenario:
            scenarios = ""
        artefact = run(
            scenarios=None if scenarios is None else names_in(scenarios),
            policies=None if policies is None else names_in(policies),
            own_policies=policy or [],
            own_scenarios=scenario or [],
            focus=focus,
            seeds=None if seeds is None else range(seeds),
            tuning=tuning,
            quick=quick,
            out=out,
            processes=processes,
            progress=not as_json,
            fresh=fresh,
            on=on,
        )
        deliver([artefact], out, as_json)


def policies(
    seed: UnusedSeed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the list to.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the policies that `compare` knows.

    Example: driftbandit policies --json
    """
    with friendly_errors():
        from driftbandit.evaluation.results import Table
        from driftbandit.policies.listing import listing
        from driftbandit.report import Artefact

        listed = listing()
        cells = tuple((name, entry["summary"], entry["told"]) for name, entry in listed.items())
        table = Table(
            "Their names, and what they must be told", ("name", "what it is", "what it is told"), cells, numbers=False
        )
        deliver([Artefact("policies", "Policies", tables=[table], data=listed)], out, as_json)
