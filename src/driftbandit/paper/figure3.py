"""Figure 3: click-through rate on logs in the format of Yahoo!'s Today Module, with models of users and of articles.

Without day files of R6A, made-up logs in the same format with planted changes are used, by several plans of change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from driftbandit.core import as_count
from driftbandit.environments.datasets import locate
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.replay import Replay
from driftbandit.evaluation.replays import Entrant, Stream, replay_all
from driftbandit.evaluation.results import number_of
from driftbandit.paper.figure3_claims import claims_of
from driftbandit.paper.figure3_logs import DAYS, PLAN, PLANS, Prepared, prepare
from driftbandit.paper.figure3_members import Remark, members_table, serving
from driftbandit.paper.figure3_picture import ArticlePanel, figure, samples_of
from driftbandit.paper.figure3_policies import (
    ARTICLES,
    EXPLORE,
    GROUPS,
    NOISE,
    OTHERS,
    UNIFORM,
    USERS,
    club,
)
from driftbandit.paper.figure3_ratios import Ratios
from driftbandit.paper.figure3_results import (
    SIDES,
    Replays,
    Side,
    claims_table,
    detection_table,
    plain_rows,
    plans_table,
    rate_table,
    settings_table,
)
from driftbandit.paper.verdicts import verdict_table
from driftbandit.report import Artefact

LINES = 600_000
"""Lines of a made-up log."""

PLAN_SEEDS = 3
"""Most logs of each plan other than the easy one."""

STUDIED = ("uniform-dLinUCB", "uniform-dLinUCB, told noise 0.25")
"""Policies whose members are held against the groups of users: with few members, and with many."""

Found = Mapping[tuple[str, str], Replay]


def run(
    *,
    data: str | None = None,
    lines: int | None = None,
    groups: int = GROUPS,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Replay the figure's policies on the log that is there, else on made-up logs, one per seed.

    Parameters
    ----------
    data : str, optional
        Folder of the data sets, whose folder ``yahoo`` has the day files of R6A, or the folder of the day files; by
        default `$DRIFTBANDIT_DATA` or one in the user's home.
    lines : int, optional
        Lines of a made-up log, or how many events of the log that is there to take, by default all.
    groups : int
        Groups of users.
    seeds : sequence of int
        Seeds of the made-up logs; with a log that is there only the first is used, for the policies.
    """
    if lines is not None:
        as_count("lines", lines)
    with TemporaryDirectory(prefix="driftbandit-") as shelter:
        out = Path(options.get("out") or shelter)
        settings: dict[str, Any] = {
            "processes": options.get("processes"),
            "progress": options.get("progress", False),
            "fresh": options.get("fresh", False),
        }
        logs = _logs(data, lines, groups, seeds, out)
        prepare(logs, **settings)  # always here, where the files of R6A are
        found = replay_all(_streams(logs), out=out, on=options.get("on", "local"), **settings)
        return _artefact(logs, found, out, settings["fresh"])


def _logs(data: str | None, lines: int | None, groups: int, seeds: Sequence[int], out: Path) -> list[Prepared]:
    try:
        source = str(locate("yahoo", data))
    except FileNotFoundError:
        easy = [Prepared(str(out / f"log-{seed}"), seed, groups, lines or LINES) for seed in seeds]
        return easy + [
            Prepared(str(out / f"log-{plan}-{seed}"), seed, groups, lines or LINES, plan=plan)
            for plan in PLANS
            for seed in seeds[:PLAN_SEEDS]
            if plan != "easy"
        ]
    return [Prepared(str(out / "log"), seeds[0], groups, lines, source)]


def _streams(logs: Sequence[Prepared]) -> dict[Stream, Mapping[str, Entrant]]:
    """Who is replayed on which side of which log: everybody on easy plans, a few policies on the others."""
    streams: dict[Stream, Mapping[str, Entrant]] = {}
    for log in logs:
        users = Stream(f"users-{log.name}", str(log.users), log.key(), log.seed)
        field = {**USERS, **OTHERS} if log.plan == "easy" else {name: USERS[name] for name in UNIFORM}
        streams[users] = {name: _user_side(name, build, log) for name, build in field.items()}
        if log.plan == "easy":
            articles = Stream(f"articles-{log.name}", str(log.articles), log.key(), log.seed)
            streams[articles] = {name: Entrant(build, user_features=True) for name, build in ARTICLES.items()}
    return streams


def _user_side(name: str, build: Any, log: Prepared) -> Entrant:
    grouped = name.startswith(("N-", "CLUB"))
    return Entrant(partial(club, groups=log.groups) if build is club else build, str(log.scopes) if grouped else "")


