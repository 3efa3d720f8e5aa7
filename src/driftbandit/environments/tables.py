"""Reading the tab-separated tables of data sets, with errors that say which file and which line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from platformdirs import user_data_path

from driftbandit.core import Ints

_SHOWN = 40
"""Characters of a wrong cell that an error message shows."""
_MOST_DIGITS = 1000
_WHOLE = re.compile(r"-?[0-9]+")


def data_folder(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Folder of a data set: the one given, else `$DRIFTBANDIT_DATA`/name, else one in the user's folder for data.

    Raises
    ------
    FileNotFoundError
        If it does not exist; the message says where it looked.
    """
    places = [place / name for place in data_places()] if folder is None else [Path(folder)]
    for place in places:
        if place.is_dir():
            return place
    looked = " or ".join(str(place) for place in places)
    raise FileNotFoundError(
        f"{name}: no data in {looked}; set DRIFTBANDIT_DATA to the folder above it, see docs/data.md"
    )


def data_places() -> list[Path]:
    """Where data sets are looked for: in `$DRIFTBANDIT_DATA`, if set, and in the user's folder for data."""
    variable = os.environ.get("DRIFTBANDIT_DATA")
    return [*([Path(variable)] if variable else []), _user_data()]


def default_folder() -> Path:
    """Where to put data sets: `$DRIFTBANDIT_DATA`, or the user's folder for data."""
    return Path(os.environ.get("DRIFTBANDIT_DATA") or _user_data())


def _user_data() -> Path:
    return user_data_path("driftbandit", appauthor=False)


def read_numbers(path: Path, columns: tuple[str, ...], *, lenient: bool = False) -> Mapping[str, Ints]:
    """Columns of whole numbers of a tab-separated table with a header line.

    Parameters
    ----------
    path : Path
        The file, UTF-8 or latin-1.
    columns : tuple of str
        Names that the header must contain.
    lenient : bool
        Allow further columns that are not numbers.

    Raises
    ------
    ValueError
        The message names the file and, if there is one, the wrong line.
    """
    import pyarrow as pa
    from pyarrow import csv

    if path.is_dir():
        raise ValueError(f"{path}: expected a file, got a folder")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(encoding="latin-1"),  # every byte is a character; numbers are ASCII anyway
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.int64()), include_columns=list(columns) if lenient else None
            ),
        )
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"{path}: {_explain(path, columns, str(error))}") from error
    wrong = [name for name in columns if table.column_names.count(name) != 1]
    if wrong or any(table[name].null_count for name in columns):
        raise ValueError(f"{path}: {_explain(path, columns, 'a number is missing')}")
    if not table.num_rows:
        raise ValueError(f"{path}: expected rows below the header, got none")
    return {name: np.ascontiguousarray(table[name].to_numpy(), dtype=np.int64) for name in columns}


def read_names(path: Path, key: str, value: str) -> dict[int, str]:
    """Names by number, from two columns of a tab-separated latin-1 table with a header line.

    Raises
    ------
    ValueError
        The message names the file and the wrong line.
    """
    names = {}
    with open(path, encoding="latin-1", newline="\n") as lines:
        header = lines.readline().rstrip("\r\n").split("\t")
        if missing := [name for name in (key, value) if name not in header]:
            raise ValueError(f"{path}:1: expected the columns {key}, {value}; {', '.join(missing)} missing")
        for number, line in enumerate(lines, 2):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) != len(header):
                raise ValueError(f"{path}:{number}: expected {len(header)} columns, got {len(cells)}")
            try:
                names[int(cells[header.index(key)])] = cells[header.index(value)]
            except ValueError as error:
                got = cells[header.index(key)]
                raise ValueError(f"{path}:{number}: {key}: expected a whole number, got {got!r}") from error
    return names


def _explain(path: Path, columns: tuple[str, ...], error: str) -> str:
    """Describe the first wrong line."""
    with open(path, encoding="latin-1") as lines:
        header = lines.readline().rstrip("\r\n").split("\t")
        if not any(header):
            return "expected a header line, got an empty file"
        if missing := [name for name in columns if name not in header]:
            return f"line 1: expected the columns {', '.join(columns)}; {', '.join(missing)} missing"
        if repeated := [name for name in columns if header.count(name) > 1]:
            return f"line 1: expected each column once, got {', '.join(repeated)} more than once"
        for number, line in enumerate(lines, 2):
            cells = line.rstrip("\r\n").split("\t")
            if cells != [""] and (wrong := _explain_row(cells, header, columns)):  # an empty line is no row
                return f"line {number}: {wrong}"
    return " ".join(error.split())


def _explain_row(cells: list[str], header: list[str], columns: tuple[str, ...]) -> str:
    if len(cells) != len(header):
        return f"expected {len(header)} columns, got {len(cells)}"
    for name in columns:
        cell = cells[header.index(name)]
        if not _WHOLE.fullmatch(cell):
            return f"{name}: expected a whole number, got {_short(cell) or 'nothing'}"
        if len(cell) > _MOST_DIGITS or not -(2**63) <= int(cell) < 2**63:
            return f"{name}: expected a number of at most 64 bits, got {_short(cell)}"
    return ""


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else f"{cell[:_SHOWN]}...") if cell else ""
