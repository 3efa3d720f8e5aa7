"""Figure 4: reward on the LastFM and Delicious hybrid users, and detection against their true boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from matplotlib.axes import Axes

from driftbandit.core import Policy
from driftbandit.environments.delicious import Delicious
from driftbandit.environments.hetrec import TOLD_NOISE
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.rounds import Environment
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.detection import alarm_rounds
from driftbandit.evaluation.intervals import ratio_interval
from driftbandit.evaluation.results import Table, difference, mean_and_std, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.plots import Picture, name_of, styles_of
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.linear.oracle import OracleLinUCB
from driftbandit.policies.registry import Brief, Builder, title_of
from driftbandit.policies.restarting.adts import AdTS
from driftbandit.report import Artefact

POOL = 25
EXPLORE = 0.3
ORDERS = (0, 1, 2)
"""Orders of the users; 0 is the authors'."""

NOISES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4)
"""Noise levels that the sensitivity of dLinUCB is shown for."""

V = 0.4
"""Scale of adTS's posterior: the default of the authors' library. Their simulation script and our Table 1 use 0.1."""

ADTS_SETTINGS: dict[str, dict[str, Any]] = {
    "v 0.4, window 200, every 50": {"explore": 0.4},
    "v 0.4, window 500, every 50": {"explore": 0.4, "window": 500},
    "v 0.4, window 80, every 10": {"explore": 0.4, "window": 80, "check_every": 10},
    "v 0.1, window 200, every 50": {"explore": 0.1},
    "v 0.1, window 80, every 10": {"explore": 0.1, "window": 80, "check_every": 10},
}
"""Settings of adTS found in the authors' code; it is not known which of these their LastFM runs used."""

LOGGED: dict[tuple[str, str], float] = {
    ("LastFM users", "dlinucb"): 22031,
    ("LastFM users", "linucb"): 20571,
    ("LastFM users", "adts"): 20709,
    ("LastFM clusters", "dlinucb"): 6473,
    ("LastFM clusters", "linucb"): 5874,
    ("LastFM clusters", "adts"): 5191,
    ("LastFM clusters", "oracle"): 6638,
}
"""Total rewards in the logs that the paper's authors published."""


def linucb(brief: Brief) -> Policy:
    """LinUCB as in the authors' runs."""
    return LinUCB(brief.dim, explore=EXPLORE)


def dlinucb(brief: Brief) -> Policy:
    """dLinUCB with the settings of the authors' code."""
    return DLinUCB.preset("released", brief.dim, brief.noise, explore=EXPLORE)


def adts(brief: Brief) -> Policy:
    """adTS with the settings of the authors' library."""
    return AdTS(brief.dim, explore=V, seed=brief.seed)


def oracle(brief: Brief) -> Policy:
    """LinUCB that is told where the next user or cluster begins."""
    return OracleLinUCB(brief.dim, shifts=brief.shifts, explore=EXPLORE)


BUILDERS: dict[str, Builder] = {"dlinucb": dlinucb, "linucb": linucb, "adts": adts, "oracle": oracle}


def streams(data: str | None) -> dict[str, Environment]:
    """The streams of the available data sets, by name."""
    found: dict[str, Environment] = {}
    for title, name, kind in (("LastFM", "lastfm", LastFM), ("Delicious", "delicious", Delicious)):
        try:
            folder = str(data_folder(name, None if data is None else Path(data) / name))
        except FileNotFoundError:
            continue
        for order in ORDERS:
            label = f"{title} users" + (f", order {order}" if order else "")
            found[label] = kind(folder=folder, order=order)
        found[f"{title} clusters"] = kind(folder=folder, by="group")
    return found


