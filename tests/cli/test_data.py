"""`driftbandit data`: what is there, what is wrong with it, converted once; fetched or made up where asked."""

import gzip
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit.cli import app
from driftbandit.environments import delicious, lastfm
from driftbandit.environments.datasets import DATA_SETS
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_converted import open_yahoo
from driftbandit.environments.yahoo_plan import Plan

PACKED = gzip.compress(b"a line\n" * 5000, mtime=0)
DAY = "ydata-fp-td-clicks-v1_0.20090501"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, no_data):
    """Commands run in an empty folder, in a home without data, with a terminal wide enough for their tables."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "200")
    yield
    lastfm.load.cache_clear()
    delicious.load.cache_clear()


def run(*args):
    return CliRunner().invoke(app, ["data", *(str(arg) for arg in args)])


def succeed(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result


def as_json(*args):
    result = succeed(*args, "--json")
    assert result.stderr == ""
    return json.loads(result.stdout)


def fail(*args):
    """The one line that a command says which fails."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit), "caught, not thrown at the user"
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr


# ---- the list -------------------------------------------------------------------------------------------------------


def test_without_a_name_all_are_listed_with_their_state(tiny_data):
    assert {name: facts["state"] for name, facts in as_json().items()} == dict.fromkeys(DATA_SETS, "not here")
    listed = as_json("--data", tiny_data)
    assert listed["lastfm"]["state"] == listed["delicious"]["state"] == "here, not converted"
    assert listed["lastfm"]["folder"] == str(tiny_data / "lastfm")
    succeed("lastfm", "--data", tiny_data)
    succeed("yahoo", "--synthetic", 50, "--out", tiny_data / "yahoo")
    (tiny_data / "delicious" / "bookmark_tags.dat").unlink()
    listed = as_json("--data", tiny_data)
    assert listed["lastfm"]["state"] == "here, converted"
    assert listed["delicious"]["state"] == "missing bookmark_tags.dat"
    assert listed["yahoo"]["state"] == "made up, 1 day file, not converted"


def test_the_list_says_where_data_comes_from_and_on_what_terms():
    stdout = succeed().stdout
    for words in ("grouplens.org", "non-commercial", "Webscope", "may not be passed on"):
        assert words in stdout


def test_the_variable_is_looked_at(tiny_data, monkeypatch):
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tiny_data))
    assert as_json("lastfm", "--no-convert")["folder"] == str(tiny_data / "lastfm")


# ---- LastFM and Delicious -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "module"), [("lastfm", lastfm), ("delicious", delicious)])
def test_a_copy_is_checked_and_converted_and_the_loader_uses_that(tiny_data, name, module, monkeypatch):
    facts = as_json(name, "--data", tiny_data)
    assert facts["terms"]
    assert Path(facts["converted"]["file"]).parent == tiny_data / name / ".driftbandit"
    assert all(file["rows"] > 0 for file in facts["files"].values())
    assert any("officially" in warning for warning in facts["warnings"])
    read = module.read(tiny_data / name)
    monkeypatch.setattr(module, "read", None)
    np.testing.assert_array_equal(module.load(tiny_data / name).features, read.features)


def test_words_name_both_counts_both_times_and_the_terms(tiny_data):
    stdout = " ".join(succeed("lastfm", "--data", tiny_data).stdout.split())
    assert "132 rows, officially 25,434" in stdout
    assert "Read from its own files in" in stdout
    assert "non-commercial" in stdout
    assert ".driftbandit/lastfm-svd-25-" in stdout


def test_a_cache_of_ones_own_is_used_and_said(tiny_data, tmp_path, monkeypatch):
    stdout = succeed("lastfm", "--data", tiny_data, "--cache", tmp_path / "mine").stdout
    assert f"Set DRIFTBANDIT_CACHE={tmp_path / 'mine'}" in stdout
    assert not (tiny_data / "lastfm" / ".driftbandit").exists()
    monkeypatch.setenv("DRIFTBANDIT_CACHE", str(tmp_path / "mine"))
    assert as_json("--data", tiny_data)["lastfm"]["state"] == "here, converted"
    assert "Set DRIFTBANDIT_CACHE" not in succeed("lastfm", "--data", tiny_data, "--cache", tmp_path / "mine").stdout


