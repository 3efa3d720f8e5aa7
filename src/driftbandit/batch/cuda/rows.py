"""How rows of `kernels.ridge` lie on a device: [triangle of A^-1, theta, n], in float64 or float32.

Kernels compute in float64 whatever the storage. Float32 takes half the memory and half the traffic, and rounds what was
learned to 7 digits after every reward. Rounding can leave an A^-1 that no rewards could have led to: a matrix with
eigenvalues below 0, or above 1 / ridge. `Rows.refresh` finds such matrices and moves them to the nearest possible one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import as_floats

_PART = 1 << 14  # rows refreshed at a time
_SLACK = 1e-6  # share of 1 / ridge by which rounding may exceed it
_LEAST = 1e-7  # least eigenvalue after a refresh, as a share of the largest: about the precision of float32


class Rows:
    """Conversion between rows of the CPU's kernels and rows on a device.

    Parameters
    ----------
    xp :
        CuPy, or NumPy.
    dim : int
        Number of features.
    dtype : {'float64', 'float32'}
        How rows are stored on the device.
    """

    def __init__(self, xp: Any, dim: int, dtype: str = "float64") -> None:
        if dtype not in ("float64", "float32"):
            raise ValueError(f"dtype: expected 'float64' or 'float32', got {dtype!r}")
        self._xp, self._dim, self._dtype = xp, dim, np.dtype(dtype)
        self.single = dtype == "float32"
        self._triangle = dim * (dim + 1) // 2

    @property
    def room(self) -> int:
        """Numbers that one row takes: a multiple of 16 bytes."""
        step = 4 if self.single else 2
        return -(-(1 + self._dim + self._triangle) // step) * step

    def laid_out(self, name: str, rows: Any) -> Any:
        """Rows ``[n, theta, triangle]`` as they lie on the device."""
        dim, triangle = self._dim, self._triangle
        array = as_floats(self._xp, name, rows, (None, 1 + dim + triangle))
        found = self._xp.zeros((len(array), self.room), dtype=self._dtype)
        found[:, :triangle] = array[:, 1 + dim :]
        found[:, triangle : triangle + dim] = array[:, 1 : 1 + dim]
        found[:, triangle + dim] = array[:, 0]
        return found

    def exchanged(self, rows: Any) -> Any:
        """What `laid_out` was given, in float64."""
        triangle, last = self._triangle, self._triangle + self._dim
        parts = rows[:, last : last + 1], rows[:, triangle:last], rows[:, :triangle]
        return self._xp.concatenate(parts, axis=1).astype(np.float64)

    def refresh(self, rows: Any, ridge: float) -> int:
        """Repair, in place, the matrices of rows on the device that rounding made impossible; returns how many."""
        xp, dim = self._xp, self._dim
        lines, columns = (xp.asarray(index) for index in np.tril_indices(dim))
        repaired = 0
        for start in range(0, len(rows), _PART):
            part = rows[start : start + _PART]
            whole = xp.empty((len(part), dim, dim))
            whole[:, lines, columns] = part[:, : self._triangle]
            whole[:, columns, lines] = part[:, : self._triangle]
            values, vectors = xp.linalg.eigh(whole)
            most = (1.0 + _SLACK) / ridge
            wrong = (values[:, 0] <= 0.0) | (values[:, -1] > most)
            repaired += int(wrong.sum())
            values = xp.minimum(xp.maximum(values, _LEAST * values[:, -1:]), 1.0 / ridge)
            whole = xp.matmul(vectors * values[:, None, :], vectors.transpose(0, 2, 1))
            part[:, : self._triangle] = xp.where(
                wrong[:, None], whole[:, lines, columns].astype(self._dtype), part[:, : self._triangle]
            )
        return repaired
