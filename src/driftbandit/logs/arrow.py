"""Arrow columns of any type as numbers, times, ids and pools, with a mask of the values that cannot be read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints

Mask = NDArray[np.bool_]

SEPARATOR = "|"
"""Between the ids of a pool that is written as text, unless the text is a JSON list."""

_MISSING = ("", "na", "n/a", "nan", "null", "none")
_PADDED = re.compile(r"^[+-]?0\d")
"""Text that is a code rather than a number: reading it as a number would lose the zeros."""

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def whole(column: Any) -> Any:
    """The column as one array of a plain type: without chunks, dictionaries, views and extension types."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):  # too large for one array
        raise ValueError("expected a column that fits into one array")
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_binary())
    return column


def is_text(kind: Any) -> bool:
    """Whether values are strings or bytes."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def is_number(kind: Any) -> bool:
    """Whether values are whole, floating or decimal numbers."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def is_list(kind: Any) -> bool:
    """Whether values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def nulls(column: Any) -> Mask:
    """Where a value is missing."""
    if not column.null_count and not pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def numbers(column: Any) -> tuple[Floats, Mask]:
    """Floats, NaN where the value is missing, and where there is a value that is no number.

    Examples
    --------
    >>> numbers(pa.array(["1", " 0.5 ", "nan", "", None, "one"]))[0].tolist()
    [1.0, 0.5, nan, nan, nan, nan]
    >>> numbers(pa.array(["1", "nan", None, "one"]))[1].tolist()
    [False, False, False, True]
    """
    kind = column.type
    fine = np.zeros(len(column), dtype=bool)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), fine
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if (
        pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64), fine
    if is_text(kind):
        try:
            return pc.utf8_trim_whitespace(column.cast(pa.large_string())).cast(pa.float64()).to_numpy(
                zero_copy_only=False
            ).astype(np.float64), fine
        except pa.ArrowInvalid:
            read = [_number(value) for value in column.to_pylist()]
            bad = np.array([value is None for value in read], dtype=bool)
            return np.array([np.nan if value is None else value for value in read], dtype=np.float64), bad
    return np.full(len(column), np.nan), ~nulls(column)


def _number(value: str | bytes | None) -> float | None:
    """One number; None if it cannot be read."""
    if value is None:
        return float("nan")
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if text.strip().lower() in _MISSING:
        return float("nan")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def seconds(column: Any) -> tuple[Floats, Mask]:
    """Times in seconds, NaN where missing, and where there is a value that is no time.

    Numbers are taken as they are. Dates, timestamps and ISO 8601 text count from 1970; text without a zone is UTC.

    Examples
    --------
    >>> [found.tolist() for found in seconds(pa.array(["1970-01-01T00:01:00Z", "1970-01-02", "noon"]))]
    [[60.0, 86400.0, nan], [False, False, True]]
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        ticks = column.cast(pa.int64())
        return numbers(ticks)[0] * (_NANOSECONDS[kind.unit] * 1e-9), np.zeros(len(column), dtype=bool)
    if pa.types.is_date(kind):
        return numbers(column.cast(pa.date64()).cast(pa.int64()))[0] / 1000.0, np.zeros(len(column), dtype=bool)
    found, bad = numbers(column)
    if is_text(kind) and bad.any():
        for row in np.flatnonzero(bad).tolist():
            found[row] = _instant(column[row].as_py())
        bad &= np.isnan(found)
    return found, bad


def _instant(value: str | bytes) -> float:
    """Seconds since 1970; NaN if the text is no time."""
    try:
        text = value.decode() if isinstance(value, bytes) else value
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return float("nan")


