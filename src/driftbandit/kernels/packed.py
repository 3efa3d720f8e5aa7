"""Symmetric positive definite matrices as packed lower triangles: factor, solve, invert.

Line i of the triangle holds the entries (i, 0) to (i, i), as in the rows of `kernels.ridge`.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit


def packed_size(dim: int) -> int:
    """Length of a triangle."""
    return dim * (dim + 1) // 2


@jit
def add_outer(triangle: Floats, x: Floats) -> None:
    """Add x x'."""
    at = 0
    for i in range(len(x)):
        for j in range(i + 1):
            triangle[at + j] += x[i] * x[j]
        at += i + 1


@jit
def factor(triangle: Floats, ridge: float, dim: int, out: Floats) -> bool:
    """Write L with L L' = A + ridge * I into `out`, with 1 / L_ii on its diagonal; False if not positive definite."""
    at = 0
    for i in range(dim):
        line = out[at : at + i + 1]
        start = 0
        for j in range(i):
            total = triangle[at + j]
            other = out[start : start + j + 1]
            for k in range(j):
                total -= line[k] * other[k]
            line[j] = total * other[j]
            start += j + 1
        total = triangle[at + i] + ridge
        for k in range(i):
            total -= line[k] * line[k]
        if not total > 0.0:
            return False
        line[i] = 1.0 / math.sqrt(total)
        at += i + 1
    return True


@jit
def solve(factored: Floats, x: Floats) -> None:
    """Overwrite `x` with A^-1 x, from what `factor` wrote."""
    d = len(x)
    at = 0
    for i in range(d):
        total = x[i]
        for k in range(i):
            total -= factored[at + k] * x[k]
        x[i] = total * factored[at + i]
        at += i + 1
    for i in range(d - 1, -1, -1):
        at -= i + 1
        x[i] *= factored[at + i]
        for k in range(i):
            x[k] -= factored[at + k] * x[i]


@jit
def invert(triangle: Floats, dim: int, out: Floats) -> bool:
    """Write the triangle of A^-1 into `out`; False if A is not positive definite."""
    factored = np.empty(len(triangle))
    if not factor(triangle, 0.0, dim, factored):
        return False
    column = np.empty(dim)
    for j in range(dim):
        column[:] = 0.0
        column[j] = 1.0
        solve(factored, column)
        at = j * (j + 1) // 2
        for i in range(j + 1):  # the inverse is symmetric: column j up to the diagonal is line j
            out[at + i] = column[i]
    return True


@jit
def product(triangle: Floats, x: Floats, out: Floats) -> None:
    """Write A x into `out`.

    No loop both sums and stores: compilers then check at run time whether arrays may overlap, and the order of the sum
    would depend on where the arrays lie in memory.
    """
    at = 0
    for i in range(len(x)):
        total = 0.0
        for j in range(i + 1):
            total += triangle[at + j] * x[j]
        for j in range(i):
            out[j] += triangle[at + j] * x[i]
        out[i] = total  # lines below add their share
        at += i + 1
