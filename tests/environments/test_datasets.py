"""Checks of data sets: what is missing, broken or different is said, with file and line; nothing else stops them."""

import os

import numpy as np
import pytest

from driftbandit.environments.datasets import DATA_SETS, check_tables, locate, present
from driftbandit.environments.tables import read_numbers

HEADER = "userID\tartistID\ttagID\tday\tmonth\tyear\n"
ROW = "2\t52\t13\t1\t4\t2009\n"
COLUMNS = tuple(HEADER.split())


def by_file(name, folder):
    return {found.file: found for found in check_tables(DATA_SETS[name], folder)}


def test_a_good_copy_that_differs_in_its_counts_has_remarks_and_no_problems(tiny_data):
    found = by_file("lastfm", tiny_data / "lastfm")
    assert [file.problem for file in found.values()] == ["", "", ""]
    rows = found["user_taggedartists.dat"].rows
    assert found["user_taggedartists.dat"].remark == f"{rows:,} rows, officially 186,479"
    assert found["user_friends.dat"].remark == "132 rows, officially 25,434"
    assert found["user_clusters_200.tsv"].remark == ""
    found = by_file("delicious", tiny_data / "delicious")
    assert found["user_taggedbookmarks-timestamps.dat"].remark == f"{rows:,} rows, officially 437,593"
    assert found["bookmark_tags.dat"].remark == "", "the readme does not count it"
    assert found["user_contacts.dat"].remark == "132 rows, officially 15,328"


def test_the_official_counts_are_those_of_the_readmes():
    counts = {file.name: file.rows for name in ("lastfm", "delicious") for file in DATA_SETS[name].files}
    assert counts == {
        "user_taggedartists.dat": 186_479,
        "user_friends.dat": 25_434,
        "user_clusters_200.tsv": None,
        "user_taggedbookmarks-timestamps.dat": 437_593,
        "bookmark_tags.dat": None,
        "user_contacts.dat": 15_328,
    }


def test_the_official_count_gives_no_remark(tmp_path):
    rows = "".join(f"{k}\t{k + 1}\n" for k in range(25_434))
    (tmp_path / "user_friends.dat").write_text("userID\tfriendID\n" + rows)
    assert by_file("lastfm", tmp_path)["user_friends.dat"].remark == ""


def test_missing_files_are_problems_unless_something_else_will_do(tiny_data):
    folder = tiny_data / "lastfm"
    (folder / "user_friends.dat").unlink()
    assert by_file("lastfm", folder)["user_friends.dat"].remark.startswith("missing, but user_clusters_200.tsv")
    (folder / "user_clusters_200.tsv").unlink()
    found = by_file("lastfm", folder)
    assert found["user_friends.dat"].problem == "missing"
    assert "needed only for" in found["user_clusters_200.tsv"].remark
    (tiny_data / "delicious" / "user_contacts.dat").unlink()
    assert by_file("delicious", tiny_data / "delicious")["user_contacts.dat"].problem == ""


def test_a_file_that_breaks_off_is_remarked_on(tmp_path):
    for content, remark in [(HEADER + ROW, False), (HEADER + ROW[:-1], True), (HEADER + ROW[:-2], True)]:
        (tmp_path / "user_taggedartists.dat").write_text(content)
        found = by_file("lastfm", tmp_path)["user_taggedartists.dat"]
        assert found.rows == 1
        assert ("may be cut off" in found.remark) == remark


