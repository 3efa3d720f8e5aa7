"""Which reader a source needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from driftbandit.blemishes import Report
from driftbandit.logs.columns import Columns
from driftbandit.logs.sources.base import Source, readable
from driftbandit.logs.sources.dsjson import DSJSON, is_dsjson
from driftbandit.logs.sources.lines import NDJSON, Objects, column
from driftbandit.logs.sources.memory import Coba, Obp, is_coba, is_obp
from driftbandit.logs.sources.service import MARKS, Service
from driftbandit.logs.sources.tables import CSV, Parquet, Table, as_table, read_csv
from driftbandit.logs.sources.yahoo import Yahoo, is_yahoo

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".ndjson": "json",
    ".jsonl": "json",
    ".json": "json",
    ".dsjson": "json",
}

_DELIMITERS = {"csv": ",", "tsv": "\t"}

FORMATS = ("csv", "tsv", "parquet", "json", "r6a")


def open_source(source: Any, columns: Columns, batch_rows: int, kind: str | None = None) -> Source:
    """The reader of a source.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or no reader for it.
    """
    if isinstance(source, str | os.PathLike):
        return _open_files(Path(source), columns, batch_rows, kind)
    if is_obp(source):
        return Obp(source, batch_rows)
    if is_table(source):
        return Table(source, columns, batch_rows)
    if is_coba(source):
        return Coba(source, batch_rows)
    raise ValueError(
        "source: expected the path of a file or folder, a table (Arrow, pandas, Polars), obp's bandit_feedback or a "
        f"list of coba's logged interactions, got {type(source).__name__}"
    )


def _open_files(path: Path, columns: Columns, batch_rows: int, kind: str | None) -> Source:
    with readable(str(path)):
        if kind == "r6a" or (kind is None and path.exists() and is_yahoo(path)):
            return Yahoo(path, batch_rows)
    files, kind = _files(path, kind)
    if kind in _DELIMITERS:
        return CSV(files, columns, batch_rows, _DELIMITERS[kind])
    if kind == "parquet":
        with readable(str(files[0])), pq.ParquetFile(files[0]) as opened:
            is_export = set(opened.schema_arrow.names) >= MARKS
        return Service(files, batch_rows, parquet=True) if is_export else Parquet(files, columns, batch_rows)
    first = next(iter(Objects(files[0], Report())), None)
    if first is None:
        raise ValueError(f"{files[0]}: no line holds a JSON object")
    if set(first[1]) >= MARKS:
        return Service(files, batch_rows, parquet=False)
    return DSJSON(files, batch_rows) if is_dsjson(first[1]) else NDJSON(files, columns, batch_rows)


def _files(path: Path, kind: str | None) -> tuple[list[Path], str]:
    """The files of a path, in the order of their names, and their format."""
    if kind is not None and kind not in FORMATS:
        raise ValueError(f"format: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {kind!r}")
    with readable(str(path)):
        if not path.exists():
            raise FileNotFoundError
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
    if not files:
        raise ValueError(f"{path}: the folder is empty")
    kinds = {_kind(file) for file in files} if kind is None else {kind}
    if len(kinds) > 1 or None in kinds:
        odd = next(file for file in files if _kind(file) != _kind(files[0]) or _kind(file) is None)
        raise ValueError(
            f"{odd}: expected names that end in {', '.join(_SUFFIXES)} (or the same with .gz), all of one format; "
            f"if the name does not tell, say format= {', '.join(FORMATS)}"
        )
    return files, kinds.pop() or ""


def _kind(file: Path) -> str | None:
    return _SUFFIXES.get(Path(file.name.lower().removesuffix(".gz")).suffix)


def is_table(source: Any) -> bool:
    """Whether a source is a table in memory."""
    speaks = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return speaks or type(source).__module__.split(".")[0] == "pandas"


def open_table(source: Any, name: str = "items") -> Any:
    """A small table, such as that of the items, as one Arrow table: a file, a table in memory, or a list of records."""
    if isinstance(source, str | os.PathLike):
        return _read_table(Path(source))
    with readable(name):
        if is_table(source):
            return as_table(source)
        if isinstance(source, Mapping) and source and all(isinstance(values, Mapping) for values in source.values()):
            source = [{"id": item, **facts} for item, facts in source.items()]
        if isinstance(source, Mapping):
            return pa.table({str(key): column(list(values)) for key, values in source.items()})
        if isinstance(source, Sequence) and source and all(isinstance(item, Mapping) for item in source):
            keys = dict.fromkeys(str(key) for item in source for key in item)
            return pa.table({key: column([item.get(key) for item in source]) for key in keys})
    raise ValueError(
        f"{name}: expected a file, a table (Arrow, pandas, Polars), a list of dictionaries, or a dictionary of columns "
        f"or of items, got {type(source).__name__}"
    )


def _read_table(path: Path) -> Any:
    files, kind = _files(path, None)
    tables = []
    for file in files:
        with readable(str(file)):
            if kind in _DELIMITERS:
                tables.append(read_csv(file, _DELIMITERS[kind]))
            elif kind == "parquet":
                tables.append(pq.read_table(file))
            else:
                report = Report()
                tables.append(open_table([found for _, found in Objects(file, report)], str(file)))
                if report.skipped:
                    raise ValueError(f"{file}: expected a JSON object in every line, got\n{report}")
    with readable(str(path)):
        return pa.concat_tables(tables, promote_options="permissive")
