"""Columns, item tables, and where propensities come from."""

import numpy as np
import pyarrow as pa
import pytest

from driftbandit.logs import read_log
from driftbandit.logs.columns import ROLES, Columns, find

from .made import found, rows, table

# ---- names of columns -----------------------------------------------------------------------------------------------


def renamed(**names):
    made = table()
    return made.rename_columns([names.get(name, name) for name in made.column_names])


def test_columns_have_other_names_by_option_or_toml(tmp_path):
    odd = renamed(reward="bought", arm="sku", propensity="how likely", device="gadget")
    given = {"reward": "bought", "arm": "sku", "propensity": "how likely", "ignore": ["gadget"]}
    want = found(read_log(table()))
    assert found(read_log(odd, columns=given)) == want
    (tmp_path / "columns.toml").write_text(
        'reward = "bought"\narm = "sku"\npropensity = "how likely"\nignore = ["gadget"]\n[items]\nid = "code"\n'
    )
    log = read_log(odd, columns=tmp_path / "columns.toml", items=pa.table({"code": ["tea"], "price": [1.0]}))
    assert found(log) == want
    assert list(next(iter(log)).contexts) == ["age"]


def test_sensible_names_are_found_by_themselves():
    odd = renamed(reward="Clicked", arm="item_id", arms="candidates", propensity="pscore", time="Timestamp")
    assert found(read_log(odd)) == found(read_log(table()))


def test_the_plain_name_wins_and_others_are_asked_about():
    assert find({}, ["action", "arm"], ROLES, "x")["arm"] == "arm"
    with pytest.raises(ValueError, match="'action' and 'item' could all be the arm"):
        find({}, ["action", "item"], ROLES, "x")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward": "nowhere"}, "no column 'nowhere' for reward; the columns are 'time', 'scope'"),
        ({"prize": "reward"}, "columns: unknown 'prize'; expected one of time"),
        ({"rewrd": "x"}, "unknown 'rewrd' \\(did you mean 'reward'"),
        ({"reward": 3}, "name of a column for 'reward', got 3"),
        ({"ignore": "device"}, "list of names"),
        ({"ignore": ["devize"]}, "no column 'devize' to ignore; the columns are 'time'"),
        ({"items": ["id"]}, "mapping for 'items'"),
        ({"items": {"prize": "x"}}, "columns: items: unknown 'prize'; expected one of id, from, until"),
        (7, "expected a mapping or the path"),
    ],
)
def test_wrong_names_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        read_log(table(), columns=given)


def test_an_error_in_a_file_of_names_says_which_file(tmp_path):
    (tmp_path / "names.toml").write_text('rewrd = "click"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"names\.toml: unknown 'rewrd'"):
        read_log(table(), columns=tmp_path / "names.toml")


def test_a_broken_or_missing_toml_file(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"reward = \xff")
    with pytest.raises(ValueError, match="not a TOML file"):
        Columns.of(tmp_path / "a.toml")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Columns.of(tmp_path / "b.toml")


@pytest.mark.parametrize("column", ["arm", "reward"])
def test_a_log_without_arm_or_reward_is_refused(column):
    with pytest.raises(ValueError, match=f"no column for the {column}"):
        read_log(table(**{column: None}))


# ---- items ----------------------------------------------------------------------------------------------------------


def test_without_a_column_of_arms_the_pool_is_every_item_alive():
    items = {"id": ["a", "b", "c"], "from": [0.0, 10.0, None], "until": [20.0, None, 10.0]}
    log = pa.table({"time": [-1.0, 0.0, 9.0, 10.0, 20.0], "arm": ["c", "a", "c", "b", "b"], "reward": [0.0] * 5})
    pools = [(one[2], one[4]) for one in found(read_log(log, items=items, logged="uniform", batch_rows=2))]
    assert pools == [(("c",), 1.0), (("a", "c"), 0.5), (("a", "c"), 0.5), (("a", "b"), 0.5), (("b",), 1.0)]


def test_an_item_that_was_not_alive_cannot_have_been_shown():
    items = {"id": ["a", "b"], "until": [5.0, None]}
    log = pa.table({"time": [1.0, 6.0], "arm": ["a", "a"], "reward": [0.0, 0.0]})
    report = read_log(log, items=items, logged="uniform").check()
    assert report.skipped == {"arm not in the pool": 1}


def test_dates_of_items_and_logs_agree():
    items = {"id": ["a", "b"], "from": ["2024-01-01", "2024-01-02T12:00:00+02:00"]}
    log = pa.table(
        {
            "time": pa.array([1704189599, 1704189600], pa.timestamp("s", "UTC")),
            "arm": ["a", "b"],
            "reward": [0.0, 1.0],
        }
    )
    assert [one[2] for one in found(read_log(log, items=items, logged="uniform"))] == [("a",), ("a", "b")]


def test_neither_arms_nor_items_is_refused():
    with pytest.raises(ValueError, match="no column says which arms could have been shown"):
        read_log(table(arms=None))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"id": ["a", "a"]}, "'a' twice"),
        ({"id": ["a", None]}, "no id in row 2"),
        ({"price": [1.0]}, "no column for the id"),
        ({"id": []}, "no items"),
        ({"id": ["a"], "from": ["soon"]}, "expected a time in column 'from', got something else in row 1"),
        ([], "expected a file, a table"),
        (7, "expected a file, a table"),
        ({"id": ["a", "b"], "price": [1.0]}, "items: cannot be read"),
    ],
)
def test_item_tables_that_are_wrong(items, message):
    with pytest.raises(ValueError, match=message):
        read_log(table(), items=items)


