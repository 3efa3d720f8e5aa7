"""Matrices in tiles and rows of DriftUCB's models, written down once more: as tables, and in plain NumPy."""

import numpy as np

from driftbandit.kernels.driftucb import rows
from driftbandit.kernels.vector_units.instructions import WIDTH


def whole(x):
    """A vector, or each line of a table, with 0 behind it up to a whole number of vectors of the processor."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % WIDTH)])


def tiled(matrix):
    """The tiles on and left of the diagonal, group of lines after group of lines."""
    lines = whole(matrix)
    groups = [(lines[i : i + WIDTH], i) for i in range(0, len(matrix), WIDTH)]
    return np.concatenate([group[:, j : j + WIDTH].ravel() for group, i in groups for j in range(0, i + 1, WIDTH)])


def dense(tiles, d):
    """The matrix, which must be symmetric to the last bit, with zeros behind its columns."""
    lines, at = np.zeros((d, -(-d // WIDTH) * WIDTH)), 0
    for i in range(0, d, WIDTH):
        count = min(d - i, WIDTH)
        for j in range(0, i + 1, WIDTH):
            lines[i : i + count, j : j + WIDTH] = tiles[at : at + count * WIDTH].reshape(count, WIDTH)
            at += count * WIDTH
    assert at == len(tiles)
    assert not lines[:, d:].any()
    for i in range(0, d, WIDTH):
        block = lines[i : i + WIDTH, i : min(i + WIDTH, d)]
        np.testing.assert_array_equal(block, block.T)
    lower = np.tril(lines[:, :d])
    return lower + np.tril(lower, -1).T


def row_of(theta, matrix, count=0.0, trace=0.0):
    """A model's row."""
    head = np.zeros(rows.THETA)
    head[rows.COUNT], head[rows.TRACE] = count, trace
    return np.concatenate([head, whole(np.asarray(theta)), tiled(np.asarray(matrix))])


def weights_of(row, d):
    """Theta of a row."""
    return row[rows.THETA : rows.THETA + d]


def matrix_of(row, d):
    """The matrix of a row, which may have room for more."""
    at = rows.THETA + len(whole(np.zeros(d)))
    return dense(row[at : at + len(tiled(np.zeros((d, d))))], d)
