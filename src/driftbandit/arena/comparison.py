"""Many policies in one simulated world: what `driftbandit compare` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Unpack

from driftbandit.environments import Simulated
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.results import number_of, regret_table, summarise
from driftbandit.plots import regret_figure
from driftbandit.policies.registry import REGISTRY, USUAL, Builder
from driftbandit.report import Artefact


def field(names: Sequence[str]) -> list[str]:
    """The policies that these names stand for; 'all' or 'usual', alone, stands for a group.

    >>> field(["linucb", "random"])
    ['linucb', 'random']
    >>> len(field(["all"])) > len(field(["usual"]))
    True
    """
    groups = {"all": [name for name in REGISTRY if not REGISTRY[name].scoped], "usual": list(USUAL)}
    return groups.get(",".join(names), list(names))


def run(
    policies: Sequence[str] | Mapping[str, Builder | None],
    name: str,
    world: Simulated,
    seeds: Sequence[int],
    *,
    paper: Mapping[str, tuple[float, float]] | None = None,
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play policies in one world; returns the table, the picture and the numbers.

    Parameters
    ----------
    policies : sequence of str, or mapping of name to builder
        Names from the registry, or builders by name; None stands for the registry's policy of that name.
    name, world :
        The world, and its name in the results.
    seeds : sequence of int
        Seeds of the world.
    paper : mapping, optional
        Regret that the dLinUCB paper gives for this world, by policy: mean and standard deviation.
    **options :
        As in `compare`.
    """
    traces = compare(policies, {name: world}, seeds, **options)
    rows = summarise(traces)
    title = f"Regret after {world.horizon:,} rounds: {name} ({_described(world)}), {number_of('seed', len(seeds))}"
    return Artefact(
        name="compare",
        title=title,
        text=[
            "Regret is the expected reward lost by not playing the best arm shown, summed over rounds: lower is "
            "better. Mean ± standard deviation over seeds; every policy played the same rounds.",
            "dLinUCB has the settings behind the paper's Table 1; (printed) is its Algorithm 1 to the letter, "
            "(released) its authors' code. The oracles are told the true shifts. `driftbandit policies` explains "
            "the others.",
        ],
        tables=[regret_table(rows, "Best first", paper, timing=True)],
        figures={"compare": regret_figure(traces, title)},
        data={"world": asdict(world), "seeds": list(seeds), "rows": [row.as_dict() for row in rows]},
    )


def _described(world: Simulated) -> str:
    """The settings that matter most in this world, and all settings that differ from the defaults."""
    usual = asdict(type(world)())
    shown = {"noise"} if getattr(world, "reward", "gaussian") == "gaussian" else {"clicks"}
    shown |= {"shift", "period"} if getattr(world, "path", "") in ("jumps", "recurring", "jolts") else set()
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in asdict(world).items()
        if name in shown or value != usual[name]
    )
