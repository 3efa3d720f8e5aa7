"""Figure 3 on made-up logs: that it is made of what there is, and that noticing changes pays."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit import Change, ClickWarning, DLinUCB, PerScope
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.evaluation.detection import Detection
from driftbandit.evaluation.replay import rate_ratio, replay
from driftbandit.paper import figure3, figure3_logs, figure3_policies
from driftbandit.paper.figure3_members import Remark, Serving, leaders, serving
from driftbandit.paper.figure3_results import Side
from driftbandit.report import publish


@pytest.fixture(autouse=True)
def no_real_log(monkeypatch, tmp_path):
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore:a member was retired:RuntimeWarning")
def test_a_told_noise_is_used_without_a_warning_and_others_still_warn():
    def learn_clicks(policy):
        for t in range(100):
            policy.learn(np.ones(policy.dim), float(t % 10 == 0))

    learn_clicks(figure3_policies.dlinucb(0, noise=0.1))  # warnings are errors here
    with pytest.warns(ClickWarning):
        learn_clicks(DLinUCB(1, 0.5))


def test_the_figure_on_made_up_logs_says_so_and_continues_where_it_was(tmp_path):
    settings = {"lines": 4000, "seeds": [3, 4], "processes": 1, "out": tmp_path / "out"}
    artefact = figure3.run(**settings)
    assert "made-up log" in artefact.title
    figure = artefact.figures["figure3"]
    assert "made-up log" in figure.get_suptitle()
    assert "seed 3" in figure.get_suptitle()
    assert len(figure.axes) == 2 + 5  # users, articles, five sample articles
    shown = [axes.get_title(loc="left").split("article ")[1].split(",")[0] for axes in figure.axes[2:]]
    assert f"Panel (c) shows articles {', '.join(shown)}:" in artefact.text[3]
    assert "WMDUCB1" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    rates, claims, planted, plans, others, members, verdict = artefact.tables
    assert [row[0] for row in rates.cells] == [
        *(f"users: {name}" for name in figure3.USERS),
        *(f"articles: {name}" for name in figure3.ARTICLES),
    ]
    assert "+25 %" in claims.cells[2][1]
    assert [row[3].split("/")[1] for row in planted.cells][:2] == ["4", "20"]  # 2 logs, 2 changes; 5 groups each
    assert [row[0] for row in plans.cells] == [
        f"{plan}: {name}" for plan in ("easy", "hard", "none") for name in figure3_policies.UNIFORM
    ]
    assert {row[5] for row in plans.cells if row[0].startswith("none")} == {"–", "0/0"}  # nothing to miss
    assert "LR member is not the paper's algorithm" in artefact.text[2]
    assert [row[0] for row in members.cells] == list(figure3.STUDIED)
    assert all(row[2] in ("holds", "holds in part", "does not hold") for row in verdict.cells)
    assert len(others.cells) == 2 + len(figure3.OTHERS)
    assert set(artefact.data["skipped"]) == {f"{plan}{seed}" for plan in ("", "hard-", "none-") for seed in (3, 4)}
    assert artefact.data["made_up"] is True
    json.dumps(artefact.data, allow_nan=False)
    before = files_of(tmp_path / "out")
    again = figure3.run(**settings)
    assert files_of(tmp_path / "out") == before
    assert again.tables == artefact.tables
    fresh = figure3.run(**settings, fresh=True)
    assert files_of(tmp_path / "out") != before
    assert fresh.tables == artefact.tables
    assert {path.suffix for path in publish(artefact, tmp_path / "page")} == {".png", ".md", ".json", ".html"}


def test_a_replay_that_is_missing_or_damaged_is_run_again(tmp_path):
    settings = {"lines": 4000, "seeds": [3], "processes": 1, "out": tmp_path}
    first = figure3.run(**settings)
    replays = sorted((tmp_path / "replays").rglob("*.parquet"))
    replays[0].unlink()
    replays[1].write_bytes(b"PAR1")
    kept = replays[2].stat().st_mtime_ns
    assert figure3.run(**settings).tables == first.tables
    assert replays[2].stat().st_mtime_ns == kept
    (tmp_path / "log-3" / "key").unlink()
    assert figure3.run(**settings).tables == first.tables


@pytest.mark.parametrize("plan", [True, False])
def test_a_log_that_is_there_is_used_and_named_for_what_it_is(tmp_path, plan):
    """Without the plan beside it, a made-up log cannot be told from Yahoo!'s own; skipped lines are counted."""
    yahoo = tmp_path / "data" / "yahoo"
    spoiled = {"empty line": 0.01}
    made = write_synthetic(yahoo, 6000, seed=1, days=2, lifetime=(20.0, 40.0), candidates=5, blemishes=spoiled)
    if not plan:
        (yahoo / "plan.npz").unlink()
    artefact = figure3.run(data=str(tmp_path / "data"), lines=5000, seeds=[3, 4], processes=1)
    for title in (artefact.title, artefact.figures["figure3"].get_suptitle()):
        assert "log in the R6A format" in title
        assert ("made-up" in title) == plan
    assert "real log" not in " ".join(artefact.text)
    skipped = int((made.blemishes >= 0).sum())
    assert f"6,000 lines; skipped: empty line: {skipped}; " in artefact.text[0]
    assert artefact.data["skipped"] == {"3": {"empty line": skipped}}
    assert ("Planted changes" in [table.title for table in artefact.tables]) == plan
    assert "4,500 events" in artefact.text[0]
    own = figure3.run(data=str(yahoo), lines=5000, seeds=[3], processes=1)
    assert own.tables == artefact.tables


