"""Features as rows of non-zero numbers: from NumPy arrays and SciPy's sparse arrays alike.

Rows are three flat arrays, as in SciPy's CSR format: where each row starts in the other two, and the end of the last
row; the columns of the non-zero numbers, in increasing order within a row; and the numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from driftbandit.core import Floats, Ints, as_example, as_pool, not_finite
from driftbandit.kernels.compile import jit

_FINE, _UNTIDY, _BROKEN = range(3)
_FLOAT64 = np.dtype(np.float64)


class SparseRows(NamedTuple):
    """The non-zero numbers of some rows of features."""

    starts: Ints
    columns: Ints
    values: Floats

    def refusal(self) -> ValueError:
        """Explain why a kernel refused these rows."""
        bad = np.flatnonzero(~np.isfinite(self.values))
        if not len(bad):
            return not_finite(self.values)
        row = int(np.searchsorted(self.starts, bad[0], side="right")) - 1
        place = int(self.columns[bad[0]])
        where = (row, place) if len(self.starts) > 2 else place
        return ValueError(f"features: expected finite values, got {self.values[bad[0]]} at {where}")


def pool_rows(features: Any, dim: int) -> SparseRows:
    """Turn this round's candidates, dense or sparse of shape (K, dim), into rows, or say what is wrong.

    As in `core.as_pool`, whether values are finite is left to the kernels.

    >>> from scipy.sparse import csr_array
    >>> pool_rows(csr_array([[0.0, 2.0], [1.0, 0.0]]), 2).columns
    array([1, 0])
    """
    if not _is_sparse(features):
        return _nonzeros(as_pool(features, dim))
    shape = features.shape
    if len(shape) != 2 or shape[1] != dim:
        raise ValueError(f"features: expected shape (K, {dim}), got {shape}")
    if not shape[0]:
        raise ValueError("features: expected at least one candidate, got an empty pool")
    return _checked(features, dim)


def example_row(features: Any, dim: int) -> SparseRows:
    """Turn one arm's features, dense of shape (dim,) or sparse of shape (1, dim) or (dim,), into a row.

    >>> from scipy.sparse import csr_array
    >>> example_row(csr_array([[0.0, 2.0]]), 2).values, example_row([0.0, 2.0], 2).values
    (array([2.]), array([2.]))
    """
    if not _is_sparse(features):
        return _nonzeros(as_example(features, dim)[np.newaxis])
    if features.shape not in ((1, dim), (dim,)):
        raise ValueError(f"features: expected shape (1, {dim}) or ({dim},), got {features.shape}")
    return _checked(features, dim)


def _is_sparse(features: Any) -> bool:
    """Whether it is an array of `scipy.sparse`, which need not be imported for that."""
    return type(features) is not np.ndarray and hasattr(features, "tocsr")


def _checked(features: Any, dim: int) -> SparseRows:
    """Rows of a sparse array of any format; columns that are out of order are sorted, repeated ones added up."""
    if features.format != "csr":
        features = _sound(features).tocsr()
    rows = _arrays(features)
    count = features.shape[0] if len(features.shape) > 1 else 1
    state = _inspected(*rows, dim) if len(rows.starts) == count + 1 else _BROKEN
    if state == _BROKEN:
        raise ValueError(f"features: expected CSR indices from 0 to {dim - 1} and rows in order, got others")
    if state == _UNTIDY:
        features = features.astype(np.float64)  # a copy, in which repeated numbers do not overflow
        features.has_canonical_format = False  # SciPy may have noted it before somebody changed the arrays
        features.sum_duplicates()
        rows = _arrays(features)
    end = rows.starts[-1]  # the arrays may be longer than what is used of them
    return SparseRows(rows.starts, rows.columns[:end], rows.values[:end])


def _sound(features: Any) -> Any:
    """A sparse array whose indices lead nowhere else, which SciPy does not check when it converts."""
    try:
        if features.format == "coo":
            size = len(features.data)
            for places, length in zip(features.coords, features.shape, strict=True):
                if len(places) != size or (size and not 0 <= places.min() <= places.max() < length):
                    raise ValueError(f"indices are not {size} numbers from 0 to {length - 1}")
        elif hasattr(features, "check_format"):
            features = features.copy()  # the check may cut off what is not used
            features.check_format(full_check=True)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"features: expected a sound {features.format} array ({error})") from error
    return features


def _arrays(features: Any) -> SparseRows:
    values = features.data
    for part in (features.indptr, features.indices, values):
        if not isinstance(part, np.ndarray) or part.ndim != 1:
            raise ValueError("features: expected a CSR array whose indptr, indices and data are flat arrays")
    if values.dtype.kind not in "fiub":
        raise ValueError(f"features: expected real numbers, got dtype {values.dtype}")
    if features.indptr.dtype.kind not in "iu" or features.indices.dtype.kind not in "iu":
        raise ValueError("features: expected CSR indices of whole numbers")
    if values.dtype is not _FLOAT64 or not values.flags.carray:
        # Writeable too, although nothing is written: for read-only arrays, another type, kernels are compiled anew.
        values = np.require(values, np.float64, ["C", "A", "W"])
    return SparseRows(features.indptr.astype(np.int64), features.indices.astype(np.int64), values)


@jit
def _inspected(starts: Ints, columns: Ints, values: Floats, dim: int) -> int:
    """Whether the arrays may be used: `_FINE`, `_UNTIDY` if columns are not in increasing order, or `_BROKEN`."""
    if starts[0] != 0 or len(columns) > len(values):
        return _BROKEN
    state = _FINE
    for row in range(len(starts) - 1):
        if not starts[row] <= starts[row + 1] <= len(columns):
            return _BROKEN
        previous = -1
        for place in range(starts[row], starts[row + 1]):
            column = columns[place]
            if not 0 <= column < dim:
                return _BROKEN
            if column <= previous:
                state = _UNTIDY
            previous = column
    return state


def _nonzeros(features: Floats) -> SparseRows:
    return SparseRows(*_compressed(features))


@jit
def _compressed(features: Floats) -> tuple[Ints, Ints, Floats]:
    """The non-zero numbers of dense rows; NaN is one of them."""
    starts = np.zeros(len(features) + 1, dtype=np.int64)
    for row in range(len(features)):
        starts[row + 1] = starts[row]
        for column in range(features.shape[1]):
            if features[row, column] != 0.0:
                starts[row + 1] += 1
    columns, values = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
    place = 0
    for row in range(len(features)):
        for column in range(features.shape[1]):
            if features[row, column] != 0.0:
                columns[place], values[place] = column, features[row, column]
                place += 1
    return starts, columns, values
