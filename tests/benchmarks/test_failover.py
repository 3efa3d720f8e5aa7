"""The parts of the failover trial that need no processes; the trial itself is a command."""

from __future__ import annotations

from pathlib import Path

from driftbandit.benchmarks.failover import Phase, Trial, fill
from driftbandit.serving.stores.sqlite import SQLiteStore


def test_the_log_has_the_length_that_was_asked_for(tmp_path: Path) -> None:
    fill(Trial(f"sqlite:{tmp_path / 'a.db'}", events=2_000, scopes=20, dim=2))
    store = SQLiteStore(tmp_path / "a.db")
    (row,) = store.loops()
    events = store.events(row.number, 0, 0, 10_000)
    assert 2_000 <= len(events) < 2_100
    assert store.snapshot(row.number, 0) is None
    store.close()


def test_a_phase_in_words() -> None:
    assert str(Phase([], 3)) == "no decision, 3 refused"
    assert str(Phase([0.001, 0.002, 0.003], 0)) == "3 decisions, median 2.0 ms, p99 3.0 ms, 0 refused"