def texts(column: Any) -> tuple[Any, Mask]:
    """Ids as an array of strings, null where missing or empty, and where there is a value that cannot be an id.

    Examples
    --------
    >>> texts(pa.array([7.0, None, 8.5]))[0].to_pylist()
    ['7', None, '8.5']
    """
    kind = column.type
    fine = np.zeros(len(column), dtype=bool)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string()), fine
    if is_text(kind):
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            column, fine = _decoded(column)
        empty = pc.equal(pc.binary_length(column), 0)
        return (pc.if_else(empty, None, column) if pc.any(empty).as_py() else column), fine
    if pa.types.is_floating(kind):
        numbers_ = column.to_numpy(zero_copy_only=False)
        missing = np.isnan(numbers_)
        if (np.floor(numbers_[~missing]) == numbers_[~missing]).all() and (np.abs(numbers_[~missing]) < 2**53).all():
            column = pa.array(np.where(missing, 0, numbers_).astype(np.int64), mask=missing)
        else:
            column = pa.array(numbers_, mask=missing)
        return column.cast(pa.string()), fine
    try:
        return column.cast(pa.string()), fine
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), pa.string()), ~nulls(column)


def _decoded(column: Any) -> tuple[Any, Mask]:
    """Bytes as strings, and where they are not UTF-8."""
    text = pa.large_string() if pa.types.is_large_binary(column.type) else pa.string()
    try:
        return column.cast(text), np.zeros(len(column), dtype=bool)
    except pa.ArrowInvalid:
        found: list[str | None] = []
        for value in column.to_pylist():
            try:
                found.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                found.append(None)
        read = pa.array(found, text)
        return read, nulls(read) & ~nulls(column)


def pools(column: Any) -> tuple[Any, Ints, Mask]:
    """All ids of a column of lists, one list after the other; how many each has; and which lists cannot be read.

    A list is a list, or text: a JSON list, or ids with ``|`` between them.

    Examples
    --------
    >>> ids, sizes, bad = pools(pa.array(["a|b", '["c", 7]', None, '["d"']))
    >>> ids.to_pylist(), sizes.tolist(), bad.tolist()
    (['a', 'b', 'c', '7'], [2, 2, 0, 0], [False, False, False, True])
    """
    bad = np.zeros(len(column), dtype=bool)
    if is_text(column.type):
        text, bad = texts(column)
        json_like = pc.starts_with(text, "[")
        if pc.any(json_like).as_py():
            lists = [None if value is None else _split(value) for value in text.to_pylist()]
            column = pa.array(lists, pa.list_(pa.string()))
            bad |= nulls(column) & ~nulls(text)
        else:
            column = pc.split_pattern(text, SEPARATOR)
    elif pa.types.is_null(column.type):
        column = column.cast(pa.list_(pa.string()))
    elif not is_list(column.type):
        ids, bad = texts(column)  # a pool of one
        sizes = (~nulls(ids)).astype(np.int64)
        return ids.drop_null(), sizes, bad
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ids, unreadable = texts(whole(column.flatten()))
    lost = np.repeat(np.arange(len(column)), sizes)[unreadable | nulls(ids)]
    bad[lost] = True
    return ids, sizes, bad


def _split(text: str) -> list[str] | None:
    if not text.startswith("["):
        return text.split(SEPARATOR)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(one, str | int) for one in found):
        return None
    return [str(one) for one in found]


def guessed(column: Any) -> Any:
    """A column of text as numbers if all its values are numbers; other columns as they are.

    >>> guessed(pa.array(["1", "12.05", ""])).type, guessed(pa.array(["01", "02"])).type
    (DataType(double), DataType(string))
    """
    if not is_text(column.type):
        return column
    text, _ = texts(column)
    present = text.drop_null()
    if not len(present) or pc.any(pc.match_substring_regex(present, _PADDED.pattern)).as_py():
        return text
    found, bad = numbers(text)
    return text if bad.any() or np.isnan(found).all() else pa.array(found, from_pandas=True)


def values(column: Any) -> Any:
    """A column as a plain sequence: floats with NaN for missing, or objects with None for missing."""
    kind = column.type
    if is_number(kind):
        return numbers(column)[0]
    if is_text(kind):
        coded = texts(column)[0].dictionary_encode()
        words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
        return words[pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)]
    if pa.types.is_temporal(kind) and not (pa.types.is_duration(kind) or pa.types.is_time(kind)):
        return seconds(column)[0]
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):  # such as a time that Python cannot hold
        return column.cast(pa.string()).to_pylist()
