"""Studies of which only totals are kept: resumed, the same on any number of processes, and right."""

import json
from functools import partial

import numpy as np
import pytest

from driftbandit import LinUCB, compare
from driftbandit.environments import world
from driftbandit.evaluation import study
from driftbandit.evaluation.compare import play
from driftbandit.evaluation.paired import paired
from driftbandit.evaluation.study import Place, Result, play_study, result_of
from driftbandit.policies.registry import REGISTRY

SMALL = world("table1", horizon=300, period=150, dim=4, arms=60)
BUILDERS = {"linucb": REGISTRY["linucb"].build, "wary": partial(REGISTRY["dlinucb"].build, window=20)}
PLACES = {"a": Place(SMALL, [0, 1], BUILDERS), "b/c": Place(SMALL, [1], {"linucb": BUILDERS["linucb"]})}


@pytest.fixture
def played(monkeypatch):
    names = []
    monkeypatch.setattr(study, "play", lambda name, *rest: names.append(name) or play(name, *rest))
    return names


def numbers(results):
    """Everything but the time."""
    return {place: [(r.seed, r.regret, r.alarms, r.missed) for r in runs] for place, runs in results.items()}


def test_totals_are_those_of_the_traces():
    results = play_study(PLACES, processes=1)
    traces = compare(BUILDERS, {"a": SMALL}, [0, 1], processes=1)
    for trace in traces:
        found = results["a", trace.policy][trace.seed]
        assert found.regret == trace.regret.sum()
        assert found.alarms == len([c for c in trace.changes if c.kind == "spawned"])
        assert found.found + found.missed == (1 if trace.policy == "wary" else 0)
    assert [result.seed for result in results["b/c", "linucb"]] == [1]


def test_results_do_not_depend_on_processes(tmp_path):
    one = play_study(PLACES, processes=1)
    assert numbers(play_study(PLACES, out=tmp_path, processes=2)) == numbers(one)


def test_only_what_is_missing_or_made_otherwise_is_played(tmp_path, played):
    first = play_study(PLACES, out=tmp_path, processes=1)
    assert len(played) == 5
    assert play_study(PLACES, out=tmp_path, processes=1) == first
    assert len(played) == 5, "nothing changed"
    more = {**BUILDERS, "wary": partial(REGISTRY["dlinucb"].build, window=30)}
    play_study({**PLACES, "a": Place(SMALL, [0, 1, 2], more)}, out=tmp_path, processes=1)
    assert sorted(played[5:]) == ["linucb", "wary", "wary", "wary"], "a new seed, and another window"
    next(tmp_path.rglob("1.json")).write_text("{")
    again = len(played)
    play_study(PLACES, out=tmp_path, processes=1)
    assert len(played) > again, "a broken file"
    before = len(played)
    play_study(PLACES, out=tmp_path, processes=1, fresh=True)
    assert len(played) == before + 5


def test_an_interrupted_study_keeps_what_was_done(tmp_path, monkeypatch):
    def stop(name, *rest):
        if name == "wary":
            raise KeyboardInterrupt
        return play(name, *rest)

    monkeypatch.setattr(study, "play", stop)
    with pytest.raises(KeyboardInterrupt):
        play_study(PLACES, out=tmp_path, processes=1)
    assert list(json.loads((tmp_path / "results" / "a" / "0.json").read_text())) == ["linucb"]


def test_a_builder_that_cannot_travel_is_refused_before_anything_is_played(tmp_path):
    places = {"a": Place(SMALL, [0, 1], {"mine": lambda brief: LinUCB(brief.dim)})}
    with pytest.raises(ValueError, match=r"^policies: the builder of 'mine' cannot be sent"):
        play_study(places, out=tmp_path, processes=2)
    assert not list(tmp_path.iterdir())
    assert len(play_study(places, processes=1)["a", "mine"]) == 2


def test_alarms_of_a_policy_that_does_not_look_for_changes_are_none():
    run = result_of(play("linucb", None, SMALL.rounds(0)))
    assert isinstance(run, Result)
    assert (run.alarms, run.missed, run.found) == (0, 0, 0)
    assert np.isnan(run.delay)


def test_paired_differences_by_hand():
    """Differences -1, -2, 3: ranks 1, 2, 3; W+ = 3 = W-, so that p is 1. All of one sign among 5: p = 2 / 32."""
    assert paired([1.0, 1.0, 5.0], [2.0, 3.0, 2.0]).p == 1.0
    test = paired([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    assert (test.difference, test.p) == (-3.0, 0.0625)
    assert str(test) == "-3.0 (p 0.062)"
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1.0
    with pytest.raises(ValueError, match=r"^ours, theirs: expected two lists of finite numbers"):
        paired([1.0, float("nan")], [1.0, 2.0])
