"""The audit of a log whose truth is known: what it finds, what it says, and what it refuses."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import driftbandit
from driftbandit import Recommender, read_log
from driftbandit.audit.audit import audit
from driftbandit.audit.changes import find_changes
from driftbandit.audit.report import artefact, as_json, next_steps
from driftbandit.cli import app
from driftbandit.environments.shop import LOCAL, Shop
from driftbandit.logs import Events
from driftbandit.policies.registry import REGISTRY
from driftbandit.report import publish

BUILDS = {name: REGISTRY[name].build for name in ("linucb", "driftucb")}
run = CliRunner().invoke


@pytest.fixture(scope="module")
def shop():
    return Shop(decisions=24_000).log(0)


@pytest.fixture(scope="module")
def found(shop):
    grid = REGISTRY["linucb"].variants[0].builders(REGISTRY["linucb"])
    two = {label: grid[label] for label in list(grid)[:2]}
    return audit(read_log(shop.decisions, items=shop.items), BUILDS, grids={"linucb-tuned": two})


def test_both_shifts_are_dated_and_named(shop, found):
    assert [change.row for change in found.changes] == pytest.approx(shop.shifts.tolist(), abs=0.02 * len(shop))
    for change in found.changes:
        assert change.low_row <= change.row <= change.high_row < change.low_row + 0.1 * len(shop)
        assert change.cost > 0.0
        assert any("genre" in feature.name for feature in change.features)
    assert all(f"segment={LOCAL}" in feature.name for feature in found.changes[1].features[:2])


def test_values_hold_the_truth(shop, found):
    """The expected rewards of the logger and of chance are known; the logger leaves much to earn."""
    rows = {row.name: row for row in found.policies}
    truth = {"logger": float((shop.chances * shop.rates).sum(axis=1).mean()), "uniform": float(shop.rates.mean())}
    for name, value in truth.items():
        interval = rows[name].value
        assert interval.low - 0.002 <= value <= interval.high + 0.002
    assert rows["uniform"].verdict == "worse"
    assert rows["driftucb"].verdict == "better"
    assert found.best is not None


def test_settings_are_chosen_on_one_half_and_reported_on_the_other(found):
    (tuned,) = found.tuned
    assert (tuned.family, tuned.tried) == ("linucb-tuned", 2)
    assert tuned.row.name == f"linucb-tuned [{tuned.chosen}]"


def test_the_json_has_the_public_names(found):
    said = json.loads(json.dumps(as_json(found)))
    assert said["changes"][0].keys() == {
        *("row", "time", "low_row", "high_row", "false_alarm_rate", "features", "cost")
    }
    assert said["changes"][0]["features"][0].keys() == {"name", "before", "after"}
    assert said["policies"][0].keys() >= {
        *("name", "estimand", "estimator", "value", "low", "high", "difference", "verdict")
    }
    assert said["policies"][0]["difference"].keys() == {"value", "low", "high"}


def test_the_report_says_it_in_words(found, tmp_path):
    report = artefact(found)
    assert "The world changed twice" in " ".join(report.text)
    assert "Propensities add up." in report.text[0]
    changed = next(table for table in report.tables if table.title == "What changed?")
    assert len(changed.cells) == sum(len(change.features) for change in found.changes)
    assert sum(bool(row[0]) for row in changed.cells) == 2, "each date stands once"
    files = {path.name for path in publish(report, tmp_path)}
    assert {"audit.html", "audit.json", "audit.png"} <= files
    page = (tmp_path / "audit.html").read_text()
    assert "color-scheme: light dark" in page
    assert "http" not in page.replace("http-equiv", ""), "needs no network"


def test_a_still_log_changes_nothing():
    still = Shop(decisions=4_000, still=True).log(1)
    found = audit(read_log(still.decisions, items=still.items), {"linucb": BUILDS["linucb"]})
    assert found.changes == []
    assert "No change of the world was found." in artefact(found).text


def test_estimated_propensities_are_said_everywhere(shop):
    table = shop.decisions.slice(0, 2000).drop_columns(["propensity"])
    found = audit(read_log(table, items=shop.items, logged="estimated"), {"linucb": BUILDS["linucb"]})
    assert found.caveat == "estimated propensities"
    assert sum("estimated propensities" in text for text in artefact(found).text) == 1
    assert "estimated propensities" in artefact(found).tables[-1].note


def numeric(rng, count=4000, offset=0.0, scale=1.0):
    """Two numeric features, a change of the second one's weight halfway; rewards in any unit."""
    features = rng.standard_normal((2 * count, 2)) * [1.0, 1000.0]
    shown = rng.integers(2, size=count)
    x = features[2 * np.arange(count) + shown] / [1.0, 1000.0]
    taste = np.where(np.arange(count) < count // 2, 1.0, -1.0)
    rewards = offset + scale * (x[:, 0] + taste * x[:, 1] + rng.standard_normal(count))
    return Events(
        features=np.hstack([features, np.ones((2 * count, 1))]),
        arms=np.tile([0, 1], count),
        offsets=np.arange(0, 2 * count + 1, 2),
        shown=shown,
        propensities=np.full(count, 0.5),
        rewards=rewards,
        scopes=np.zeros(count),
        times=np.arange(count),
        rows=np.arange(count),
    )


@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e4), (-3.0, 1e-6)])
def test_changes_do_not_depend_on_units(offset, scale):
    events = numeric(np.random.default_rng(0), offset=offset, scale=scale)
    names = ["first", "second", "constant"]
    (change,) = find_changes(lambda: [events], names, ["a", "b"], count=len(events), clicks=False)
    assert change.row == pytest.approx(2000, abs=80)
    assert [feature.name for feature in change.features] == ["second"]
    assert change.features[0].before == pytest.approx(1e-3 * scale, rel=0.1)
    assert change.features[0].after == pytest.approx(-1e-3 * scale, rel=0.1)
    assert change.cost == pytest.approx(2 * scale * 0.56, rel=0.25)


