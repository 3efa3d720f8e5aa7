"""What all readers share."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from driftbandit.blemishes import Report
from driftbandit.core import Floats
from driftbandit.logs import arrow
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.columns import INDEX, ROLES, Columns, find
from driftbandit.logs.decisions import Piece

_DEEPEST = 8
"""Levels of nested records that become columns of their own, such as 'user.home.city'."""


class Source(Protocol):
    """A log as pieces of raw columns; it can be read any number of times."""

    name: str
    roles: frozenset[str]
    """Which roles have a column, as far as is known before reading."""

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Read from the start; rows that cannot even be parsed are counted in the report."""
        ...


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turn whatever goes wrong with a file into a ValueError that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{file}: no such file or folder") from error
    except (pa.ArrowException, OSError, EOFError, UnicodeError, MemoryError, zlib.error) as error:
        raise ValueError(f"{file}: cannot be read ({str(error).strip() or type(error).__name__})") from error


def split(names: Sequence[str], columns: Any, given: Columns, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns with a meaning by role, and all others by name, as whole arrays; `columns` are Arrow arrays."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"{where}: expected columns with different names, got {twice!r} twice")
    table = {
        name: arrow.whole(column)
        for name, column in zip(names, columns, strict=True)
        if name not in given.ignore and not name.startswith(INDEX)
    }
    roles = find(given.log, list(table), ROLES, where)
    if "features" in roles and "features" not in given.log and not is_matrix(table[roles["features"]].type):
        del roles["features"]
    if "features" in roles and not is_matrix(table[roles["features"]].type):
        raise ValueError(
            f"{where}: expected a list of lists of numbers for features, got {table[roles['features']].type}"
        )
    context: dict[str, Any] = {}
    for name, column in table.items():
        if name not in roles.values():
            _flatten(context, name, column, _DEEPEST)
    return {role: table[name] for role, name in roles.items()}, context


def is_matrix(kind: Any) -> bool:
    """Whether values are lists of lists of numbers."""
    return arrow.is_list(kind) and arrow.is_list(kind.value_type)


def _flatten(context: dict[str, Any], name: str, column: Any, deepest: int) -> None:
    if pa.types.is_struct(column.type) and deepest:
        for part, values in zip(column.type.names, column.flatten(), strict=True):
            _flatten(context, f"{name}.{part}", arrow.whole(values), deepest - 1)
    else:
        context[name] = column


def vectors(matrix: Floats) -> Any:
    """Rows of a matrix as an Arrow array of lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(matrix).reshape(-1)), matrix.shape[1])


def needed(roles: frozenset[str], name: str, columns: Sequence[str]) -> None:
    """Refuse a log without the columns that nothing can replace; the error says which there are."""
    for role in ("arm", "reward"):
        if role not in roles:
            names, found = ", ".join(ROLES[role]), ", ".join(map(repr, columns))
            raise ValueError(
                f"{name}: no column for the {role}; name it by columns, or call it one of {names}; the columns are "
                f"{found}"
            )
