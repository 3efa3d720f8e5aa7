"""The data sets of the paper: where they come from, on what terms, and whether a copy is as it should be."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from driftbandit.environments.tables import data_folder, read_numbers
from driftbandit.environments.yahoo import DAY_FILE


@dataclass(frozen=True)
class DataFile:
    """A table that the loaders read.

    Attributes
    ----------
    name : str
        Name of the file.
    columns : tuple of str
        Columns that it must have, of whole numbers.
    rows : int or None
        Rows below the header that the official readme counts; None if it does not say.
    unless : str
        Another file that makes this one unnecessary.
    only_for : str
        The only thing that needs this file.
    lenient : bool
        Whether the file has further columns that are not read.
    """

    name: str
    columns: tuple[str, ...]
    rows: int | None = None
    unless: str = ""
    only_for: str = ""
    lenient: bool = False


@dataclass(frozen=True)
class DataSet:
    """A data set: `files` are what the loaders read, `members` all that its official archive holds."""

    name: str
    title: str
    source: str
    terms: str
    files: tuple[DataFile, ...] = ()
    archive: str = ""
    members: tuple[str, ...] = ()


_HETREC = "https://grouplens.org/datasets/hetrec-2011"
_HETREC_TERMS = "for non-commercial use; cite HetRec 2011; do not pass the files on, send others to GroupLens"

R6A_LINES = 45_811_883
"""Lines of the ten days of the real log."""
R6A_DAYS = 10

DATA_SETS = {
    "lastfm": DataSet(
        "lastfm",
        "hetrec2011-lastfm-2k",
        _HETREC,
        _HETREC_TERMS,
        (
            DataFile("user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), 186_479),
            DataFile("user_friends.dat", ("userID", "friendID"), 25_434, unless="user_clusters_200.tsv"),
            DataFile("user_clusters_200.tsv", ("userID", "cluster"), only_for="the paper's own groups"),
        ),
        "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
        (
            "artists.dat",
            "readme.txt",
            "tags.dat",
            "user_artists.dat",
            "user_friends.dat",
            "user_taggedartists-timestamps.dat",
            "user_taggedartists.dat",
        ),
    ),
    "delicious": DataSet(
        "delicious",
        "hetrec2011-delicious-2k",
        _HETREC,
        _HETREC_TERMS,
        (
            DataFile(
                "user_taggedbookmarks-timestamps.dat", ("userID", "bookmarkID", "tagID", "timestamp"), rows=437_593
            ),
            DataFile("bookmark_tags.dat", ("bookmarkID", "tagID", "tagWeight")),  # the readme does not count its rows
            DataFile("user_contacts.dat", ("userID", "contactID"), 15_328, only_for="groups of users", lenient=True),
        ),
        "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-delicious-2k.zip",
        (
            "bookmark_tags.dat",
            "bookmarks.dat",
            "readme.txt",
            "tags.dat",
            "user_contacts-timestamps.dat",
            "user_contacts.dat",
            "user_taggedbookmarks-timestamps.dat",
            "user_taggedbookmarks.dat",
        ),
    ),
    "yahoo": DataSet(
        "yahoo",
        "Yahoo! Today Module log, R6A",
        "https://webscope.sandbox.yahoo.com",
        "only by request to Yahoo! Webscope, for academic use; may not be passed on, so it is never downloaded here",
    ),
}


@dataclass(frozen=True)
class Found:
    """What a check says about a file: a `problem` prevents reading it, a `remark` is worth knowing."""

    file: str
    rows: int | None = None
    official: int | None = None
    problem: str = ""
    remark: str = ""


def locate(name: str, data: str | os.PathLike[str] | None = None) -> Path:
    """Folder of a data set; `data` is the folder that holds all data sets, or this one's own.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says where it looked.

    Examples
    --------
    >>> locate("lastfm", "nowhere")
    Traceback (most recent call last):
    FileNotFoundError: lastfm: no data in nowhere/lastfm; set DRIFTBANDIT_DATA to the folder above it, see docs/data.md
    """
    if data is None:
        return data_folder(name)
    own = Path(data)
    if own.is_dir() and not (own / name).is_dir() and present(name, own):
        return own
    return data_folder(name, own / name)


def present(name: str, folder: Path) -> list[str]:
    """Files of a data set that lie in a folder, by name; for Yahoo! the day files."""
    if name == "yahoo":
        return sorted(file.name for file in folder.iterdir() if DAY_FILE.fullmatch(file.name))
    return [file.name for file in DATA_SETS[name].files if (folder / file.name).exists()]


def check_tables(data_set: DataSet, folder: Path) -> list[Found]:
    """Read every table of a data set and compare it with what is known about it."""
    return [_check(file, folder) for file in data_set.files]


def _check(file: DataFile, folder: Path) -> Found:
    path = folder / file.name
    if not path.exists():
        if file.unless and (folder / file.unless).exists():
            return Found(file.name, None, file.rows, remark=f"missing, but {file.unless} is there instead")
        if file.only_for:
            return Found(file.name, None, file.rows, remark=f"missing; needed only for {file.only_for}")
        return Found(file.name, None, file.rows, problem="missing")
    try:
        rows = len(read_numbers(path, file.columns, lenient=file.lenient)[file.columns[0]])
    except (ValueError, OSError) as error:
        return Found(file.name, None, file.rows, problem=str(error).removeprefix(f"{path}: ").removeprefix(f"{path}:"))
    remarks = []
    if file.rows is not None and rows != file.rows:
        remarks.append(f"{rows:,} rows, officially {file.rows:,}")
    if not _ends_with_a_line_end(path):
        remarks.append("the last line has no end and may be cut off")
    return Found(file.name, rows, file.rows, remark="; ".join(remarks))


def _ends_with_a_line_end(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) in b"\r\n"
