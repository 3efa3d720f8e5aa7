"""Figure 3: click-through rate on the Yahoo! Today Module log, with models of users and models of articles.

Without the real log (R6A), made-up logs in the same format with planted changes are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Unpack

from driftbandit.core import Scope, as_count
from driftbandit.environments.datasets import locate
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.replay import Replay
from driftbandit.evaluation.replays import Entrant, Stream, replay_all
from driftbandit.evaluation.results import number_of
from driftbandit.paper.figure3_logs import DAYS, PLAN, Prepared, prepare
from driftbandit.paper.figure3_picture import figure
from driftbandit.paper.figure3_results import (
    SIDES,
    Side,
    claims_table,
    detection_table,
    plain_rows,
    rate_table,
    settings_table,
)
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.restarting.adts import AdTS
from driftbandit.policies.scoped.club import CLUB
from driftbandit.policies.scoped.per_arm import PerArm
from driftbandit.policies.scoped.per_scope import PerScope
from driftbandit.report import Artefact

LINES = 600_000
"""Lines of a made-up log."""

GROUPS = 5
DIM = 6
EXPLORE = 1.0
"""Exploration of LinUCB on the users' side; dLinUCB's follows the noise that it estimates."""
ARTICLE_EXPLORE = 0.6
"""Exploration of LinUCB and of dLinUCB on the articles' side."""
CLUB_EXPLORE = 0.6
V = 0.4
"""Scale of adTS's posterior, as in Figure 4."""
EXPLORES = (0.3, 0.6, 2.0)
"""Another exploration of LinUCB, shown for comparison."""
TOLD = (0.25, 0.35)
"""Noise that dLinUCB is told for comparison."""


def linucb(seed: int, explore: float = EXPLORE) -> LinUCB:
    """LinUCB; the seed is not used, since it draws nothing."""
    return LinUCB(DIM, explore=explore)


def adts(seed: int) -> AdTS:
    """adTS with the settings of the authors' library."""
    return AdTS(DIM, explore=V, seed=seed)


def dlinucb(seed: int, explore: float | None = None, noise: float | Literal["auto"] = "auto") -> DLinUCB:
    """dLinUCB that estimates the noise, or is told one, to show that no given noise works on clicks."""
    policy = DLinUCB(DIM, noise, explore=explore)
    policy.warned.first("clicks")  # mark the warning as given: a filter would also silence other policies
    return policy


def adts_of_group(seed: int, group: Scope) -> AdTS:
    """adTS of a group of users, with its own seed."""
    return adts(seed + int(group))


def by_group(build: Any, seed: int) -> PerScope:
    """One policy per group of users."""
    return PerScope(partial(adts_of_group, seed) if build is adts else build(seed))


def by_article(build: Any, seed: int) -> PerArm:
    """One model per article."""
    return PerArm(build(seed), seed=seed)


def club(seed: int, groups: int = GROUPS) -> CLUB:
    """CLUB, whose users are the groups."""
    return CLUB(DIM, users=groups, explore=CLUB_EXPLORE, seed=seed)


USERS: dict[str, Any] = {
    "uniform-dLinUCB": dlinucb,
    "N-dLinUCB": partial(by_group, dlinucb),
    "uniform-LinUCB": linucb,
    "N-LinUCB": partial(by_group, linucb),
    "uniform-adTS": adts,
    "N-adTS": partial(by_group, adts),
    "CLUB": club,
}
ARTICLES: dict[str, Any] = {
    "dLinUCB": partial(by_article, partial(dlinucb, explore=ARTICLE_EXPLORE)),
    "LinUCB": partial(by_article, partial(linucb, explore=ARTICLE_EXPLORE)),
    "adTS": partial(by_article, adts),
}
OTHERS: dict[str, Any] = {
    **{f"uniform-LinUCB, exploration {explore:g}": partial(linucb, explore=explore) for explore in EXPLORES},
    **{f"uniform-dLinUCB, told noise {noise:g}": partial(dlinucb, noise=noise) for noise in TOLD},
}


