"""Tables in memory, Parquet files and CSV files."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from driftbandit.blemishes import Report
from driftbandit.core import Ints
from driftbandit.logs import arrow
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.columns import Columns
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.base import needed, readable, split
from driftbandit.logs.sources.lines import open_bytes

_BLOCK = 1 << 20
"""Bytes of a CSV file that are parsed at a time."""

_SEMICOLON = ";"
"""Parts the columns where decimals have commas."""

_NUMBERS = {"reward", "propensity"}
"""Roles whose columns hold numbers."""

_UTF16 = (b"\xff\xfe", b"\xfe\xff")

_MARK = "\U0010fffe"
"""Stands for a byte that is not UTF-8; no text has this character, which Unicode reserves for such use."""

_ERRORS = "driftbandit.mark"
codecs.register_error(_ERRORS, lambda error: (_MARK, error.end if isinstance(error, UnicodeDecodeError) else 0))


class Table:
    """A table in memory: Arrow, pandas, Polars, or anything else that speaks Arrow's C stream interface."""

    def __init__(self, table: Any, columns: Columns, batch_rows: int, name: str = "the table") -> None:
        self.name = name
        with readable(name):
            self._table = as_table(table)
        self._columns, self._batch_rows = columns, batch_rows
        self.roles = _roles(self._table.schema, columns, name)

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Slices of the table."""
        with readable(self.name):
            for start in range(0, self._table.num_rows, self._batch_rows):
                part = self._table.slice(start, self._batch_rows)
                roles, context = split(part.column_names, part.columns, self._columns, self.name)
                yield Piece(roles, context, self.name, np.arange(start + 1, start + 1 + part.num_rows), -1)


def as_table(source: Any) -> Any:
    """An Arrow table of any table in memory."""
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).read_all()
    return pa.Table.from_pandas(source, preserve_index=False)


def _roles(schema: Any, columns: Columns, name: str) -> frozenset[str]:
    if unknown := [column for column in columns.ignore if column not in schema.names]:
        names = ", ".join(map(repr, schema.names))
        raise ValueError(f"{name}: no column {unknown[0]!r} to ignore; the columns are {names}")
    empty = schema.empty_table()
    roles = frozenset(split(empty.column_names, empty.columns, columns, name)[0])
    needed(roles, name, schema.names)
    return roles


class Parquet:
    """Parquet files, one after the other, a few rows at a time."""

    def __init__(self, files: list[Path], columns: Columns, batch_rows: int) -> None:
        self.name = str(files[0] if len(files) == 1 else files[0].parent)
        self._files, self._columns, self._batch_rows = files, columns, batch_rows
        roles: list[frozenset[str]] = []
        for file in files:  # a file that breaks off has no footer, and is refused before any row is read
            with readable(str(file)), pq.ParquetFile(file) as opened:
                roles.append(_roles(opened.schema_arrow, columns, str(file)))
        self.roles = frozenset.intersection(*roles)

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Batches of rows of every file."""
        before = 0
        for file in self._files:
            with readable(str(file)), pq.ParquetFile(file, pre_buffer=False) as opened:
                at = 0
                for batch in opened.iter_batches(self._batch_rows, use_threads=False):
                    roles, context = split(batch.schema.names, batch.columns, self._columns, str(file))
                    yield Piece(roles, context, str(file), np.arange(at + 1, at + 1 + batch.num_rows), before - 1)
                    at += batch.num_rows
                before += at


