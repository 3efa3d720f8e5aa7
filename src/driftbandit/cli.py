"""The command line: compare, arena, paper, data, advise, policies, bench, serve, demo, keys, replay."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from driftbandit.cli_arena import arena
from driftbandit.cli_data import data
from driftbandit.cli_serve import demo, keys, replay, serve
from driftbandit.cli_shared import AsJson
from driftbandit.cli_shared import deliver as _deliver
from driftbandit.cli_shared import friendly_errors as _friendly_errors

app = typer.Typer(
    name="driftbandit",
    help="Contextual bandits for a world that changes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[int, typer.Option(help="First seed; the others follow it.", min=0)]
Seeds = Annotated[int, typer.Option(help="How many seeds.", min=1)]
Processes = Annotated[
    int | None, typer.Option(help="Processes; one a core by default. Results do not depend on it.", min=1)
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again what an earlier run left in --out.")]


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Contextual bandits for a world that changes."""
    if version:
        from driftbandit import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command()
def compare(
    policies: Annotated[
        str, typer.Option(help="Names from `driftbandit policies`, separated by commas, or 'all'.")
    ] = "usual",
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
    seed: Seed = 0,
    seeds: Seeds = 10,
    processes: Processes = None,
    out: Annotated[Path, typer.Option(help="Folder for traces, table, picture and report.")] = Path("runs/compare"),
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Play policies in a simulated world and compare their regret.

    By default: the paper's policies in the world of column 2 of its Table 1, ten seeds. Interrupted, the same command
    continues.

    Example: driftbandit compare --policies dlinucb,linucb,oracle --noise 0.1 --period 400
    """
    with _friendly_errors():
        from dataclasses import asdict

        from driftbandit.environments import World, world
        from driftbandit.evaluation.compare import compare as play
        from driftbandit.evaluation.results import number_of, regret_table, summarise
        from driftbandit.paper.table1 import printed
        from driftbandit.plots import regret_figure
        from driftbandit.policies.registry import REGISTRY, USUAL
        from driftbandit.report import Artefact

        given: dict[str, object] = {"dim": dim, "arms": arms, "pool": pool, "noise": noise, "shift": shift}
        given |= {"share": share, "period": period, "clicks": clicks, "horizon": horizon}
        settings = world(preset, **{name: value for name, value in given.items() if value is not None})
        given_names = [name.strip().lower() for name in policies.split(",") if name.strip()]
        groups = {"all": [name for name in REGISTRY if not REGISTRY[name].scoped], "usual": list(USUAL)}
        names = groups.get(",".join(given_names), given_names)
        traces = play(
            names,
            {preset: settings},
            range(seed, seed + seeds),
            out=out,
            processes=processes,
            progress=not as_json,
            fresh=fresh,
        )
        rows = summarise(traces)
        facts = asdict(settings)
        usual = asdict(World())
        shown = {"noise"} if settings.reward == "gaussian" else {"clicks"}
        shown |= {"shift", "period"} if settings.path in ("jumps", "recurring") else set()
        said = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in facts.items()
            if name in shown or value != usual[name]
        )
        title = f"Regret after {settings.horizon:,} rounds: {preset} ({said}), {number_of('seed', seeds)}"
        artefact = Artefact(
            name="compare",
            title=title,
            text=[
                "Regret is the expected reward lost by not playing the best arm shown, summed over rounds: lower is "
                "better. Mean ± standard deviation over seeds; every policy played the same rounds.",
                "dLinUCB has the settings behind the paper's Table 1; (printed) is its Algorithm 1 to the letter, "
                "(released) its authors' code. The oracles are told the true shifts. `driftbandit policies` explains "
                "the others.",
            ],
            tables=[regret_table(rows, "Best first", printed(settings), timing=True)],
            figures={"compare": regret_figure(traces, title)},
            data={"world": facts, "seeds": list(range(seed, seed + seeds)), "rows": [row.as_dict() for row in rows]},
        )
        _deliver([artefact], out, as_json)


class PaperArtefact(StrEnum):
    """What of the paper can be redone."""

    TABLE1 = "table1"
    FIGURE2 = "figure2"
    RHO = "rho"
    FIGURE3 = "figure3"
    FIGURE4 = "figure4"
    FIGURE5 = "figure5"
    ALL = "all"


# Artefacts made from data sets, which `--data` finds, and their seeds: none that settings were chosen on.
_ON_DATA = {
    PaperArtefact.FIGURE3: range(200, 205),
    PaperArtefact.FIGURE4: range(200, 203),
    PaperArtefact.FIGURE5: range(200, 201),
}


@app.command()
def paper(
    artefact: Annotated[PaperArtefact, typer.Argument(help="Which table or figure; `all` adds one report of them.")],
    seed: Annotated[int | None, typer.Option(help="First seed; 100, or 200 on data sets.", min=0)] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many; 10, or 5, 3 and 1 for figures 3, 4 and 5.", min=1)
    ] = None,
    lines: Annotated[
        int | None,
        typer.Option(help="For figure3: lines of a made-up log (600,000), or of the real one to take.", min=1),
    ] = None,
    processes: Processes = None,
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
    with _friendly_errors():
        from driftbandit.report import Artefact, page

        everything = artefact is PaperArtefact.ALL
        names = [name for name in PaperArtefact if name is not PaperArtefact.ALL] if everything else [artefact]
        artefacts: list[Artefact] = []
        left_out: dict[str, str] = {}
        for name in names:
            module = import_module(f"driftbandit.paper.{name}")
            usual = _ON_DATA.get(name, range(100, 110))
            first = usual.start if seed is None else seed
            extra: dict[str, str | int | None] = (
                {"data": None if data is None else str(data)} if name in _ON_DATA else {}
            )
            if name is PaperArtefact.FIGURE3:
                extra["lines"] = lines
            try:
                artefacts.append(
                    module.run(
                        seeds=range(first, first + (seeds or len(usual))),
                        out=out / name,
                        processes=processes,
                        progress=not as_json,
                        fresh=fresh,
                        **extra,
                    )
                )
            except (FileNotFoundError, ImportError) as error:
                if not everything:
                    raise
                left_out[name.value] = str(error)
        _deliver(artefacts, out, as_json)
        if everything:
            report = out / "report.html"
            report.write_text(page("The dLinUCB paper, redone", artefacts, left_out), encoding="utf-8")
            if not as_json:
                for skipped, reason in left_out.items():
                    typer.secho(f"left out: {skipped} ({reason})", fg="yellow")
                typer.echo(f"all of it: {report}")


app.command()(data)
app.command()(arena)


@app.command()
def advise(
    noise: Annotated[float, typer.Option(help="Standard deviation of a reward around its mean.")],
    shift: Annotated[float, typer.Option(help="Change of an arm's expected reward at a shift.")],
    share: Annotated[float, typer.Option(help="Share of arms that a shift changes.")] = 1.0,
    period: Annotated[int, typer.Option(help="Rounds between shifts.")] = 800,
    horizon: Annotated[int, typer.Option(help="Rounds in all.")] = 5000,
    dim: Annotated[int, typer.Option(help="Number of features.")] = 10,
    ridge: Annotated[float, typer.Option(help="DLinUCB's ridge.")] = 0.1,
    delta: Annotated[float, typer.Option(help="DLinUCB's delta.")] = 0.01,
    spawn_delta: Annotated[float, typer.Option(help="DLinUCB's spawn_delta.")] = 0.002,
    window_delta: Annotated[float, typer.Option(help="DLinUCB's window_delta.")] = 0.1,
    window: Annotated[int, typer.Option(help="DLinUCB's window.")] = 200,
    seed: Annotated[int, typer.Option(help="Accepted for uniformity; nothing is drawn here.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the advice to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hold planned settings against the conditions of the paper's theory.

    Example: driftbandit advise --noise 0.1 --shift 0.9 --share 0.5 --period 2000 --horizon 100000
    """
    with _friendly_errors():
        from driftbandit.paper import theory

        artefact = theory.run(
            noise=noise,
            shift=shift,
            share=share,
            period=period,
            horizon=horizon,
            dim=dim,
            ridge=ridge,
            delta=delta,
            spawn_delta=spawn_delta,
            window_delta=window_delta,
            window=window,
        )
        _deliver([artefact], out, as_json)


@app.command()
def policies(
    seed: Annotated[int, typer.Option(help="Accepted for uniformity; nothing is drawn here.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the list to.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the policies that `compare` knows.

    Example: driftbandit policies --json
    """
    with _friendly_errors():
        from driftbandit.evaluation.results import Table
        from driftbandit.policies.registry import REGISTRY
        from driftbandit.report import Artefact

        table = Table(
            "Policies",
            ("name", "what it is", "what it is told"),
            tuple((name, entry.summary, entry.told_in_words) for name, entry in REGISTRY.items()),
            numbers=False,
        )
        data = {
            name: {"title": entry.title, "summary": entry.summary, "told": entry.told_in_words, "page": entry.page}
            for name, entry in REGISTRY.items()
        }
        _deliver([Artefact("policies", "Policies", tables=[table], data=data)], out, as_json)


@app.command()
def bench(
    sizes: Annotated[
        str, typer.Option(help="Features x arms a round, separated by commas.")
    ] = "6x10,25x25,25x1000,100x100",
    rounds: Annotated[int, typer.Option(help="Rounds of a run.", min=1)] = 5000,
    peers: Annotated[bool, typer.Option(help="Also time other packages, where installed.")] = True,
    loading: Annotated[bool, typer.Option(help="Also time reading, converting and replaying data.")] = True,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; by default $DRIFTBANDIT_DATA.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the rounds.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the table to.")] = None,
    as_json: AsJson = False,
) -> None:
    r"""Time choose + learn beside NumPy and other packages, and reading and replaying data.

    Other packages come with pip install 'driftbandit\[bench]'.

    Example: driftbandit bench --sizes 25x25 --no-peers --no-loading
    """
    with _friendly_errors():
        from dataclasses import asdict

        from driftbandit.benchmarks.loading import loading_table, measure_loading
        from driftbandit.benchmarks.speed import import_ratio, measure, speed_table
        from driftbandit.report import Artefact

        try:
            pairs = [tuple(int(part) for part in size.split("x")) for size in sizes.split(",")]
            shapes = [(dim, arms) for dim, arms in pairs if dim > 0 and arms > 0]
        except ValueError as error:
            raise ValueError(f"--sizes: expected something like 6x10,25x25, got {sizes!r}") from error
        if len(shapes) != len(pairs):
            raise ValueError(f"--sizes: expected positive numbers, got {sizes!r}")
        if not as_json:
            typer.echo("timing, about half a minute a size ...", err=True)
        times = measure(shapes, seed=seed, peers=peers, rounds=rounds)
        imports = import_ratio()
        microseconds = {
            name: {f"{dim}x{arms}": value for (dim, arms), value in row.items()} for name, row in times.items()
        }
        figures = measure_loading(data, seed=seed) if loading else []
        artefact = Artefact(
            "bench",
            "Speed",
            text=[f"import driftbandit takes {imports:.1f} times as long as import numpy."],
            tables=[speed_table(times, rounds), *([loading_table(figures)] if figures else [])],
            data={
                "microseconds": microseconds,
                "import_ratio": imports,
                "loading": {figure.name: asdict(figure) for figure in figures},
            },
        )
        _deliver([artefact], out, as_json)


app.command()(serve)
app.command()(demo)
app.add_typer(keys, name="keys")
app.command()(replay)
