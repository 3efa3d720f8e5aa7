"""`driftbandit paper` and `advise`: every artefact, what is left out, the theory in words."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from cli.commands import as_json, run, succeed, written
from driftbandit import Trace
from driftbandit.core import Change
from driftbandit.environments import PRESETS
from driftbandit.evaluation.delays import click_delay
from driftbandit.evaluation.study import play_study
from driftbandit.paper import rho
from driftbandit.paper.table1 import OTHERS
from driftbandit.paper.table1_columns import COLUMNS, PAPER
from driftbandit.policies.registry import REGISTRY


@pytest.fixture
def short_paper(monkeypatch):
    """The paper's worlds with 900 rounds: one shift, two in the last column."""
    monkeypatch.setitem(PRESETS, "table1-v1", replace(PRESETS["table1-v1"], horizon=900))


@pytest.fixture
def short_studies(monkeypatch):
    """The worlds of studies that keep totals only, with at most 300 rounds and a shift after 150."""

    def shorten(environment):
        if hasattr(environment, "world"):
            return replace(environment, world=shorten(environment.world))
        return replace(environment, horizon=min(environment.horizon, 300), period=150)

    def play_short(scenarios, **options):
        short = {name: replace(place, environment=shorten(place.environment)) for name, place in scenarios.items()}
        return play_study(short, **options)

    for module in ("growth", "sensitivity", "table1_noise", "table1_shifts"):
        monkeypatch.setattr(f"driftbandit.paper.{module}.play_study", play_short)


PAPER_ARGS = ["--seeds", "1", "--processes", "1", "--out", "out"]


def test_paper_table1(short_paper, short_studies, monkeypatch):
    # Piped into a file or a log there is no width to respect, and half a number is worse than a long line.
    monkeypatch.delenv("COLUMNS")
    result = succeed("paper", "table1", *PAPER_ARGS)
    assert "Meta-Bandit, paper" in result.stdout
    assert "…" not in result.stdout
    assert sorted(path.name for path in written(result)) == ["table1.html", "table1.json", "table1.md", "table1.png"]
    assert "87.5 ± 3.6" in result.stdout, "the paper's first cell"
    rows = json.loads(Path("out/table1.json").read_text())["rows"]
    assert len(rows) == len((*PAPER, *OTHERS)) * len(COLUMNS)
    first = next(row for row in rows if row["policy"] == "dlinucb" and row["setting"] == "0.1, 0.9, 800")
    assert (first["paper_regret"], first["paper_regret_std"]) == PAPER["dlinucb"][0]
    assert next(row for row in rows if row["policy"] == "random")["paper_regret"] is None
    markdown = Path("out/table1.md").read_text(encoding="utf-8")
    for name in PAPER:
        assert f"{REGISTRY[name].title}, ours" in markdown
    for heading in ("Paired tests over seeds", "How far redrawn tastes lie apart", "What would make LinUCB and adTS"):
        assert f"## {heading}" in markdown
    data = json.loads(Path("out/table1.json").read_text())
    assert set(data["tests"]) >= {"dlinucb - linucb", "dlinucb-paper - dlinucb"}
    assert (data["distances"]["rejected"]["0.1"], round(data["distances"]["rejected"]["0.5"], 2)) == (0.0, 0.11)