@pytest.mark.parametrize("name", ["lastfm", "delicious", "yahoo"])
def test_it_is_converted_once_and_again_when_asked_or_changed_or_damaged(tiny_data, name):
    succeed("yahoo", "--synthetic", 200, "--out", tiny_data / "yahoo")
    first = as_json(name, "--data", tiny_data)["converted"]
    path = Path(first["file"])
    stamp = path.stat().st_mtime_ns
    assert first["seconds_from_source"] > 0
    again = as_json(name, "--data", tiny_data)
    assert (again["converted"]["file"], again["converted"]["seconds_from_source"]) == (first["file"], None)
    assert path.stat().st_mtime_ns == stamp
    assert "onverted already" in succeed(name, "--data", tiny_data).stdout
    assert as_json(name, "--data", tiny_data, "--fresh")["converted"]["seconds_from_source"] > 0
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"not a file of ours"):
        path.write_bytes(damaged)
        assert as_json(name, "--data", tiny_data)["converted"]["file"] == first["file"]
        assert path.read_bytes() == whole
    source = next(file for file in sorted((tiny_data / name).glob("*2009*" if name == "yahoo" else "user_tagged*")))
    os.utime(source, ns=(10**18, 10**18))
    changed = as_json(name, "--data", tiny_data)["converted"]
    assert changed["file"] != first["file"]
    assert changed["seconds_from_source"] > 0
    assert not path.exists(), "the old one is of no use"


def test_no_convert_writes_nothing(tiny_data):
    before = sorted(tiny_data.rglob("*"))
    assert as_json("lastfm", "--data", tiny_data, "--no-convert")["converted"] is None
    assert sorted(tiny_data.rglob("*")) == before


def test_delicious_is_converted_without_groups_where_there_can_be_none(tiny_data):
    stdout = succeed("delicious", "--data", tiny_data).stdout
    assert "Without groups of users: groups: expected more than 200 people with friends, got 12" in stdout
    assert "delicious-svd-25-" in stdout
    assert as_json("--data", tiny_data)["delicious"]["state"] == "here, converted"


def test_findings_are_written_where_asked(tiny_data):
    succeed("lastfm", "--data", tiny_data, "--no-convert", "--out", "found")
    assert sorted(file.name for file in Path("found").iterdir()) == [
        "data-lastfm.html",
        "data-lastfm.json",
        "data-lastfm.md",
    ]


def test_brackets_in_names_are_shown_as_they_are(tiny_data):
    odd = tiny_data.rename(tiny_data.with_name("[bold]"))
    assert "[bold]" in succeed("lastfm", "--data", odd, "--no-convert").stdout


def test_what_is_not_there_is_said_with_where_to_get_it(tmp_path):
    assert "lastfm: no data in " in fail("lastfm")
    assert "--download" in fail("delicious", "--data", tmp_path)
    line = fail("yahoo")
    assert "Webscope" in line
    assert "--synthetic" in line


