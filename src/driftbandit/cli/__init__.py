"""The command line, one file per group of commands: own logs, warm starts, contests, paper, data, bench,
service, keys, store.

Commands only turn options into calls and show the results; the work is done in the other packages. Slow imports are
inside the commands, so that `driftbandit --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from driftbandit.cli.bench import bench
from driftbandit.cli.contests import arena, compare, policies
from driftbandit.cli.data import data
from driftbandit.cli.keys import keys
from driftbandit.cli.learning import learn
from driftbandit.cli.own_log import audit, evaluate
from driftbandit.cli.paper import advise, paper
from driftbandit.cli.service import demo, rerun, serve, warm
from driftbandit.cli.store import store

app = typer.Typer(
    name="driftbandit",
    help="Contextual bandits for a world that changes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Contextual bandits for a world that changes."""
    if version:
        from driftbandit import __version__

        typer.echo(__version__)
        raise typer.Exit


for command in (audit, evaluate, learn, compare, arena, paper, data, advise, policies, bench, serve, demo, warm):
    app.command()(command)
app.add_typer(keys, name="keys")
app.add_typer(store, name="store")
app.command()(rerun)
app.command("replay", hidden=True)(rerun)  # its name before the estimator `driftbandit.evaluation.replay` existed
