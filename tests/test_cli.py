"""The command line: every command runs, writes what it says, speaks JSON, and fails in one line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from driftbandit import Trace, __version__
from driftbandit.benchmarks import loading, speed
from driftbandit.cli import app
from driftbandit.core import Change
from driftbandit.environments import PRESETS
from driftbandit.paper import rho
from driftbandit.paper.table1 import COLUMNS, OTHERS, PAPER
from driftbandit.policies.registry import REGISTRY, USUAL

COMMANDS = ["compare", "arena", "paper", "data", "advise", "policies", "bench", "serve", "demo", "replay"]
SMALL = ["--seeds", "2", "--horizon", "300", "--period", "100", "--arms", "50", "--dim", "4", "--processes", "1"]
SCRIPT = str(Path(sys.executable).with_name("driftbandit"))
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Commands run in an empty folder, with a terminal wide enough for their tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def succeed(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output
    return result


def as_json(*args):
    """What --json prints: one valid document without NaN, and nothing else anywhere."""
    result = succeed(*args, "--json")
    assert result.stderr == ""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(result.stdout, parse_constant=refuse)


def written(result):
    """The files that a command says it wrote, which must be there."""
    files = [Path(line.removeprefix("wrote ")) for line in result.stdout.splitlines() if line.startswith("wrote ")]
    assert files
    for path in files:
        assert path.stat().st_size > 0
        if path.suffix == ".png":
            assert path.read_bytes().startswith(SIGNATURE)
        if path.suffix == ".json":
            json.loads(path.read_text())
        if path.suffix == ".html":
            assert "</html>" in path.read_text(encoding="utf-8")
    return files


# ---- help and version -----------------------------------------------------------------------------------------------


def test_version():
    assert succeed("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_shows_an_example(command, flag):
    text = " ".join(succeed(command, flag).stdout.split())
    assert f"Example: driftbandit {command}" in text


def test_help_lists_all_commands():
    text = succeed("--help").stdout
    for command in COMMANDS:
        assert command in text
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_have_options_that_exist(command):
    text = " ".join(succeed(command, "--help").stdout.split())
    example = re.search(rf"Example: driftbandit {command}(.*?)[╭│]", text).group(1)
    options = text[text.index("╭") :]
    for option in re.findall(r"--[a-z-]+", example):
        assert option in options, option


def test_help_of_bench_names_the_extra():
    text = " ".join(succeed("bench", "--help").stdout.split())
    assert "pip install 'driftbandit[bench]'" in text


# ---- compare --------------------------------------------------------------------------------------------------------


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


def test_compare_writes_to_runs_by_default(tmp_path):
    succeed("compare", "--policies", "random", *SMALL)
    assert (tmp_path / "runs" / "compare" / "compare.html").is_file()


# ---- paper ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def short_paper(monkeypatch):
    """The paper's worlds with 900 rounds: one shift, two in the last column."""
    monkeypatch.setitem(PRESETS, "table1-v1", replace(PRESETS["table1-v1"], horizon=900))


PAPER_ARGS = ["--seeds", "1", "--processes", "1", "--out", "out"]


def test_paper_table1(short_paper):
    result = succeed("paper", "table1", *PAPER_ARGS)
    assert sorted(path.name for path in written(result)) == ["table1.html", "table1.json", "table1.md"]
    assert "87.5 ± 3.6" in result.stdout, "the paper's first cell"
    rows = json.loads(Path("out/table1.json").read_text())["rows"]
    assert len(rows) == len((*PAPER, *OTHERS)) * len(COLUMNS)
    first = next(row for row in rows if row["policy"] == "dlinucb" and row["setting"] == "0.1, 0.9, 800")
    assert (first["paper_regret"], first["paper_regret_std"]) == PAPER["dlinucb"][0]
    assert next(row for row in rows if row["policy"] == "random")["paper_regret"] is None
    markdown = Path("out/table1.md").read_text(encoding="utf-8")
    for name in PAPER:
        assert f"{REGISTRY[name].title}, ours" in markdown


def test_paper_figure2(short_paper):
    result = succeed("paper", "figure2", *PAPER_ARGS)
    assert "figure2.png" in [path.name for path in written(result)]
    assert len(list(Path("out/figure2/traces").rglob("*.parquet"))) == 4


