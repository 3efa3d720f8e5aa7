"""The arena on worlds small enough to play here."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit import LinUCB, World
from driftbandit.arena.alarms import alarm_tables, shift_table, still_table
from driftbandit.arena.entrants import Entrant, entrants, in_focus, tuned
from driftbandit.arena.league import play_all
from driftbandit.arena.picture import arena_figure, competitors
from driftbandit.arena.report import _scenarios, run
from driftbandit.arena.scenarios import QUICK, SCENARIOS, Kind, Scenario
from driftbandit.arena.scoreboard import (
    best_rival,
    detection_table,
    regret_tables,
    score,
    scoreboard,
    twin_table,
)
from driftbandit.cli import app
from driftbandit.environments import PRESETS, People
from driftbandit.environments.lastfm import LastFM
from driftbandit.evaluation import study
from driftbandit.evaluation.study import Result
from driftbandit.policies.registry import REGISTRY, Brief

SMALL = {
    "jump": Scenario("one jump", "shifts", World(horizon=300, period=150, noise=0.1)),
    "still": Scenario("nothing", "still", World(path="still", horizon=200, noise=0.1)),
}
OWN_WORLD = World(horizon=150, period=70)


def greedy(brief):
    return LinUCB(brief.dim, explore=0.0)


def curious(brief):
    return LinUCB(brief.dim, explore=5.0)


FIELD = {
    "driftucb": entrants()["driftucb"],
    "oracle-paper": entrants()["oracle-paper"],
    "linucb": entrants()["linucb"],
    "grid": Entrant("Grid", {"greedy": greedy, "curious": curious}),
}


def test_results_do_not_depend_on_processes(tmp_path):
    one, chosen = play_all(SMALL, FIELD, [0, 1], out=tmp_path / "one", tuning_seeds=[1000], processes=1)
    two, again = play_all(SMALL, FIELD, [0, 1], out=tmp_path / "two", tuning_seeds=[1000], processes=2)
    assert chosen == again
    assert len(one) == len(two) == 2 * 4 * 2

    def facts(results):
        return [(r.scenario, r.policy, r.seed, r.regret, r.reward, r.alarms) for r in results]

    assert facts(one) == facts(two)


def test_tuning_seeds_choose_and_reporting_seeds_report(tmp_path):
    results, chosen = play_all(SMALL, FIELD, [0], out=tmp_path, tuning_seeds=[1000, 1001], processes=1)
    assert set(chosen) == {("jump", "grid"), ("still", "grid")}
    trials = json.loads((tmp_path / "results" / "still" / "1000.json").read_text())
    better = min(("greedy", "curious"), key=lambda label: trials[f"grid [{label}]"]["regret"])
    assert chosen["still", "grid"] == better == "greedy"
    played = {result.policy for result in results if result.scenario == "still"}
    assert played == {"driftucb", "oracle-paper", "linucb", "grid [greedy]"}
    assert {result.seed for result in results} == {0}


def test_goes_on_where_it_stopped(tmp_path, monkeypatch):
    first, _ = play_all(SMALL, FIELD, [0], out=tmp_path, tuning_seeds=[1000], processes=1)
    played = []
    original = study.play
    monkeypatch.setattr(study, "play", lambda name, *rest: played.append(name) or original(name, *rest))
    again, _ = play_all(SMALL, FIELD, [0], out=tmp_path, tuning_seeds=[1000], processes=1)
    assert not played
    assert again == first
    (tmp_path / "results" / "jump" / "0.json").write_text('{"driftucb": {"key": "old"')
    play_all(SMALL, FIELD, [0], out=tmp_path, tuning_seeds=[1000], processes=1)
    assert sorted(played) == ["driftucb", "grid [greedy]", "linucb", "oracle-paper"], "a broken file is played again"


def result(scenario, policy, seed, regret, **facts):
    usual = {"reward": 1.0, "microseconds": 2.0, "alarms": 0, "false_alarms": 0, "missed": 0, "delay": float("nan")}
    return Result(scenario, policy, seed, regret, **{**usual, **facts})


def test_scoreboard_adds_up():
    runs = [
        result("jump", "driftucb", 0, 10.0),
        result("jump", "driftucb", 1, 14.0),
        result("jump", "oracle-paper", 0, 20.0),
        result("jump", "oracle-paper", 1, 28.0),
        result("jump", "linucb", 0, 100.0),
        result("jump", "grid [greedy]", 0, 8.0),
        result("still", "driftucb", 0, 5.0),
        result("still", "linucb", 0, 4.0),
    ]
    scores = score(runs)
    assert (scores["jump", "driftucb"].regret, scores["jump", "driftucb"].error) == (12.0, 2.0)
    assert best_rival(scores, "jump", FIELD) == "grid"
    table = scoreboard(scores, SMALL, FIELD, {("jump", "grid"): "greedy"})
    assert table.cells == (
        ("jump", "12.0 ± 2.0", "24.0 ± 4.0", "0.50", "8.0", "1.50", "Grid (greedy)", "2 of 3"),
        ("still", "5.0", "", "", "4.0", "1.25", "LinUCB", "2 of 2"),
    )
    about_grid = entrants("grid") | {"grid": replace(FIELD["grid"], rival=False)}
    field = {name: about_grid[name] for name in FIELD}
    assert best_rival(scores, "jump", field) == "driftucb", "a rival when the scoreboard is about another"
    table = scoreboard(scores, SMALL, field, {}, "grid")
    assert table.title == "Scoreboard: regret of Grid"
    assert table.headings[1] == "Grid"
    assert table.cells == (("jump", "8.0", "24.0 ± 4.0", "0.33", "12.0 ± 2.0", "0.67", "DriftUCB", "1 of 3"),)
    assert "Grid wins" in table.note


KINDS = {
    "jump": SMALL["jump"],
    "leap": Scenario("another jump", "shifts", World()),
    "still": SMALL["still"],
    "crowd": Scenario("people", "people", World(), changes="still"),
}


def picture_runs():
    regrets = {
        ("jump", "driftucb"): 2.0,
        ("jump", "linucb"): 8.0,
        ("jump", "oracle-paper"): 1.0,
        ("leap", "driftucb"): 3.0,
        ("leap", "linucb"): 27.0,
        ("still", "driftucb"): 5.0,
        ("still", "linucb"): 4.0,
        ("crowd", "driftucb"): 9.0,
        ("crowd", "driftucb-pooled"): 1.0,
        ("crowd", "club"): 2.0,
    }
    return score([result(place, name, 0, regret) for (place, name), regret in regrets.items()])


def test_picture_shows_ratios_to_the_best_that_is_told_nothing():
    field = {name: entrants()[name] for name in ("driftucb", "linucb", "oracle-paper", "driftucb-pooled", "club")}
    found = competitors(picture_runs(), KINDS, field, "driftucb")
    assert list(found) == ["driftucb", "linucb"], "best first, without those that hardly play or are told the shifts"
    np.testing.assert_allclose(found["driftucb"], [1.0, 1.0, 1.25, 1.0], err_msg="among people, one model per user")
    np.testing.assert_allclose(found["linucb"], [4.0, 9.0, 1.0, np.nan])
    figure = arena_figure(picture_runs(), KINDS, field)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["Sudden shifts\n2 scenarios", "Nothing changes\n1 scenario"], "a kind with one player is left out"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["DriftUCB", "LinUCB"]
    means = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert means == [["1.00", "6.0"], ["1.25", "1.00"]]
    colours = {line.get_color() for line in figure.axes[0].lines if line.get_markersize() > 7}
    assert len(colours) == 2


def test_picture_has_the_ten_best_and_the_one_in_focus():
    field = {f"p{number}": Entrant(f"P{number}", {"": greedy}) for number in range(15)}
    scores = score([result("jump", name, 0, 1.0 + number) for number, name in enumerate(field)])
    for focus, last in (("p3", "P9"), ("p14", "P14")):
        figure = arena_figure(scores, {"jump": SMALL["jump"]}, field, focus)
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert labels == [*(f"P{number}" for number in range(9)), last]
        dots = [line for line in figure.axes[0].lines if line.get_markersize() > 7]
        assert len({dot.get_color() for dot in dots}) == 10
        assert "10 best of 15" in figure.get_suptitle()


def test_picture_of_nothing_lost_is_drawn():
    scores = score([result("jump", name, 0, regret) for name, regret in (("driftucb", 0.0), ("linucb", 1e9))])
    figure = arena_figure(scores, {"jump": SMALL["jump"]}, FIELD)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "100"], "at the edge"
    figure.draw_without_rendering()


def test_focus_changes_who_is_a_rival():
    usual, about_linucb, about_mine = entrants(), entrants("linucb"), entrants("mine")
    rivals = {name for name, entrant in usual.items() if entrant.rival}
    assert {"linucb", "linucb-tuned"} <= rivals
    assert not rivals & {"driftucb", "driftucb-no-ladder", "driftucb-pooled"}
    now = {name for name, entrant in about_linucb.items() if entrant.rival}
    assert now == (rivals - {"linucb", "linucb-tuned"}) | {name for name in usual if name.startswith("driftucb")}, (
        "DriftUCB in all its forms, but neither LinUCB nor the tuned one"
    )
    assert {name for name, entrant in about_mine.items() if not entrant.rival} == {
        "oracle",
        "oracle-paper",
        "oracle-bayes",
    }


def test_a_scenario_is_of_a_known_kind():
    with pytest.raises(ValueError, match=r"kind: expected one of shifts, still, .*people, real, got 'shift'"):
        Scenario("one", "shift", World())
    for name in ("most_seeds", "seeds"):
        with pytest.raises(ValueError, match=f"{name}: expected a whole number of at least 1, got 0"):
            Scenario("one", "shifts", World(), **{name: 0})


def test_a_scenario_says_what_happens_to_tastes():
    said = {kind: Scenario("one", kind, World()).changes for kind in ("shifts", "still", "drift", "real")}
    assert said == {"shifts": "shifts", "still": "still", "drift": "drift", "real": "shifts"}
    assert Scenario("one", "clicks", World(), changes="still").changes == "still"
    for kind in ("clicks", "units", "late", "people"):
        with pytest.raises(ValueError, match=f"changes: expected one of shifts, still, drift .* kind '{kind}', got"):
            Scenario("one", kind, World())


@dataclass(frozen=True)
class OwnEnvironment:
    world: World

    def rounds(self, seed):
        return self.world.rounds(seed)


OWN_SHIFTS = OwnEnvironment(OWN_WORLD)
OWN_QUIET = OwnEnvironment(World(path="still", horizon=50))
OWN_DRIFT = World(path="brownian", horizon=50)
OWN_SEASONS = World(path="seasons", horizon=50)
OWN_STILL = World(path="rotation", turns=0.0, horizon=50)
OWN_LASTFM = LastFM(folder="elsewhere")
OWN_IMPOSSIBLE = World(shift=2.5)


def test_scenarios_of_your_own_are_filed_rightly():
    names = {"OWN_WORLD": "shifts", "OWN_SHIFTS": "shifts", "OWN_DRIFT": "drift", "OWN_STILL": "still"}
    names["OWN_SEASONS"] = "drift"
    chosen, skipped = _scenarios([], [f"{__name__}:{name}" for name in [*names, "OWN_LASTFM"]])
    assert {name: scenario.kind for name, scenario in chosen.items()} == names
    assert set(skipped) == {"OWN_LASTFM"}
    for name, message in (("OWN_QUIET", "kind: .* expected a Scenario"), ("OWN_IMPOSSIBLE", "shift: no theta")):
        with pytest.raises(ValueError, match=f"scenario: '{__name__}:{name}': {message}"):
            _scenarios([], [f"{__name__}:{name}"])


def local_environment():
    @dataclass(frozen=True)
    class Local(OwnEnvironment):
        pass

    return Local(OWN_WORLD)


def test_what_cannot_travel_is_named_before_anything_is_played(tmp_path):
    field = {**FIELD, "mine": Entrant("Mine", {"": lambda brief: LinUCB(brief.dim)})}
    with pytest.raises(ValueError, match=r"^policies: the builder of 'mine' cannot be sent .* processes=1"):
        play_all(SMALL, field, [0], out=tmp_path, tuning_seeds=[1000], processes=2)
    scenarios = {**SMALL, "own": Scenario("one", "shifts", local_environment())}
    with pytest.raises(ValueError, match=r"^scenarios: 'own' cannot be sent .* processes=1"):
        play_all(scenarios, FIELD, [0], out=tmp_path, tuning_seeds=[1000], processes=2)
    assert not list(tmp_path.iterdir())
    results, _ = play_all(scenarios, field, [0], out=tmp_path, tuning_seeds=[1000], processes=1)
    assert {("own", "mine")} <= {(result.scenario, result.policy) for result in results}


@pytest.mark.parametrize("processes", [0, -1, 1.5])
def test_numbers_of_processes_are_checked(tmp_path, processes):
    with pytest.raises(ValueError, match="processes: expected a whole number of at least 1"):
        play_all(SMALL, FIELD, [0], out=tmp_path, processes=processes)


def test_everyone_takes_part():
    field = entrants()
    plain = [name for name, entry in REGISTRY.items() if not entry.scoped]
    assert list(field) == [
        *plain,
        "oracle-bayes",
        "linucb-tuned",
        "discounted-tuned",
        "sw-tuned",
        "restart-tuned",
        "dlinucb-tuned",
        "driftucb-no-ladder",
        "driftucb-no-experts",
        "driftucb-no-mixture",
        "driftucb-pooled",
        "driftucb-per-scope",
        "per-scope",
        "pooled-scopes",
        "club",
        "dyclu",
    ]
    scoped = [
        name
        for name in field
        if name in ("driftucb-pooled", "driftucb-per-scope") or (name in REGISTRY and REGISTRY[name].scoped)
    ]
    not_rivals = {"driftucb", "oracle", "oracle-paper", "oracle-bayes", "driftucb-pooled", "driftucb-per-scope"}
    not_rivals |= {name for name in field if name.startswith("driftucb-no-")}
    assert {name for name, entrant in field.items() if not entrant.rival} == not_rivals
    assert list(tuned()) == [name for name in field if name.endswith("-tuned")]
    assert list(field["sw-tuned"].variants)[:3] == ["50 noise", "50 .1", "100 noise"]
    assert [len(entrant.variants) for entrant in tuned().values()] == [5, 10, 10, 8, 6]
    assert set(field["linucb"].kinds) == set(get_args(Kind))
    everywhere_but_people = set(get_args(Kind)) - {"people"}
    assert set(field["logistic-ucb"].kinds) == everywhere_but_people, "told the reward range, and sees features too"
    assert set(field["driftucb-no-mixture"].kinds) == everywhere_but_people
    assert set(field["linucb-tuned"].kinds) == everywhere_but_people
    assert field["ucb1"].kinds == ("shifts", "still", "drift"), "without features, only where arms come again"
    among_people = [name for name, entrant in field.items() if "people" in entrant.kinds]
    assert among_people == ["driftucb", "linucb", "random", *scoped]
    assert all(field[name].kinds == ("people",) for name in scoped)
    assert [in_focus(kind) for kind in ("shifts", "clicks", "people")] == ["driftucb", "driftucb", "driftucb-pooled"]
    for name in scoped:
        policy = next(iter(field[name].variants.values()))(Brief(3, 0.1))
        assert policy.choose(np.eye(3), scope="ann") in (0, 1, 2)
    for entrant in [field[name] for name in field if name not in (*plain, *scoped)]:
        for build in entrant.variants.values():
            policy = build(Brief(3, 0.1))
            assert policy.choose(np.eye(3)) in (0, 1, 2)
    assert len({entrant.title for entrant in field.values()}) == len(field)


def test_scenarios_are_versioned_and_can_be_played():
    for name, scenario in SCENARIOS.items():
        assert name.rsplit("-v", 1)[1].isdigit()
        if scenario.kind in ("real", "people"):
            continue
        settings = replace(scenario.environment, horizon=40)
        if settings.period < scenario.environment.horizon:
            settings = replace(settings, period=15)
        rounds = settings.rounds(0)
        assert (len(rounds.shifts) > 0) == (scenario.changes == "shifts"), name
        assert scenario.environment.period < scenario.environment.horizon or scenario.changes == "still"
    assert set(get_args(Kind)) == {scenario.kind for scenario in SCENARIOS.values()}
    assert set(QUICK) <= set(SCENARIOS)


def test_presets_and_scenarios_of_one_name_are_one_world():
    shared = {name for name in SCENARIOS if name in PRESETS} - {"rotation-v1"}
    assert {
        name for name, scenario in SCENARIOS.items() if scenario.kind in ("clicks", "units", "late", "people")
    } <= shared
    for name in shared:
        assert SCENARIOS[name].environment == PRESETS[name]


def test_long_scenarios_are_played_only_when_asked_for(monkeypatch, tmp_path):
    monkeypatch.setattr("driftbandit.arena.report.data_folder", lambda *where: tmp_path)
    every, clicks, long = (set(_scenarios([name], [])[0]) for name in ("all", "clicks", "long"))
    assert long
    assert every | long == set(SCENARIOS)
    assert not every & long
    assert clicks == {name for name in every if SCENARIOS[name].kind == "clicks"} | {"clicks-v1"}
    assert set(_scenarios(["stationary-long"], [])[0]) == {"stationary-long-v1"}
    assert set(_scenarios(["people", "late"], [])[0]) == {
        name for name in every if SCENARIOS[name].kind in ("people", "late")
    }
    assert {SCENARIOS[name].environment.horizon for name in long} == {50_000, 100_000, 500_000}
    at_least = {name: 40_000 for name in every if SCENARIOS[name].kind not in ("real", "people")}
    assert all(SCENARIOS[name].environment.horizon <= most for name, most in at_least.items())


def test_an_arena_without_anyone_to_play_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"policies: none of club, dyclu plays in dim5-v1, of kind 'shifts'"):
        run(scenarios=["dim5"], policies=["club", "dyclu"], out=tmp_path)


PEOPLE = {
    "people": Scenario("few", "people", People(users=5, visits=20), changes="still", seeds=2),
    "still": Scenario("nothing", "still", World(path="still", horizon=100), seeds=3),
}


def test_people_are_played_by_those_who_know_them_and_by_a_few_who_do_not(tmp_path):
    field = {name: entrants()[name] for name in ("driftucb", "linucb", "lints", "driftucb-pooled", "club")}
    field["grid"] = replace(FIELD["grid"], kinds=("still",))
    results, chosen = play_all(PEOPLE, field, out=tmp_path, tuning_seeds=[1000], processes=1)
    played = {}
    for one in results:
        played.setdefault(one.scenario, {}).setdefault(one.policy.split(" [")[0], []).append(one.seed)
    assert played == {
        "people": {key: [0, 1] for key in ["driftucb", "linucb", "driftucb-pooled", "club"]},
        "still": {key: [0, 1, 2] for key in ["driftucb", "linucb", "lints", "grid"]},
    }, "as many seeds as each scenario says"
    assert set(chosen) == {("still", "grid")}
    scores = score(results)
    lines = {line[0]: line for line in scoreboard(scores, PEOPLE, field, chosen).cells}
    ours_there = scores["people", "driftucb-pooled"]
    assert lines["people"][1].startswith(f"{ours_there.regret:.1f}")
    assert [table.title for table in regret_tables(scores, PEOPLE, field)] == [
        "Nothing changes: regret",
        "People: regret",
    ]


def test_detection_counts_scenarios_of_every_kind_by_what_happens_in_them():
    scenarios = {
        "moves": Scenario("one", "clicks", World(), changes="shifts"),
        "quiet": Scenario("one", "units", World(), changes="still"),
        "drifts": Scenario("one", "drift", World()),
        "real": Scenario("one", "real", World()),
    }
    runs = [
        result("moves", "driftucb", 0, 1.0, alarms=3, false_alarms=1, missed=2, delay=7.0),
        result("quiet", "driftucb", 0, 1.0, alarms=5, false_alarms=5),
        result("drifts", "driftucb", 0, 1.0, alarms=40, false_alarms=40),
        result("real", "driftucb", 0, 1.0, alarms=60, false_alarms=60, missed=70, delay=80.0),
        result("moves", "oracle-paper", 0, 2.0),
        result("quiet", "oracle-paper", 0, 2.0),
        result("moves", "linucb", 0, 3.0),
        result("quiet", "linucb", 0, 3.0),
    ]
    assert detection_table(score(runs), scenarios, FIELD).cells == (("DriftUCB", "7", "2.00", "1.00", "5.00"),)
    lines = scoreboard(score(runs), scenarios, FIELD, {}).cells
    assert [(line[0], line[3]) for line in lines] == [("moves", "0.50"), ("quiet", "")], "an oracle needs shifts"


def test_alarms_scenario_by_scenario():
    scenarios = {
        "moves": Scenario("one", "clicks", World(), changes="shifts"),
        "deaf": Scenario("two", "shifts", World()),
        "quiet": Scenario("three", "units", World(), changes="still"),
        "drifts": Scenario("four", "drift", World()),
        "people": Scenario("five", "people", World(), changes="still"),
        "not played": Scenario("six", "still", World()),
    }
    runs = [
        result("moves", "driftucb", 0, 1.0, alarms=4, false_alarms=1, missed=0, delay=1700.0),
        result("moves", "driftucb", 1, 1.0, alarms=1, false_alarms=0, missed=1, delay=1900.0),
        result("deaf", "driftucb", 0, 1.0, missed=3, delay=math.nan),
        result("quiet", "driftucb", 0, 1.0, alarms=5, false_alarms=5),
        *(result("quiet", "driftucb", seed, 1.0) for seed in (1, 2, 3)),
        *(result(name, "driftucb", 0, 1.0, alarms=9, false_alarms=9) for name in ("drifts", "people")),
        result("quiet", "linucb", 0, 3.0),
    ]
    scores = score(runs)
    assert still_table(scores, scenarios).cells == (("quiet", "three", "4", "1.25", "75%"),)
    assert shift_table(scores, scenarios).cells == (
        ("moves", "one", "2", "80%", "1,800", "0.50"),
        ("deaf", "two", "1", "0%", "", "0.00"),
    )
    assert shift_table({}, scenarios).cells == still_table({}, scenarios).cells == ()
    assert alarm_tables(scores, scenarios, FIELD, "linucb") == [], "it never alarms"
    titles = [table.title for table in alarm_tables(scores, scenarios, FIELD)]
    assert titles == ["Alarms of DriftUCB where nothing changes", "Shifts that DriftUCB found"]


def test_awkward_units_are_compared_with_sensible_ones():
    runs = [
        result(name, policy, 0, regret)
        for policy, regrets in {"driftucb": (10.0, 15.0), "linucb": (20.0, 10.0)}.items()
        for name, regret in zip(("reference-v1", "mixed-v1"), regrets, strict=True)
    ]
    runs.append(result("price-v1", "linucb", 0, 9.0))
    table = twin_table(score(runs), FIELD)
    assert table.headings == ("policy", "mixed-v1")
    assert table.cells == (("DriftUCB", "1.50"), ("LinUCB", "0.50"))
    assert twin_table(score(runs[:1]), FIELD).cells == ()


def test_quick_scenarios_are_of_the_usual_kinds():
    assert {SCENARIOS[name].kind for name in QUICK} == {"shifts", "still", "drift"}


def test_command_plays_own_policies_and_scenarios(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    arguments = ["arena", "--scenarios", "", "--policies", "driftucb,linucb,oracle-paper", "--seeds", "2"]
    arguments += ["--policy", "test_arena:greedy", "--scenario", "test_arena:OWN_WORLD", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "OWN_WORLD" in done.output
    assert {path.name for path in tmp_path.iterdir()} == {
        "results",
        "arena.parquet",
        "arena.png",
        "arena.md",
        "arena.json",
        "arena.html",
    }
    scores = json.loads((tmp_path / "arena.json").read_text())["scores"]
    assert {(line["scenario"], line["policy"]) for line in scores} == {
        ("OWN_WORLD", name) for name in ("driftucb", "linucb", "oracle-paper", "greedy")
    }


QUICK_ARENA = {"scenarios": 7, "policies": 9, "seeds": 3}
USUAL = [scenario for scenario in SCENARIOS.values() if not scenario.long]
WHOLE_ARENA = {"scenarios": len(USUAL), "policies": len(entrants()), "seeds": None}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], WHOLE_ARENA),
        (["--quick"], QUICK_ARENA),
        (["--quick", "--seeds", "5"], {**QUICK_ARENA, "seeds": 5}),
        (["--quick", "--policies", "all"], {**QUICK_ARENA, "policies": len(entrants())}),
        (["--quick", "--scenarios", "all"], {**QUICK_ARENA, "scenarios": len(USUAL)}),
        (["--seeds", "4"], {**WHOLE_ARENA, "seeds": 4}),
        (["--quick", "--scenario", "test_arena:OWN_WORLD"], {**QUICK_ARENA, "scenarios": 1}),
    ],
)
def test_quick_changes_only_what_you_do_not_say(tmp_path, monkeypatch, arguments, expected):
    asked = {}

    def refuse(scenarios, field, seeds, **options):
        asked.update(scenarios=len(scenarios), policies=len(field), seeds=seeds and len(seeds))
        raise ValueError("enough")

    monkeypatch.setattr("driftbandit.arena.report.play_all", refuse)
    monkeypatch.setattr("driftbandit.arena.report.data_folder", lambda *where: tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    done = CliRunner().invoke(app, ["arena", *arguments, "--out", str(tmp_path)])
    assert "error: enough" in done.output
    assert asked == expected


def test_own_modules_are_found_beside_the_command(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from driftbandit import LinUCB, World\n"
        "busy = World(period=50, horizon=120)\n"
        "one = World(pool=1, horizon=50)\n"
        "def eager(brief):\n"
        "    return LinUCB(brief.dim, explore=1.0)\n"
    )
    command = "from driftbandit.cli import app; app()"
    arguments = ["arena", "--policy", "mine:eager", "--scenario", "mine:busy", "--scenario", "mine:one", "--json"]
    arguments += ["--policies", "driftucb,linucb", "--seeds", "1", "--processes", "1"]
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout, parse_constant=pytest.fail)["scores"]
    assert {line["scenario"] for line in scores} == {"busy", "one"}, "your own alone, unless others are asked for"
    assert next(line for line in scores if line["scenario"] == "one")["regret"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenarios", "nowhere"], "scenarios: unknown 'nowhere'"),
        (["--scenarios", "dim55"], "scenarios: unknown 'dim55' (did you mean 'dim5-v1'?)"),
        (["--policies", "nobody", "--scenarios", "dim5"], "policies: unknown 'nobody'"),
        (["--policy", "no.such:thing", "--scenarios", "dim5"], "cannot be imported"),
        (["--policy", "justaname", "--scenarios", "dim5"], "expected 'package.module:name'"),
        (["--policy", "driftbandit:__version__", "--scenarios", "dim5"], "no function that builds"),
        (["--scenario", "driftbandit:__version__", "--scenarios", "dim5"], "neither a Scenario"),
        (["--focus", "linubc", "--scenarios", "dim5"], "focus: unknown 'linubc' (did you mean 'linucb'?)"),
        (["--policy", "linucb=driftbandit:LinUCB", "--scenarios", "dim5"], "already one called 'linucb'"),
        (["--policy", "sw-tuned=driftbandit:LinUCB", "--scenarios", "dim5"], "already one called 'sw-tuned'"),
    ],
)
def test_command_says_what_is_wrong(tmp_path, arguments, message):
    done = CliRunner().invoke(app, ["arena", *arguments, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_missing_data_is_skipped_and_said(tmp_path, monkeypatch):
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValueError, match="none can be played"):
        run(scenarios=["real"], out=tmp_path)


def test_scoreboard_about_a_policy_of_your_own(tmp_path, monkeypatch):
    (tmp_path / "timid.py").write_text(
        "from driftbandit import LinUCB, World\n"
        "quick = World(period=50, horizon=120)\n"
        "def build(brief):\n"
        "    return LinUCB(brief.dim, explore=0.01)\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["arena", "--scenario", "timid:quick", "--policies", "driftucb,linucb", "--seeds", "1"]
    arguments += ["--policy", "careful=timid:build", "--focus", "careful", "--out", "out", "--processes", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = (tmp_path / "out" / "arena.md").read_text(encoding="utf-8")
    assert "Scoreboard: regret of careful" in written
    assert "Alarms of" not in written
    assert "told nothing" not in written


def test_the_policy_in_focus_plays_even_if_it_was_left_out(tmp_path):
    artefact = run(
        own_scenarios=[f"{__name__}:OWN_WORLD"],
        scenarios=[],
        policies=["linucb"],
        focus="lints",
        seeds=[0],
        out=tmp_path,
    )
    assert {line["policy"] for line in artefact.data["scores"]} == {"linucb", "lints"}
    assert artefact.tables[0].title == "Scoreboard: regret of LinTS"
