"""Checks of the arrays of a log."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Ints

Rows = NDArray[np.int32]

CHUNK = 1 << 20
"""Numbers checked at a time, so that checking needs no copy of a log."""


def as_array(name: str, given: Any, dtype: np.dtype[Any], dimensions: int) -> NDArray[Any]:
    """The array of a field, of the type and number of dimensions that it must have."""
    shape = "(n,)" if dimensions == 1 else "(n, d)"
    try:
        array = np.asarray(given)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{name}: expected shape {shape}, got rows of unequal length") from error
    if array.ndim != dimensions or (dimensions == 2 and not array.shape[1]):
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    if not array.size:
        array = array.astype(dtype)  # NumPy makes an empty list float64
    if array.dtype.kind not in ("iu" if dtype.kind == "i" else "fiub"):
        raise ValueError(f"{name}: expected {'whole' if dtype.kind == 'i' else 'real'} numbers, got {array.dtype}")
    if dtype.kind == "i":
        if array.dtype != dtype and array.size:
            limits = np.iinfo(dtype)
            if int(array.min()) < limits.min or int(array.max()) > limits.max:
                raise ValueError(f"{name}: expected numbers that fit {dtype}, got {array.min()} to {array.max()}")
    else:
        flat = array.reshape(-1)
        if not all(np.isfinite(flat[start : start + CHUNK]).all() for start in range(0, len(flat), CHUNK)):
            raise ValueError(f"{name}: expected finite values")
    return np.require(array, dtype, ["C", "A"])


def repeated(numbers: Ints) -> bool:
    """Whether a number comes twice."""
    ordered = np.sort(numbers)  # many times faster here than np.unique
    return bool((ordered[1:] == ordered[:-1]).any())


def check_below(name: str, rows: Rows, count: int, what: str) -> None:
    """Refuse rows that a table of `count` things does not have."""
    if len(rows) and (rows.min() < 0 or rows.max() >= count):
        raise ValueError(f"{name}: expected rows of {count} {what}, got {rows.min()} to {rows.max()}")