SPOILED = [
    (lambda path: path.unlink(), "user_taggedartists.dat: missing"),
    (lambda path: path.write_bytes(b""), "user_taggedartists.dat: expected a header line, got an empty file"),
    (lambda path: (path.unlink(), path.mkdir()), "user_taggedartists.dat: expected a file, got a folder"),
    (lambda path: path.write_bytes(path.read_bytes()[:-12]), "expected 6 columns, got "),
    (lambda path: path.write_bytes(path.read_bytes() + b"2\t3\n"), "expected 6 columns, got 2"),
    (lambda path: path.write_bytes(path.read_bytes() + b"2\tnan\t1\t1\t1\t1\n"), "artistID: expected a whole number"),
    (lambda path: path.write_bytes(path.read_bytes() * 2), "userID: expected a whole number, got 'userID'"),
    (lambda path: path.write_bytes(gzip.compress(path.read_bytes())), "line 1: expected the columns"),
    (lambda path: path.write_bytes(path.read_bytes() + "é\té\n".encode("latin-1") + "é\n".encode()), "columns"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILED)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_broken_copy_is_one_line_with_file_and_line(tiny_data, spoil, words, extra):
    spoil(tiny_data / "lastfm" / "user_taggedartists.dat")
    assert words in fail("lastfm", "--data", tiny_data, *extra)
    assert not (tiny_data / "lastfm" / ".driftbandit").exists()


def test_all_that_is_wrong_is_said_at_once(tiny_data):
    (tiny_data / "delicious" / "bookmark_tags.dat").unlink()
    (tiny_data / "delicious" / "user_contacts.dat").write_text("userID\n1\n")
    line = fail("delicious", "--data", tiny_data)
    assert "bookmark_tags.dat: missing; user_contacts.dat: line 1: expected the columns userID, contactID" in line


def test_the_paper_says_it_in_one_line_too(tiny_data):
    path = tiny_data / "lastfm" / "user_taggedartists.dat"
    path.write_bytes(path.read_bytes() + b"2\tnan\t1\t1\t1\t1\n")
    args = ["paper", "figure4", "--data", str(tiny_data), "--seeds", "1", "--processes", "1", "--out", "out"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.splitlines()[-1].startswith(f"error: {path}: line ")
    assert "Traceback" not in result.stderr


# ---- download -------------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(tiny_data, tmp_path, monkeypatch):
    """An archive of the made-up LastFM in place of the official one."""
    path = tmp_path / "hetrec2011-lastfm-2k.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for name in ("user_taggedartists.dat", "user_friends.dat"):
            packed.write(tiny_data / "lastfm" / name, name)
        packed.writestr("readme.txt", "made up")
    monkeypatch.setitem(DATA_SETS, "lastfm", replace(DATA_SETS["lastfm"], archive=path.as_uri()))
    return path


def test_download_unpacks_where_the_loaders_look_and_checks(archive, tiny_data, tmp_path):
    target = tmp_path / "new"
    result = succeed("lastfm", "--download", "--data", target, "--no-convert")
    assert "non-commercial" in result.stderr
    assert "wrote" in result.stderr
    for name in ("user_taggedartists.dat", "user_friends.dat"):
        assert (target / "lastfm" / name).read_bytes() == (tiny_data / "lastfm" / name).read_bytes()
    archive.unlink()
    assert "nothing is missing" in succeed("lastfm", "--download", "--data", target, "--no-convert").stderr
    as_json("lastfm", "--download", "--data", target, "--no-convert")


def test_download_goes_to_the_users_own_folder_by_default(archive, no_data, monkeypatch, tmp_path):
    succeed("lastfm", "--download", "--no-convert")
    assert (no_data / ".local" / "share" / "driftbandit" / "lastfm" / "readme.txt").read_text() == "made up"
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path / "variable"))
    succeed("lastfm", "--download", "--no-convert")
    assert (tmp_path / "variable" / "lastfm" / "user_friends.dat").exists()


def test_a_download_that_fails_is_one_line_and_leaves_no_files(archive, tmp_path):
    content = archive.read_bytes()
    for wrong, words in [
        (content[:100], "not a whole zip archive"),
        (b"", "not a whole zip archive"),
        (None, "could not"),
    ]:
        archive.unlink()
        if wrong is not None:
            archive.write_bytes(wrong)
        result = run("lastfm", "--download", "--data", tmp_path / "new", "--json")
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert words in result.stderr
        assert archive.as_uri() in result.stderr
        assert list((tmp_path / "new").rglob("*.dat")) == []
        archive.touch()


def test_yahoo_is_never_downloaded():
    assert "only by request to Yahoo! Webscope" in fail("yahoo", "--download")


# ---- Yahoo! ---------------------------------------------------------------------------------------------------------


def test_a_made_up_log_has_the_format_the_plan_and_the_lines_asked_for():
    facts = as_json("yahoo", "--synthetic", 3000, "--days", 2, "--changes", 2, "--seed", 5, "--gz", "--out", "days")
    log, report = read_yahoo("days")
    assert (report.lines, report.events) == (3000, 3000)
    assert facts["files"] == [f"{DAY}.gz", f"{DAY[:-1]}2.gz"]
    plan = Plan.load(facts["plan"])
    assert plan.changes.tolist() == facts["changes"]
    assert len(facts["changes"]) == 2
    for when, line in zip(facts["changes"], facts["first_lines"], strict=True):
        assert log.times[line - 2] < when <= log.times[line - 1]
    again = as_json("yahoo", "--synthetic", 3000, "--days", 2, "--changes", 2, "--seed", 5, "--gz", "--out", "other")
    assert again["changes"] == facts["changes"]
    assert all(Path("days", name).read_bytes() == Path("other", name).read_bytes() for name in facts["files"])