def test_paper_growth_and_sensitivity_go_on_where_they_stopped(short_studies, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    for name in ("growth", "sensitivity"):
        first = as_json("paper", name, *PAPER_ARGS)
        files = {path: path.stat().st_mtime_ns for path in Path("out", name, "results").rglob("*.json")}
        assert as_json("paper", name, *PAPER_ARGS) == first
        assert {path: path.stat().st_mtime_ns for path in files} == files, "nothing was played again"
        assert Path("out", f"{name}.png").stat().st_size > 10_000
        assert "…" not in succeed("paper", name, *PAPER_ARGS).stdout, "no line is cut off"
    assert [axis["axis"] for axis in as_json("paper", "growth", *PAPER_ARGS)["axes"]] == [
        "stages",
        "stage length",
        "dimension",
        "horizon",
        "size",
    ]
    assert set(first["knobs"]) == {"window", "delta", "window_delta", "ridge", "explore", "noise"}
    assert first["knobs"]["noise"]["dlinucb"]["1"] == first["knobs"]["window"]["dlinucb"]["200"], "nothing changed"


def test_paper_figure2(short_paper):
    result = succeed("paper", "figure2", *PAPER_ARGS)
    assert "figure2.png" in [path.name for path in written(result)]
    assert len(list(Path("out/figure2/traces").rglob("*.parquet"))) == 4


def test_paper_rho_as_json(short_paper):
    data = as_json("paper", "rho", *PAPER_ARGS)
    assert [row["share"] for row in data["rows"]] == [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert data["rows"][0]["regret"] == min(row["regret"] for row in data["rows"]), "nothing changes at rho = 0"


def test_paper_all_is_one_report_more(short_paper, short_studies, tmp_path, monkeypatch):
    for place in ("DRIFTBANDIT_DATA", "HOME"):
        monkeypatch.setenv(place, str(tmp_path / "nowhere"))
    result = succeed("paper", "all", "--lines", "3000", *PAPER_ARGS)
    names = {path.stem for path in written(result)}
    assert names == {"table1", "figure2", "rho", "growth", "sensitivity", "lemmas", "figure3"}
    report = Path("out/report.html").read_text(encoding="utf-8")
    assert "out/report.html" in result.stdout
    for title in (
        "Table 1",
        "Figure 2",
        "The rho study",
        "How regret grows",
        "How sensitive",
        "Theorems and lemmas",
        "made-up log in the R6A format",
    ):
        assert title in report
    assert report.count("data:image/png;base64,") == 7
    for left_out in ("figure4 (figure4 needs LastFM or Delicious", "figure5 (lastfm: no data in"):
        assert f"left out: {left_out}" in result.stdout
        assert f"Left out: {left_out}" in report
    data = as_json("paper", "all", "--lines", "3000", *PAPER_ARGS)
    assert set(data) == {"table1", "figure2", "rho", "growth", "sensitivity", "lemmas", "figure3"}


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


def test_advise_on_clicks_in_words():
    stdout = succeed("advise", "--clicks", "--rate", "0.02", "--lift", "2").stdout
    delay = float(f"{click_delay(0.02, 2.0):.1e}")
    assert f"At 2 % clicks and a lift of 2: about {delay:,.0f} decisions." in stdout
    assert "falls from 4 % to 2 %" in stdout
    assert "most are not found" not in stdout
    rare = succeed("advise", "--clicks", "--rate", "0.003", "--lift", "1.5", "--period", "5000").stdout
    assert "more than the 5,000 between shifts: most are not found" in rare
    assert "lifts below 2, many are not found" in rare


def test_advise_on_clicks_is_a_table_of_rates_and_lifts():
    data = as_json("advise", "--clicks", "--dim", "6", "--period", "5000", "--delta", "0.1")
    places = [(line["rate"], line["lift"]) for line in data["delays"]]
    assert places == [(rate, lift) for rate in (0.003, 0.01, 0.02, 0.05, 0.15) for lift in (1.5, 2.0, 4.0)]
    for line in data["delays"]:
        expected = click_delay(line["rate"], line["lift"], dim=6, period=5000, delta=0.1)
        assert line["delay"] == expected
    table = succeed("advise", "--clicks").stdout
    assert [head in table for head in ("lift 1.5", "lift 2", "lift 4", "0.3 %", "15 %")] == [True] * 5
    row = as_json("advise", "--clicks", "--rate", "0.3")["delays"]
    assert [line["lift"] for line in row] == [1.5, 2.0], "four times 30 % is no rate"
    assert [line["rate"] for line in as_json("advise", "--clicks", "--lift", "7")["delays"]] == [
        0.003,
        0.01,
        0.02,
        0.05,
    ]
    column = succeed("advise", "--clicks", "--lift", "3").stdout
    assert "lift 3" in column
    assert "lift 2" not in column
