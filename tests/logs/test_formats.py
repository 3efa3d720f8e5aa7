"""Every format gives the same decisions."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftbandit.logs import read_log

from .made import Crossed, expected, found, rows, table


def write_csv(path, made, join="|".join, delimiter=","):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(made[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**row, "arms": join(row["arms"])} for row in made)


def write_lines(path, made):
    path.write_text("".join(json.dumps(row) + "\n" for row in made))


def as_dsjson(row):
    shown = row["arms"].index(row["arm"])
    return {
        "_label_cost": -row["reward"],
        "_label_probability": row["propensity"],
        "_label_Action": shown + 1,
        "_labelIndex": shown,
        "Timestamp": f"1970-01-01T00:{int(row['time']) // 60:02d}:{int(row['time']) % 60:02d}.0000000Z",
        "EventId": row["decision"],
        "a": [shown + 1],
        "p": [row["propensity"]],
        "c": {
            "scope": row["scope"],
            "User": {"device": row["device"], "age": row["age"]},
            "_multi": [{"id": arm, "Item": {"letters": len(arm)}} for arm in row["arms"]],
        },
    }


@pytest.mark.parametrize("join", ["|".join, json.dumps], ids=["bars", "json"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_csv(tmp_path, join, suffix):
    write_csv(tmp_path / f"log.{suffix}", rows(), join, {"csv": ",", "tsv": "\t"}[suffix])
    log = read_log(tmp_path / f"log.{suffix}", batch_rows=7)
    assert found(log) == expected(rows())
    batch = next(iter(log))
    assert batch.contexts["age"].tolist() == [row["age"] for row in rows()][: len(batch)]
    assert batch.contexts["device"].tolist() == [row["device"] for row in rows()][: len(batch)]


def with_commas(row):
    """A row as a spreadsheet writes it where decimals have commas."""
    return {key: str(value).replace(".", ",") if isinstance(value, float) else value for key, value in row.items()}


def test_csv_with_semicolons_and_decimal_commas(tmp_path):
    made = [{**row, "reward": row["reward"] + 0.25, "price": -1.5, "name": "1,5 l"} for row in rows()]
    write_csv(tmp_path / "log.csv", [with_commas({**row, "time": int(row["time"])}) for row in made], delimiter=";")
    log = read_log(tmp_path / "log.csv", batch_rows=7)
    first = next(iter(log))
    assert first.rewards.tolist() == [row["reward"] for row in made][: len(first)]
    assert first.contexts["price"].tolist() == [-1.5] * len(first)
    assert first.contexts["name"].tolist() == ["1,5 l"] * len(first)
    assert sum(len(batch) for batch in log) == len(made)
    assert not log.report.skipped


def test_items_with_semicolons_and_decimal_commas(tmp_path):
    (tmp_path / "items.csv").write_text("id;price;size\ntea;2,5;1,5 l\ncup;3;2 l\n", encoding="utf-8")
    log = read_log(
        pa.table({"arm": ["tea", "cup"], "propensity": [0.5, 0.5], "reward": [1, 0]}), items=tmp_path / "items.csv"
    )
    columns = {name: list(values) for name, values in log.arms.columns().items()}
    assert columns == {"price": [2.5, 3.0], "size": ["1,5 l", "2 l"]}


def test_parquet_a_file_and_a_folder_of_files(tmp_path):
    whole = table()
    pq.write_table(whole, tmp_path / "log.parquet")
    folder = tmp_path / "log"
    folder.mkdir()
    for part in range(5):
        pq.write_table(whole.slice(10 * part, 10), folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").touch()
    assert found(read_log(tmp_path / "log.parquet", batch_rows=8)) == expected(rows())
    log = read_log(folder, batch_rows=8)
    assert found(log) == expected(rows())
    assert [row for batch in log for row in batch.rows.tolist()] == list(range(50))


def test_lines_of_json_plain_and_packed(tmp_path):
    write_lines(tmp_path / "log.ndjson", rows())
    with gzip.open(tmp_path / "log.jsonl.gz", "wb") as file:
        file.write((tmp_path / "log.ndjson").read_bytes())
    assert found(read_log(tmp_path / "log.ndjson", batch_rows=9)) == expected(rows())
    assert found(read_log(tmp_path / "log.jsonl.gz")) == expected(rows())


def test_nested_records_become_columns(tmp_path):
    write_lines(tmp_path / "log.ndjson", [{**row, "user": {"home": {"city": "Rome"}}} for row in rows()])
    batch = next(iter(read_log(tmp_path / "log.ndjson")))
    assert set(batch.contexts["user.home.city"]) == {"Rome"}


def test_dsjson(tmp_path):
    write_lines(tmp_path / "log.dsjson", [as_dsjson(row) for row in rows()])
    log = read_log(tmp_path / "log.dsjson")
    assert found(log) == expected(rows())
    batch = next(iter(log))
    assert batch.contexts["User.age"].tolist() == [row["age"] for row in rows()]
    assert log.arms.columns() == {"Item.letters": [3, 3, 3, 3]}


def test_actions_of_dsjson_without_an_id_are_known_by_their_features(tmp_path):
    line = {
        "_label_cost": -2,
        "_label_probability": 0.25,
        "_label_Action": 2,
        "EventId": "e",
        "c": {"S": {"a=1": 1}, "_multi": [{"A": {"v": "x"}}, {"A": {"v": "y"}}]},
    }
    write_lines(tmp_path / "log.dsjson", [line])
    log = read_log(tmp_path / "log.dsjson")
    with pytest.raises(ValueError, match="time missing"):
        log.check()
    write_lines(tmp_path / "log.dsjson", [{**line, "Timestamp": "2018-09-19T07:51:01.0120000Z"}])
    log = read_log(tmp_path / "log.dsjson")
    (batch,) = log
    assert (batch.rewards.tolist(), batch.propensities.tolist(), batch.shown.tolist()) == ([2.0], [0.25], [1])
    assert log.arms.columns() == {"A.v": ["x", "y"]}
    assert batch.times[0] == pytest.approx(1537343461.012)


class Speaks:
    """A table of another library, which speaks Arrow's C stream interface, as pandas and Polars do."""

    def __init__(self, held):
        self.held = held

    def __arrow_c_stream__(self, requested_schema=None):
        return self.held.__arrow_c_stream__(requested_schema)


