"""Columns of numbers: number, cycle, flag, vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.features.columns.base import Cell, Column, Rows, is_missing

LIMIT = 5.0
"""Scaled numbers are clipped to this size, so that one absurd value cannot drown everything else."""

_HUGE = 1e99
"""Larger numbers in a sample count as this, so that their squares stay finite."""

_ALIKE = 1e-9
"""Numbers that differ by less than this share of their mean do not differ."""

_STEPS = 1e12
"""Cosines are rounded to this many steps, so that the libraries of all machines give the same numbers."""


@dataclass(frozen=True)
class Number(Column):
    """A number, shifted and scaled so that `low` becomes -1 and `high` becomes 1.

    Fitted to a sample, `low` and `high` lie one standard deviation below and above the mean.

    Attributes
    ----------
    low, high : float, optional
        The usual range. Values beyond it are fine; scaled values are clipped to [-5, 5].

    Examples
    --------
    >>> price = Number("price", low=0, high=20)
    >>> price.labels, price.reader(0)(15.0), price.reader(0)(None)
    (('price', 'price missing'), ((0,), (0.5,)), ((1,), (1.0,)))
    """

    low: float | None = None
    high: float | None = None
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name}: expected both low and high, or neither")
        if self.low is not None and self.high is not None:
            object.__setattr__(self, "low", as_number(f"{self.name}: low", self.low))
            object.__setattr__(self, "high", as_number(f"{self.name}: high", self.high, self.low, open_low=True))

    @property
    def needs(self) -> str:
        """What must be declared or fitted before this column can be used; empty if nothing."""
        return "low and high" if self.low is None else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return (self.name, f"{self.name} missing")

    def fitted(self, values: Sequence[Any]) -> Number:
        """This column with mean - deviation as `low` and mean + deviation as `high`, unless they were declared."""
        if self.low is not None:
            return self
        numbers = self._numbers(values)
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return Number(self.name, -1.0, 1.0)
        numbers = np.clip(numbers, -_HUGE, _HUGE)
        centre, deviation = float(np.mean(numbers)), float(np.std(numbers))
        if deviation <= _ALIKE * abs(centre):
            deviation = max(abs(centre), 1.0)
        return Number(self.name, centre - deviation, centre + deviation)

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        centre, scale = self.scaling()
        place, missing = (offset,), ((offset + 1,), (1.0,))

        def read(value: Any) -> Cell:
            if type(value) is float:
                scaled = (value - centre) / scale
                if -LIMIT <= scaled <= LIMIT:  # almost always; never for NaN
                    return place, (scaled,)
            number = self._number(value)
            if math.isnan(number):
                return missing
            return place, (max(-LIMIT, min((number - centre) / scale, LIMIT)),)

        return read

    def batch(self, offset: int) -> Callable[[Sequence[Any]], Rows]:
        """A function that encodes many values at once; its columns start at `offset`."""
        encode = block([self], [offset])
        return lambda values: encode([values])

    def scaling(self) -> tuple[float, float]:
        """Its centre and its scale."""
        assert self.low is not None
        assert self.high is not None
        return self.low / 2.0 + self.high / 2.0, self.high / 2.0 - self.low / 2.0


def block(columns: Sequence[Number], offsets: Sequence[int]) -> Callable[[Sequence[Sequence[Any]]], Rows]:
    """A function that encodes the values of many number columns at once, given one sequence per column."""
    scaling = np.array([column.scaling() for column in columns]).reshape(-1, 2)
    centres, scales, first = scaling[:, :1], scaling[:, 1:], np.array(offsets, dtype=np.int64)[:, None]

    def encode(values: Sequence[Sequence[Any]]) -> Rows:
        try:
            numbers = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.empty(0)
        present = np.isfinite(numbers)
        if numbers.ndim != 2 or not present.all():  # missing values; or bad ones, which this will name
            numbers = np.array([column._numbers(given) for column, given in zip(columns, values, strict=True)])
            present = np.isfinite(numbers)
        scaled = np.minimum(np.maximum((numbers - centres) / scales, -LIMIT), LIMIT)
        scaled[~present] = 1.0
        return (first + ~present).T, scaled.T

    return encode


@dataclass(frozen=True)
class Cycle(Column):
    """A number that starts again at 0 when it reaches `period`: hour of day (24), day of week (7).

    It becomes cosine and sine, so that 23 o'clock is close to 0 o'clock. Missing is (0, 0), where no time of day lies.

    Attributes
    ----------
    period : float
        Length of the cycle.

    Examples
    --------
    >>> Cycle("hour", 24).reader(0)(6)[1], Cycle("hour", 24).labels
    ((0.0, 1.0), ('hour cos', 'hour sin'))
    """

    period: float
    kind: ClassVar[str] = "cycle"
    slots: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", as_number(f"{self.name}: period", self.period, 0.0, open_low=True))

    @property
    def needs(self) -> str:
        """Nothing: the period is always declared."""
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return (f"{self.name} cos", f"{self.name} sin")

    def fitted(self, values: Sequence[Any]) -> Cycle:
        """This column as it is."""
        return self

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        place = (offset, offset + 1)

        def read(value: Any) -> Cell:
            number = self._number(value)
            if math.isnan(number):
                return place, (0.0, 0.0)
            angle = 2.0 * math.pi * (number % self.period) / self.period
            return place, (round(math.cos(angle) * _STEPS) / _STEPS, round(math.sin(angle) * _STEPS) / _STEPS)

        return read

    def batch(self, offset: int) -> Callable[[Sequence[Any]], Rows]:
        """A function that encodes many values at once; its columns start at `offset`."""
        place = np.array([offset, offset + 1])

        def encode(values: Sequence[Any]) -> Rows:
            numbers = self._numbers(values)
            angle = 2.0 * math.pi * np.mod(numbers, self.period) / self.period
            turned = np.rint(np.stack([np.cos(angle), np.sin(angle)], axis=1) * _STEPS) / _STEPS + 0.0
            turned[np.isnan(numbers)] = 0.0
            return np.tile(place, (len(turned), 1)), turned

        return encode


@dataclass(frozen=True)
class Flag(Column):
    """Yes or no: 1 or -1, and 0 if missing.

    Examples
    --------
    >>> read = Flag("member").reader(0)
    >>> [read(value)[1][0] for value in (True, 0, None)]
    [1.0, -1.0, 0.0]
    """

    kind: ClassVar[str] = "flag"

    @property
    def needs(self) -> str:
        """Nothing."""
        return ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return (self.name,)

    def fitted(self, values: Sequence[Any]) -> Flag:
        """This column as it is."""
        return self

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        yes, no, missing = (((offset,), (sign,)) for sign in (1.0, -1.0, 0.0))

        def read(value: Any) -> Cell:
            if is_missing(value):
                return missing
            if isinstance(value, bool | int | float | np.generic) and value in (0, 1):
                return yes if value else no
            raise self._wrong("true, false or nothing", value)

        return read


@dataclass(frozen=True)
class Vector(Column):
    """A list of `size` numbers, such as an embedding, passed through.

    Attributes
    ----------
    size : int, optional
        Its length; learned from a sample if left out.

    Examples
    --------
    >>> Vector("taste", 2).reader(0)([0.5, -1])
    ((0, 1, 2), (0.5, -1.0, 0.0))
    >>> Vector("taste", 2).labels
    ('taste[0]', 'taste[1]', 'taste missing')
    """

    size: int | None = None
    kind: ClassVar[str] = "vector"
    slots: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None:
            object.__setattr__(self, "size", as_count(f"{self.name}: size", self.size))

    @property
    def needs(self) -> str:
        """What must be declared or fitted before this column can be used; empty if nothing."""
        return "size" if self.size is None else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return (*(f"{self.name}[{place}]" for place in range(self.size or 0)), f"{self.name} missing")

    def fitted(self, values: Sequence[Any]) -> Vector:
        """This column with the size of the first vector in the sample, unless it was declared."""
        if self.size is not None:
            return self
        first = next((value for value in values if not is_missing(value)), None)
        if not isinstance(first, Iterable) or isinstance(first, str):
            raise self._wrong("a list of numbers in the sample", first)
        return Vector(self.name, len(list(first)))

    def reader(self, offset: int) -> Callable[[Any], Cell]:
        """A function that encodes one value; its columns start at `offset`."""
        size = self.size or 0
        place = tuple(range(offset, offset + size + 1))
        missing = (0.0,) * size + (1.0,)

        def read(value: Any) -> Cell:
            if is_missing(value):
                return place, missing
            try:
                vector = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise self._wrong(f"{size} numbers", value) from error
            if vector.shape != (size,) or not np.isfinite(vector).all():
                raise self._wrong(f"{size} finite numbers", value)
            return place, (*vector.tolist(), 0.0)

        return read
