"""Logs that are written can be read again."""

import numpy as np
import pytest

from driftbandit.logs import read_log, write_dsjson, write_obp, write_table

from .made import expected, found, rows, table

FEEDBACK = {
    "n_rounds": 40,
    "n_actions": 5,
    "context": np.random.default_rng(0).normal(size=(40, 3)),
    "action": np.random.default_rng(1).integers(5, size=40),
    "position": np.zeros(40, dtype=int),
    "reward": np.random.default_rng(2).random(40),
    "pscore": np.random.default_rng(3).uniform(0.1, 1, size=40),
    "action_context": np.random.default_rng(4).normal(size=(5, 2)),
}


def test_obps_dictionary_and_back():
    back = write_obp(read_log(FEEDBACK, batch_rows=7))
    for name, value in FEEDBACK.items():
        np.testing.assert_array_equal(back[name], value)
        assert np.asarray(back[name]).dtype == np.asarray(value).dtype
    again = write_obp(read_log(back))
    np.testing.assert_array_equal(again["context"], FEEDBACK["context"])
    assert write_obp(read_log(FEEDBACK | {"position": None}))["position"] is None


def test_a_table_as_obps_dictionary_has_its_numeric_columns_as_context():
    pools = [["tea", "cup", "pot", "mug"]] * 50
    back = write_obp(read_log(table(arms=pools)))
    np.testing.assert_array_equal(back["context"][:, 0], [row["age"] for row in rows()])
    names = ["tea", "cup", "pot", "mug"]
    assert [names[action] for action in back["action"]] == [row["arm"] for row in rows()]
    np.testing.assert_array_equal(back["action_context"], np.eye(4))


def test_pools_that_differ_have_no_place_in_obps_dictionary():
    with pytest.raises(ValueError, match="obp expects all 4 arms in every pool, got fewer in row"):
        write_obp(read_log(table()))


def test_a_log_as_parquet_and_back(tmp_path):
    write_table(read_log(table(), batch_rows=20), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert found(log) == expected(rows())
    assert next(iter(log)).contexts["age"].tolist() == [row["age"] for row in rows()]
    made = read_log(FEEDBACK)
    write_table(made, tmp_path / "obp.parquet")
    (events,), (want,) = read_log(tmp_path / "obp.parquet").events(), made.events()
    np.testing.assert_array_equal(events.features, want.features)


def test_a_log_as_dsjson_and_back(tmp_path):
    items = {"id": ["tea", "cup", "pot", "mug"], "price": [3.0, 8.0, 20.0, 6.0]}
    log = read_log(table(), items=items, batch_rows=20)
    write_dsjson(log, tmp_path / "log.dsjson")
    again = read_log(tmp_path / "log.dsjson")
    assert found(again) == expected(rows())
    assert next(iter(again)).contexts["device"].tolist() == [row["device"] for row in rows()]
    prices = dict(zip(again.arms.ids, again.arms.columns()["price"], strict=True))
    assert prices == dict(zip(items["id"], items["price"], strict=True))


def test_a_refused_log_leaves_no_file(tmp_path):
    for write in (write_table, write_dsjson):
        with pytest.raises(ValueError, match="no decision can be used"):
            write(read_log(table(reward=[None] * 50)), tmp_path / "log")
    assert list(tmp_path.iterdir()) == []


def test_times_that_have_no_date(tmp_path):
    with pytest.raises(ValueError, match="DSJSON expects times from year 1 to 9999"):
        write_dsjson(read_log(table(time=[1e300] * 50)), tmp_path / "log")
