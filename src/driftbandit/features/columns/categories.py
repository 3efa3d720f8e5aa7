"""Columns of names: category and tags, with a vocabulary of bounded size.

A value that the vocabulary does not hold falls into one shared column, or is hashed into a few signed ones. A million
different values therefore take no more memory than a hundred.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from driftbandit.core import as_count
from driftbandit.features.columns.base import Cell, Column, is_missing, plain
from driftbandit.features.hashing import key_of
from driftbandit.features.product.kernel import pair_hash, sign_of, slot_of

REMEMBERED = 10_000
"""So many values at most are kept with their cells, beside the vocabulary."""


@dataclass(frozen=True)
class _Words(Column):
    """What category and tags share: the vocabulary."""

    values: tuple[str, ...] | None = None
    buckets: int | None = None
    most: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None:
            if isinstance(self.values, str) or not isinstance(self.values, Iterable):
                raise ValueError(f"{self.name}: values: expected a list of values, got {self.values!r}")
            values = tuple(self._text(value) for value in self.values)
            if len(set(values)) < len(values):
                raise ValueError(f"{self.name}: values: expected every value once, got {self.values!r}")
            object.__setattr__(self, "values", values)
        if self.buckets is not None:
            object.__setattr__(self, "buckets", as_count(f"{self.name}: buckets", self.buckets))
        object.__setattr__(self, "most", as_count(f"{self.name}: most", self.most))

    @property
    def needs(self) -> str:
        """Nothing: without a vocabulary, values are hashed."""
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        buckets = self._buckets()
        rest = ("other",) if buckets == 1 else tuple(f"#{bucket}" for bucket in range(buckets))
        return (*(f"{self.name}={value}" for value in (*(self.values or ()), *rest)), f"{self.name} missing")

    def fitted(self, values: Sequence[Any]) -> Self:
        """This column with the most common values of the sample as its vocabulary, unless one was declared."""
        if self.values is not None:
            return self
        counts = Counter(word for value in plain(values) if not is_missing(value) for word in self._words(value))
        common = sorted(counts, key=lambda word: (-counts[word], word))[: self.most]
        buckets = self.buckets or (1 if len(counts) <= self.most else 16)
        return type(self)(**{**vars(self), "values": tuple(sorted(common)), "buckets": buckets})

    def _words(self, value: Any) -> list[str]:
        """The words in a value that is not missing."""
        return [self._text(value)]

    def _text(self, value: Any) -> str:
        """The value as a word: numbers that are equal are the same word, whatever their type."""
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bool | int | np.bool_ | np.integer):
            return str(int(value))
        if isinstance(value, float | np.floating) and math.isfinite(value):
            return str(int(value)) if float(value).is_integer() else repr(float(value))
        raise self._wrong("a text or a number", value)

    def _buckets(self) -> int:
        return self.buckets or (16 if self.values is None else 1)

    def _placer(self, offset: int) -> Callable[[str], tuple[int, float]]:
        """A function that says which column a word falls into, and with which sign."""
        values, buckets = self.values or (), self._buckets()
        known = {value: (offset + place, 1.0) for place, value in enumerate(values)}
        first = offset + len(values)

        def place(word: str) -> tuple[int, float]:
            found = known.get(word)
            if found is not None or buckets == 1:
                return found or (first, 1.0)
            mixed = pair_hash(key_of(self.name), key_of(word))
            return first + slot_of(mixed, buckets), float(sign_of(mixed))

        return place


@dataclass(frozen=True)
class Category(_Words):
    """One of several values: a text or a whole number. One column per known value.

    Attributes
    ----------
    values : sequence of str, optional
        The vocabulary: one column each. If left out, `fit` takes the `most` common values of the sample, and without
        `fit` all values are hashed.
    buckets : int, optional
        Columns into which all other values are hashed, each with a sign; 1 lets them share one column, named 'other'.
        By default 1 if `values` are declared or the sample has at most `most` of them, else 16.
    most : int
        Largest size of a vocabulary that `fit` learns.

    Examples
    --------
    >>> genre = Category("genre", ["rock", "jazz"])
    >>> genre.labels
    ('genre=rock', 'genre=jazz', 'genre=other', 'genre missing')
    >>> [genre.reader(0)(value)[0] for value in ("jazz", "polka", None)]
    [(1,), (2,), (3,)]
    """

    kind: ClassVar[str] = "category"

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        place = self._placer(offset)
        missing = ((offset + len(self.labels) - 1,), (1.0,))
        cells: dict[Any, Cell] = {}

        def read(value: Any) -> Cell:
            try:
                return cells[value]
            except KeyError:
                pass
            except TypeError as error:
                raise self._wrong("a text or a number", value) from error
            if is_missing(value):
                return missing
            index, sign = place(self._text(value))
            if len(cells) == REMEMBERED:
                cells.clear()
            cells[value] = cell = ((index,), (sign,))
            return cell

        return read


@dataclass(frozen=True)
class Tags(_Words):
    """Several values at once: a list or set of texts, or one text with a separator. One column per known value.

    With n tags each counts 1 / sqrt(n), so that a long list weighs no more than a short one. An empty list is not
    missing: it fills no column.

    Attributes
    ----------
    values, buckets, most :
        The vocabulary, as in `Category`.
    separator : str, optional
        Splits a text into tags, such as '|'; without it, a text is one tag.

    Examples
    --------
    >>> moods = Tags("moods", ["calm", "live"], separator="|")
    >>> moods.reader(0)("calm|live") == moods.reader(0)({"live", "calm"})
    True
    >>> moods.labels
    ('moods=calm', 'moods=live', 'moods=other', 'moods missing')
    """

    separator: str | None = None
    kind: ClassVar[str] = "tags"
    slots: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.separator is not None and (not isinstance(self.separator, str) or not self.separator):
            raise ValueError(f"{self.name}: separator: expected a text that is not empty, got {self.separator!r}")

    def _words(self, value: Any) -> list[str]:
        if isinstance(value, str):
            parts: Iterable[Any] = value.split(self.separator) if self.separator else [value]
        elif isinstance(value, Iterable) and not isinstance(value, bytes | dict):
            parts = value
        else:
            raise self._wrong("a list of tags", value)
        return sorted({self._text(part) for part in parts} - {""})

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        place = self._placer(offset)
        missing = ((offset + len(self.labels) - 1,), (1.0,))

        def read(value: Any) -> Cell:
            if is_missing(value):
                return missing
            words = self._words(value)
            if not words:
                return (), ()
            placed = [place(word) for word in words]
            size = math.sqrt(len(placed))
            return tuple(index for index, _ in placed), tuple(sign / size for _, sign in placed)

        return read