def run(
    *,
    data: str | None = None,
    lines: int | None = None,
    groups: int = GROUPS,
    seeds: Sequence[int],
    **options: Unpack[CompareOptions],
) -> Artefact:
    """Replay the figure's policies on the real log if it is there, else on one made-up log per seed.

    Parameters
    ----------
    data : str, optional
        Folder of the data sets, whose folder ``yahoo`` has the day files of R6A, or the folder of the day files; by
        default `$DRIFTBANDIT_DATA` or one in the user's home.
    lines : int, optional
        Lines of a made-up log, or how many lines of the real log to take, by default all.
    groups : int
        Groups of users.
    seeds : sequence of int
        Seeds of the made-up logs; with a real log only the first is used, for the policies.
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
        prepare(logs, **settings)
        streams: dict[Stream, Mapping[str, Entrant]] = {}
        for log in logs:
            users = Stream(f"users-{log.seed}", str(log.users), log.key(), log.seed)
            articles = Stream(f"articles-{log.seed}", str(log.articles), log.key(), log.seed)
            streams[users] = {name: _user_side(name, build, log) for name, build in {**USERS, **OTHERS}.items()}
            streams[articles] = {name: Entrant(build, user_features=True) for name, build in ARTICLES.items()}
        found = replay_all(streams, out=out, **settings)
        return _artefact(logs, found)


def _logs(data: str | None, lines: int | None, groups: int, seeds: Sequence[int], out: Path) -> list[Prepared]:
    try:
        source = str(locate("yahoo", data))
    except FileNotFoundError:
        return [Prepared(str(out / f"log-{seed}"), seed, groups, lines or LINES) for seed in seeds]
    return [Prepared(str(out / "log"), seeds[0], groups, lines, source)]


def _user_side(name: str, build: Any, log: Prepared) -> Entrant:
    grouped = name.startswith(("N-", "CLUB"))
    return Entrant(partial(club, groups=log.groups) if build is club else build, str(log.scopes) if grouped else "")


def _artefact(prepared: Sequence[Prepared], found: Mapping[tuple[str, str], Replay]) -> Artefact:
    sides = [Side(log, kind) for log in prepared for kind in SIDES]
    replays = {
        kind: {name: [found[f"{side}-{log.seed}", name] for log in prepared] for name in field}
        for kind, side, field in (
            ("users", "users", USERS),
            ("articles", "articles", ARTICLES),
            ("others", "users", OTHERS),
        )
    }
    made_up = prepared[0].made_up
    kind = "made-up log in the R6A format" if made_up else "Yahoo! R6A log"
    tables = [rate_table(replays), claims_table(replays)]
    if made_up:
        tables.append(detection_table(sides, replays))
    note = f"uniform-LinUCB above explores with {EXPLORE:g}; uniform-dLinUCB estimates the noise."
    tables.append(settings_table(replays, note))
    events = [len(side.log) for side in sides if side.kind == "users"]
    return Artefact(
        name="figure3",
        title=f"Figure 3: click-through rate, {kind}",
        text=[
            _about(prepared, events),
            "The click-through rate of the events where a policy agrees with the random logger (replay), divided by "
            f"the logger's own. Users are grouped by k-means of their features into {prepared[0].groups} groups, "
            "fitted on the first tenth of the log, which takes no part in the evaluation.",
            "The paper's claim: uniform-dLinUCB gains about 50 % over uniform-LinUCB, 15 % over N-LinUCB and 25 % over "
            "CLUB; adTS falls behind LinUCB; with models of articles dLinUCB is on a par with LinUCB at first and "
            "better in the second half. It prints no other numbers.",
        ],
        tables=tables,
        figures={
            "figure3": figure(sides[:2], replays, kind if prepared[0].source else f"{kind}, seed {prepared[0].seed}")
        },
        data={"made_up": made_up, "rows": plain_rows(replays)},
    )


def _about(prepared: Sequence[Prepared], events: Sequence[int]) -> str:
    total = f"{sum(events):,} events to evaluate on"
    if prepared[0].source:
        made = "a made-up log" if prepared[0].made_up else "the real log"
        return f"The files in {prepared[0].source}, {made}: {total}."
    low, high = PLAN["clicks"]
    seeds = ", ".join(str(log.seed) for log in prepared)
    return (
        f"{number_of('made-up log', len(prepared))} (seed {seeds}) of {prepared[0].lines:,} lines over {DAYS} days; "
        f"{total}. {PLAN['candidates']} candidates, click rates between {low:g} and {high:g}, {PLAN['groups']} groups "
        f"of users; {PLAN['changes']} planted changes turn tastes around. The real log was not found; see docs/data.md."
    )
