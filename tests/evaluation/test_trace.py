"""Traces on disk: exact round trips, and clear errors for anything else."""

import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from driftbandit import DLinUCB, Trace, World, simulate, synthetic
from driftbandit.core import Change


def trace(rounds=5, **overrides):
    rng = np.random.default_rng(0)
    facts = {
        "policy": "dlinucb",
        "setting": "0.1, 0.9, 800",
        "seed": 3,
        "choices": rng.integers(10, size=rounds),
        "rewards": rng.standard_normal(rounds),
        "regret": rng.random(rounds),
        "shifts": np.array([2, 4], dtype=np.int64),
        "changes": (
            Change(3, "spawned", 1, {"miss_rate": 0.1 + 0.2, "bound": 1e-300}),
            Change(5, "retired", 0, {"miss_rate": 1.0 / 3.0, "bound": 0.07}),
            Change(5, "restarted", 0, {}),
        ),
        "seconds": 0.1 + 0.7,
        "key": "abc",
    }
    return Trace(**{**facts, **overrides})


def assert_same(one, other):
    for name in ("choices", "rewards", "regret", "shifts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), strict=True)
    for name in ("policy", "setting", "seed", "changes", "seconds", "key"):
        assert getattr(one, name) == getattr(other, name), name


def test_a_round_trip_is_exact(tmp_path):
    trace().save(tmp_path / "a.parquet")
    assert_same(Trace.load(tmp_path / "a.parquet"), trace())


def test_a_round_trip_of_a_real_run_is_exact(tmp_path):
    rounds = synthetic(World(horizon=1000, period=400, dim=5), 1)
    run = simulate(DLinUCB(rounds.dim, rounds.noise), rounds, name="dlinucb")
    assert run.changes, "the run must have something to keep"
    run.save(str(tmp_path / "a.parquet"))
    assert_same(Trace.load(str(tmp_path / "a.parquet")), run)


def test_without_shifts_and_changes(tmp_path):
    plain = trace(shifts=np.array([], dtype=np.int64), changes=(), setting="", key="")
    plain.save(tmp_path / "a.parquet")
    assert_same(Trace.load(tmp_path / "a.parquet"), plain)


@settings(max_examples=20)
@given(
    rewards=st.lists(st.floats(allow_nan=False), min_size=1, max_size=20),
    evidence=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3),
    policy=st.text(max_size=10),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_finite_trace_survives(tmp_path_factory, rewards, evidence, policy, seed):
    path = tmp_path_factory.mktemp("traces") / "a.parquet"
    run = trace(len(rewards), rewards=np.array(rewards), policy=policy, seed=seed)
    run = replace(run, changes=(Change(1, "spawned", 1, evidence),))
    run.save(path)
    assert_same(Trace.load(path), run)


def test_arrow_never_enters_python_to_read_a_file(tmp_path, monkeypatch):
    """If a thread of Arrow is inside Python while workers are forked, a worker may hang."""
    path = tmp_path / "a.parquet"
    trace().save(path)
    sources = []
    read = parquet.read_table
    monkeypatch.setattr(parquet, "read_table", lambda source, **how: sources.append(source) or read(source, **how))
    assert_same(Trace.load(path), trace())
    assert [type(source) for source in sources] == [pa.BufferReader]


def test_the_file_is_plain_parquet(tmp_path):
    trace().save(tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["round", "choice", "reward", "regret"]
    assert table["round"].to_pylist() == [0, 1, 2, 3, 4]
    assert json.loads(table.schema.metadata[b"driftbandit"])["shifts"] == [2, 4]


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    trace().save(tmp_path / "deep" / "er" / "a.parquet")
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["a.parquet"]


def test_saving_again_replaces(tmp_path):
    trace().save(tmp_path / "a.parquet")
    trace(rounds=9, seed=4).save(tmp_path / "a.parquet")
    assert_same(Trace.load(tmp_path / "a.parquet"), trace(rounds=9, seed=4))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_save_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    trace().save(tmp_path / "a.parquet")

    def full(table, where, **_):
        with open(where, "wb") as file:
            file.write(b"PAR1 half a tr")
        raise OSError("no space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    with pytest.raises(OSError, match="no space"):
        trace(rounds=9).save(tmp_path / "a.parquet")
    monkeypatch.undo()
    assert_same(Trace.load(tmp_path / "a.parquet"), trace())


@pytest.mark.parametrize("broken", ["write", "replace"])
def test_a_save_that_fails_leaves_no_partial_file(tmp_path, monkeypatch, broken):
    def full(*args, **_):
        if broken == "write":
            with open(args[1], "wb") as file:
                file.write(b"PAR1 half a tr")
        raise OSError("no space left on device")

    owner, name = (parquet, "write_table") if broken == "write" else (os, "replace")
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(OSError, match="no space"):
        trace().save(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def write_empty(path):
    path.write_bytes(b"")


def write_text(path):
    path.write_text("round,choice,reward\n0,1,0.5\n" * 20)


def write_foreign(path):
    parquet.write_table(pa.table({"choice": [0], "reward": [0.5], "regret": [0.1]}), path)


def write_other_columns(path):
    trace().save(path)
    table = parquet.read_table(path)
    parquet.write_table(table.select(["round", "choice"]), path)


def write_other_facts(path):
    table = pa.table({"choice": [0], "reward": [0.5], "regret": [0.1]})
    parquet.write_table(table.replace_schema_metadata({b"driftbandit": b'{"policy": "x"}'}), path)


def write_facts_of_another_kind(path):
    table = pa.table({"choice": [0], "reward": [0.5], "regret": [0.1]})
    parquet.write_table(table.replace_schema_metadata({b"driftbandit": b"[1, 2]"}), path)


def write_broken_facts(path):
    table = pa.table({"choice": [0], "reward": [0.5], "regret": [0.1]})
    parquet.write_table(table.replace_schema_metadata({b"driftbandit": b'{"policy": '}), path)


def make_empty_folder(path):
    path.mkdir()


def make_folder_of_traces(path):
    # Parquet readers take a folder for one table; two traces are not one.
    trace().save(path / "0.parquet")
    trace().save(path / "1.parquet")


@pytest.mark.parametrize(
    "make",
    [
        write_empty,
        write_text,
        write_foreign,
        write_other_columns,
        write_other_facts,
        write_facts_of_another_kind,
        write_broken_facts,
        make_empty_folder,
        make_folder_of_traces,
    ],
)
def test_anything_else_is_refused_by_name(tmp_path, make):
    path = tmp_path / "a.parquet"
    make(path)
    with pytest.raises(ValueError, match="not a driftbandit trace") as caught:
        Trace.load(path)
    assert str(path) in str(caught.value)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    trace(rounds=50).save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a driftbandit trace"):
            Trace.load(path)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Trace.load(tmp_path / "nowhere.parquet")