def run(
    *,
    data: str | None = None,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Play the figure's policies on the streams for which there is data; `seeds` draw the pools.

    `data` is the folder that holds the data sets, by default `$DRIFTBANDIT_DATA` or one in the user's home.
    """
    found = streams(data)
    if not found:
        raise FileNotFoundError("figure4 needs LastFM or Delicious; see docs/data.md for how to get them")
    traces = compare(BUILDERS, found, seeds, **options)
    tables = [_totals(traces, found), _orders(traces, found), _advantage(traces, found)]
    if "LastFM users" in found:
        both = {name: found[name] for name in ("LastFM users", "LastFM clusters")}
        noises: dict[str, Builder] = {f"noise {noise:g}": partial(told, noise) for noise in NOISES}
        settings: dict[str, Builder] = {name: partial(adts_with, name) for name in ADTS_SETTINGS}
        tables.append(
            _sensitivity("How dLinUCB depends on the noise it is told", "dlinucb", noises, both, seeds, options)
        )
        tables.append(_sensitivity("How adTS depends on its settings", "adts", settings, both, seeds, options))
    panels = [
        Panel(
            f"({letter}) {title}",
            [trace for trace in traces if trace.setting == name and (by_group or trace.policy != "oracle")],
            show_changes=by_group,
        )
        for letter, title, name, by_group in (
            ("a", "normalised reward on LastFM", "LastFM users", False),
            ("b", "normalised reward on Delicious", "Delicious users", False),
            ("c", "cluster detection on LastFM", "LastFM clusters", True),
            ("d", "cluster detection on Delicious", "Delicious clusters", True),
        )
        if name in found
    ]
    return Artefact(
        name="figure4",
        title="Figure 4: hybrid users from LastFM and Delicious",
        text=[
            f"Pool seeds {', '.join(map(str, seeds))}; pools of {POOL}, one of them tagged by the user. Reward is "
            f"normalised by random picks, which are right once in {POOL}. Users need 10 events to take part; clusters "
            f"are the ten largest. dLinUCB is told a noise of {TOLD_NOISE:g}; LinUCB, dLinUCB and the oracle explore "
            f"with {EXPLORE:g}, adTS with v = {V:g}.",
            "The paper's claim: dLinUCB beats LinUCB and adTS on LastFM; on Delicious it starts behind LinUCB and "
            "catches up; on clusters it comes close to an oracle on LastFM, and detection is harder on Delicious. It "
            "prints no numbers; totals below are compared with those of the logs that its authors published.",
            f"Which settings adTS had in those runs is not known. v = {V:g} is the default of the authors' library; "
            "their simulation script has v = 0.1. How the comparison with dLinUCB depends on it is in the last table.",
        ],
        tables=tables,
        figures={"figure4": reward_figure(panels, 1.0 / POOL)},
        data={
            "rows": [{**row.as_dict(), "logged": LOGGED.get((row.setting, row.policy))} for row in summarise(traces)]
        },
    )


def _totals(traces: Sequence[Trace], found: Mapping[str, Environment]) -> Table:
    cells = []
    for stream in found:
        for policy in BUILDERS:
            runs = [trace for trace in traces if (trace.setting, trace.policy) == (stream, policy)]
            totals = np.array([trace.rewards.sum() for trace in runs])
            spread = float(totals.std(ddof=1)) if len(totals) > 1 else float("nan")
            logged = LOGGED.get((stream, policy))
            cells.append(
                (
                    f"{stream}: {title_of(policy)}",
                    mean_and_std(float(totals.mean()), spread),
                    f"{totals.mean() * POOL / len(runs[0]):.2f}",
                    "–" if logged is None else f"{logged:,.0f}",
                    "–" if logged is None else difference(float(totals.mean()), logged),
                )
            )
    headings = ("stream and policy", "reward", "normalised", "authors' log", "diff.")
    return Table("Total reward", headings, tuple(cells), "Normalised: divided by the reward of random picks.")


def _advantage(traces: Sequence[Trace], found: Mapping[str, Environment]) -> Table:
    """dLinUCB against LinUCB on the same rounds, with block bootstrap intervals."""
    cells = []
    for stream in found:
        ours, theirs = (
            np.concatenate([trace.rewards for trace in traces if (trace.setting, trace.policy) == (stream, policy)])
            for policy in ("dlinucb", "linucb")
        )
        interval = ratio_interval(ours, theirs)
        cells.append((stream, f"{interval.estimate:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"))
    note = "Bootstrap over blocks of consecutive rounds, 95 %."
    return Table("Reward of dLinUCB over that of LinUCB", ("stream", "ratio", "interval"), tuple(cells), note)


def _orders(traces: Sequence[Trace], found: Mapping[str, Environment]) -> Table:
    """Mean reward of every policy by order of the users."""
    rewards = {(row.setting, row.policy): row.reward for row in summarise(traces)}
    cells = []
    for title in ("LastFM", "Delicious"):
        names = [name for name in found if name.startswith(f"{title} users")]
        for policy in BUILDERS if names else ():
            totals = [rewards[name, policy] for name in names]
            mean, logged = float(np.mean(totals)), LOGGED.get((names[0], policy))
            beside = ("–", "–") if logged is None else (f"{logged:,.0f}", difference(mean, logged))
            cells.append((f"{title}: {title_of(policy)}", *(f"{total:,.0f}" for total in (*totals, mean)), *beside))
    headings = ("users and policy", "authors' order", *(f"order {order}" for order in ORDERS[1:]), "mean")
    note = "Mean over pool seeds; the authors' log has their order."
    return Table("Reward by order of the users", (*headings, "authors' log", "diff."), tuple(cells), note)


def _sensitivity(
    title: str,
    policy: str,
    builders: Mapping[str, Builder],
    found: Mapping[str, Environment],
    seeds: Sequence[int],
    options: CompareOptions,
) -> Table:
    """Total reward of a policy with other settings, and that of the authors' logs."""
    rewards = {(row.policy, row.setting): row.reward for row in summarise(compare(builders, found, seeds, **options))}
    cells = [(name, *(f"{rewards[name, stream]:,.0f}" for stream in found)) for name in builders]
    cells.append(("authors' log", *(f"{LOGGED[stream, policy]:,.0f}" for stream in found)))
    note = (
        "Mean over pool seeds. Every row has random draws of its own." if policy == "adts" else "Mean over pool seeds."
    )
    return Table(title, ("setting", *found), tuple(cells), note)


def told(noise: float, brief: Brief) -> Policy:
    """dLinUCB that is told this noise."""
    return dlinucb(replace(brief, noise=noise))


def adts_with(name: str, brief: Brief) -> Policy:
    """adTS with one of `ADTS_SETTINGS`."""
    return AdTS(brief.dim, seed=brief.seed, **ADTS_SETTINGS[name])


@dataclass(frozen=True)
class Panel:
    """One panel of `reward_figure`: its title, its runs, and whether to mark shifts and detected changes."""

    title: str
    traces: Sequence[Trace]
    show_changes: bool = False


def reward_figure(panels: Sequence[Panel], chance: float) -> Picture:
    """Accumulated reward over time, divided by what random picks would earn.

    Parameters
    ----------
    panels : sequence of Panel
        Curves are means over seeds. Marked shifts are black lines, detected changes of the first seed ticks at the
        bottom.
    chance : float
        Expected reward of a random pick.
    """
    columns = min(len(panels), 2)
    lines = -(-len(panels) // 2)
    figure = Picture(figsize=(6.2 * columns, 4.2 * lines), layout="constrained")
    styles = styles_of(list(dict.fromkeys(trace.policy for panel in panels for trace in panel.traces)))
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(lines, columns, number + 1)
        policies = list(dict.fromkeys(trace.policy for trace in panel.traces))
        horizon = len(panel.traces[0])
        rounds = np.arange(1, horizon + 1)
        drawn = np.unique(np.linspace(horizon // 100, horizon - 1, 1000).astype(int))
        for policy in policies:
            runs = np.array([np.cumsum(trace.rewards) for trace in panel.traces if trace.policy == policy])
            curve = runs.mean(axis=0) / (chance * rounds)
            axes.plot(rounds[drawn], curve[drawn], label=name_of(policy), linewidth=1.7, **styles[policy])
        if panel.show_changes:
            _mark_changes(axes, panel.traces, styles)
        axes.set_title(panel.title, fontsize=11)
        axes.set_xlabel("round")
        axes.set_ylabel("normalised reward")
        axes.set_xlim(0, horizon)
        axes.grid(axis="y", alpha=0.25)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.12 * (high - low))  # room for the legend above the curves
        axes.legend(fontsize=9, loc="upper center", ncols=len(policies))
    return figure


def _mark_changes(axes: Axes, traces: Sequence[Trace], styles: dict[str, dict[str, Any]]) -> None:
    for shift in traces[0].shifts:
        axes.axvline(shift, color="black", linewidth=0.8, alpha=0.6)
    first: dict[str, Trace] = {}
    for trace in traces:
        first.setdefault(trace.policy, trace)
    for policy, trace in first.items():
        for alarm in alarm_rounds(trace.changes):
            axes.axvline(alarm, ymax=0.08, color=styles[policy]["color"], linewidth=1.6)
