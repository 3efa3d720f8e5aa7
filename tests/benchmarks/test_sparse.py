"""The study of many features: its worlds, its yardstick, and its tables."""

from dataclasses import replace

import numpy as np
import pytest

from driftbandit import LinUCB
from driftbandit.benchmarks import sparse as study
from driftbandit.benchmarks.gathered_linucb import GatheredLinUCB
from driftbandit.benchmarks.sparse import Line, World

SMALL = World("small", groups=3, items=12, rounds=200)
TAGGED = World("tagged", groups=2, items=40, tags=250, rounds=150)


@pytest.mark.parametrize("world", [SMALL, TAGGED])
def test_the_yardstick_is_linucb(world):
    """Through several blocks of gathered updates."""
    rows = world.rows()
    dense = rows.toarray()
    gathered, linucb = GatheredLinUCB(rows, 0.5, 0.3), LinUCB(rows.shape[1], ridge=0.5, explore=0.3)
    run = study.drawn(world, rows, 1)
    for pool, rewards in zip(run.pools, run.rewards, strict=True):
        index = linucb.choose(dense[pool])
        np.testing.assert_allclose(gathered.scores(pool), linucb.scores(dense[pool]), rtol=0, atol=1e-10)
        gathered.learn(int(pool[index]), rewards[index])
        linucb.learn(dense[pool[index]], rewards[index])


def test_rows_are_what_the_encoder_makes_of_group_and_item():
    rows = SMALL.rows()
    assert rows.shape == (3 * 12, (1 + 3 + 2) * (1 + 12 + 2))
    assert np.diff(rows.indptr).tolist() == [4] * 36, "a constant, the item, the group and their product"
    assert SMALL.rows(dim=32).shape == (36, 32)
    tagged = TAGGED.rows()
    assert np.diff(tagged.indptr).tolist() == [2 + 2 * 8] * 80
    dense = World("dense", groups=1, items=30, dense=10).rows()
    assert dense.shape == (30, 10)


def test_everybody_plays_the_same_rounds_and_beats_chance():
    world = replace(SMALL, rounds=1_000)
    lines, again = (study.measure(world, [5]) for _ in range(2))
    assert lines == again
    *players, chance = lines
    assert [line.path for line in players] == [
        "LinUCB, all features",
        "DiagonalLinUCB",
        *(f"LinUCB, hashed to {dim}" for dim in ("256", "512", "1,024")),
    ]
    assert all(0.0 < line.regrets[0] < 0.5 * chance.regrets[0] for line in players)


def test_rewards_follow_the_features():
    rows = SMALL.rows()
    run = study.drawn(SMALL, rows, 2)
    assert run.pools.shape == run.means.shape == (200, 10)
    assert all(len(set(pool.tolist())) == 10 and len(set((pool // 12).tolist())) == 1 for pool in run.pools)
    assert (run.rewards - run.means).std() == pytest.approx(study.NOISE, rel=0.1)
    other = study.drawn(SMALL, rows, 3)
    assert not np.array_equal(run.means, other.means)


def test_lines_are_summed_up_beside_the_first():
    lines = [
        Line("LinUCB, all features", 1_500, [100.0, 200.0]),
        Line("DiagonalLinUCB", 1_500, [110.0, 240.0]),
        Line("random", 0, [1_000.0, 2_000.0]),
    ]
    table = study.regret_table(replace(SMALL, rounds=5_000), lines)
    assert table.title == "small: 1,500 features, 5,000 rounds, 2 seeds"
    assert table.headings[-1] == "more than LinUCB, all features"
    assert table.cells == (
        ("LinUCB, all features", "1,500", "150 ± 71", "–"),
        ("DiagonalLinUCB", "1,500", "175 ± 92", "+15 ± 7 %"),
        ("random", "–", "1,500 ± 707", "+900 ± 0 %"),
    )


def test_times_are_told_beside_the_first():
    table = study.time_table({"a": (16_000_000, 5.0), "b": (1_000, 1_500.0)})
    assert table.cells == (("a", "16.00 MB", "5", "1.0"), ("b", "0.00 MB", "1,500", "300.0"))


def test_the_policies_are_timed_on_sparse_and_dense_rows(monkeypatch):
    monkeypatch.setattr(study, "HASHED", (16,))
    monkeypatch.setattr(study, "TIMED_DIM", 5_000)
    times = study.timings(SMALL, rounds=3)
    assert list(times) == [
        "DiagonalLinUCB, 5,000 sparse features",
        "DiagonalLinUCB, 90 sparse features",
        "DiagonalLinUCB, 90 dense features",
        "LinUCB, 16 dense features",
        "LinUCB, 90 dense features",
    ]
    assert all(taken > 0.0 for _, taken in times.values())
    assert 16 * 5_000 < times["DiagonalLinUCB, 5,000 sparse features"][0] < 17 * 5_000


def test_the_command_prints_its_tables(monkeypatch, capsys):
    monkeypatch.setattr(study, "WORLDS", {"crosses": SMALL})
    monkeypatch.setattr(study, "HASHED", (16,))
    monkeypatch.setattr("sys.argv", ["sparse", "--seeds", "1", "--rounds", "20"])
    study.main()
    printed = capsys.readouterr().out
    assert "small: 90 features, 20 rounds, 1 seed:\n\n| path | features | regret |" in printed
    assert "| policy | memory | µs per round | times the first |" in printed
    monkeypatch.setattr("sys.argv", ["sparse", "--tune", "--rounds", "20"])
    study.main()
    assert capsys.readouterr().out.count("ridge 2.25, explore 0.3: ") == 3
    monkeypatch.setattr("sys.argv", ["sparse", "--worlds", "crosse"])
    with pytest.raises(SystemExit):
        study.main()
    assert "did you mean 'crosses'?" in capsys.readouterr().err
