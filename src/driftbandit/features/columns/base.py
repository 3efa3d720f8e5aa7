"""What all kinds of columns share: how one named value becomes numbers.

Every kind turns a value into a few columns, and says their names. A value fills a fixed number of them ('slots'), all
others are 0: a category fills one, a cycle two. Missing values (None, NaN, an absent key) are a value of their own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from driftbandit.core import Floats, Ints

Cell = tuple[tuple[int, ...], tuple[float, ...]]
"""The columns that a value fills, and with what."""

Rows = tuple[Ints, Floats]
"""The same for n values, each of shape (n, slots); what is not needed is filled up with zeros."""


@dataclass(frozen=True)
class Column(ABC):
    """A named column of one kind; the kinds below derive from it.

    Attributes
    ----------
    name : str
        Its key in the context or in an arm's features.
    """

    name: str
    kind: ClassVar[str] = ""
    slots: ClassVar[int | None] = 1
    """Columns that a value fills; None if that differs from value to value."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name: expected a text that is not empty, got {self.name!r}")

    @property
    @abstractmethod
    def needs(self) -> str:
        """What must be declared or fitted before this column can be used; empty if nothing."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""

    @abstractmethod
    def fitted(self, values: Sequence[Any]) -> Column:
        """This column with what was not declared learned from a sample."""

    @abstractmethod
    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""

    def batch(self, offset: int) -> Callable[[Sequence[Any]], Rows]:
        """A function that encodes many values at once; its columns start at `offset`."""
        read = self.reader(offset)

        def encode(values: Sequence[Any]) -> Rows:
            cells = [read(value) for value in plain(values)]
            if self.slots == 1:
                index, value = [place for (place,), _ in cells], [number for _, (number,) in cells]
                return np.array(index, dtype=np.int64)[:, None], np.array(value, dtype=np.float64)[:, None]
            slots = max((len(places) for places, _ in cells), default=1)
            padded = np.zeros((len(cells), slots), dtype=np.int64), np.zeros((len(cells), slots))
            for row, (places, numbers) in enumerate(cells):
                padded[0][row, : len(places)] = places
                padded[1][row, : len(numbers)] = numbers
            return padded

        return encode

    def to_json(self) -> dict[str, Any]:
        """Kind and settings."""
        return {"kind": self.kind, **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}}

    def _wrong(self, expected: str, value: object) -> ValueError:
        shown = repr(value)
        return ValueError(f"{self.name}: expected {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")

    def _number(self, value: Any) -> float:
        """The value as a float, NaN if it is missing."""
        if is_missing(value):
            return math.nan
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._wrong("a number", value) from error
        if math.isinf(number):
            raise self._wrong("a finite number", value)
        return number

    def _numbers(self, values: Sequence[Any]) -> Floats:
        """Many values as floats, NaN where they are missing."""
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.array([self._number(value) for value in values])  # says which value is wrong
        if numbers.ndim != 1:
            raise self._wrong("one number per row", values)
        if (infinite := np.isinf(numbers)).any():
            raise self._wrong("a finite number", float(numbers[infinite][0]))
        return numbers


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has in their place."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def plain(values: Sequence[Any]) -> Sequence[Any]:
    """Python's own numbers and texts, which are faster one by one."""
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