def test_tables_in_memory():
    assert found(read_log(table(), batch_rows=11)) == expected(rows())
    assert found(read_log(Speaks(table()))) == expected(rows())
    dictionary = table().set_column(4, "arm", table()["arm"].dictionary_encode())
    assert found(read_log(dictionary)) == expected(rows())
    views = table().cast(
        pa.schema([field.with_type(pa.string_view()) if field.type == "string" else field for field in table().schema])
    )
    assert found(read_log(views)) == expected(rows())
    indexed = table().append_column("__index_level_0__", pa.array(range(50)))
    assert "__index_level_0__" not in next(iter(read_log(indexed))).contexts


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_pandas_and_polars(library):
    frames = pytest.importorskip(library, reason=f"{library} is not installed")
    frame = frames.DataFrame(rows())
    assert found(read_log(frame)) == expected(rows())


def test_ids_may_be_numbers():
    whole = table(arms=[[7, 8]] * 50, arm=[7.0] * 50)
    log = read_log(whole, items={"id": ["8", "7"], "price": [1.0, 2.0]})
    log.check()
    assert log.arms.ids == ["8", "7"]
    assert not log.report.noted


def test_obp():
    rng = np.random.default_rng(0)
    feedback = {
        "n_rounds": 30,
        "n_actions": 4,
        "context": rng.normal(size=(30, 3)),
        "action": rng.integers(4, size=30),
        "position": None,
        "reward": rng.random(30),
        "pscore": rng.random(30),
        "action_context": rng.normal(size=(4, 2)),
        "pi_b": None,
    }
    log = read_log(feedback, batch_rows=8)
    events = list(log.events())
    assert [len(part) for part in events] == [8, 8, 8, 6]
    np.testing.assert_array_equal(np.concatenate([part.shown for part in events]), feedback["action"])
    np.testing.assert_array_equal(np.concatenate([part.propensities for part in events]), feedback["pscore"])
    np.testing.assert_array_equal(events[1].pool(3), feedback["action_context"])
    np.testing.assert_array_equal(np.array(next(iter(log)).contexts["context"]), feedback["context"][:8])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": [1.0]}, "reward, got"),
        ({"n_actions": 0}, "at least one"),
        ({"n_actions": "four"}, "whole numbers"),
        ({"action_context": [[1.0]]}, "action_context"),
        ({"context": "words"}, "context"),
    ],
)
def test_obp_that_does_not_fit(change, message):
    feedback = {"n_rounds": 2, "n_actions": 3, "action": [0, 1], "reward": [1, 0], "pscore": [0.5, 0.5]}
    assert read_log(feedback).check().events == 2
    with pytest.raises(ValueError, match=message):
        read_log(feedback | change).check()


