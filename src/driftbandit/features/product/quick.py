"""The fast way for a few records whose columns are numbers, categories and flags: most catalogues.

One by one, every value costs a call of Python; column by column, every column costs a dozen calls of NumPy. Here the
numbers and words of all records become one array, and one kernel makes rows of it. A word comes as one whole number,
its code: three times the column that it fills, plus the place in `_VALUES` of what it fills that column with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.features.columns.base import Cell, Column, is_missing
from driftbandit.features.columns.categories import REMEMBERED, Category
from driftbandit.features.columns.numbers import LIMIT, Flag, Number
from driftbandit.kernels.compile import finite, jit

_VALUES = (1.0, -1.0, 0.0)


class Quick:
    """Writes rows of records straight to where they are kept.

    Parameters
    ----------
    order : sequence of (Column, int)
        The columns in the order of a row's slots, numbers first, and where the columns of each start.

    Attributes
    ----------
    slots : int
        Slots of a row.
    """

    def __init__(self, order: Sequence[tuple[Column, int]]) -> None:
        self.slots = 1 + len(order)
        scaling = [column.scaling() for column, _ in order if isinstance(column, Number)]
        self._count = len(scaling)
        self._scaling: Floats = np.array(scaling).reshape(-1, 2)
        self._places: Ints = np.array([offset for _, offset in order[: self._count]], dtype=np.int64)
        self._words: list[tuple[Callable[[Any], Cell], dict[Any, int]]] = [
            (column.reader(offset), {}) for column, offset in order[self._count :]
        ]

    @staticmethod
    def fits(columns: Sequence[Column]) -> bool:
        """Whether these columns can be encoded in this way."""
        return bool(columns) and all(isinstance(column, Number | Category | Flag) for column in columns)

    def write(self, values: list[Any], index: Ints, value: Floats) -> bool:
        """Write the slots of several records into the rows of `index` and `value`.

        The values come in one list, record after record. Returns False, with nothing of use written, if this way does
        not serve: if a number is none or infinite, or a word is NaN.
        """
        if self._write(values, index, value):
            return True
        self._meet(values)
        return self._write(values, index, value)

    def _write(self, values: list[Any], index: Ints, value: Floats) -> bool:
        """Write the slots if all words are known."""
        wide = self.slots - 1
        cells = values.copy()
        for place, (_, known) in enumerate(self._words, self._count):
            cells[place::wide] = map(known.get, values[place::wide])
        try:
            numbers = np.fromiter(cells, np.float64, len(cells))  # None becomes NaN
        except (TypeError, ValueError, OverflowError):
            return False
        return bool(_decode(numbers, self._scaling, self._places, index, value))

    def _meet(self, values: list[Any]) -> None:
        """Find the codes of new words."""
        for place, (read, known) in enumerate(self._words, self._count):
            words = set(values[place :: self.slots - 1])
            if len(known) + len(words) > REMEMBERED:
                known.clear()
            for word in words - known.keys():
                (column,), (number,) = read(word)
                if word is None or not is_missing(word):  # every NaN would be a key of its own
                    known[word] = len(_VALUES) * column + _VALUES.index(number)


@jit
def _decode(cells: Floats, scaling: Floats, places: Ints, index: Ints, value: Floats) -> bool:
    """Scale numbers and decode words; `cells` holds them record after record, the numbers first.

    A number that is NaN is missing; a code that is NaN is not known.
    """
    count, wide = len(scaling), len(cells) // len(index)
    for k in range(len(index)):
        index[k, 0], value[k, 0] = 0, 1.0
        for j in range(wide):
            cell = cells[k * wide + j]
            if finite(cell) and j < count:
                scaled = (cell - scaling[j, 0]) / scaling[j, 1]
                index[k, 1 + j], value[k, 1 + j] = places[j], max(-LIMIT, min(scaled, LIMIT))
            elif finite(cell):
                code = int(cell)
                index[k, 1 + j], value[k, 1 + j] = code // 3, _VALUES[code % 3]
            elif np.isnan(cell) and j < count:
                index[k, 1 + j], value[k, 1 + j] = places[j] + 1, 1.0
            else:
                return False
    return True
