"""`driftbandit evaluate`: what it prints and writes."""

import json

import numpy as np
import pytest

from cli.commands import as_json, run, succeed, written

GENRES = ("rock", "jazz")


@pytest.fixture
def files(tmp_path):
    """A log of 400 rows, one of them broken, and its items; visitors like jazz."""
    rng = np.random.default_rng(0)
    (tmp_path / "items.csv").write_text("id,genre\n" + "".join(f"song{i},{GENRES[i % 2]}\n" for i in range(4)))
    lines = ["device,arm,propensity,reward"]
    for row in range(400):
        arm = int(rng.integers(4))
        chance = 0.25 if row != 9 else -1.0
        lines.append(f"{('phone', 'desk')[row % 2]},song{arm},{chance},{int(rng.random() < (0.1, 0.7)[arm % 2])}")
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "mine.py").write_text(
        "from driftbandit import LinUCB\ndef build(brief):\n    return LinUCB(brief.dim, explore=brief.noise)\n"
    )
    return ["clicks.csv", "--items", "items.csv"]


def test_evaluate_prints_a_table(files):
    stdout = succeed("evaluate", *files, "--policies", "linucb,mine:build,second=mine:build").stdout
    for part in (
        "Shadow value",
        "Estimator dr",
        "logger",
        "uniform",
        "best arm",
        "linucb",
        "build",
        "second",
        "better",
    ):
        assert part in stdout
    assert "clicks.csv:11" in stdout, "the broken row, by its line"


def test_evaluate_writes_what_it_prints(files, tmp_path):
    result = succeed("evaluate", *files, "--policies", "linucb", "--out", tmp_path / "out")
    assert sorted(path.name for path in written(result)) == ["evaluate.html", "evaluate.json", "evaluate.md"]
    data = as_json("evaluate", *files, "--policies", "linucb")
    assert data == json.loads((tmp_path / "out" / "evaluate.json").read_text())
    assert [row["name"] for row in data["policies"]] == ["logger", "uniform", "best arm", "linucb"]
    assert data["policies"][-1]["verdict"] == "better"


def test_options_reach_the_evaluation(files, tmp_path):
    (tmp_path / "columns.toml").write_text('ignore = ["propensity"]\n')
    options = ["--policies", "random", "--estimand", "replayed", "--interval", "normal", "--estimator", "dros"]
    options += ["--limit", "10", "--dim", "5", "--columns", "columns.toml", "--logged", "estimated"]
    data = as_json("evaluate", *files, *options)
    assert data["estimand"] == "replayed"
    assert (data["estimator"], data["interval"], data["features"]) == ("dros", "normal", 5)
    assert data["caveat"] == "estimated propensities"
    assert data["rows"]["events"] == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["missing.csv"], "missing.csv"),
        (["clicks.csv"], "no column says which arms could have been shown"),
        (["clicks.csv", "--items", "items.csv", "--policies", "linubc"], "did you mean 'linucb'"),
        (["clicks.csv", "--items", "items.csv", "--policies", "mine:nothing"], "cannot be imported"),
        (["clicks.csv", "--items", "items.csv", "--policies", ""], "policies: expected at least one"),
        (["clicks.csv", "--items", "items.csv", "--interval", "anytime", "--estimator", "sndr"], "expected 'ips'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_evaluate_says_what_is_wrong(options, message):
    result = run("evaluate", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "choices"), [("logged", "uniform"), ("estimand", "replayed"), ("interval", "bootstrap")]
)
@pytest.mark.usefixtures("files")
def test_options_with_a_few_choices_name_them(option, choices):
    result = run("evaluate", "clicks.csv", f"--{option}", "guessed")
    assert result.exit_code == 2
    assert "guessed" in result.stderr
    assert choices in result.stderr
    assert result.stdout == ""