def test_paper_rho_as_json(short_paper):
    data = as_json("paper", "rho", *PAPER_ARGS)
    assert [row["share"] for row in data["rows"]] == [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert data["rows"][0]["regret"] == min(row["regret"] for row in data["rows"]), "nothing changes at rho = 0"


def test_paper_all_is_one_report_more(short_paper, tmp_path, monkeypatch):
    for place in ("DRIFTBANDIT_DATA", "HOME"):
        monkeypatch.setenv(place, str(tmp_path / "nowhere"))
    result = succeed("paper", "all", "--lines", "3000", *PAPER_ARGS)
    names = {path.stem for path in written(result)}
    assert names == {"table1", "figure2", "rho", "figure3"}
    report = Path("out/report.html").read_text(encoding="utf-8")
    assert "out/report.html" in result.stdout
    for title in ("Table 1", "Figure 2", "The rho study", "made-up log in the R6A format"):
        assert title in report
    assert report.count("data:image/png;base64,") == 3
    for left_out in ("figure4 (figure4 needs LastFM or Delicious", "figure5 (lastfm: no data in"):
        assert f"left out: {left_out}" in result.stdout
        assert f"Left out: {left_out}" in report
    data = as_json("paper", "all", "--lines", "3000", *PAPER_ARGS)
    assert set(data) == {"table1", "figure2", "rho", "figure3"}


def test_paper_figure3_makes_up_a_log(tmp_path):
    arguments = ("paper", "figure3", "--data", tmp_path, "--lines", "3000", *PAPER_ARGS)
    result = succeed(*arguments)
    assert {path.suffix for path in written(result)} == {".png", ".md", ".json", ".html"}
    assert "made-up log" in result.stdout
    assert as_json(*arguments)["made_up"] is True
    assert run("paper", "figure3", "--lines", "0").exit_code == 2
    few = run("paper", "figure3", "--data", tmp_path, "--lines", "30", *PAPER_ARGS)
    assert (few.exit_code, few.stderr.count("\n")) == (2, 1)
    assert "error: groups: expected at most" in few.stderr


def test_paper_figure5_on_made_up_files(tiny_data):
    pytest.importorskip("sklearn", reason="needs the extra `data`")
    pytest.importorskip("wordcloud", reason="needs the extra `data`")
    result = succeed("paper", "figure5", "--data", tiny_data, *PAPER_ARGS)
    assert {path.name for path in written(result)} == {f"figure5.{end}" for end in ("png", "md", "json", "html")}
    assert "metal" in result.stdout
    assert result.stderr == "", "the told noise is not the user's, who need not be warned of it"


@pytest.mark.parametrize("artefact", ["figure4", "figure5"])
def test_paper_without_its_data_is_one_line(artefact, tmp_path):
    result = run("paper", artefact, "--data", tmp_path, *PAPER_ARGS)
    assert result.exit_code == 2
    assert "docs/data.md" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("artefact", "seeds"), [("figure3", [200, 201, 202, 203, 204]), ("figure4", [200, 201, 202]), ("figure5", [200])]
)
def test_paper_reports_seeds_that_nothing_was_chosen_on(artefact, seeds, monkeypatch):
    seen = {}

    def stop(**given):
        seen.update(given)
        raise ImportError("an extra is missing")

    monkeypatch.setattr(f"driftbandit.paper.{artefact}.run", stop)
    result = run("paper", artefact, "--data", "somewhere")
    assert (list(seen["seeds"]), seen["data"]) == (seeds, "somewhere")
    assert result.exit_code == 2
    assert result.stderr == "error: an extra is missing\n"


def test_paper_tables_are_not_cut_off_where_there_is_no_terminal(short_paper, monkeypatch):
    # Piped into a file or a log there is no width to respect, and half a number is worse than a long line.
    monkeypatch.delenv("COLUMNS")
    stdout = succeed("paper", "table1", *PAPER_ARGS).stdout
    assert "Meta-Bandit, paper" in stdout
    assert "…" not in stdout


