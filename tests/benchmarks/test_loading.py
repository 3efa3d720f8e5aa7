"""The benchmark of data: every figure is there, and held against the right one. No time is ever checked."""

import json
import math

import pytest

from driftbandit.benchmarks import loading
from driftbandit.benchmarks.loading import Figure, loading_table, measure_loading

NAMES = [
    "R6A by split and float",
    "R6A plain, 500 lines",
    "R6A plain, 2,000 lines",
    "R6A gz, 500 lines",
    "R6A gz, 2,000 lines",
    "R6A plain, read and saved",
    "saved log, opened",
    "replay, NumPy LinUCB",
    "replay, dLinUCB",
]
READY = [f"{name} ready, {how}" for name in ("lastfm", "delicious") for how in ("from its files", "converted")]


@pytest.fixture
def in_process(monkeypatch):
    """Tasks run here, not in interpreters of their own, which take a second each to start."""
    monkeypatch.setattr(loading, "_child", lambda task, *args: loading.TASKS[task](*json.loads(json.dumps(args))))
    monkeypatch.setattr(loading, "REPEATS", 1)


def test_every_figure_is_taken_and_held_against_another(in_process, no_data):
    figures = measure_loading(lines=500)
    assert [figure.name for figure in figures] == NAMES, "and no data set that is not there"
    by_name = {figure.name: figure for figure in figures}
    for figure in figures:
        assert math.isfinite(figure.rate)
        assert figure.seconds > 0
        assert figure.busy >= 0
        assert figure.against in ("", *by_name)
    assert by_name["R6A gz, 2,000 lines"].count == by_name["saved log, opened"].count == 2000
    assert by_name["R6A by split and float"].count == 20
    assert by_name["saved log, opened"].against == "R6A plain, 2,000 lines"
    assert by_name["replay, dLinUCB"].against == "replay, NumPy LinUCB"


def test_data_sets_are_made_ready_both_ways_and_nothing_is_left(in_process, tiny_data, monkeypatch):
    pytest.importorskip("sklearn", reason="needs the extra `data`")
    monkeypatch.setenv("DRIFTBANDIT_CACHE", "")  # the tasks set it
    before = sorted(tiny_data.rglob("*"))
    figures = measure_loading(tiny_data, lines=500)
    assert [figure.name for figure in figures] == READY + NAMES
    assert figures[1].against == figures[0].name
    assert sorted(tiny_data.rglob("*")) == before


def test_a_fresh_interpreter_measures(tmp_path, no_data):
    loading._child("write", str(tmp_path), 300, 0)
    found = loading._child("read", [str(tmp_path / "day")] * 2)
    assert found["count"] == 600
    assert found["seconds"] > 0
    with pytest.raises(OSError, match=r"read: .*absent: no such file"):
        loading._child("read", [str(tmp_path / "absent")])


def test_the_table_shows_rates_memory_and_ratios():
    figures = [
        Figure("slow", 2.0, 0.5, 1000),
        Figure("fast", 0.004, 0.003, 4000, 3 << 20, against="slow"),
        Figure("files", 3.0, 4.0, memory=200 << 20),
        Figure("kept", 2.0, 1.0, memory=None, against="files"),
    ]
    assert loading_table(figures).cells == (
        ("slow", "2.00 s", "0.50 s", "500", "–", "–"),
        ("fast", "4.0 ms", "3.0 ms", "1,000,000", "3 MB", "2,000× slow"),
        ("files", "3.00 s", "4.00 s", "–", "200 MB", "–"),
        ("kept", "2.00 s", "1.00 s", "–", "–", "1.5× files"),
    )