HOSTILE = [
    ("", "expected a header line, got an empty file"),
    ("\n", "expected a header line, got an empty file"),
    (HEADER, "expected rows below the header, got none"),
    (HEADER + ROW + "2\t52\t13", "line 3: expected 6 columns, got 3"),
    (HEADER + ROW + "2\t52\t13\t1\t4\t2009\t7\n", "line 3: expected 6 columns, got 7"),
    (HEADER + ROW + HEADER + ROW, "line 3: userID: expected a whole number, got 'userID'"),
    (HEADER.replace("tagID", "userID") + ROW, "line 1: expected the columns .*; tagID missing"),
    (HEADER.replace("tagID", "tagID\tuserID") + "1\t" + ROW, "line 1: expected each column once, got userID"),
    (HEADER + ROW * 3 + ROW.replace("52", "NaN"), "line 5: artistID: expected a whole number, got 'NaN'"),
    (HEADER + ROW + ROW.replace("52", "nan"), "line 3: artistID: expected a whole number, got 'nan'"),
    (HEADER + ROW + ROW.replace("52", ""), "line 3: artistID: expected a whole number, got nothing"),
    (HEADER + ROW + "\n\n" + ROW.replace("52", "NULL"), "line 5: artistID: expected a whole number, got 'NULL'"),
    (HEADER + ROW + ROW.replace("52", "1_000"), "line 3: artistID: expected a whole number, got '1_000'"),
    (HEADER + ROW + ROW.replace("52", "5e1"), "line 3: artistID: expected a whole number, got '5e1'"),
    (HEADER + ROW + ROW.replace("52", "9" * 19), "line 3: artistID: expected a number of at most 64 bits"),
    (HEADER + ROW + ROW.replace("52", "9" * 5000), "line 3: artistID: .* at most 64 bits, got '9{40}...'"),
    (HEADER + ROW + ROW.replace("52", "Sigur Rós"), "line 3: artistID: expected a whole number, got 'Sigur"),
    ("\ufeff" + HEADER + ROW, "line 1: expected the columns .*; userID missing"),
    (HEADER.replace("\t", ",") + ROW.replace("\t", ","), "line 1: expected the columns"),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_hostile_tables_are_refused_with_file_and_line(tmp_path, content, message, encoding):
    path = tmp_path / "user_taggedartists.dat"
    path.write_bytes(content.encode(encoding, errors="replace"))
    with pytest.raises(ValueError, match=message) as caught:
        read_numbers(path, COLUMNS)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    problem = by_file("lastfm", tmp_path)["user_taggedartists.dat"].problem
    assert problem
    assert str(path) not in problem, "the file is named already"


def test_a_table_in_which_encodings_mix_is_read(tmp_path):
    path = tmp_path / "mixed.dat"
    rows = ["8\t1\tcafé".encode(), "9\t2\tcafé".encode("latin-1"), b"10\t3\t\xff\xfe\x00"]
    path.write_bytes(b"userID\tcontactID\tname\n" + b"\r\n".join(rows) + b"\r\n")
    table = read_numbers(path, ("userID", "contactID"), lenient=True)
    assert {name: column.tolist() for name, column in table.items()} == {"userID": [8, 9, 10], "contactID": [1, 2, 3]}


@pytest.mark.parametrize("seed", range(30))
def test_random_damage_gives_a_table_or_one_line(tmp_path, seed):
    rng = np.random.default_rng(seed)
    content = bytearray((HEADER + ROW * 20).encode())
    for _ in range(rng.integers(1, 6)):
        content[rng.integers(len(content))] = rng.integers(256)
    path = tmp_path / "user_taggedartists.dat"
    path.write_bytes(content[: rng.integers(1, len(content))])
    found = by_file("lastfm", tmp_path)["user_taggedartists.dat"]
    assert (found.rows is None) == bool(found.problem)
    assert "\n" not in found.problem


def test_folders_and_missing_and_unreadable_files(tmp_path, monkeypatch):
    (tmp_path / "user_taggedartists.dat").mkdir()
    assert by_file("lastfm", tmp_path)["user_taggedartists.dat"].problem == "expected a file, got a folder"
    with pytest.raises(FileNotFoundError, match="lastfm: no data in"):
        locate("lastfm", tmp_path / "nowhere")
    os.symlink(tmp_path / "nothing", tmp_path / "user_friends.dat")
    assert by_file("lastfm", tmp_path)["user_friends.dat"].problem == "missing"


def test_the_folder_given_may_be_that_of_all_or_its_own(tiny_data, tmp_path, monkeypatch):
    assert locate("lastfm", tiny_data) == locate("lastfm", tiny_data / "lastfm") == tiny_data / "lastfm"
    with pytest.raises(FileNotFoundError, match=r"no data in .*/delicious/lastfm"):
        locate("lastfm", tiny_data / "delicious")
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tiny_data))
    assert locate("delicious") == tiny_data / "delicious"
    (tmp_path / "ydata-fp-td-clicks-v1_0.20090501.gz").touch()
    (tmp_path / "other").touch()
    assert locate("yahoo", tmp_path) == tmp_path
    assert present("yahoo", tmp_path) == ["ydata-fp-td-clicks-v1_0.20090501.gz"]


@pytest.mark.parametrize("name", DATA_SETS)
def test_source_and_terms_are_known(name):
    data_set = DATA_SETS[name]
    assert data_set.source.startswith("https://")
    assert data_set.terms
    assert bool(data_set.archive) == (name != "yahoo"), "what may not be passed on has no address"
    assert data_set.archive == "" or data_set.archive.startswith("https://files.grouplens.org/")
