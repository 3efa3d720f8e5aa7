"""`driftbandit compare` and `policies`: what they write and print."""

import json
import os

import numpy as np
import pytest

from cli.commands import SMALL, as_json, run, succeed, written
from driftbandit import Trace
from driftbandit.policies.registry import REGISTRY, USUAL


def test_compare_writes_what_it_says(tmp_path):
    result = succeed("compare", "--policies", "dlinucb, linucb,oracle", *SMALL, "--out", tmp_path / "out")
    files = written(result)
    assert sorted(path.name for path in files) == ["compare.html", "compare.json", "compare.md", "compare.png"]
    for title in ("dLinUCB", "LinUCB", "OracleLinUCB"):
        assert title in result.stdout
        assert title in (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    traces = sorted((tmp_path / "out" / "traces").rglob("*.parquet"))
    assert len(traces) == 6
    assert all(len(Trace.load(path)) == 300 for path in traces)
    assert "horizon 300" in result.stdout


@pytest.mark.parametrize(
    ("given", "played"),
    [([], USUAL), (["--policies", "all"], [name for name, entry in REGISTRY.items() if not entry.scoped])],
)
def test_compare_plays_groups_of_policies(tmp_path, given, played):
    data = as_json("compare", *given, *SMALL, "--out", tmp_path)
    assert [row["policy"] for row in data["rows"]] == list(played)


def test_compare_json_is_the_file_and_the_traces(tmp_path):
    args = ["compare", "--policies", "linucb,random", *SMALL, "--seed", "5", "--noise", "0.2", "--out", tmp_path]
    data = as_json(*args)
    assert data == json.loads((tmp_path / "compare.json").read_text())
    assert data["seeds"] == [5, 6]
    assert data["world"]["noise"] == 0.2
    assert data["world"]["horizon"] == 300
    runs = [Trace.load(tmp_path / "traces" / "table1" / "linucb" / f"{seed}.parquet") for seed in (5, 6)]
    totals = [run.regret.sum() for run in runs]
    assert data["rows"][0]["policy"] == "linucb"
    assert data["rows"][0]["regret"] == pytest.approx(np.mean(totals))
    assert data["rows"][0]["regret_std"] == pytest.approx(np.std(totals, ddof=1))
    assert as_json(*args) == data, "the second time everything is read back, times included"


def test_compare_again_runs_nothing_and_fresh_runs_everything(tmp_path):
    args = ["compare", "--policies", "random", *SMALL, "--out", tmp_path]
    succeed(*args)
    path = tmp_path / "traces" / "table1" / "random" / "0.parquet"
    os.utime(path, ns=(10**18, 10**18))
    succeed(*args)
    assert path.stat().st_mtime_ns == 10**18
    succeed(*args, "--fresh")
    assert path.stat().st_mtime_ns != 10**18


@pytest.mark.parametrize("preset", ["table1-clicks", "stationary", "rotation", "brownian-clicks-v1", "recurring"])
def test_compare_in_other_worlds(tmp_path, preset):
    args = ["--seeds", "1", "--horizon", "200", "--processes", "1", "--out", tmp_path]
    data = as_json("compare", "--policies", "dlinucb,random", "--preset", preset, *args)
    assert data["world"]["horizon"] == 200
    assert all(row["regret"] >= 0.0 for row in data["rows"])


def test_every_setting_of_compare_reaches_the_world(tmp_path):
    given = {"dim": 4, "arms": 40, "pool": 5, "noise": 0.07, "shift": 0.3, "share": 0.5, "period": 70, "horizon": 200}
    options = [str(part) for name, value in given.items() for part in (f"--{name}", value)]
    data = as_json("compare", "--policies", "random", *options, "--seeds", "1", "--out", tmp_path)
    assert given.items() <= data["world"].items()
    args = ["--preset", "table1-clicks", "--clicks", "0.1", "0.9", "--horizon", "50", "--seeds", "1", "--out", tmp_path]
    assert as_json("compare", "--policies", "random", *args)["world"]["clicks"] == [0.1, 0.9]


def test_compare_shows_the_papers_numbers_in_the_papers_world(tmp_path):
    args = ["compare", "--policies", "dlinucb", "--seeds", "1", "--processes", "1", "--out", tmp_path]
    assert "65.9 ± 2.3" in succeed(*args).stdout
    assert "65.9" not in succeed(*args, "--horizon", "1000").stdout


def test_a_policy_of_your_own_stands_beside_the_others(tmp_path):
    (tmp_path / "homemade.py").write_text(
        "from driftbandit import LinUCB\ndef build(brief):\n    return LinUCB(brief.dim, explore=brief.noise)\n"
    )
    args = ["compare", "--policies", "linucb,random", *SMALL, "--out", tmp_path / "out"]
    before = as_json(*args)
    own = ["--policy", "my own=homemade:build", "--policy", "homemade:build"]
    data = as_json(*args, *own)
    assert [row["policy"] for row in data["rows"]] == ["linucb", "random", "my own", "build"]
    assert data["rows"][:2] == before["rows"], "read back, times included"
    regrets = {row["policy"]: row["regret"] for row in data["rows"]}
    assert regrets["my own"] == regrets["build"] < regrets["random"]
    for suffix in ("md", "html"):
        assert "my own" in (tmp_path / "out" / f"compare.{suffix}").read_text(encoding="utf-8")
    alone = as_json("compare", "--policies", "", "--policy", "homemade:build", *SMALL, "--out", tmp_path / "alone")
    assert [row["policy"] for row in alone["rows"]] == ["build"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linucb=driftbandit:LinUCB", "already one called 'linucb'"),
        ("mine=driftbandit:Missing", "cannot be imported"),
        ("mine", "expected 'package.module:name'"),
    ],
)
def test_compare_refuses_policies_that_cannot_be_had(tmp_path, given, message):
    result = run("compare", "--policy", given, *SMALL, "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


def test_compare_writes_to_runs_by_default(tmp_path):
    succeed("compare", "--policies", "random", *SMALL)
    assert (tmp_path / "runs" / "compare" / "compare.html").is_file()


def test_policies(tmp_path):
    stdout = succeed("policies").stdout
    assert all(name in stdout for name in REGISTRY)
    data = as_json("policies", "--out", tmp_path / "out")
    assert list(data) == list(REGISTRY)
    assert data["dlinucb"]["title"] == "dLinUCB"
    assert (tmp_path / "out" / "policies.md").is_file()
