"""Tables from traces: numbers by hand, cells as text, JSON without NaN."""

import json
import math

import numpy as np
import pytest

from driftbandit import Trace, summarise
from driftbandit.core import Change
from driftbandit.evaluation.results import Table, best_first, difference, mean_and_std, regret_table
from driftbandit.policies.registry import REGISTRY, title_of


def trace(policy, seed, regret, *, setting="a", rewards=None, shifts=(), alarms=(), seconds=1.0):
    regret = np.asarray(regret, dtype=np.float64)
    return Trace(
        policy=policy,
        setting=setting,
        seed=seed,
        choices=np.zeros(len(regret), dtype=np.int64),
        rewards=np.ones(len(regret)) if rewards is None else np.asarray(rewards, dtype=np.float64),
        regret=regret,
        shifts=np.array(shifts, dtype=np.int64),
        changes=tuple(Change(alarm, "spawned", 1, {}) for alarm in alarms),
        seconds=seconds,
    )


def three_runs():
    return [
        trace("dlinucb", 0, [1.0, 2.0], rewards=[0.5, 0.5], seconds=2e-6),
        trace("dlinucb", 1, [2.0, 4.0], rewards=[1.0, 1.0], seconds=8e-6),
        trace("dlinucb", 2, [5.0, 1.0], rewards=[0.0, 3.0], seconds=4e-6),
    ]


def test_mean_and_sample_standard_deviation_by_hand():
    (row,) = summarise(three_runs())
    # Totals 3, 6, 6: mean 5, squares 4 + 1 + 1 = 6 over n - 1 = 2.
    assert row.regret == pytest.approx(5.0)
    assert row.regret_std == pytest.approx(math.sqrt(3.0))
    assert row.reward == pytest.approx(2.0)
    assert row.seeds == 3
    assert row.microseconds == pytest.approx(2.0), "the median of 1, 4 and 2 microseconds a round"
    assert (row.policy, row.setting, row.detection) == ("dlinucb", "a", None)


def test_one_seed_has_no_spread():
    (row,) = summarise(three_runs()[:1])
    assert (row.regret, row.seeds) == (3.0, 1)
    assert math.isnan(row.regret_std)
    assert row.as_dict()["regret_std"] is None


def test_rows_keep_the_order_of_the_traces_and_do_not_mix():
    traces = [
        trace("linucb", 0, [1.0], setting="b"),
        trace("dlinucb", 0, [2.0], setting="b"),
        trace("linucb", 0, [3.0], setting="a"),
        trace("linucb", 1, [5.0], setting="b"),
    ]
    rows = summarise(traces)
    assert [(row.setting, row.policy, row.regret) for row in rows] == [
        ("b", "linucb", 3.0),
        ("b", "dlinucb", 2.0),
        ("a", "linucb", 3.0),
    ]


def test_detection_is_pooled_over_seeds():
    runs = [
        trace("dlinucb", 0, np.zeros(300), shifts=[100, 200], alarms=[110, 150, 220]),
        trace("dlinucb", 1, np.zeros(300), shifts=[100, 200], alarms=[130]),
        trace("dlinucb", 2, np.zeros(300), shifts=[100, 200]),
    ]
    (row,) = summarise(runs)
    assert row.detection.delays == [10, 20, 30]
    assert row.detection.missed == 3
    assert row.detection.false_alarms == 1
    assert row.detection.rounds == 900


def test_a_policy_without_changes_has_no_detection():
    (row,) = summarise([trace("linucb", 0, [1.0], shifts=[0])])
    assert row.detection is None


def test_best_first():
    rows = summarise([trace(name, 0, [regret]) for name, regret in (("a", 3.0), ("b", 1.0), ("c", 2.0))])
    assert [row.policy for row in best_first(rows)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (61.23, 4.35, "61.2 ± 4.3"),
        (0.04, 0.0, "0.0 ± 0.0"),
        (99.0, 12.34, "99.0 ± 12.3"),
        (382.4, 37.6, "382 ± 38"),
        (2380.0, 142.16, "2,380 ± 142"),
        (-250.5, 3.0, "-250 ± 3"),
    ],
)
def test_mean_and_std_as_text(mean, std, text):
    assert mean_and_std(mean, std) == text


@pytest.mark.parametrize(
    ("ours", "paper", "text"),
    [(110.0, 100.0, "+10 %"), (90.0, 100.0, "-10 %"), (61.8, 65.94, "-6 %"), (300.0, 100.0, "+200 %")],
)
def test_difference_as_text(ours, paper, text):
    assert difference(ours, paper) == text


