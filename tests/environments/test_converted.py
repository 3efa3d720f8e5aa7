"""Converted data sets: the same arrays, only faster; never stale, never trusted when damaged, never in the way."""

import os
from dataclasses import fields

import numpy as np
import pytest

from driftbandit.environments.converted import Form, cache_folder, load_arrays, save_arrays
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_converted import convert_yahoo, form, open_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic

ARRAYS = {"a": np.arange(6), "b": np.linspace(0.0, 1.0, 4), "c": np.empty(0)}
TYPES = {"a": np.int64, "b": np.float64, "c": np.float64}


def make(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    return Form("set", folder, ("one", "two"), "svd-3", packages=("numpy",))


def test_arrays_come_back(tmp_path):
    save_arrays(tmp_path / "x", ARRAYS)
    for name, array in load_arrays(tmp_path / "x", TYPES).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype


def test_other_columns_types_rows_and_damage_are_refused(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "x"
    save_arrays(path, ARRAYS)
    good = parquet.read_table(path)
    for types in ({**TYPES, "a": np.float64}, {"a": np.int64}, {**TYPES, "d": np.int64}):
        with pytest.raises(ValueError, match="x: not a converted data set"):
            load_arrays(path, types)
    content = path.read_bytes()
    for length in range(0, len(content), 11):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="x: not a converted data set"):
            load_arrays(path, TYPES)
    for table in (pa.table({"a": [1]}), pa.concat_tables([good, good]), good.slice(0, 0)):
        parquet.write_table(table, path)
        with pytest.raises(ValueError, match="x: not a converted data set"):
            load_arrays(path, TYPES)


def test_any_change_of_a_source_is_another_file(tmp_path, no_data):
    kept = make(tmp_path / "data", "one", "two")
    names = [kept.file_name()]
    (kept.folder / "one").write_text("more than before")
    names.append(kept.file_name())
    os.utime(kept.folder / "two", ns=(10**18, 10**18))
    names.append(kept.file_name())
    (kept.folder / "two").unlink()
    names.append(kept.file_name())
    names.append(Form("set", kept.folder, ("one", "two"), "pca-3", packages=("numpy",)).file_name())
    names.append(Form("set", kept.folder, ("one", "two"), "svd-3", packages=("no-such-package",)).file_name())
    assert len(set(names)) == len(names)
    assert kept.file_name() == names[3]


def test_a_converted_file_is_found_until_its_sources_change_and_then_replaced(tmp_path, no_data):
    kept = make(tmp_path / "data", "one", "two")
    assert kept.find() is None
    first = kept.write(lambda path: path.write_text("converted"))
    assert kept.find() == first
    assert first.parent == kept.folder / ".driftbandit"
    (first.parent / "set-svd-3-notes.parquet").write_text("not ours to remove")
    (kept.folder / "one").write_text("changed")
    assert kept.find() is None
    second = kept.write(lambda path: path.write_text("again"))
    assert sorted(file.name for file in first.parent.iterdir()) == sorted([second.name, "set-svd-3-notes.parquet"])


def test_a_conversion_that_fails_leaves_nothing(tmp_path, no_data):
    kept = make(tmp_path / "data", "one", "two")

    def fail(path):
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        kept.write(fail)
    assert list((kept.folder / ".driftbandit").iterdir()) == []


def test_where_converted_files_go(tmp_path, no_data, monkeypatch):
    kept = make(tmp_path / "data", "one")
    assert cache_folder("set", kept.folder) == kept.folder / ".driftbandit"
    kept.folder.chmod(0o555)  # the superuser could write there all the same
    try:
        outside = kept.write(lambda path: path.write_text("converted"))
        assert outside.parent.parent == no_data / ".cache" / "driftbandit"
        assert kept.find() == outside
    finally:
        kept.folder.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert kept.find() is None
    chosen = kept.write(lambda path: path.write_text("converted"), tmp_path / "chosen")
    assert chosen.parent.parent == tmp_path / "chosen"
    assert kept.find() is None
    monkeypatch.setenv("DRIFTBANDIT_CACHE", str(tmp_path / "chosen"))
    assert kept.find() == chosen
    other = make(tmp_path / "other", "one")
    assert cache_folder("set", other.folder) != cache_folder("set", kept.folder), "copies do not share"


# LastFM and Delicious


@pytest.fixture
def readers():
    pytest.importorskip("sklearn", reason="needs the extra `data`")
    from driftbandit.environments import delicious, lastfm

    yield lastfm, delicious
    lastfm.load.cache_clear()
    delicious.load.cache_clear()


def assert_same(one, other):
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def refuse(*_, **__):
    raise AssertionError("the source was read")


@pytest.mark.parametrize("which", [0, 1])
def test_rounds_from_a_converted_file_are_the_same_and_no_source_is_read(tiny_data, readers, monkeypatch, which):
    module = readers[which]
    folder = tiny_data / ("lastfm", "delicious")[which]
    module.load.cache_clear()
    read = module.load(folder)
    read.convert(module.form(folder))
    module.load.cache_clear()
    monkeypatch.setattr(module, "read", refuse)
    again = module.load(folder)
    assert_same(again, read)
    assert again.features.flags.c_contiguous


def test_a_form_with_groups_serves_those_who_ask_for_none_but_not_the_other_way_round(tiny_data, readers, monkeypatch):
    delicious = readers[1]
    folder = tiny_data / "delicious"
    delicious.load.cache_clear()
    read = delicious.read(folder)
    read.convert(delicious.form(folder))
    monkeypatch.setattr(delicious, "read", refuse)
    with pytest.raises(AssertionError, match="the source was read"):
        delicious.load(folder, groups=True)
    delicious.load.cache_clear()
    for file in (folder / ".driftbandit").iterdir():
        file.unlink()
    read.convert(delicious.form(folder, groups=True))
    assert_same(delicious.load(folder), read)
    assert_same(delicious.load(folder, groups=True), read)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("items", lambda items: items + 1000),
        ("users", lambda users: users - 100),
        ("times", lambda times: times[:-1]),
        ("tagged_items", lambda items: items[:-1]),
        ("features", lambda features: np.where(features == features.max(), np.nan, features)),
        ("features", lambda features: features[:-1]),
        ("groups", lambda groups: groups[:1]),
    ],
)
def test_a_converted_file_that_makes_no_sense_is_not_used(tiny_data, readers, name, spoil):
    lastfm = readers[0]
    folder = tiny_data / "lastfm"
    lastfm.load.cache_clear()
    read = lastfm.read(folder)
    path = read.convert(lastfm.form(folder))
    arrays = {field.name: getattr(read, field.name) for field in fields(read)}
    save_arrays(path, {**arrays, name: spoil(arrays[name])})
    assert_same(lastfm.load(folder), read)


