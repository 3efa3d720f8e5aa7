"""`driftbandit learn`: what it says, what it writes, and what it refuses."""

import re

import pyarrow.parquet as pq
import pytest

from driftbandit import Recommender, load
from driftbandit.environments.shop import Shop

from .commands import run, succeed


@pytest.fixture
def shop():
    made = Shop(decisions=600).log(seed=0)
    pq.write_table(made.decisions, "clicks.parquet")
    pq.write_table(made.items, "items.parquet")


def test_it_writes_a_file_and_says_how_to_go_on(shop, tmp_path):
    result = succeed("learn", "clicks.parquet", "--items", "items.parquet", "--policy", "linucb", "--model", "a.policy")
    lines = result.stdout.splitlines()
    assert lines[0] == "clicks.parquet: 600 lines, 600 events"
    assert re.fullmatch(r"<LinUCB\(dim=\d+\) rounds=600, changes=0> learned 600 rewards and found 0 changes", lines[1])
    assert lines[2] == f"wrote a.policy ({(tmp_path / 'a.policy').stat().st_size:,} bytes)"
    assert lines[-1] == "  driftbandit serve --insecure-local --loop NAME --model a.policy"
    space = {}
    exec("\n".join(line.strip() for line in lines if "import" in line or "load(" in line), space)
    made = space["shop"]
    assert isinstance(made, Recommender)
    assert made.policy.rounds == load("a.policy").rounds == 600
    assert made.choose({"segment": "student", "device": "phone", "hour": 9}).arm in made.items


def test_dim_bounds_the_features(shop):
    succeed("learn", "clicks.parquet", "--items", "items.parquet", "--policy", "linucb", "--model", "a", "--dim", "9")
    assert load("a").dim == 9


def test_blemishes_are_counted_and_columns_are_named_by_a_file(tmp_path):
    (tmp_path / "a.csv").write_text("shown,bought,arms,device\na,1,a|b,x\nb,zero,a|b,y\nb,0,a|b,x\n")
    (tmp_path / "names.toml").write_text('arm = "shown"\nreward = "bought"\n')
    told = ["--policy", "linucb", "--columns", "names.toml", "--logged", "uniform", "--model", "m.policy"]
    result = succeed("learn", "a.csv", *told)
    assert result.stdout.startswith("a.csv: 3 lines, 2 events\nskipped: reward not a number: 1 (a.csv:3)\n")


def test_a_context_free_policy_is_for_the_library_and_the_service(shop):
    result = succeed("learn", "clicks.parquet", "--items", "items.parquet", "--policy", "ucb1", "--model", "m")
    assert "Recommender.load('m')" in result.stdout
    assert "driftbandit serve --insecure-local --loop NAME --model m" in result.stdout
    assert Recommender.load("m").policy.rounds == 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["clicks.parquet", "--policy", "linucbb"], "policy: "),
        (["clicks.parquet", "--policy", "oracle"], "shifts"),
        (["nowhere.parquet"], "nowhere.parquet"),
        (["broken.parquet"], "broken.parquet"),
        (["empty.csv"], "empty.csv"),
        (["bare.csv"], "no column of propensities"),
        (["clicks.parquet", "--items", "clicks.parquet"], "expected different ids"),
        (["clicks.parquet", "--columns", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_bad_input_is_one_line_and_leaves_an_older_file_alone(shop, tmp_path, options, message):
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "clicks.parquet").read_bytes()[:-100])
    (tmp_path / "empty.csv").write_text("arm,reward,arms,propensity\n")
    (tmp_path / "bare.csv").write_text("arm,reward,arms\na,1,a|b\n")
    (tmp_path / "m").write_text("older")
    result = run("learn", *options, "--model", "m")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert (tmp_path / "m").read_text() == "older"


def test_ctrl_c_writes_nothing(shop, tmp_path, monkeypatch):
    def stop(*given, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("driftbandit.logs.learning.learn_log", stop)
    result = run("learn", "clicks.parquet", "--items", "items.parquet", "--policy", "linucb", "--model", "m")
    assert (result.exit_code, result.stderr) == (130, "stopped; m was not written\n")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("policy", ["per-scope", "club"])
def test_a_policy_with_scopes_is_for_the_library_alone(shop, tmp_path, policy):
    told = ["learn", "clicks.parquet", "--items", "items.parquet", "--policy", policy, "--model", "m"]
    assert "row 1: scope: " in run(*told).stderr
    (tmp_path / "names.toml").write_text('scope = "segment"')
    result = succeed(*told, "--columns", "names.toml")
    assert "serve" not in result.stdout
    assert Recommender.load("m").choose({"device": "phone"}, scope="student").scope == "student"