def _artefact(logs: Sequence[Prepared], found: Found, out: Path, fresh: bool) -> Artefact:
    ratio = Ratios(out / "ratios.json", fresh)
    easy = [log for log in logs if log.plan == "easy"]
    sides = [Side(log, kind) for log in easy for kind in SIDES]
    replays = {
        kind: {name: [found[f"{side}-{log.name}", name] for log in easy] for name in field}
        for kind, side, field in (
            ("users", "users", USERS),
            ("articles", "articles", ARTICLES),
            ("others", "users", OTHERS),
        )
    }
    made_up = easy[0].made_up
    kind = ("made-up log" if made_up else "log") + " in the R6A format"
    remarks = _remarks([side for side in sides if side.kind == "users"], easy, replays, out / "members", fresh)
    tables = [rate_table(replays, ratio), claims_table(replays, ratio)]
    if made_up:
        tables.append(detection_table(sides, replays))
    if len(logs) > len(easy):
        users = dict(zip(easy, [side for side in sides if side.kind == "users"], strict=True))
        users |= {log: Side(log, "users") for log in logs if log not in users}
        tables.append(plans_table(users, found, UNIFORM, ratio))
    note = f"Above, uniform-LinUCB explores with {EXPLORE:g} and uniform-dLinUCB is told a noise of {NOISE:g}."
    claims = claims_of(sides, replays, remarks, ratio)
    about = "These verdicts are about the log above." if easy[0].source else "These verdicts are about made-up logs."
    tables += [settings_table(replays, note, ratio), members_table(remarks)]
    tables.append(verdict_table(claims, f"{about} The paper's percentages can be judged on its own log alone."))
    events = [len(side.log) for side in sides if side.kind == "users"]
    samples = samples_of(sides[1], replays)
    rows = plain_rows(replays, ratio)
    ratio.save()
    return Artefact(
        name="figure3",
        title=f"Figure 3: click-through rate, {kind}",
        text=[
            _about(logs, events),
            "The click-through rate of the events where a policy agrees with the random logger (replay), divided by "
            f"the logger's own. Users are grouped by k-means of their features into {easy[0].groups} groups, "
            "fitted on the first tenth of the log, which takes no part in the evaluation.",
            f"dLinUCB is the paper's Algorithm 1, told a noise of {NOISE:g}. LR member is not the paper's algorithm, "
            "but what DLinUCB does with noise='auto' on clicks: a single member, replaced when a likelihood ratio over "
            "many clicks shows a change.",
            _shown(samples),
            "The paper's claim: uniform-dLinUCB gains about 50 % over uniform-LinUCB, 15 % over N-LinUCB and 25 % over "
            "CLUB; adTS and WMDUCB1 fall behind LinUCB; with models of articles dLinUCB is on a par with LinUCB at "
            "first and better in the second half. It prints no other numbers.",
        ],
        tables=tables,
        figures={
            "figure3": figure(sides[:2], replays, samples, kind if easy[0].source else f"{kind}, seed {easy[0].seed}")
        },
        data={
            "made_up": made_up,
            "skipped": {log.name: log.report().skipped for log in logs},
            "claims": [claim.as_dict() for claim in claims],
            "members": {name: vars(remark) for name, remark in remarks.items()},
            "rows": rows,
        },
    )


def _remarks(
    sides: Sequence[Side],
    logs: Sequence[Prepared],
    replays: Replays,
    kept: Path,
    fresh: bool,
) -> dict[str, Remark]:
    """Members of the studied policies against groups of users, over the logs."""
    builders, runs = {**USERS, **OTHERS}, {**replays["users"], **replays["others"]}
    return {
        name: Remark.of(
            [
                serving(builders[name](0), side.log, run, side.groups, seed=log.seed, kept=kept, fresh=fresh)
                for side, log, run in zip(sides, logs, runs[name], strict=True)
            ]
        )
        for name in STUDIED
    }


def _shown(samples: Sequence[ArticlePanel]) -> str:
    if not samples:
        return "Panel (c) is left out, because no article lives long enough."
    names = ", ".join(str(sample.article) for sample in samples)
    return (
        f"Panel (c) shows articles {names}: of the first log, those that the dLinUCB of the articles' side learned "
        "most about, most first. The paper drew five at random."
    )


def _about(logs: Sequence[Prepared], events: Sequence[int]) -> str:
    total = f"{sum(events):,} events to evaluate on"
    first = logs[0]
    if first.source:
        report = first.report()
        skipped = ", ".join(f"{kind}: {count:,}" for kind, count in report.skipped.items()) or "none"
        kind = "a made-up log" if first.made_up else "whether they are Yahoo!'s own cannot be seen"
        return f"The files in {first.source}, {kind}: {report.lines:,} lines; skipped: {skipped}; {total}."
    low, high = PLAN["clicks"]
    seeds = ", ".join(str(log.seed) for log in logs if log.plan == "easy")
    others = sum(log.plan != "easy" for log in logs)
    return (
        f"{number_of('made-up log', len(events))} (seed {seeds}) of {first.lines:,} lines over {DAYS} days; "
        f"{total}. {PLAN['candidates']} candidates, click rates between {low:g} and {high:g}, {PLAN['groups']} groups "
        f"of users; {PLAN['changes']} planted changes turn tastes around. {number_of('more log', others)} have other "
        "plans of change. Day files of R6A were not found; see docs/data.md."
    )