def test_coba():
    interactions = [
        {
            "context": {"device": row["device"], "age": row["age"]},
            "action": row["arm"],
            "reward": row["reward"],
            "probability": row["propensity"],
            "actions": row["arms"],
        }
        for row in rows()
    ]

    class Environment:
        def read(self):
            yield from interactions

    for source in (interactions, Environment()):
        log = read_log(source)
        assert [one[2:] for one in found(log)] == [one[2:] for one in expected(rows())]
    batch = next(iter(log))
    assert batch.contexts["age"].tolist() == [row["age"] for row in rows()]
    vectors = [{"context": (1, 2), "action": (1, 0), "reward": 1, "probability": 0.5, "actions": [(1, 0), (0, 1)]}]
    log = read_log(vectors)
    (batch,) = log
    assert log.arms.columns() == {"action": [[1.0, 0.0], [0.0, 1.0]]}
    assert batch.contexts == {"context": [[1.0, 2.0]]}


def test_a_generator_cannot_be_read_twice_and_is_refused():
    with pytest.raises(ValueError, match="got generator"):
        read_log(row for row in rows())


def test_an_encoder_crosses_context_and_arms():
    items = {"id": ["pot", "mug", "tea", "cup"], "price": [20.0, 6.0, 3.0, 8.0]}
    log = read_log(table(), items=items, batch_rows=20)
    price = dict(zip(items["id"], items["price"], strict=True))
    at = 0
    for events in log.events(Crossed()):
        for event in range(len(events)):
            row = rows()[at]
            want = [[price[arm], row["age"], price[arm] * row["age"]] for arm in row["arms"]]
            np.testing.assert_array_equal(events.pool(event), want)
            assert row["arms"][events.shown[event]] == row["arm"]
            at += 1
    assert at == 50


def test_columns_that_a_batch_lacks_are_missing_in_it(tmp_path):
    made = rows(6)
    for row in made[3:]:
        del row["device"]
    write_lines(tmp_path / "log.ndjson", made)
    seen = []

    class Watch:
        def encode_many(self, contexts, arms, owners, members):
            seen.append(list(contexts["device"]))
            return np.ones((len(members), 1))

    list(read_log(tmp_path / "log.ndjson", batch_rows=3).events(Watch()))
    assert seen == [[row["device"] for row in made[:3]], [None] * 3]


def test_features_in_the_log_need_no_encoder(tmp_path):
    made = [{**row, "features": [[float(len(arm)), 1.0] for arm in row["arms"]]} for row in rows()]
    write_lines(tmp_path / "log.ndjson", made)
    events = list(read_log(tmp_path / "log.ndjson").events())
    assert events[0].dim == 2
    np.testing.assert_array_equal(events[0].pool(3), made[3]["features"])
    with pytest.raises(ValueError, match="pass an encoder"):
        next(read_log(table()).events())


def test_records_are_the_first_decisions_as_dictionaries():
    log = read_log(table(), items={"id": ["pot", "mug", "tea", "cup"], "price": [20.0, 6.0, 3.0, 8.0]}, batch_rows=4)
    records = log.records(6)
    assert len(records) == 6
    context, arms = records[5]
    row = rows()[5]
    assert context == {"device": row["device"], "age": row["age"]}
    assert [arm["price"] for arm in arms] == [{"tea": 3.0, "cup": 8.0, "pot": 20.0, "mug": 6.0}[a] for a in row["arms"]]
    assert len(log.records(1000)) == 50


def test_batches_are_read_as_they_are_used(tmp_path):
    """A file is never in memory whole: batches are as small as asked for, and the first needs only the first rows."""
    pq.write_table(table(), tmp_path / "log.parquet", row_group_size=10)
    log = read_log(tmp_path / "log.parquet", batch_rows=5)
    reading = iter(log)
    assert len(next(reading)) == 5
    assert log.report.lines == 5
    assert [len(batch) for batch in log] == [5] * 10
