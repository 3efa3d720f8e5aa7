"""The dLinUCB paper: `driftbandit paper` redoes its tables and figures, `advise` applies its theory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftbandit.cli.shared import AsJson, Fresh, On, Processes, UnusedSeed, deliver, friendly_errors
from driftbandit.paper.everything import PaperArtefact


def paper(
    artefact: Annotated[PaperArtefact, typer.Argument(help="Which table or figure; `all` adds one report of them.")],
    seed: Annotated[int | None, typer.Option(help="First seed; 100, or 200 on data sets.", min=0)] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many; 10, or 5, 3 and 1 for figures 3, 4 and 5.", min=1)
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option(help="For figure3: lines of a made-up log (600,000), or of the log that is there to take.", min=1),
    ] = None,
    processes: Processes = None,
    on: On = "local",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; by default $DRIFTBANDIT_DATA. See docs/data.md.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for traces, tables, pictures and reports.")] = Path("runs/paper"),
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Redo a table or figure of the dLinUCB paper: ours beside the paper's.

    Interrupted, the same command continues.

    Example: driftbandit paper table1 --seeds 30
    """
    with friendly_errors(resumes=True):
        from driftbandit.paper.everything import redo

        done = redo(
            artefact,
            first_seed=seed,
            seeds=seeds,
            lines=lines,
            data=data,
            out=out,
            processes=processes,
            progress=not as_json,
            fresh=fresh,
            on=on,
        )
        deliver(done.artefacts, out, as_json)
        if not as_json:
            for name, reason in done.left_out.items():
                typer.secho(f"left out: {name} ({reason})", fg="yellow")
            if done.report is not None:
                typer.echo(f"all of it: {done.report}")


def advise(
    noise: Annotated[float | None, typer.Option(help="Standard deviation of a reward around its mean.")] = None,
    shift: Annotated[float | None, typer.Option(help="Change of an arm's expected reward at a shift.")] = None,
    share: Annotated[float | None, typer.Option(help="Share of arms that a shift changes; 1.")] = None,
    period: Annotated[int | None, typer.Option(help="Rounds between shifts; 800, or 20,000 of clicks.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds in all; 5,000.")] = None,
    dim: Annotated[int | None, typer.Option(help="Number of features; 10.")] = None,
    ridge: Annotated[float | None, typer.Option(help="DLinUCB's ridge; 0.1.")] = None,
    delta: Annotated[float | None, typer.Option(help="DLinUCB's delta, 0.01; of clicks, DriftUCB's, 0.02.")] = None,
    spawn_delta: Annotated[float | None, typer.Option(help="DLinUCB's spawn_delta; 0.002.")] = None,
    window_delta: Annotated[float | None, typer.Option(help="DLinUCB's window_delta; 0.1.")] = None,
    window: Annotated[int | None, typer.Option(help="DLinUCB's window; 200.")] = None,
    members: Annotated[int | None, typer.Option(help="Members active together, for the bound on several; 2.")] = None,
    clicks: Annotated[
        bool, typer.Option("--clicks", help="Say instead how long DriftUCB takes to find a shift on clicks.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(help="With --clicks: click rate of an average arm; by default, several.")
    ] = None,
    lift: Annotated[
        float | None,
        typer.Option(help="With --clicks: how many times that rate the arm played has; by default, several."),
    ] = None,
    seed: UnusedSeed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the advice to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hold planned settings against the conditions of the paper's theory, or say how soon shifts are found on clicks.

    Without --clicks, --noise and --shift are needed.

    Example: driftbandit advise --noise 0.1 --shift 0.9 --share 0.5 --period 2000 --horizon 100000

    Example: driftbandit advise --clicks --rate 0.02 --lift 2
    """
    of_theory: dict[str, Any] = {"noise": noise, "shift": shift, "share": share, "horizon": horizon, "ridge": ridge}
    of_theory |= {"spawn_delta": spawn_delta, "window_delta": window_delta, "window": window, "members": members}
    of_clicks = {"rate": rate, "lift": lift}
    of_both = {"period": period, "dim": dim, "delta": delta}
    for name, value in (of_theory if clicks else of_clicks).items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"has no meaning {'with' if clicks else 'without'} --clicks", param_hint=flag)
    for name in () if clicks else ("noise", "shift"):
        if of_theory[name] is None:
            raise typer.BadParameter("needed, unless with --clicks", param_hint=f"--{name}")
    given = {name: value for name, value in (of_theory | of_clicks | of_both).items() if value is not None}
    with friendly_errors():
        from driftbandit.paper import advice

        artefact = advice.run_clicks(**given) if clicks else advice.run(**given)
        deliver([artefact], out, as_json)
