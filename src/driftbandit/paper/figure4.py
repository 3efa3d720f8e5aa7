"""Figure 4: reward on the LastFM and Delicious hybrid users, and detection against their true boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from driftbandit.core import Policy
from driftbandit.environments.delicious import Delicious
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.rounds import Environment
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.intervals import ratio_interval
from driftbandit.evaluation.results import Table, difference, mean_and_std, number_of, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.plots import Panel, reward_figure
from driftbandit.policies.adts import AdTS
from driftbandit.policies.dlinucb import DLinUCB
from driftbandit.policies.linucb import LinUCB
from driftbandit.policies.oracle import OracleLinUCB
from driftbandit.policies.registry import Brief, Builder, title_of
from driftbandit.report import Artefact

POOL = 25
EXPLORE = 0.3
ORDERS = (0, 1, 2)
"""Orders of the users; 0 is the authors'."""

NOISES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4)
"""Noise levels that the sensitivity of dLinUCB is shown for."""

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
    """adTS as released."""
    return AdTS(brief.dim, seed=brief.seed)


def oracle(brief: Brief) -> Policy:
    """LinUCB that is told where the next user or cluster begins."""
    return OracleLinUCB(brief.dim, shifts=brief.shifts, explore=EXPLORE)


BUILDERS: dict[str, Builder] = {"dlinucb": dlinucb, "linucb": linucb, "adts": adts, "oracle": oracle}


def streams(data: str | None) -> dict[str, Environment]:
    """The streams of the data sets that are there, by name."""
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
    """Play the figure's policies on the streams that there is data for; `seeds` draw the pools.

    `data` is the folder that holds the data sets, by default `$DRIFTBANDIT_DATA` or one in the user's home.
    """
    found = streams(data)
    if not found:
        raise FileNotFoundError("figure4 needs LastFM or Delicious; see docs/data.md for how to get them")
    traces = compare(BUILDERS, found, seeds, **options)
    tables = [_totals(traces, found), _advantage(traces, found)]
    if "LastFM users" in found:
        tables.append(_sensitivity({name: found[name] for name in ("LastFM users", "LastFM clusters")}, seeds, options))
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
            f"{number_of('pool seed', len(seeds))}; pools of {POOL}, one of them tagged by the user. Reward is "
            f"normalised by random picks, which are right once in {POOL}. Users need 10 events to take part; clusters "
            "are the ten largest.",
            "The paper's claim: dLinUCB beats LinUCB and adTS on LastFM; on Delicious it starts behind LinUCB and "
            "catches up; on clusters it comes close to an oracle on LastFM, and detection is harder on Delicious. It "
            "prints no numbers; totals below are compared with those of the logs that its authors published.",
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


def _sensitivity(found: Mapping[str, Environment], seeds: Sequence[int], options: CompareOptions) -> Table:
    """Total reward of dLinUCB when it is told other noise levels."""
    builders: dict[str, Builder] = {f"noise {noise:g}": partial(told, noise) for noise in NOISES}
    traces = compare(builders, found, seeds, **options)
    totals = {(row.policy, row.setting): row for row in summarise(traces)}
    cells = tuple((name, *(f"{totals[name, stream].reward:,.0f}" for stream in found)) for name in builders)
    return Table("How dLinUCB depends on the noise it is told", ("told", *found), cells)


def told(noise: float, brief: Brief) -> Policy:
    """dLinUCB that is told this noise."""
    return dlinucb(replace(brief, noise=noise))