class CSV:
    """CSV files, one after the other, parsed block by block.

    Everything is read as text, so that one bad value costs one row and not the file. A context column is numeric if
    all of its values in the first block are. Where semicolons part the columns, numbers may have decimal commas.
    """

    def __init__(self, files: list[Path], columns: Columns, batch_rows: int, delimiter: str = ",") -> None:
        self.name = str(files[0] if len(files) == 1 else files[0].parent)
        with readable(str(files[0])):
            delimiter = _delimiter_of(files[0], delimiter)
        self._files, self._columns, self._batch_rows, self._delimiter = files, columns, batch_rows, delimiter
        self._numeric: dict[str, bool] = {}
        roles: list[frozenset[str]] = []
        for file in files:
            with readable(str(file)), open_csv(file, delimiter, []) as reader:
                roles.append(_roles(reader.schema, columns, str(file)))
        self.roles = frozenset.intersection(*roles)

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Blocks of rows of every file."""
        before = 0
        for file in self._files:
            wrong: list[int] = []  # refused lines that are not yet counted
            line = 2
            with readable(str(file)), open_csv(file, self._delimiter, wrong) as reader:
                for block in reader:
                    for start in range(0, block.num_rows, self._batch_rows):
                        batch = block.slice(start, self._batch_rows)
                        lines = _next_lines(line, batch.num_rows, wrong)
                        line = int(lines[-1]) + 1
                        _count(report, str(file), wrong, line)
                        columns = [_unmarked(column) for column in batch.columns]
                        roles, context = split(batch.schema.names, columns, self._columns, str(file))
                        roles |= {role: self._with_points(roles[role]) for role in _NUMBERS & roles.keys()}
                        context = {n: self._typed(n, c, report, str(file), lines) for n, c in context.items()}
                        yield Piece(roles, context, str(file), lines, before - 2)
            before += max([line, *(number + 1 for number in wrong)]) - 2
            _count(report, str(file), wrong)

    def _typed(self, name: str, column: Any, report: Report, file: str, lines: Ints) -> Any:
        if name not in self._numeric:
            self._numeric[name] = pa.types.is_floating(arrow.guessed(self._with_points(column)).type)
        if not self._numeric[name]:
            text, unreadable = arrow.texts(column)
            report.note(f"context {name!r} is not UTF-8 and counts as missing", file, lines[unreadable].tolist())
            return text
        values, unreadable = arrow.numbers(self._with_points(column))
        report.note(f"context {name!r} is not a number and counts as missing", file, lines[unreadable].tolist())
        return pa.array(values, from_pandas=True)

    def _with_points(self, column: Any) -> Any:
        return _with_points(column) if self._delimiter == _SEMICOLON else column


def _delimiter_of(file: Path, usual: str) -> str:
    """What parts the columns: a semicolon, if the first line has some and none of what is usual."""
    with _Marked(open_bytes(file)) as stream:
        first = stream.read(_BLOCK).split(b"\n", 1)[0].decode("utf-8", "replace")
    return _SEMICOLON if _SEMICOLON in first and usual not in first else usual


def _with_points(column: Any) -> Any:
    """The column with points in place of decimal commas.

    >>> _with_points(pa.array(["2,5", "-0,25 ", "a,b", "1,2,3", "7"])).to_pylist()
    ['2.5', '-0.25 ', 'a,b', '1,2,3', '7']
    """
    if not pa.types.is_string(column.type):  # some of it is not UTF-8
        return column
    return pc.replace_substring_regex(column, r"^(\s*[+-]?\d+),(\d+\s*)$", r"\1.\2")


def open_csv(file: Path, delimiter: str, wrong: list[int]) -> Any:
    """A reader of blocks with all columns as text; lines with too few or too many columns go to `wrong`."""

    def refuse(row: Any) -> str:
        wrong.append(row.number)
        return "skip"

    with _Marked(open_bytes(file)) as stream:
        start = stream.read(_BLOCK)
    if not start.strip():
        raise ValueError(f"{file}: the file is empty")
    header = pa_csv.open_csv(io.BytesIO(start.split(b"\n", 1)[0] + b"\n"), parse_options=_parsing(delimiter, None))
    return pa_csv.open_csv(
        _Marked(open_bytes(file)),
        pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK),
        _parsing(delimiter, refuse),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(header.schema.names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def read_csv(file: Path, delimiter: str) -> Any:
    """A whole file as a table of text; ValueError if anything is wrong with it."""
    wrong: list[int] = []
    delimiter = _delimiter_of(file, delimiter)
    table = open_csv(file, delimiter, wrong).read_all()
    if wrong:
        raise ValueError(f"{file}: wrong number of columns in line {wrong[0]}")
    for name in table.column_names:
        if pc.any(pc.match_substring(table[name], _MARK)).as_py():
            raise ValueError(f"{file}: expected UTF-8, got something else in column {name!r}")
    if delimiter != _SEMICOLON:
        return table
    columns = {name: _with_points(arrow.whole(table[name])) for name in table.column_names}
    numeric = {name: column for name, column in columns.items() if pa.types.is_floating(arrow.guessed(column).type)}
    return pa.table({name: numeric.get(name, table[name]) for name in table.column_names})


def _parsing(delimiter: str, refuse: Callable[[Any], str] | None) -> Any:
    return pa_csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=refuse
    )


class _Marked(io.RawIOBase):
    """A file in which bytes that are not UTF-8 are replaced by a mark: pyarrow would refuse the whole file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")(_ERRORS)
        self._rest = b""
        self._begun = False

    def readable(self) -> bool:
        """Always True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """About as many bytes as asked for; none at the end of the file."""
        while not self._rest:
            block = self._file.read(max(size, 1) if size >= 0 else -1)
            if not self._begun and block[:2] in _UTF16:
                raise UnicodeError("expected UTF-8, got UTF-16; save it as UTF-8")
            self._begun = True
            self._rest = self._decoder.decode(block, final=not block).encode()
            if not block:
                break
        end = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:end], self._rest[end:]
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _unmarked(column: Any) -> Any:
    """The column as it was in the file: as bytes, if some of it is not UTF-8."""
    if not pc.any(pc.match_substring(column, _MARK)).as_py():
        return column
    return pc.replace_substring(column.cast(pa.binary()), _MARK.encode(), b"\xff")


def _count(report: Report, file: str, wrong: list[int], before: int | None = None) -> None:
    """Count the refused lines before a line, or all, and forget them."""
    counted = [number for number in wrong if before is None or number < before]
    report.lines += len(counted)
    report.skip("wrong number of columns", file, counted)
    wrong[:] = [number for number in wrong if before is not None and number >= before]


def _next_lines(first: int, count: int, wrong: Iterable[int]) -> Ints:
    """The next lines that were not refused.

    >>> _next_lines(2, 3, [3, 9]).tolist()
    [2, 4, 5]
    """
    refused = np.array(list(wrong), dtype=np.int64)
    lines = np.arange(first, first + count + len(refused))
    return lines[~np.isin(lines, refused)][:count]
