"""The arena as one artefact: chosen scenarios and entrants, played, scored, drawn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import cast

from driftbandit.arena.alarms import alarm_tables
from driftbandit.arena.entrants import OURS, Entrant, entrants, tuned
from driftbandit.arena.league import FIRST_TUNING_SEED, play_all, seeds_of
from driftbandit.arena.picture import arena_figure
from driftbandit.arena.scenarios import QUICK, SCENARIOS, Scenario, kind_of
from driftbandit.arena.scoreboard import (
    detection_table,
    regret_tables,
    score,
    scoreboard,
    time_table,
    twin_table,
)
from driftbandit.core import as_count, unknown_name
from driftbandit.environments.hetrec import HybridUser
from driftbandit.environments.rounds import Environment
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.builders import imported, own_builders
from driftbandit.evaluation.results import number_of
from driftbandit.evaluation.study import Result
from driftbandit.evaluation.workers import On
from driftbandit.files import whole_file
from driftbandit.report import Artefact

_QUICK_SEEDS = 3
_QUICK_POLICIES = (
    "driftucb",
    "dlinucb",
    "adts",
    "linucb",
    "discounted-linucb",
    "sw-linucb",
    "restart-linucb",
    "random",
    "oracle-paper",
)


def run(
    *,
    scenarios: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    own_policies: Sequence[str] = (),
    own_scenarios: Sequence[str] = (),
    focus: str | None = None,
    seeds: Sequence[int] | None = None,
    tuning: int = 3,
    quick: bool = False,
    out: str | os.PathLike[str] = "runs/arena",
    processes: int | None = None,
    progress: bool = False,
    fresh: bool = False,
    on: On = "local",
) -> Artefact:
    """Play the arena and return its tables and picture; all runs go to `out`/arena.parquet.

    Parameters
    ----------
    scenarios, policies : sequence of str, optional
        Names, kinds of scenarios, 'all', which is the default and leaves out long scenarios, or 'long' for those.
    own_policies, own_scenarios : sequence of str
        Import paths 'package.module:name' of builders and of scenarios (or environments) to add; 'name=package...'
        gives a builder another name.
    focus : str, optional
        Name of the entrant that the scoreboard is about, by default DriftUCB. It plays even if `policies` leaves it
        out.
    seeds, tuning :
        Reporting seeds, by default the first 20, or fewer where a scenario says so, and how many tuning seeds; real
        data plays at most three seeds, and is tuned on one.
    quick : bool
        By default play only a few scenarios and seeds, and policies that need no tuning.
    out, processes, progress, fresh, on :
        As in `compare`.
    """
    if scenarios is None:
        scenarios = QUICK if quick else ("all",)
    if policies is None:
        policies = _QUICK_POLICIES if quick else ("all",)
    if seeds is None and quick:
        seeds = range(_QUICK_SEEDS)
    chosen, skipped = _scenarios(scenarios, own_scenarios)
    field = _entrants(policies, own_policies, focus)
    focus = focus or OURS
    for name, scenario in chosen.items():
        if not any(scenario.kind in entrant.kinds for entrant in field.values()):
            raise ValueError(f"policies: none of {', '.join(field)} plays in {name}, of kind {scenario.kind!r}")
    results, settings = play_all(
        chosen,
        field,
        seeds,
        out=out,
        tuning_seeds=range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + as_count("tuning", tuning)),
        processes=processes,
        progress=progress,
        fresh=fresh,
        on=on,
    )
    _save(results, Path(out) / "arena.parquet")
    scores = score(results)
    tables = [
        scoreboard(scores, chosen, field, settings, focus),
        *regret_tables(scores, chosen, field),
        twin_table(scores, field),
        detection_table(scores, chosen, field),
        *alarm_tables(scores, chosen, field, focus),
        time_table(scores, field),
    ]
    most = max(len(seeds_of(scenario, seeds)) for scenario in chosen.values())
    text = [
        f"{len(field)} policies in {number_of('scenario', len(chosen))}, up to {number_of('seed', most)} each, all on "
        "identical rounds.",
        *(f"Not played: {name}, {why}." for name, why in skipped.items()),
    ]
    return Artefact(
        name="arena",
        title="Arena",
        text=text,
        tables=[table for table in tables if table.cells],
        figures={"arena": arena_figure(scores, chosen, field, focus)},
        data={
            "scores": [{"scenario": s, "policy": p, **found.as_dict()} for (s, p), found in scores.items()],
            "tuned": [{"scenario": s, "policy": p, "settings": label} for (s, p), label in settings.items()],
            "skipped": skipped,
        },
    )


def _scenarios(names: Sequence[str], own: Sequence[str]) -> tuple[dict[str, Scenario], dict[str, str]]:
    """Scenarios by name, and the reason for each that cannot be played."""
    chosen: dict[str, Scenario] = {}
    for name in names:
        found = {
            full: scenario
            for full, scenario in SCENARIOS.items()
            if name in (full, full.rsplit("-v", 1)[0], *(("long",) if scenario.long else ("all", scenario.kind)))
        }
        if not found:
            kinds = {scenario.kind: None for scenario in SCENARIOS.values()}
            raise ValueError(unknown_name("scenarios", name, ["all", *kinds, "long", *SCENARIOS]))
        chosen |= found
    for path in own:
        thing = imported(path)
        if not isinstance(thing, Scenario):
            if not hasattr(thing, "rounds") or not is_dataclass(thing):
                raise ValueError(f"scenario: {path!r} is neither a Scenario nor an environment")
            environment = cast(Environment, thing)
            try:
                thing = Scenario(path, kind_of(environment), environment)
            except (ValueError, OSError) as error:
                raise ValueError(f"scenario: {path!r}: {error}") from error
        chosen[path.rsplit(":", 1)[1]] = thing
    skipped = {}
    for name, scenario in list(chosen.items()):
        if isinstance(scenario.environment, HybridUser):
            try:
                data_folder(type(scenario.environment).__name__.lower(), scenario.environment.folder or None)
            except FileNotFoundError as error:
                skipped[name] = str(error)
                del chosen[name]
    if not chosen:
        raise ValueError(f"scenarios: none can be played ({'; '.join(skipped.values())})")
    return chosen, skipped


def _entrants(names: Sequence[str], own: Sequence[str], focus: str | None) -> dict[str, Entrant]:
    known = entrants(focus or OURS)
    chosen: dict[str, Entrant] = {}
    for name in names:
        if name == "all":
            chosen |= known
        elif name == "tuned":
            chosen |= {tuned_name: known[tuned_name] for tuned_name in tuned()}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise ValueError(unknown_name("policies", name, ["all", "tuned", *known]))
    mine = own_builders(own, taken=known)
    chosen |= {name: Entrant(name, {"": build}, rival=name != focus) for name, build in mine.items()}
    if focus is not None and focus not in chosen:
        if focus not in known:
            raise ValueError(unknown_name("focus", focus, [*mine, *known]))
        chosen[focus] = known[focus]
    return chosen


def _save(results: Sequence[Result], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with whole_file(path) as part:
        pq.write_table(pa.Table.from_pylist([vars(result) for result in results]), part)
