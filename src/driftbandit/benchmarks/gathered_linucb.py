"""LinUCB on a fixed table of sparse rows, exact and quick enough for studies with thousands of features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftbandit.core import Floats, Ints

_GATHERED = 64


class GatheredLinUCB:
    """LinUCB whose updates of A^-1 are gathered and made 64 at a time, as one product of matrices.

    Until then A^-1 is ``inverse - W'W``, where W holds one line w per reward; see `kernels.ridge`. `table` is in CSR
    format, and arms are rows of it.
    """

    def __init__(self, table: Any, ridge: float, explore: float) -> None:
        dim = table.shape[1]
        self._columns, self._values = _padded(table)
        self._inverse = np.eye(dim) / ridge
        self._gathered = np.zeros((_GATHERED, dim))
        self._count = 0
        self._theta = np.zeros(dim)
        self._explore = explore

    def scores(self, rows: Ints) -> Floats:
        """x'theta + explore * sqrt(x' A^-1 x) of these rows."""
        columns, values = self._columns[rows], self._values[rows]
        means = (self._theta[columns] * values).sum(axis=1)
        blocks = self._inverse[columns[:, :, np.newaxis], columns[:, np.newaxis, :]]
        squares = np.einsum("ki,kij,kj->k", values, blocks, values)
        waiting = (self._gathered[: self._count, columns] * values).sum(axis=2)
        squares -= (waiting * waiting).sum(axis=0)
        scores: Floats = means + self._explore * np.sqrt(np.maximum(squares, 0.0))
        return scores

    def choose(self, rows: Ints) -> int:
        return int(np.argmax(self.scores(rows)))

    def learn(self, row: int, reward: float) -> None:
        columns, values = self._columns[row], self._values[row]
        lines = self._gathered[: self._count]
        z = values @ self._inverse[columns] - (lines[:, columns] @ values) @ lines
        variance = 1.0 + float(z[columns] @ values)
        self._theta += z * ((reward - self._theta[columns] @ values) / variance)
        self._gathered[self._count] = z / math.sqrt(variance)
        self._count += 1
        if self._count == _GATHERED:
            self._inverse -= self._gathered.T @ self._gathered
            self._count = 0


def _padded(table: Any) -> tuple[Ints, Floats]:
    """Columns and values of all rows as two arrays; short rows are filled up with zeros in column 0."""
    counts = np.diff(table.indptr)
    shape = (table.shape[0], int(counts.max()))
    columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    filled = np.arange(shape[1]) < counts[:, np.newaxis]
    columns[filled], values[filled] = table.indices, table.data
    return columns, values