def test_rewards_that_never_vary_are_no_change():
    events = numeric(np.random.default_rng(0))
    events.rewards[:] = 2.0
    assert find_changes(lambda: [events], ["a", "b", "c"], ["x", "y"], count=len(events), clicks=False) == []


def test_the_command_audits_files(shop, tmp_path):
    pq.write_table(shop.decisions.slice(0, 3000), tmp_path / "log.parquet")
    pq.write_table(shop.items, tmp_path / "items.parquet")
    options = ["--items", str(tmp_path / "items.parquet"), "--policies", "linucb", "--no-tune", "--out", str(tmp_path)]
    model = tmp_path / "model"
    result = run(app, ["audit", str(tmp_path / "log.parquet"), *options, "--model", str(model)])
    assert result.exit_code == 0, result.output
    assert "Which policy would have earned more?" in result.output
    assert json.loads((tmp_path / "audit.json").read_text())["trust"]["decisions"] == 3000
    loaded = Recommender.load(model)
    assert loaded.policy.rounds == 3000
    assert driftbandit.load(model).rounds == 3000


def test_the_next_step_is_a_command_that_runs(found):
    steps = next_steps(found, "my shop.policy")
    assert steps[-1].endswith("driftbandit serve --insecure-local --loop the-table --model 'my shop.policy'")
    assert "--model FILE" in next_steps(found)[-1]


def test_many_missing_rewards_are_said(found):
    found.report.skipped["reward missing"] = found.report.lines // 2
    assert any("50.0% of the rows have no reward" in warning for warning in found.warnings)
    del found.report.skipped["reward missing"]
    assert found.warnings == []


def test_many_rows_that_were_left_out_are_said(found):
    found.report.skipped["reward not a number"] = found.report.lines // 10
    assert any("10.0% of the rows were left out: reward not a number" in warning for warning in found.warnings)
    del found.report.skipped["reward not a number"]
    assert found.warnings == []


@pytest.mark.parametrize(
    ("online", "message"),
    [
        ({"linucb": [5], "driftucb": []}, "driftucb did not notice.*, and compare it with linucb, which did"),
        ({"driftucb": []}, "driftucb did not notice: audit a longer log before you rely on it.$"),
        ({"linucb": []}, "driftucb cannot notice that: audit a longer log before you rely on it.$"),
    ],
)
def test_a_change_that_the_best_did_not_notice_is_said(found, online, message):
    assert found.changes
    best = next(row for row in found.policies if row.name == "driftucb")
    others = [row for row in found.policies if row.name not in ("driftucb", "linucb")]
    seen = replace(found, online=online, policies=[*others, replace(best, verdict="better")])
    assert re.search(message, next_steps(seen)[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a file or folder, or --example"),
        (["nowhere.csv"], "nowhere.csv"),
        (["--example", "--policies", "linubc"], "did you mean 'linucb'"),
        (["my.csv", "--example", "--items", "mine.csv"], "leave out LOG, --items"),
        (["--example", "--logged", "uniform"], "leave out --logged"),
        (["--example", "--no-tune", "--on", "ray"], "only the tuning runs there"),
    ],
)
def test_bad_arguments_get_one_line(arguments, message, tmp_path):
    result = run(app, ["audit", *arguments, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_log_without_item_table_knows_arms_by_their_ids():
    rng = np.random.default_rng(0)
    shown = rng.integers(3, size=3000)
    better = np.where(np.arange(3000) < 1500, 0, 2)
    table = pa.table(
        {
            "arms": [["tea", "cup", "pot"]] * 3000,
            "arm": [["tea", "cup", "pot"][arm] for arm in shown],
            "propensity": np.full(3000, 1 / 3),
            "reward": (rng.random(3000) < np.where(shown == better, 0.4, 0.1)).astype(float),
            "device": ["phone"] * 3000,
        }
    )
    found = audit(read_log(table), {"linucb": BUILDS["linucb"]})
    assert [change.row for change in found.changes] == pytest.approx([1500], abs=100)
    assert {name for feature in found.changes[0].features for name in ("tea", "pot") if name in feature.name}
    assert found.best is not None


def test_rows_are_those_of_the_log_where_rows_cannot_be_used():
    """Every second row of a first part has a propensity of 0; changes are counted in rows, as noticing them is."""
    events = numeric(np.random.default_rng(0))
    moved = replace(events, rows=events.rows + np.minimum(events.rows, 1000))
    names, arms = ["first", "second", "constant"], ["a", "b"]
    (plain,), (change,) = (
        find_changes(lambda one=one: [one], names, arms, count=len(events), clicks=False) for one in (events, moved)
    )
    assert (change.row, change.low_row, change.high_row) == (
        plain.row + 1000,
        plain.low_row + 1000,
        plain.high_row + 1000,
    )
    assert change.cost == plain.cost


@pytest.mark.parametrize("name", ["ucb1", "per-scope"])
def test_policies_that_do_not_fit_are_refused(shop, name):
    with pytest.raises(ValueError, match=f"features and without scopes, got {name}"):
        audit(read_log(shop.decisions.slice(0, 200), items=shop.items), {name: REGISTRY[name].build})


def test_no_candidates_are_refused(shop):
    with pytest.raises(ValueError, match="at least one candidate"):
        audit(read_log(shop.decisions.slice(0, 200), items=shop.items), {})
