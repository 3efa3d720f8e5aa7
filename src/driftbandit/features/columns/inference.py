"""Declared columns, and the kind of a column from a sample of its values."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from driftbandit.features.columns.base import Column, is_missing, plain
from driftbandit.features.columns.categories import Category, Tags
from driftbandit.features.columns.numbers import Cycle, Flag, Number, Vector

_PERIODS = {"hour": 24, "weekday": 7, "day_of_week": 7, "minute": 60}
"""Names that mean a cycle, if all values are whole numbers from 0 to the period."""

KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Category, Tags, Cycle, Vector, Flag)}


def guess(name: str, values: Sequence[Any]) -> Column:
    """The column of that name with the kind that fits its values; what else it needs is left to `fit`.

    Yes and no become a flag, numbers a number (or a cycle, if it is called hour, minute, weekday or day_of_week),
    lists of numbers of one length a vector, other lists tags, and everything else a category.

    >>> guess("price", [3, 4.5, None]).kind, guess("hour", [0, 23]).kind, guess("genre", ["jazz", 7]).kind
    ('number', 'cycle', 'category')
    """
    present = [value for value in plain(values) if not is_missing(value)]
    if present and all(isinstance(value, bool | np.bool_) for value in present):
        return Flag(name)
    if present and all(_is_number(value) for value in present):
        period = _PERIODS.get(name.lower())
        if period and all(float(value).is_integer() and 0 <= value <= period for value in present):
            return Cycle(name, period)
        return Number(name)
    if present and all(isinstance(value, Iterable) and not isinstance(value, str | bytes) for value in present):
        lengths = {len(list(value)) for value in present}
        if len(lengths) == 1 and 0 not in lengths and all(_is_number(part) for value in present for part in value):
            return Vector(name)
        return Tags(name)
    return Category(name)


def as_columns(side: str, given: Any) -> list[Column | str] | None:
    """The declared columns of a side, checked; None if there is no declaration."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"{side}: expected a list of columns or names, got {given!r:.60}")
    for one in given:
        if not isinstance(one, Column) and not (isinstance(one, str) and one):
            raise ValueError(f"{side}: expected columns, such as Number('price'), or names, got {one!r:.60}")
    names = [name_of(one) for one in given]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{side}: expected every column once, got {twice[0]!r} more than once")
    return list(given)


def name_of(column: Column | str) -> str:
    """Name of a declared column."""
    return column if isinstance(column, str) else column.name


def fitted(column: Column | str, values: Mapping[str, Sequence[Any]], side: str) -> Column:
    """A declared column, or only its name, with the rest learned from the values of that name."""
    name = name_of(column)
    if name not in values and (isinstance(column, str) or column.needs):
        raise ValueError(f"sample: expected the column {name!r} of {side}, which has to be fitted, but it is not there")
    given = values.get(name, ())
    try:
        return (guess(name, given) if isinstance(column, str) else column).fitted(given)
    except ValueError as error:
        raise ValueError(f"sample: {side}: {error}") from error


def column_from_json(described: Any) -> Column:
    """The column that `Column.to_json` described."""
    if not isinstance(described, dict) or described.get("kind") not in KINDS:
        raise ValueError(f"columns: expected a kind among {', '.join(KINDS)}, got {described!r:.80}")
    return KINDS[described["kind"]](**{name: value for name, value in described.items() if name != "kind"})


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | np.number) and not isinstance(value, bool | np.bool_)