def test_item_tables_in_other_forms(tmp_path):
    want = {"price": [3.0, 8.0], "kind": ["leaf", "china"]}
    (tmp_path / "items.csv").write_text("id,price,kind\ntea,3,leaf\ncup,8,china\n")
    (tmp_path / "items.ndjson").write_text(
        '{"id": "tea", "price": 3, "kind": "leaf"}\n{"id": "cup", "price": 8, "kind": "china"}\n'
    )
    forms = [
        tmp_path / "items.csv",
        tmp_path / "items.ndjson",
        {"tea": {"price": 3.0, "kind": "leaf"}, "cup": {"price": 8.0, "kind": "china"}},
        [{"id": "tea", "price": 3.0, "kind": "leaf"}, {"id": "cup", "price": 8.0, "kind": "china"}],
    ]
    for items in forms:
        columns = read_log(table(), items=items).arms.columns()
        assert {name: list(values) for name, values in columns.items()} == want


def test_without_an_item_table_the_id_describes_the_arm():
    log = read_log(table())
    log.check()
    assert log.arms.columns() == {"id": log.arms.ids}


# ---- propensities ---------------------------------------------------------------------------------------------------


def test_a_log_without_propensities_must_say_how_it_was_made():
    bare = table(propensity=None)
    with pytest.raises(ValueError, match=r"no column of propensities.*logged='uniform'.*logged='estimated'"):
        read_log(bare)
    with pytest.raises(ValueError, match="logged: expected 'uniform', 'estimated' or None, got 'somehow'"):
        read_log(bare, logged="somehow")
    log = read_log(bare, logged="uniform")
    assert [one[4] for one in found(log)] == [1 / len(row["arms"]) for row in rows()]
    assert (log.logged, log.caveat) == ("uniform", "")
    assert read_log(table()).logged == "column"


def test_a_log_said_to_be_uniform_whose_propensities_differ_is_noted():
    log = read_log(table(), logged="uniform")
    assert log.check().noted == {
        "propensity is not 1 / size of the pool, though the log is said to be uniform": 50,
    }


def test_estimated_propensities_are_those_of_a_logger_that_ignores_the_context():
    """Shares 0.6, 0.3 and 0.1 of 30,000 draws from equal pools: 0.02 is more than six standard errors."""
    rng = np.random.default_rng(0)
    shares = {"a": 0.6, "b": 0.3, "c": 0.1}
    arm = rng.choice(list(shares), p=list(shares.values()), size=30_000)
    log = read_log(
        pa.table({"arms": [["a", "b", "c"]] * len(arm), "arm": arm, "reward": np.zeros(len(arm))}), logged="estimated"
    )
    got = {name: p for _, _, _, name, p, _ in found(log)}
    assert got == {name: pytest.approx(share, abs=0.02) for name, share in shares.items()}
    assert got["a"] == (arm == "a").mean()
    assert log.caveat == "estimated propensities"
    assert log.check().lines == 30_000


def test_estimates_over_pools_that_differ_add_up_to_one_in_each():
    log = read_log(table(2000, propensity=None), logged="estimated", batch_rows=300)
    assert all(0 < one[4] <= 1 for one in found(log))
    inverse = np.mean([1 / (len(one[2]) * one[4]) for one in found(log)])
    assert inverse == pytest.approx(1, abs=0.05)


def test_the_time_of_the_reward_is_no_context_and_gives_delays():
    rows = {
        "time": [0.0, 10.0, 20.0, 30.0],
        "arms": [["a", "b"]] * 4,
        "arm": ["a"] * 4,
        "propensity": [0.5] * 4,
        "reward": [1, 0, 1, 0],
        "rewarded_at": [4.0, None, 19.0, 30.0],
    }
    log = read_log(pa.table(rows))
    (found,) = log
    assert found.contexts == {}
    np.testing.assert_array_equal(found.delays, [4.0, np.nan, np.nan, 0.0])
    assert log.report.noted == {"reward before its decision": 1}


def test_a_time_of_the_reward_without_times_gives_no_delays():
    rows = {"arms": [["a", "b"]], "arm": ["a"], "propensity": [0.5], "reward": [1], "rewarded": ["soon"]}
    (found,) = read_log(pa.table(rows))
    assert found.delays is None
