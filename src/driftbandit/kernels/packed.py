"""Symmetric positive definite matrices as packed lower triangles: multiply, update, factor, solve, invert.

Line i of the triangle holds the entries (i, 0) to (i, i), as in the rows of `kernels.ridge`.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit, jit_inside
from driftbandit.kernels.vectors import WIDTH, fade_line, fade_lines, meet_line, meet_lines


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
    """Write A x into `out`. The order of its sums does not depend on where the arrays lie in memory."""
    product_at(triangle, 0, x, out)


@jit_inside
def product_at(triangle: Floats, at: int, x: Floats, out: Floats) -> None:
    """As `product`, with the triangle that begins at the place `at` of an array."""
    d = len(x)
    tiled = d - d % WIDTH
    for i in range(0, tiled, 4):
        p, q, r, s = meet_lines(triangle, at, i, i, x, out)
        a, b, c, e = at + i, at + 2 * i + 1, at + 3 * i + 3, at + 4 * i + 6  # column i of the four lines
        of_p, of_q, of_r, of_s = x[i], x[i + 1], x[i + 2], x[i + 3]
        out[i] = p + triangle[a] * of_p + triangle[b] * of_q + triangle[c] * of_r + triangle[e] * of_s
        q += triangle[b] * of_p + triangle[b + 1] * of_q
        out[i + 1] = q + triangle[c + 1] * of_r + triangle[e + 1] * of_s
        r += triangle[c] * of_p + triangle[c + 1] * of_q + triangle[c + 2] * of_r
        out[i + 2] = r + triangle[e + 2] * of_s
        s += triangle[e] * of_p + triangle[e + 1] * of_q + triangle[e + 2] * of_r
        out[i + 3] = s + triangle[e + 3] * of_s
        at += 4 * i + 10
    for i in range(tiled, d):
        total = meet_line(triangle, at, i, tiled, x, out)
        for j in range(tiled, i):
            total += triangle[at + j] * x[j]
            out[j] += triangle[at + j] * x[i]
        out[i] = total + triangle[at + i] * x[i]  # lines below add their share
        at += i + 1


@jit_inside
def fade_outer_at(triangle: Floats, at: int, w: Floats, fade: float) -> None:
    """A <- fade * A - w w', where the triangle of A begins at the place `at` of an array."""
    d = len(w)
    tiled = d - d % WIDTH
    for i in range(0, tiled, 4):
        fade_lines(triangle, at, i, i, w, fade)
        for k in range(4):
            at += i
            for j in range(k + 1):
                triangle[at + j] = fade * triangle[at + j] - w[i + k] * w[i + j]
            at += k + 1
    for i in range(tiled, d):
        fade_line(triangle, at, i, tiled, w, fade)
        for j in range(tiled, i + 1):
            triangle[at + j] = fade * triangle[at + j] - w[i] * w[j]
        at += i + 1
