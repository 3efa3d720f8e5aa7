"""Files that are broken, odd or huge: a clear message, nothing else."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftbandit.logs import read_log
from driftbandit.logs.sources import lines, tables

from .made import rows, table

HEADER = "time,arms,arm,propensity,reward,device\n"
GOOD = "1,a|b,a,0.5,1,phone\n"


def csv_file(folder, text, name="log.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_parquet_that_breaks_off(tmp_path):
    pq.write_table(table(), tmp_path / "whole.parquet")
    body = (tmp_path / "whole.parquet").read_bytes()
    for size in (0, 1, 4, 100, len(body) // 2, len(body) - 1):
        (tmp_path / "log.parquet").write_bytes(body[:size])
        with pytest.raises(ValueError, match=r"log\.parquet: cannot be read"):
            read_log(tmp_path / "log.parquet")


def test_parquet_that_is_damaged_in_the_middle(tmp_path):
    """Without checksums some damage is only other data; anything that is noticed must be a ValueError."""
    pq.write_table(table(2000), tmp_path / "whole.parquet", compression="snappy", write_page_checksum=True)
    body = bytearray((tmp_path / "whole.parquet").read_bytes())
    noticed = 0
    for at in range(200, len(body) - 4000, len(body) // 20):
        broken = bytearray(body)
        broken[at : at + 40] = bytes(40)
        (tmp_path / "log.parquet").write_bytes(broken)
        try:
            read_log(tmp_path / "log.parquet").check()
        except ValueError as error:
            noticed += "log.parquet" in str(error)
    assert noticed > 0


def test_one_bad_file_in_a_folder_is_named_before_anything_is_read(tmp_path):
    for part in range(3):
        pq.write_table(table(), tmp_path / f"{part}.parquet")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"1\.parquet: cannot be read"):
        read_log(tmp_path)


def test_files_that_are_missing_empty_or_of_no_known_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv: no such file or folder"):
        read_log(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="the folder is empty"):
        read_log(tmp_path)
    for name in ("log.csv", "log.ndjson", "log.parquet", "log.csv.gz"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=name):
            read_log(tmp_path / name)
    with pytest.raises(ValueError, match="all of one format"):
        read_log(tmp_path)
    (tmp_path / "log.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"log\.xlsx: expected names that end in \.csv"):
        read_log(tmp_path / "log.xlsx")
    with pytest.raises(ValueError, match="format: expected csv, tsv, parquet, json or r6a, got 'excel'"):
        read_log(tmp_path / "log.xlsx", format="excel")
    with pytest.raises(ValueError, match="no decision can be used"):
        read_log(csv_file(tmp_path, HEADER)).check()


def test_lines_of_csv_with_too_few_or_too_many_columns(tmp_path):
    text = HEADER + GOOD + "1,a|b\n" + GOOD + "\n" + GOOD.strip() + ",more\n" + GOOD
    log = read_log(csv_file(tmp_path, text))
    assert [row for batch in log for row in batch.rows.tolist()] == [0, 2, 5]
    report = log.report
    assert report.skipped == {"wrong number of columns": 2, "time missing": 1}
    assert [line for _, line in report.examples["wrong number of columns"]] == [3, 6]
    assert [line for _, line in report.examples["time missing"]] == [5]
    assert report.lines == 6


def test_refused_lines_keep_their_numbers_across_blocks_and_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 256)
    good = [GOOD] * 200
    good[17] = good[150] = "1,2\n"
    good[199] = "3\n"
    for name in ("a.csv", "b.csv"):
        csv_file(tmp_path, HEADER + "".join(good), name)
    log = read_log(tmp_path, batch_rows=3)
    kept = [row for batch in log for row in batch.rows.tolist()]
    assert kept == [row for row in range(400) if row % 200 not in (17, 150, 199)]
    assert [line for _, line in log.report.examples["wrong number of columns"]] == [19, 152, 201, 19, 152]
    assert log.report.lines == 400


def test_other_encodings(tmp_path):
    text = HEADER + GOOD + GOOD.replace("phone", "Müller") + GOOD.replace("a|b,a", "ä|b,ä")
    assert read_log(csv_file(tmp_path, text)).check().events == 3
    assert read_log(csv_file(tmp_path, text.encode("utf-8-sig"))).check().events == 3
    report = read_log(csv_file(tmp_path, text.encode("latin-1"))).check()
    assert report.events == 2
    assert report.noted == {"context 'device' is not UTF-8 and counts as missing": 1}
    assert report.skipped == {"pool not readable": 1}
    with pytest.raises(ValueError, match="expected UTF-8, got UTF-16"):
        read_log(csv_file(tmp_path, text.encode("utf-16")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the file is empty"),
        (b"id,name\n1,M\xfcller\n", "expected UTF-8, got something else in column 'name'"),
        (b"id,name\n1\n", "wrong number of columns in line 2"),
        ("id,name\n".encode("utf-16"), "expected UTF-8, got UTF-16"),
    ],
)
def test_item_tables_that_are_broken(tmp_path, body, message):
    (tmp_path / "items.csv").write_bytes(body)
    with pytest.raises(ValueError, match=rf"items\.csv.*{message}"):
        read_log(table(), items=tmp_path / "items.csv")


def test_bytes_that_are_zero(tmp_path):
    log = read_log(csv_file(tmp_path, HEADER + GOOD + GOOD.replace("phone", "ph\0ne") + "\0\0\0\n"))
    (batch,) = log
    assert batch.contexts["device"].tolist() == ["phone", "ph\0ne"]
    assert log.report.skipped == {"wrong number of columns": 1}


def test_quoted_fields_may_have_commas_and_line_ends(tmp_path):
    log = read_log(csv_file(tmp_path, HEADER + GOOD.replace("phone", '"a, ""b""\nc"') + GOOD))
    (batch,) = log
    assert batch.contexts["device"].tolist() == ['a, "b"\nc', "phone"]


def test_a_quote_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK", 256)
    path = csv_file(tmp_path, HEADER + GOOD.replace("phone", '"phone') + GOOD * 100)
    with pytest.raises(ValueError, match=r"log\.csv"):
        read_log(path).check()


def test_two_columns_of_one_name(tmp_path):
    with pytest.raises(ValueError, match="'arm' twice"):
        read_log(csv_file(tmp_path, "arm,arm,reward\na,b,1\n"))


def test_a_number_that_turns_into_a_word_is_missing_and_noted(tmp_path):
    header = HEADER.replace("device", "age")
    text = header + GOOD.replace("phone", "30") + GOOD.replace("phone", "") + GOOD.replace("phone", "old")
    log = read_log(csv_file(tmp_path, text), batch_rows=2)
    ages = np.concatenate([batch.contexts["age"] for batch in log])
    np.testing.assert_array_equal(ages, [30.0, np.nan, np.nan])
    assert log.report.noted == {"context 'age' is not a number and counts as missing": 1}


def test_lines_of_json_that_are_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    good = [json.dumps(row).encode() for row in rows(4)]
    bad = [b"{", b"", b"[1]", b"\xff", b'"' + b"x" * 5000 + b'"', b"[" * 900, b"null"]
    (tmp_path / "log.ndjson").write_bytes(b"\n".join([good[0], *bad, *good[1:]]))
    log = read_log(tmp_path / "log.ndjson")
    assert [row for batch in log for row in batch.rows.tolist()] == [0, 8, 9, 10]
    assert log.report.skipped == {
        "not JSON": 2,
        "empty line": 1,
        "not a JSON object": 2,
        "not UTF-8": 1,
        "line too long": 1,
    }
    assert log.report.examples["not UTF-8"] == [(str(tmp_path / "log.ndjson"), 5)]


def test_packed_files_that_break_off(tmp_path):
    import gzip

    body = gzip.compress("".join(json.dumps(row) + "\n" for row in rows(500)).encode())
    (tmp_path / "log.ndjson.gz").write_bytes(body[: len(body) // 2])
    with pytest.raises(ValueError, match=r"log\.ndjson\.gz: cannot be read"):
        read_log(tmp_path / "log.ndjson.gz").check()


def test_very_many_different_values(tmp_path):
    """Every row has an id and a category of its own, and every arm is another one."""
    count = 60_000
    names = [f"item {number}" for number in range(count)]
    made = pa.table(
        {
            "arms": pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(names)),
            "arm": names,
            "scope": names,
            "word": names,
            "propensity": np.ones(count),
            "reward": np.ones(count),
        }
    )
    log = read_log(made)
    assert log.check().events == count
    assert (len(log.arms), len(log.scopes)) == (count, count)


TEXT = st.text(st.characters(blacklist_categories=()), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["time", "scope", "decision", "arms", "arm", "propensity", "reward", "features", "x", "c", "kind", "_labelIndex"]
)


def consume(source, **options):
    """Read all there is; a refusal must be a ValueError with a message."""
    try:
        log = read_log(source, **options)
        for batch in log:
            assert len(batch) == len(batch.rewards) > 0
            assert np.isfinite(batch.rewards).all()
            assert ((batch.propensities > 0) & (batch.propensities <= 1)).all()
            assert all(len(values) == len(batch) for values in batch.contexts.values())
        assert log.report.lines == log.report.events + sum(log.report.skipped.values())
    except (ValueError, FileNotFoundError) as error:
        if not str(error):
            raise AssertionError("a refusal without a message") from error


QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(
    st.lists(st.dictionaries(NAMES, VALUES, max_size=8), max_size=4), st.sampled_from([None, "uniform", "estimated"])
)
def test_no_record_of_json_does_worse_than_be_refused(tmp_path, records, logged):
    good = json.dumps({"time": 1, "arms": ["a"], "arm": "a", "propensity": 1, "reward": 1}) + "\n"
    path = tmp_path / "log.ndjson"
    path.write_text(good + "".join(json.dumps(record) + "\n" for record in records))
    consume(path, logged=logged)


@QUICK
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["_label_cost", "_label_probability", "_label_Action", "_labelIndex", "Timestamp", "EventId", "p"]
            ),
            VALUES,
            max_size=6,
        ),
        max_size=3,
    ),
    VALUES,
    st.lists(VALUES, max_size=3),
)
def test_no_line_of_dsjson_does_worse_than_be_refused(tmp_path, records, shared, actions):
    path = tmp_path / "log.dsjson"
    context = shared if not isinstance(shared, dict) else {**shared, "_multi": actions}
    text = "".join(json.dumps({"_labelIndex": 0, **record, "c": context}) + "\n" for record in records)
    path.write_text(text)
    consume(path)


@QUICK
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "seq",
                "shard",
                "time",
                "version",
                "config",
                "ids",
                "features",
                "id",
                "scope",
                "arms",
                "arm",
                "propensity",
                "expires",
                "value",
            ]
        ),
        VALUES,
        max_size=14,
    ),
    st.sampled_from(["config", "arms", "decision", "reward", "tick"]),
)
def test_no_event_of_the_service_does_worse_than_be_refused(tmp_path, event, kind):
    path = tmp_path / "log.ndjson"
    path.write_text(json.dumps({"seq": 1, "loop": "x", "shard": 0, **event, "kind": kind}) + "\n")
    consume(path)


@QUICK
@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "parquet", "json", "r6a"]))
def test_no_bytes_do_worse_than_be_refused(tmp_path, body, kind):
    path = tmp_path / "log"
    path.write_bytes(body)
    consume(path, format=kind, logged="uniform", items={"id": ["a"]})
    if kind == "csv":
        path.write_bytes(HEADER.encode() + GOOD.encode() + body)
        consume(path, format=kind)


@QUICK
@given(st.dictionaries(NAMES, st.lists(VALUES, min_size=2, max_size=2), max_size=8))
def test_no_table_does_worse_than_be_refused(columns):
    made = pa.table({name: lines.column(values) for name, values in columns.items()})
    consume(made)
    consume(made, items={"id": ["a"]}, logged="uniform")


@QUICK
@given(
    VALUES
    | st.lists(
        st.dictionaries(st.sampled_from(["context", "action", "reward", "probability", "actions"]), VALUES, max_size=5),
        max_size=3,
    )
)
def test_no_object_does_worse_than_be_refused(source):
    if isinstance(source, str):
        source = (
            str(Path("/nowhere") / source.replace("\0", "").replace("/", "")) if source.isprintable() else "nowhere"
        )
    consume(source)
    consume({"n_rounds": 2, "n_actions": 2, "action": source, "reward": [0, 1]}, logged="uniform")


def test_actions_that_are_no_list_make_an_empty_pool():
    good = {"action": "a", "reward": 1.0, "probability": 0.5, "actions": ["a", "b"]}
    log = read_log([good, {**good, "actions": True}, {**good, "actions": 3}])
    assert log.check().skipped == {"pool empty": 2}