def test_without_articles_that_live_long_the_users_side_remains(tmp_path):
    yahoo = tmp_path / "yahoo"
    write_synthetic(yahoo, 3000, seed=1, days=2, lifetime=(2.0, 6.0), candidates=5)
    artefact = figure3.run(data=str(tmp_path), seeds=[3], processes=1)
    assert [row[1] for row in artefact.tables[0].cells][-4:] == ["–"] * 4
    assert "Panel (c) is left out" in artefact.text[3]
    assert len(artefact.figures["figure3"].axes) == 2


def test_bad_input_says_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="lines: expected a whole number of at least 1"):
        figure3.run(lines=0, seeds=[0])
    with pytest.raises(ValueError, match="groups: expected at most"):
        figure3.run(lines=40, seeds=[0], processes=1)
    with pytest.raises(ValueError, match="groups: expected a whole number"):
        figure3.run(lines=2000, groups=0, seeds=[0], processes=1)
    (tmp_path / "data" / "yahoo").mkdir(parents=True)
    with pytest.raises(ValueError, match="no day files"):
        figure3.run(data=str(tmp_path / "data"), seeds=[0], processes=1)


def test_a_folder_of_another_length_is_made_anew(tmp_path):
    for lines in (4000, 3000):
        artefact = figure3.run(lines=lines, seeds=[3], processes=1, out=tmp_path)
        assert f"{lines:,} lines" in artefact.text[0]
        assert len(Log.load(tmp_path / "log-3" / "users.arrow")) == 0.9 * lines
    shutil.rmtree(tmp_path / "log-3" / "days")
    (tmp_path / "log-3" / "key").write_text("stale")
    figure3.run(lines=3000, seeds=[3], processes=1, out=tmp_path)


def test_alarms_are_counted_model_by_model(tmp_path):
    """Two groups; the first one's policy raises an alarm 2 rewards after a planted change, the other's never."""
    prepared = figure3_logs.Prepared(str(tmp_path / "log"), 3, 2, 6000)
    figure3_logs.prepare([prepared], processes=1, progress=False, fresh=False)
    side = Side(prepared, "users")
    run = replay(PerScope(figure3_policies.linucb(0)), side.log, scopes=side.groups)
    first = np.searchsorted(side.log.times, side.planted[0])
    mine = run.matched[side.groups[run.matched] == 0]
    place = int(np.searchsorted(mine, first))
    alarm = (int(mine[place + 1]), Change(place + 2, "spawned", 1, {}))
    rewards, seconds = Detection(), Detection()
    side.count("N-dLinUCB", replace(run, changes=(alarm,)), rewards, seconds)
    assert rewards.delays == [2]
    assert rewards.missed == 3
    assert rewards.false_alarms == 0
    assert seconds.delays == [int(side.log.times[alarm[0]]) + 1 - int(side.planted[0])]


def test_members_are_those_that_chose_in_the_replay(tmp_path):
    """Learning the same rewards again raises the same alarms, and members with groups of their own are seen."""
    prepared = figure3_logs.Prepared(str(tmp_path / "log"), 3, 2, 6000)
    figure3_logs.prepare([prepared], processes=1, progress=False, fresh=False)
    side = Side(prepared, "users")
    build = figure3.OTHERS["uniform-dLinUCB, told noise 0.25"]
    run = replay(build(0), side.log)
    again = build(0)
    chose, alive = leaders(again, side.log, run)
    assert again.changes == tuple(change for _, change in run.changes)
    assert len(again.changes) > 0
    spawned = np.sum([change.kind == "spawned" for _, change in run.changes])
    assert chose.max() <= spawned
    assert alive.min() >= 1
    groups = np.zeros(len(side.log), dtype=np.int64)
    groups[run.matched] = chose
    study = serving(build(0), side.log, run, groups, seed=0, kept=tmp_path / "kept")
    assert study.found == pytest.approx(1.0)
    assert study == serving(build(0), side.log, run, groups, seed=1, kept=tmp_path / "kept")  # read, not made again
    assert study != serving(build(0), side.log, run, groups, seed=1, kept=tmp_path / "kept", fresh=True)
    remark = Remark.of([study, Serving(1, 1.0, 0.0, [])])
    assert remark.found == pytest.approx(0.5)
    assert remark.luck == pytest.approx(1 / 201)


def test_noticing_planted_changes_pays(tmp_path, monkeypatch):
    """The LR member's click-through rate is above LinUCB's, and every planted change is found in time.

    Two logs with one change each, which is enough to be seen in 300,000 lines. On eight others (seeds 100 to 107) the
    ratio of the rates was 1.09 in the mean with a standard deviation of 0.08, so that the mean of two is below 1 once
    in eighteen times; no change was missed, no alarm was false, and the slowest detection took 455 rewards.
    """
    monkeypatch.setitem(figure3_logs.PLAN, "changes", 1)
    rewards, seconds = Detection(), Detection()
    runs = []
    for seed in range(2):
        prepared = figure3_logs.Prepared(str(tmp_path / f"log-{seed}"), seed, figure3.GROUPS, 300_000)
        figure3_logs.prepare([prepared], processes=1, progress=False, fresh=False)
        side = Side(prepared, "users")
        runs.append([replay(build(0), side.log) for build in (figure3_policies.lr_member, figure3_policies.linucb)])
        side.count("uniform-LR member", runs[-1][0], rewards, seconds)
    ours, theirs = zip(*runs, strict=True)
    assert rate_ratio(ours, theirs).estimate > 1.0
    assert rewards.missed == 0
    assert max(rewards.delays) <= 1000
    assert rewards.false_alarms <= 1
