"""Logs: what goes in comes out, on disk too, and nothing wrong goes in."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftbandit.environments.log import VERSION, Log, note_of

GOOD = {
    "articles": np.array([101, 102, 103]),
    "features": np.array([[1.0, 0.5], [1.0, -2.0], [1.0, 0.25]]),
    "pool_offsets": np.array([0, 2, 5]),
    "pool_members": np.array([0, 1, 2, 0, 1], dtype=np.int32),
    "times": np.array([60, 61, 61, 70]),
    "pools": np.array([0, 1, 1, 0], dtype=np.int32),
    "shown": np.array([1, 0, 2, 0], dtype=np.int32),
    "rewards": np.array([0.0, 1.0, 0.0, 1.0]),
    "users": np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9], [1.0, 1.1, 1.2]]),
}
EVENTS = ("times", "pools", "shown", "rewards", "users")


def log(**overrides):
    return Log(**{**GOOD, **overrides})


def assert_equal(one, other):
    for field in fields(Log):
        a, b = np.asarray(getattr(one, field.name)), np.asarray(getattr(other, field.name))
        assert a.dtype == b.dtype, field.name
        np.testing.assert_array_equal(a, b, err_msg=field.name)


def test_candidates_and_displayed_articles_by_hand():
    made = log()
    assert (len(made), made.dim, made.user_dim) == (4, 2, 3)
    assert [made.candidates(event).tolist() for event in range(4)] == [[0, 1], [2, 0, 1], [2, 0, 1], [0, 1]]
    assert made.displayed().tolist() == [1, 2, 1, 0]
    with pytest.raises(IndexError):
        made.candidates(4)


def test_arrays_get_the_documented_types_from_plain_lists():
    made = Log(**{name: array.tolist() for name, array in GOOD.items()})
    assert_equal(made, log())
    wide = log(pools=np.array([0, 1, 1, 0], dtype=np.uint64), rewards=np.array([False, True, False, True]))
    assert_equal(wide, log())


def test_nothing_can_be_written_to_and_the_callers_arrays_stay_their_own():
    rewards = GOOD["rewards"].copy()
    made = log(rewards=rewards)
    for name in GOOD:
        assert not getattr(made, name).flags.writeable, name
    assert rewards.flags.writeable
    with pytest.raises(FrozenInstanceError):
        made.rewards = rewards


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (2, 2), (-2, 4), (3, 99), (3, 1)])
def test_a_slice_has_pythons_meaning_and_shares_memory(start, stop):
    made = log()
    part = made.slice(start, stop)
    assert len(part) == len(range(4)[start:stop])
    for name in EVENTS:
        np.testing.assert_array_equal(getattr(part, name), getattr(made, name)[start:stop])
    for event in range(len(part)):
        np.testing.assert_array_equal(part.candidates(event), made.candidates(range(4)[start:stop][event]))
    if len(part):
        assert np.shares_memory(part.users, made.users)
    assert_equal(Log(**{field.name: getattr(part, field.name) for field in fields(Log)}), part)


def test_an_empty_log_is_a_log(tmp_path):
    empty = Log([], np.empty((0, 6)), [0], [], [], [], [], [], np.empty((0, 6)))
    assert len(empty) == 0
    empty.save(tmp_path / "log.arrow")
    assert_equal(Log.load(tmp_path / "log.arrow"), empty)


BAD = [
    ("articles", [101, 101, 103], "articles: expected different ids"),
    ("articles", [101.5, 102, 103], "articles: expected whole numbers"),
    ("articles", [[101, 102, 103]], r"articles: expected shape \(n,\), got \(1, 3\)"),
    ("features", GOOD["features"][:2], "features: expected one row for each of 3 articles, got 2"),
    ("features", [[1.0], [np.nan], [2.0]], "features: expected finite"),
    ("features", [1.0, 2.0, 3.0], r"features: expected shape \(n, d\)"),
    ("features", np.empty((3, 0)), r"features: expected shape \(n, d\)"),
    ("features", [[1.0], [1.0, 2.0], [3.0]], "features: expected shape .* unequal length"),
    ("features", [["a"], ["b"], ["c"]], "features: expected real numbers"),
    ("pool_offsets", [], "pool_offsets: expected numbers that rise from 0 to 5"),
    ("pool_offsets", [1, 2, 5], "pool_offsets"),
    ("pool_offsets", [0, 2, 4], "pool_offsets"),
    ("pool_offsets", [0, 2, 2, 5], "pool_offsets"),
    ("pool_offsets", [0, 6, 5], "pool_offsets"),
    ("pool_members", [0, 1, 2, 0, 3], "pool_members: expected rows of 3 articles, got 0 to 3"),
    ("pool_members", [0, 1, 2, 0, -1], "pool_members: expected rows"),
    ("pool_members", [0, 1, 2, 0, 2], "pool_members: expected different articles in a pool"),
    ("times", [1, 2, 3], "pools: expected one for each of 3 times, got 4"),
    ("times", np.array([1, 2, 3, 2**63], dtype=np.uint64), "times: expected numbers that fit int64"),
    ("pools", [0, 1, 2, 0], "pools: expected rows of 2 candidate sets, got 0 to 2"),
    ("pools", [0, 1, -1, 0], "pools: expected rows of 2 candidate sets"),
    ("pools", [0, 1, 2**31, 0], "pools: expected numbers that fit int32"),
    ("shown", [1, 0, 2, 2], "shown: expected a position among 2 candidates, got 2 at 3"),
    ("shown", [1, -1, 2, 0], "shown: expected a position among 3 candidates, got -1 at 1"),
    ("shown", [1, 0, 2], "shown: expected one for each of 4 times, got 3"),
    ("rewards", [0.0, 1.0, np.inf, 0.0], "rewards: expected finite"),
    ("rewards", None, r"rewards: expected shape \(n,\), got \(\)"),
    ("users", GOOD["users"][:3], "users: expected one for each of 4 times, got 3"),
    ("users", np.full((4, 2), np.nan), "users: expected finite"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_arrays_are_refused_by_name(name, value, message):
    with pytest.raises(ValueError, match=message):
        log(**{name: value})


def test_save_and_load_give_the_same_arrays_back(tmp_path):
    made = log()
    made.save(tmp_path / "deep" / "log.arrow")
    assert_equal(Log.load(tmp_path / "deep" / "log.arrow"), made)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["log.arrow"]


def test_a_slice_can_be_saved(tmp_path):
    made = log().slice(1, 3)
    made.save(tmp_path / "log.arrow")
    assert_equal(Log.load(tmp_path / "log.arrow"), made)


def test_loading_copies_nothing(tmp_path):
    import pyarrow as pa

    events = 10_000
    log(
        times=np.arange(events),
        pools=np.zeros(events, dtype=int),
        shown=np.zeros(events, dtype=int),
        rewards=np.ones(events),
        users=np.ones((events, 3)),
    ).save(tmp_path / "log.arrow")
    before = pa.total_allocated_bytes()
    loaded = Log.load(tmp_path / "log.arrow")
    assert pa.total_allocated_bytes() == before
    for name in GOOD:
        array = getattr(loaded, name)
        assert array.flags.aligned
        assert not array.flags.owndata, name


def test_a_save_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    target = tmp_path / "log.arrow"
    log().save(target)
    before = target.read_bytes()

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        log(rewards=np.zeros(4)).save(target)
    assert target.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["log.arrow"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        Log.load(tmp_path / "absent.arrow")


def test_a_folder_and_files_of_other_kinds_are_refused(tmp_path):
    import pyarrow as pa

    with pytest.raises(ValueError, match=f"{tmp_path}: not a driftbandit log"):
        Log.load(tmp_path)
    file = tmp_path / "other"
    for content in (b"", b"ARROW1", b"1241160900 109513 0 |user\n", bytes(1000)):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="other: not a driftbandit log"):
            Log.load(file)
    names = [field.name for field in fields(Log)]
    rows = ([1], [[1], [2]], [["x"]], [None])
    for table in [pa.table({"a": [1]}), *(pa.table(dict.fromkeys(names, column)) for column in rows)]:
        write_arrow(file, table.replace_schema_metadata({"driftbandit log": str(VERSION)}))
        with pytest.raises(ValueError, match="other: not a driftbandit log") as caught:
            Log.load(file)
        assert "version" not in str(caught.value), "refused for what is in it"


def write_arrow(path, table):
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("metadata", "found"), [({"driftbandit log": "2"}, "2"), ({"driftbandit log": b"\xff"}, "."), ({}, "none")]
)
def test_other_versions_are_refused_with_both_numbers(tmp_path, metadata, found):
    import pyarrow as pa

    log().save(tmp_path / "log.arrow")
    with pa.ipc.open_file(str(tmp_path / "log.arrow")) as reader:
        table = reader.read_all()
    write_arrow(tmp_path / "other", table.replace_schema_metadata(metadata))
    with pytest.raises(ValueError, match=f"other: not a driftbandit log .expected version {VERSION} .* got {found};"):
        Log.load(tmp_path / "other")


@pytest.mark.parametrize(("name", "value"), [("rewards", np.nan), ("users", np.inf), ("features", np.nan)])
def test_a_saved_log_with_something_that_is_no_number_is_refused(tmp_path, name, value):
    made = log()
    spoiled = getattr(made, name).copy()
    spoiled.flat[0] = value
    object.__setattr__(made, name, spoiled)
    made.save(tmp_path / "other")
    with pytest.raises(ValueError, match=f"other: not a driftbandit log .{name}: expected finite values"):
        Log.load(tmp_path / "other")


def test_a_note_is_kept_on_it(tmp_path):
    log().save(tmp_path / "log.arrow", "näher erklärt")
    assert note_of(tmp_path / "log.arrow") == "näher erklärt"
    log().save(tmp_path / "log.arrow")
    assert note_of(tmp_path / "log.arrow") == ""
    (tmp_path / "other").write_bytes(b"no log")
    for wrong in ("other", "absent"):
        with pytest.raises(ValueError, match=f"{wrong}: not a driftbandit log"):
            note_of(tmp_path / wrong)


@pytest.mark.parametrize("name", ["pools", "users", "articles"])
def test_a_missing_renamed_or_additional_column_is_refused(tmp_path, name):
    import pyarrow as pa

    log().save(tmp_path / "log.arrow")
    with pa.ipc.open_file(str(tmp_path / "log.arrow")) as reader:
        table = reader.read_all()
    renamed = table.rename_columns([f"{column}_" if column == name else column for column in table.column_names])
    for wrong in (table.drop_columns([name]), renamed, table.append_column("more", table[name])):
        write_arrow(tmp_path / "other", wrong.replace_schema_metadata(table.schema.metadata))
        with pytest.raises(ValueError, match=r"other: not a driftbandit log .other columns than a log has"):
            Log.load(tmp_path / "other")


def test_no_truncated_file_loads(tmp_path):
    log().save(tmp_path / "log.arrow")
    content = (tmp_path / "log.arrow").read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(ValueError, match="cut: not a driftbandit log"):
            Log.load(tmp_path / "cut")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_damaged_file_is_refused_or_gives_a_log_that_can_be_walked(tmp_path, edits):
    good = tmp_path / "log.arrow"
    if not good.exists():
        log().save(good)
    content = bytearray(good.read_bytes())
    for place, byte in edits:
        content[int(place * len(content))] = byte
    (tmp_path / "damaged").write_bytes(content)
    try:
        loaded = Log.load(tmp_path / "damaged")
    except ValueError as error:
        assert "damaged: not a driftbandit log" in str(error)  # noqa: PT017
    else:
        for event in range(len(loaded)):
            assert loaded.candidates(event)[loaded.shown[event]] == loaded.displayed()[event]


def lives():
    """Three articles: 10 is a candidate from 100 to 400, 11 from 100 to 200, 12 from 300 on; 13 never."""
    return Log(
        articles=[10, 11, 12, 13],
        features=[[1.0], [2.0], [3.0], [4.0]],
        pool_offsets=[0, 2, 4, 5],
        pool_members=[1, 0, 0, 2, 2],
        times=[100, 200, 300, 400, 500, 600],
        pools=[0, 0, 1, 1, 2, 2],
        shown=[0, 1, 1, 0, 0, 0],
        rewards=[0, 1, 0, 1, 0, 1],
        users=np.arange(6.0)[:, None],
    )


def test_lifetimes_are_those_of_the_candidates():
    assert lives().lifetimes().tolist() == [300, 100, 300, 0]
    assert lives().slice(0, 0).lifetimes().tolist() == [0, 0, 0, 0]


def test_only_some_articles():
    log = lives()
    part = log.only(log.lifetimes() >= 300)
    assert part.articles.tolist() == [10, 12]
    assert [part.articles[part.candidates(event)].tolist() for event in range(len(part))] == [
        [10],
        [10, 12],
        [10, 12],
        [12],
        [12],
    ]
    assert part.articles[part.displayed()].tolist() == [10, 12, 10, 12, 12]
    assert part.times.tolist() == [200, 300, 400, 500, 600]
    assert part.rewards.tolist() == [1, 0, 1, 0, 1]
    assert part.users[:, 0].tolist() == [1, 2, 3, 4, 5]


def test_all_articles_or_none():
    log = lives()
    assert len(log.only(np.zeros(4, dtype=bool))) == 0
    whole = log.only(np.ones(4, dtype=bool))
    for name in ("articles", "pool_offsets", "pool_members", "pools", "shown", "times"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(log, name))


@pytest.mark.parametrize("keep", [np.ones(3, dtype=bool), np.ones(4), np.arange(4)])
def test_only_takes_one_truth_value_an_article(keep):
    with pytest.raises(ValueError, match="keep: expected 4 truth values"):
        lives().only(keep)