def test_paper_rho_prints_a_dash_where_nothing_was_detected(monkeypatch):
    def only_false_alarms(policies, settings, seeds, **_):
        alarm = Change(50, "spawned", 1, {})
        zeros, choices = np.zeros(900), np.zeros(900, dtype=np.int64)
        return [Trace("dlinucb", name, 0, choices, zeros, zeros, np.array([800]), (alarm,), 1.0) for name in settings]

    monkeypatch.setattr(rho, "compare", only_false_alarms)
    monkeypatch.setattr(rho, "share_figure", lambda *_: Figure())
    stdout = succeed("paper", "rho", *PAPER_ARGS).stdout
    assert "1 of 1" in stdout, "missed"
    assert "nan" not in stdout


# ---- advise, policies, bench ----------------------------------------------------------------------------------------


def test_advise_in_words():
    result = succeed("advise", "--noise", "0.1", "--shift", "0.9")
    assert "1.148" in result.stdout
    assert "VIOLATED" in result.stdout
    assert "16 misses in a window of 200" in result.stdout


def test_advise_where_all_holds():
    settings = ["--delta", "1e-5", "--spawn-delta", "0", "--window-delta", "6e-4", "--window", "200"]
    result = succeed("advise", "--noise", "0.01", "--shift", "0.9", *settings)
    assert "All conditions hold" in result.stdout
    assert "VIOLATED" not in result.stdout


def test_advise_as_json(tmp_path):
    data = as_json("advise", "--noise", "0.05", "--shift", "0.9", "--share", "0.01", "--out", tmp_path)
    assert round(data["least_shift"], 3) == 0.890
    assert data["detectable"] is True
    assert data["window"] is None, "no window will do, and JSON knows no infinity"
    assert data == json.loads((tmp_path / "advice.json").read_text())


def test_advise_writes_only_when_asked(tmp_path):
    succeed("advise", "--noise", "0.1", "--shift", "0.9")
    assert list(tmp_path.iterdir()) == []
    files = written(succeed("advise", "--noise", "0.1", "--shift", "0.9", "--out", "advice"))
    assert sorted(path.name for path in files) == ["advice.html", "advice.json", "advice.md"]


def test_policies(tmp_path):
    stdout = succeed("policies").stdout
    assert all(name in stdout for name in REGISTRY)
    data = as_json("policies", "--out", tmp_path / "out")
    assert list(data) == list(REGISTRY)
    assert data["dlinucb"]["title"] == "dLinUCB"
    assert (tmp_path / "out" / "policies.md").is_file()


@pytest.fixture
def quick_import(monkeypatch):
    """Timing imports takes seconds, which is not what these tests are about."""
    monkeypatch.setattr(speed, "import_ratio", lambda: 1.25)


BENCH = ["--rounds", "20", "--no-peers", "--no-loading"]


def test_bench(quick_import):
    result = succeed("bench", "--sizes", "3x4,2x5", *BENCH, "--out", "bench")
    assert sorted(path.name for path in written(result)) == ["bench.html", "bench.json", "bench.md"]
    for words in ("d=3, K=4", "d=2, K=5", "DLinUCB, 3 members"):
        assert words in result.stdout


def test_bench_as_json(quick_import):
    data = as_json("bench", "--sizes", "3x4", *BENCH)
    times = data["microseconds"]
    assert times.keys() == {"NumPy LinUCB", "NumPy LinUCB, no checks", "LinUCB", "DLinUCB, 3 members", "DriftUCB"}
    assert all(list(row) == ["3x4"] for row in times.values())
    assert data["import_ratio"] == 1.25


def test_bench_shows_what_was_measured_of_data(quick_import, monkeypatch):
    figures = [loading.Figure("slow", 2.0, 2.0, 100), loading.Figure("fast", 0.5, 0.5, 100, 2**20, against="slow")]
    monkeypatch.setattr(loading, "measure_loading", lambda data, seed: figures)
    result = succeed("bench", "--sizes", "3x4", "--rounds", "20", "--no-peers", "--out", "bench")
    assert "4× slow" in result.stdout
    assert "Reading, converting and replaying data" in Path("bench/bench.md").read_text(encoding="utf-8")
    assert json.loads(Path("bench/bench.json").read_text())["loading"]["fast"]["memory"] == 2**20


def test_bench_says_how_many_rounds_it_played(quick_import):
    stdout = " ".join(succeed("bench", "--sizes", "3x4", *BENCH).stdout.split())
    assert "runs of 20 rounds" in stdout
    assert "5,000" not in stdout


