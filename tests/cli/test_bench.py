"""`driftbandit bench`: what it prints and writes."""

import json
from pathlib import Path

import pytest

from cli.commands import as_json, succeed, written
from driftbandit.benchmarks import loading, speed, wide


@pytest.fixture
def quick_import(monkeypatch):
    """Timing imports takes seconds, which is not what these tests are about."""
    monkeypatch.setattr(speed, "import_ratio", lambda: 1.25)


BENCH = ["--rounds", "20", "--no-peers", "--no-loading", "--no-many-features", "--scopes", "0"]


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
    quick = ["--no-peers", "--no-many-features", "--scopes", "0"]
    result = succeed("bench", "--sizes", "3x4", "--rounds", "20", *quick, "--out", "bench")
    assert "4× slow" in result.stdout
    assert "Reading, converting and replaying data" in Path("bench/bench.md").read_text(encoding="utf-8")
    assert json.loads(Path("bench/bench.json").read_text())["loading"]["fast"]["memory"] == 2**20


def test_bench_says_how_many_rounds_it_played(quick_import):
    stdout = " ".join(succeed("bench", "--sizes", "3x4", *BENCH).stdout.split())
    assert "runs of 20 rounds" in stdout
    assert "5,000" not in stdout


def test_bench_times_many_scopes_at_once(quick_import):
    stdout = " ".join(succeed("bench", "--sizes", "3x4", *BENCH[:-1], "80").stdout.split())
    assert "Many scopes at once" in stdout
    assert "one / two threads" in stdout
    assert "two programs" in stdout
    data = as_json("bench", "--sizes", "3x4", *BENCH[:-1], "80")["many_scopes"]
    assert data.keys() == {"LinUCB", "LinTS", "DLinUCB", "DriftUCB"}
    assert all(value > 0.0 for row in data.values() for value in row.values())


def test_bench_shows_costs_at_many_features(quick_import, monkeypatch):
    monkeypatch.setattr(wide, "GRID", ((3, 4), (64, 5)))
    monkeypatch.setattr(wide, "PAIRS", ((3, 4),))
    monkeypatch.setattr(wide, "TRAINING", (0, 10))
    result = succeed(
        "bench", "--sizes", "3x4", *[each for each in BENCH if each != "--no-many-features"], "--out", "bench"
    )
    for words in ("faster than NumPy LinUCB is", "d=64, K=5", "DriftUCB takes", "99 rewards"):
        assert words in " ".join(result.stdout.split())
    data = json.loads(Path("bench/bench.json").read_text())["many_features"]
    assert data["numpy_over_linucb"].keys() == {"3x4", "64x5"}
    ratios = [data["numpy_over_linucb"], *(data[f"driftucb_over_linucb_after_{rewards}"] for rewards in (0, 10))]
    assert all(value > 0.0 for found in ratios for value in found.values())
    young = list(data["young_scope_bytes"].values())
    assert young == sorted(young)
    assert data["driftucb_over_linucb_after_10"].keys() == {"3x4"}