def rows_of_two():
    slow = [trace("linucb", seed, [200.0 + 100.0 * seed], seconds=3e-6) for seed in range(2)]
    quick = [
        trace("dlinucb", 0, np.full(1000, 0.06), shifts=[100, 200], alarms=[110, 150, 220], seconds=2e-3),
        trace("dlinucb", 1, np.full(1000, 0.06), shifts=[100, 200], alarms=[130], seconds=2e-3),
    ]
    return summarise([*slow, *quick])


def test_cells_of_the_regret_table():
    table = regret_table(rows_of_two(), "Regret")
    assert table.title == "Regret"
    assert table.headings == ("policy", "regret", "delay", "missed", "false")
    assert table.cells == (
        # Delays 10, 20, 30: median 20, 90th percentile 28; 1 of 4 missed; 1 false alarm in 2,000 rounds.
        ("dLinUCB", "60.0 ± 0.0", "20 (28)", "1/4", "0.50"),
        ("LinUCB", "250 ± 71", "–", "–", "–"),
    )


def test_the_papers_numbers_stand_beside_ours():
    table = regret_table(rows_of_two(), "Regret", {"dlinucb": (65.94, 2.30)})
    assert table.headings == ("policy", "regret", "paper", "diff.", "delay", "missed", "false")
    assert table.cells[0][:4] == ("dLinUCB", "60.0 ± 0.0", "65.9 ± 2.3", "-9 %")
    assert table.cells[1][:4] == ("LinUCB", "250 ± 71", "–", "–")


def test_times_are_shown_when_asked_for():
    table = regret_table(rows_of_two(), "Regret", timing=True)
    assert table.headings[-1] == "µs"
    assert [row[-1] for row in table.cells] == ["2.0", "3.0"]
    assert all(len(row) == len(table.headings) for row in table.cells)


def test_only_false_alarms_have_no_delay():
    (row,) = summarise([trace("dlinucb", 0, np.zeros(500), shifts=[400], alarms=[100, 200])])
    table = regret_table([row], "Regret")
    assert table.cells[0][2:] == ("–", "1/1", "4.00")


def test_markdown():
    numbers = Table("T", ("policy", "regret", "µs"), (("a", "1.0", "2"), ("b", "3.0", "4")))
    assert numbers.markdown() == "| policy | regret | µs |\n|---|---:|---:|\n| a | 1.0 | 2 |\n| b | 3.0 | 4 |"
    words = Table("T", ("name", "what"), (("a", "b"),), numbers=False)
    assert words.markdown().splitlines()[1] == "|---|---|"


def test_markdown_keeps_its_columns_whatever_a_policy_is_called():
    lines = Table("T", ("policy", "regret"), (("a|b", "1.0"),)).markdown().splitlines()
    unescaped = [line.replace(r"\|", "").replace("&#124;", "").count("|") for line in lines]
    assert unescaped == [3, 3, 3]


def test_json_has_no_nan():
    # A false alarm in a world without shifts: no delay at all.
    (row,) = summarise([trace("dlinucb", 0, np.zeros(500), alarms=[100])])
    assert math.isnan(row.detection.median_delay)
    record = json.loads(json.dumps(row.as_dict(), allow_nan=False))
    assert record["median_delay"] is None
    assert record["slow_delay"] is None
    assert record["missed"] == 0
    assert record["false_alarms_per_1000"] == 2.0


def test_json_of_a_policy_that_detects_and_one_that_does_not():
    rows = {row.policy: json.loads(json.dumps(row.as_dict(), allow_nan=False)) for row in rows_of_two()}
    assert rows["dlinucb"]["median_delay"] == 20.0
    assert rows["dlinucb"]["slow_delay"] == pytest.approx(28.0)
    assert rows["dlinucb"]["missed"] == 1
    assert rows["dlinucb"]["regret"] == pytest.approx(60.0)
    for name in ("median_delay", "slow_delay", "missed", "false_alarms_per_1000"):
        assert rows["linucb"][name] is None
    assert rows["linucb"]["regret_std"] == pytest.approx(100.0 / math.sqrt(2.0))


def test_titles_of_known_and_own_policies():
    assert title_of("dlinucb") == "dLinUCB"
    assert title_of("my policy") == "my policy"
    assert len({entry.title for entry in REGISTRY.values()}) == len(REGISTRY), "two rows would look alike"
