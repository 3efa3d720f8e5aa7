"""Rows that cannot be used are counted by kind, with their lines, and the others are kept."""

import json

import numpy as np
import pyarrow as pa
import pytest

from driftbandit.blemishes import Report
from driftbandit.logs import read_log
from driftbandit.logs.seen import Seen

from .made import rows, table

NAN = float("nan")


def one_wrong(place=3, **wrong):
    """Ten rows, one of them with other values."""
    made = rows(10)
    made[place] |= wrong
    return pa.Table.from_pylist(made)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"propensity": 0.0}, "propensity 0"),
        ({"propensity": -0.1}, "propensity negative"),
        ({"propensity": 1.5}, "propensity above 1"),
        ({"propensity": NAN}, "propensity missing"),
        ({"propensity": None}, "propensity missing"),
        ({"propensity": float("inf")}, "propensity not finite"),
        ({"reward": NAN}, "reward missing"),
        ({"reward": None}, "reward missing"),
        ({"reward": float("-inf")}, "reward not finite"),
        ({"arm": "none of them"}, "arm not in the pool"),
        ({"arm": None}, "arm missing"),
        ({"arm": ""}, "arm missing"),
        ({"arms": []}, "pool empty"),
        ({"arms": None}, "pool empty"),
        ({"arms": ["tea", "tea"], "arm": "tea"}, "an arm twice in the pool"),
        ({"arms": ["tea", None], "arm": "tea"}, "pool not readable"),
        ({"decision": "d1"}, "decision twice"),
        ({"time": None}, "time missing"),
    ],
)
def test_a_blemished_row_is_counted_with_its_line_and_the_rest_is_kept(wrong, kind):
    log = read_log(one_wrong(**wrong), batch_rows=4)
    kept = [row for batch in log for row in batch.rows.tolist()]
    assert kept == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert log.report.skipped == {kind: 1}
    assert log.report.examples[kind] == [("the table", 4)]
    assert (log.report.lines, log.report.events) == (10, 9)


@pytest.mark.parametrize(
    ("column", "text", "kind"),
    [
        ("propensity", "a half", "propensity not a number"),
        ("reward", "yes", "reward not a number"),
        ("reward", "1_000", "reward not a number"),
        ("time", "noon", "time neither a number nor ISO 8601"),
        ("arms", '["tea", ', "pool not readable"),
        ("arms", '[["tea"]]', "pool not readable"),
    ],
)
def test_text_that_cannot_be_read(column, text, kind):
    made = [{**row, "arms": json.dumps(row["arms"])} for row in rows(10)]
    texts = [{name: str(value) for name, value in row.items()} for row in made]
    texts[3][column] = text
    log = read_log(pa.Table.from_pylist(texts))
    log.check()
    assert log.report.skipped == {kind: 1}


def test_a_row_with_several_blemishes_counts_once():
    log = read_log(one_wrong(propensity=0.0, reward=NAN, arm="none of them"))
    assert sum(log.check().skipped.values()) == 1


def test_a_decision_that_comes_again_after_a_blemished_one_is_kept():
    made = rows(3)
    made[0]["reward"] = None
    made[1]["decision"] = made[0]["decision"]
    report = read_log(pa.Table.from_pylist(made)).check()
    assert (report.events, report.skipped) == (2, {"reward missing": 1})


def test_a_log_with_nothing_left_is_refused_and_says_why():
    log = read_log(table(propensity=[0.0] * 50))
    with pytest.raises(ValueError, match=r"no decision can be used\n50 lines, 0 events\nskipped: propensity 0: 50"):
        log.check()
    with pytest.raises(ValueError, match="no decision can be used"):
        list(log.events())


def test_reading_again_counts_anew():
    log = read_log(one_wrong(reward=None))
    assert log.check().to_json() == log.check().to_json()


def test_the_report_prints_some_places_and_goes_to_json():
    log = read_log(table(reward=[None, 1.0] * 25))
    report = log.check()
    assert str(report) == (
        "50 lines, 25 events\n"
        "skipped: reward missing: 25 (the table:1, the table:3, the table:5, the table:7, the table:9, ...)"
    )
    found = json.loads(json.dumps(report.to_json()))
    assert found["skipped"][0]["count"] == 25
    assert found["skipped"][0]["examples"][1] == {"file": "the table", "line": 3}
    assert str(Report()) == "0 lines, 0 events"


def test_odd_rows_are_kept_and_noted():
    items = {"id": ["tea", "cup", "pot"], "price": [3.0, 8.0, 20.0]}
    log = read_log(table(), items=items)
    unknown = sum("mug" in row["arms"] for row in rows())
    assert log.check().noted == {"an arm that is not in the item table": unknown}
    assert log.report.events == 50
    assert np.isnan(log.arms.columns()["price"][log.arms.ids.index("mug")])
    times = [float(number) for number in range(50)]
    times[20], times[30] = 25.0, 0.0
    report = read_log(table(time=times), batch_rows=30).check()
    assert report.noted == {"earlier than the row before": 2}
    assert [line for _, line in report.examples["earlier than the row before"]] == [22, 31]


def test_features_that_do_not_fit():
    made = [{**row, "features": [[1.0, 2.0]] * len(row["arms"])} for row in rows(10)]
    made[2]["features"] = [[1.0, 2.0]]
    made[3]["features"] = [[1.0]] * len(made[3]["arms"])
    made[4]["features"] = [[1.0, NAN]] * len(made[4]["arms"])
    made[5]["features"] = None
    log = read_log(pa.Table.from_pylist(made))
    (events,) = log.events()
    assert events.rows.tolist() == [0, 1, 6, 7, 8, 9]
    assert log.report.skipped == {
        "features do not fit the pool": 2,
        "features of another length than the first": 1,
        "features not finite": 1,
    }


def test_ids_are_remembered_as_the_table_grows_and_the_oldest_are_forgotten_at_last():
    seen = Seen(remembered=100_000)
    blocks = [
        pa.array([f"id {number}" for number in range(start, start + 20_000)]) for start in range(0, 400_000, 20_000)
    ]
    assert not any(seen.again(block).any() for block in blocks)
    assert seen.again(blocks[-1]).all()
    assert seen.again(blocks[-5]).all()
    assert not seen.again(blocks[0]).any()
    assert seen.again(pa.array(["", "", "ü"])).tolist() == [False, True, False]
