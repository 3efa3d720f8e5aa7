"""The study of lists: what people click, what is counted, and the table."""

import numpy as np
import pytest

from driftbandit import DriftUCB
from driftbandit.benchmarks import slates as study
from driftbandit.benchmarks.slates import Line


def test_people_click_what_they_like_where_they_look():
    liked, looked = np.array([0, 1, 1, 1], dtype=bool), np.array([1, 0, 1, 1], dtype=bool)
    assert study.clicks_of("everything", liked, looked).tolist() == [0, 1, 1, 1]
    assert study.clicks_of("by position", liked, looked).tolist() == [0, 0, 1, 1]
    assert study.clicks_of("cascade", liked, looked).tolist() == [0, 1, 0, 0]


def test_expected_clicks_by_hand():
    rates = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    assert study.expected_clicks("everything", rates) == pytest.approx(1.5)
    assert study.expected_clicks("by position", rates) == pytest.approx(0.5 + 0.2 + 0.1 + 0.05 + 0.02)
    assert study.expected_clicks("cascade", rates) == pytest.approx(1.0 - 0.5 * 0.6 * 0.7 * 0.8 * 0.9)


def test_the_same_seed_gives_the_same_run_and_nobody_beats_the_best_possible():
    rounds = study.world(300).rounds(1)
    runs = [
        study.play(DriftUCB(rounds.dim), teach, "by position", rounds, study.LOOKS)
        for teach in (*study.TEACHERS.values(), study.TEACHERS["naive"])
    ]
    assert runs[0] == runs[-1]
    assert len(set(runs)) == len(study.TEACHERS), "each way to learn is another one"
    assert all(5.0 < clicks < study.best_possible("by position", rounds) for clicks, _ in runs)


def test_looks_are_estimated_from_lists_in_random_order():
    looks = study.estimated_looks("by position", seed=1, lists=30_000)
    np.testing.assert_allclose(looks, study.LOOKS, atol=0.08)
    assert study.estimated_looks("everything", seed=1, lists=30_000).min() > 0.9


def test_lines_are_summed_up_beside_learning_naively():
    lines = [
        Line("best possible", "–", [10.0, 12.0], []),
        Line("DriftUCB", "naive", [5.0, 7.0], [2, 3]),
        Line("DriftUCB", "cascade", [6.0, 9.0], [2, 2]),
        Line("D-LinUCB", "naive", [4.0, 4.0], [0, 0]),
    ]
    assert study.table_of("cascade", lines).cells == (
        ("best possible", "–", "11.00 ± 1.41", "–", "–"),
        ("DriftUCB", "naive", "6.00 ± 1.41", "–", "2.5"),
        ("DriftUCB", "cascade", "7.50 ± 2.12", "+1.50 ± 0.71", "2.0"),
        ("D-LinUCB", "naive", "4.00 ± 0.00", "–", "–"),
    )


def test_the_command_prints_a_table_for_all_people(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["slates", "--seeds", "1", "--lists", "30"])
    study.main()
    printed = capsys.readouterr().out
    assert printed.count("| policy | learns | clicks per 100 lists |") == 3
    assert printed.count("\n| DriftUCB |") == 3 * 7
