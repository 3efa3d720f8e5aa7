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

    def rows(self, values: Sequence[Any], offset: int) -> tuple[Ints, Floats]:
        """Encode many values at once: columns and numbers, each of shape (n, slots)."""
        read = self.reader(offset)
        cells = [read(value) for value in plain(values)]
        slots = max((len(index) for index, _ in cells), default=1)
        if self.slots is None:  # fill up with zeros
            cells = [
                (index + (0,) * (slots - len(index)), value + (0.0,) * (slots - len(value))) for index, value in cells
            ]
        index = np.array([index for index, _ in cells], dtype=np.int64).reshape(len(cells), slots)
        value = np.array([value for _, value in cells], dtype=np.float64).reshape(len(cells), slots)
        return index, value

    def to_json(self) -> dict[str, Any]:
        """Kind and settings."""
        return {"kind": self.kind, **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}}

    def _wrong(self, expected: str, value: object) -> ValueError:
        shown = repr(value)
        return ValueError(f"{self.name}: expected {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")

    def _number(self, value: Any) -> float:
        """The value as a float, NaN if it is missing."""
        if value is None:
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
    """Whether a value is None or NaN."""
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def plain(values: Sequence[Any]) -> Sequence[Any]:
    """Python's own numbers and texts, which are faster one by one."""
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
