"""Files with one JSON object per line, and rows that are Python objects."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from driftbandit.blemishes import Report
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.columns import Columns
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.base import needed, readable, split

LONGEST = 1 << 24
"""Bytes of the longest line that is read; reading longer ones would need more and more memory."""

_MATRIX = pa.list_(pa.list_(pa.float64()))


def open_bytes(file: Path) -> BinaryIO:
    """The bytes of a file, unpacked if it is a gzip file."""
    with open(file, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(file) if packed else open(file, "rb"))


class Objects:
    """The lines of a file that hold a JSON object, as (line, object); the others are counted.

    Attributes
    ----------
    line : int
        Lines read so far.
    """

    def __init__(self, file: Path, report: Report) -> None:
        self.line = 0
        self._file, self._report = file, report

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with readable(str(self._file)), open_bytes(self._file) as stream:
            while text := stream.readline(LONGEST):
                self.line += 1
                found, blemish = self._parse(text)
                if not blemish:
                    yield self.line, found
                    continue
                self._report.lines += 1
                self._report.skip(blemish, str(self._file), [self.line])
                while len(text) == LONGEST and not text.endswith(b"\n"):
                    text = stream.readline(LONGEST)

    def _parse(self, text: bytes) -> tuple[Any, str]:
        """The object of a line, and what is wrong with it."""
        if len(text) == LONGEST and not text.endswith(b"\n"):
            return None, "line too long"
        if not text.strip():
            return None, "empty line"
        try:
            found = json.loads(text.decode("utf-8-sig" if self.line == 1 else "utf-8"))
        except UnicodeDecodeError:
            return None, "not UTF-8"
        except (ValueError, RecursionError):
            return None, "not JSON"
        return found, "" if isinstance(found, dict) else "not a JSON object"


@dataclass(slots=True)
class Row:
    """A decision as Python objects, by role and by name of the context."""

    line: int
    roles: dict[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)


def gathered(rows: Iterable[Row], file: str, shift: int, batch_rows: int) -> Iterator[Piece]:
    """Rows as pieces of columns."""
    left = iter(rows)
    while some := list(islice(left, batch_rows)):
        roles = {name: column([row.roles.get(name) for row in some]) for name in _names(row.roles for row in some)}
        if "features" in roles:
            roles["features"] = _matrices([row.roles.get("features") for row in some])
        context = {name: column([row.context.get(name) for row in some]) for name in _names(r.context for r in some)}
        yield Piece(roles, context, file, np.array([row.line for row in some], dtype=np.int64), shift)


def _names(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def column(values: list[Any]) -> Any:
    """An Arrow array of Python objects; objects of several types become text.

    >>> column([1, "a", None, [2]]).to_pylist()
    ['1', 'a', None, '[2]']
    """
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if value is None else as_text(value) for value in values], pa.string())


def as_text(value: Any) -> str:
    """A text that is equal for equal objects."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text.encode("utf-8", "replace").decode()


def _matrices(values: list[Any]) -> Any:
    """Lists of lists of numbers; what is anything else is missing."""
    try:
        return pa.array(values, _MATRIX)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        found = []
        for value in values:
            try:
                found.append(pa.array([value], _MATRIX)[0].as_py())
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                found.append(None)
        return pa.array(found, _MATRIX)


def flattened(value: Any, name: str = "", deepest: int = 8) -> dict[str, Any]:
    """A record whose nested records became columns of their own.

    >>> flattened({"user": {"home": {"city": "Rome"}}, "hour": 7, "tags": ["a"]})
    {'user.home.city': 'Rome', 'hour': 7, 'tags': ['a']}
    """
    if isinstance(value, Mapping) and deepest:
        found: dict[str, Any] = {}
        for key, part in value.items():
            found |= flattened(part, f"{name}.{key}" if name else str(key), deepest - 1)
        return found
    if isinstance(value, list) and value and deepest and all(isinstance(part, Mapping) for part in value):
        found = {}
        for part in value:
            found |= flattened(part, name, deepest - 1)
        return found
    return {name or "value": value}


class NDJSON:
    """Files with one decision per line as a JSON object, whose keys are columns."""

    def __init__(self, files: list[Path], columns: Columns, batch_rows: int) -> None:
        self.name = str(files[0] if len(files) == 1 else files[0].parent)
        self._files, self._columns, self._batch_rows = files, columns, batch_rows
        first = next(self._read(Objects(files[0], Report()), files[0], 0), None)
        if first is None:
            raise ValueError(f"{files[0]}: no line holds a JSON object")
        self.roles = frozenset(first.roles)
        needed(self.roles, self.name, [*first.roles, *first.context])

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some lines of every file."""
        before = 0
        for file in self._files:
            lines = Objects(file, report)
            yield from self._read(lines, file, before - 1)
            before += lines.line

    def _read(self, lines: Objects, file: Path, shift: int) -> Iterator[Piece]:
        rows = (Row(line, {}, record) for line, record in lines)
        for piece in gathered(rows, str(file), shift, self._batch_rows):
            roles, context = split(list(piece.context), piece.context.values(), self._columns, str(file))
            yield Piece(roles, context, piece.file, piece.lines, shift)
