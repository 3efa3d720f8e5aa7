"""Figure 4: reward on the LastFM and Delicious hybrid users, and detection against their true boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from driftbandit.environments.delicious import Delicious
from driftbandit.environments.hetrec import TOLD_NOISE
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.rounds import Environment
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.compare import CompareOptions, compare
from driftbandit.evaluation.intervals import ratio_interval
from driftbandit.evaluation.results import Table, difference, mean_and_std, summarise
from driftbandit.evaluation.trace import Trace
from driftbandit.paper.figure4_claims import claims_of
from driftbandit.paper.figure4_detection import answers, answers_table
from driftbandit.paper.figure4_picture import Panel, reward_figure
from driftbandit.paper.figure4_policies import ADTS_SETTINGS, BUILDERS, EXPLORE, NOISES, V, adts_with, told
from driftbandit.paper.verdicts import verdict_table
from driftbandit.policies.registry import Builder, title_of
from driftbandit.report import Artefact

POOL = 25
ORDERS = (0, 1, 2)
"""Orders of the users; 0 is the authors'."""

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
    adts: dict[str, float] = {}
    if "LastFM users" in found:
        both = {name: found[name] for name in ("LastFM users", "LastFM clusters")}
        noises: dict[str, Builder] = {f"noise {noise:g}": partial(told, noise) for noise in NOISES}
        settings: dict[str, Builder] = {name: partial(adts_with, name) for name in ADTS_SETTINGS}
        for title, policy, builders in (
            ("How dLinUCB depends on the noise it is told", "dlinucb", noises),
            ("How adTS depends on its settings", "adts", settings),
        ):
            rewards = _rewards(compare(builders, both, seeds, **options))
            tables.append(_sensitivity(title, policy, rewards, list(both)))
        adts = {name: rewards["LastFM users", name] for name in settings}
    main = {name: environment for name, environment in found.items() if "order" not in name}
    own = [trace for trace in traces if trace.policy == "dlinucb"]
    scored = answers(main, own, seeds, options)
    claims = claims_of(traces, scored, adts)
    tables = [answers_table(scored, seeds), *tables, verdict_table(claims)]
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
            "claims": [claim.as_dict() for claim in claims],
            "answers": [row.as_dict() for row in scored],
            "rows": [{**row.as_dict(), "logged": LOGGED.get((row.setting, row.policy))} for row in summarise(traces)],
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
    rewards = _rewards(traces)
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


def _rewards(traces: Sequence[Trace]) -> dict[tuple[str, str], float]:
    """Mean total reward by stream and policy."""
    return {(row.setting, row.policy): row.reward for row in summarise(traces)}


def _sensitivity(title: str, policy: str, rewards: Mapping[tuple[str, str], float], names: Sequence[str]) -> Table:
    """Total reward of a policy with other settings, and that of the authors' logs."""
    rows = list(dict.fromkeys(name for _, name in rewards))
    cells = [(name, *(f"{rewards[stream, name]:,.0f}" for stream in names)) for name in rows]
    cells.append(("authors' log", *(f"{LOGGED[stream, policy]:,.0f}" for stream in names)))
    note = (
        "Mean over pool seeds. Every row has random draws of its own." if policy == "adts" else "Mean over pool seeds."
    )
    return Table(title, ("setting", *names), tuple(cells), note)