def test_a_damaged_converted_file_is_not_used_and_mended_by_the_next_conversion(tiny_data, readers):
    lastfm = readers[0]
    folder = tiny_data / "lastfm"
    lastfm.load.cache_clear()
    read = lastfm.read(folder)
    path = read.convert(lastfm.form(folder))
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2]):
        path.write_bytes(content)
        lastfm.load.cache_clear()
        assert_same(lastfm.load(folder), read)
    assert read.convert(lastfm.form(folder)) == path
    assert path.read_bytes() == whole


# Yahoo!


@pytest.fixture
def days(tmp_path, no_data):
    write_synthetic(
        tmp_path / "days", 600, days=2, candidates=4, blemishes={"empty line": 0.05, "changed features": 0.05}
    )
    return tmp_path / "days"


def test_a_converted_log_is_the_log_and_its_report(days, monkeypatch):
    log, report = read_yahoo(days)
    assert report.skipped
    assert report.noted
    path, said = convert_yahoo(days)
    assert said == report
    monkeypatch.setattr("driftbandit.environments.yahoo_converted.read_yahoo", refuse)
    again, told = open_yahoo(days)
    assert told == report
    assert_same(again, log)
    assert form(days).find() == path


def test_one_file_can_be_converted_too(days):
    file = next(file for file in sorted(days.iterdir()) if file.name.endswith("02"))
    path, report = convert_yahoo(file)
    assert len(open_yahoo(file)[0]) == report.events
    assert form(days).find() is None, "the folder is another source"
    assert path.exists()


def test_a_log_whose_days_change_is_read_again(days):
    convert_yahoo(days)
    file = sorted(days.glob("ydata*"))[0]
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:100]))
    assert form(days).find() is None
    assert open_yahoo(days)[1].lines == 400


def test_a_damaged_converted_log_or_report_is_not_used(days):
    path, report = convert_yahoo(days)
    content = path.read_bytes()
    for wrong in (b"", content[: len(content) // 2], b"ARROW1" + bytes(100)):
        path.write_bytes(wrong)
        assert open_yahoo(days)[1] == report
    log, _ = read_yahoo(days)
    for note in ("", "{}", "[]", "{", '{"examples": 3}', '{"examples": {"a": [[1]]}}'):
        log.save(path, note)
        assert open_yahoo(days)[1] == report
    assert len(Log.load(path)) == report.events