# ---- errors ---------------------------------------------------------------------------------------------------------

ADVISE = ["advise", "--noise", "0.1", "--shift", "0.9"]

BAD = [
    (["compare", "--dim", "0"], "dim: "),
    (["compare", "--arms", "-5"], "arms: "),
    (["compare", "--pool", "2000"], "pool: "),
    (["compare", "--noise", "-0.1"], "noise: "),
    (["compare", "--noise", "nan"], "noise: "),
    (["compare", "--shift", "inf"], "shift: "),
    (["compare", "--share", "1.5"], "share: "),
    (["compare", "--preset", "rotation", "--share", "0.5"], "share: "),
    (["compare", "--period", "0"], "period: "),
    (["compare", "--horizon", "0"], "horizon: "),
    (["compare", "--preset", "table9"], "preset: "),
    (["compare", "--preset", "text", "--policies", "random", "--seeds", "1"], "shift: no theta in 204,800 draws"),
    (["compare", "--policies", "linucb,nobody"], "policies: unknown nobody"),
    (["compare", "--policies", ""], "expected at least one policy"),
    (["compare", "--policies", "random", *SMALL, "--out", "taken"], "taken"),
    ([*ADVISE, "--share", "0"], "share: "),
    ([*ADVISE, "--period", "0"], "period: "),
    ([*ADVISE, "--delta", "0.7"], "delta: "),
    ([*ADVISE, "--spawn-delta", "0.5"], "spawn_delta: "),
    ([*ADVISE, "--window", "0"], "window: "),
    (["advise", "--noise", "-1", "--shift", "0.9"], "noise: "),
    ([*ADVISE, "--out", "taken"], "taken"),
    (["policies", "--out", "taken"], "taken"),
    (["bench", "--sizes", "big"], "--sizes: "),
    (["bench", "--sizes", "3"], "--sizes: "),
    (["bench", "--sizes", "3x"], "--sizes: "),
    (["bench", "--sizes", "3x4x5"], "--sizes: "),
    (["bench", "--sizes", "0x4"], "--sizes: "),
    (["bench", "--sizes", "3x-4"], "--sizes: "),
    (["bench", "--sizes", ""], "--sizes: "),
]


@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize(("args", "words"), BAD)
def test_errors_are_one_line(args, words, extra):
    Path("taken").write_text("a file where a folder should go")
    result = run(*args, *extra)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit), "caught, not thrown at the user"
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert words in lines[0]


@pytest.mark.parametrize(
    "args",
    [
        ["compare", "--seeds", "0"],
        ["compare", "--seed", "-1"],
        ["compare", "--processes", "0"],
        ["compare", "--dim", "ten"],
        ["compare", "--colour", "red"],
        ["paper", "table9"],
        ["paper"],
        ["advise", "--noise", "0.1"],
        ["bench", "--rounds", "0"],
        ["policies", "--seed", "-1"],
        ["nothing"],
    ],
)
def test_wrong_usage_is_explained(args, tmp_path):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


# ---- the installed script -------------------------------------------------------------------------------------------


def test_the_script_runs():
    done = subprocess.run([SCRIPT, "policies", "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(json.loads(done.stdout)) == list(REGISTRY)


def test_the_script_fails_in_one_line():
    args = [SCRIPT, "compare", "--policies", "nobody"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: policies: unknown nobody; ")


def test_ctrl_c_stops_and_the_same_command_continues(tmp_path):
    out = tmp_path / "out"
    seeds = 400
    args = ["compare", "--policies", "linucb", "--horizon", "10000", "--processes", "2", "--out", str(out)]
    process = subprocess.Popen(
        [SCRIPT, *args, "--seeds", str(seeds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # it may be ignored in a background job
    )
    try:
        while len(list(out.rglob("*.parquet"))) < 2:
            assert process.poll() is None, "it must not end before it is stopped"
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the command and its workers
        stdout, stderr = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 130
    assert stdout == ""
    assert "the same command continues where it was" in stderr
    assert "Traceback" not in stderr
    # What was under way may end, and a worker or two may have had the next run in hand; the rest must not be played.
    assert len(list(out.rglob("*.parquet"))) <= seeds // 2