def test_a_made_up_log_goes_to_runs_by_default_and_shows_its_changes():
    stdout = succeed("yahoo", "--synthetic", 100).stdout
    assert "Planted changes" in stdout
    assert Path("runs", "yahoo", DAY).exists()
    assert Path("runs", "yahoo", "plan.npz").exists()


def test_real_days_are_never_overwritten_by_made_up_ones():
    Path("days").mkdir()
    Path("days", DAY).write_text("precious")
    assert "has day files that were not made up" in fail("yahoo", "--synthetic", 10, "--out", "days")
    assert Path("days", DAY).read_text() == "precious"


def test_a_log_is_checked_and_converted():
    succeed("yahoo", "--synthetic", 800, "--out", "yahoo")
    facts = as_json("yahoo", "--data", ".")
    assert (facts["lines"], facts["events"], facts["warnings"]) == (800, 800, [])
    assert Path(facts["converted"]["file"]).parent == Path("yahoo", ".driftbandit")
    assert len(open_yahoo("yahoo")[0]) == 800
    assert as_json("yahoo", "--data", "yahoo", "--no-convert")["converted"] is None


def test_skipped_lines_and_missing_days_are_said():
    succeed("yahoo", "--synthetic", 50, "--out", "yahoo")
    Path("yahoo", "plan.npz").unlink()  # now it passes for a real one
    with open(Path("yahoo", DAY), "ab") as file:
        file.write(b"\nrubbish\n1241160900 1 0 |user")
    facts = as_json("yahoo", "--data", ".")
    assert facts["skipped"] == {"empty line": 1, "wrong column count": 1, "half a last line": 1}
    assert facts["warnings"] == ["1 of 10 days, without 02, 03, 04, 05, 06, 07, 08, 09, 10"]
    assert f"{DAY}:51" in succeed("yahoo", "--data", ".").stdout


def test_a_different_number_of_lines_is_a_warning_with_both():
    succeed("yahoo", "--synthetic", 100, "--days", 10, "--out", "yahoo")
    Path("yahoo", "plan.npz").unlink()
    assert as_json("yahoo", "--data", ".", "--no-convert")["warnings"] == ["100 lines, officially 45,811,883"]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"", DAY, "the file is empty"),
        (b"", f"{DAY}.gz", "the file is empty"),
        (b"not packed\n", f"{DAY}.gz", "not a gzip file, at line 1"),
        (PACKED[:-20], f"{DAY}.gz", "the gzip data break off, at line"),
        (PACKED[:-8] + bytes(8), f"{DAY}.gz", "the gzip data are damaged"),
        (None, DAY, "no day files"),
    ],
    ids=["empty", "empty gz", "not gz", "truncated", "wrong checksum", "folder"],
)
def test_broken_days_are_one_line(content, name, words):
    Path("yahoo").mkdir()
    if content is not None:
        Path("yahoo", name).write_bytes(content)
    else:
        Path("yahoo", name).mkdir()
    assert words in fail("yahoo", "--data", ".")
    assert not Path("yahoo", ".driftbandit").exists()


def test_days_without_one_good_line_are_a_warning():
    Path("yahoo").mkdir()
    Path("yahoo", DAY).write_bytes("é\n".encode() + "é\n".encode("latin-1") + b"nan nan nan\n")
    facts = as_json("yahoo", "--data", ".")
    assert facts["events"] == 0
    assert "no line could be used" in facts["warnings"]
    assert facts["skipped"]["invalid bytes"] == 2


# ---- wrong usage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["lastfm", "--synthetic", "5"], "--synthetic"),
        (["--synthetic", "5"], "--synthetic"),
        (["yahoo", "--synthetic", "5", "--download"], "--synthetic"),
        (["--download"], "--download"),
        (["yahoo", "--synthetic", "5", "--days", "9"], "days: "),
        (["yahoo", "--synthetic", "5", "--days", "32"], "days: "),
        (["yahoo", "--synthetic", "5", "--out", "taken"], "taken"),
        (["--out", "taken"], "taken"),
    ],
)
def test_wrong_combinations_are_one_line_and_write_nothing(args, words):
    Path("taken").write_text("a file where a folder should go")
    assert words in fail(*args)
    assert [path.name for path in Path().iterdir()] == ["taken"] or list(Path("runs").iterdir()) == []


@pytest.mark.parametrize("args", [["movielens"], ["yahoo", "--synthetic", "0"], ["yahoo", "--seed", "-1"]])
def test_wrong_usage_is_explained(args):
    result = run(*args)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
