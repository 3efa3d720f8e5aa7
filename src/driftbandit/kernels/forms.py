"""Quadratic forms x' A x of many arms with one symmetric matrix A, kept as a packed lower triangle.

Line i of the triangle holds the entries (i, 0) to (i, i), so that

    x' A x = 2 * sum over i of x_i * (A_i0 x_0 + ... + A_i,i-1 x_i-1 + A_ii x_i / 2),

which is half the work of a product with the whole matrix.

Four lines meet four arms at a time: eight numbers are loaded for sixteen products, all sums stay in registers, and one
core does more than half of what its vector units can. A block of lines stays in the fastest cache while all arms pass
by, so that the triangle is read from slower memory once. The last entries of four lines, the triangle of ten numbers
that ends them, are `corner`; the up to three lines that are left over go one by one.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit

_TILE = 4  # lines, and arms, that meet at a time
_BLOCK = 2048  # entries of a block of lines: 16 KB, a third of a common first cache


@jit
def form(triangle: Floats, x: Floats) -> float:
    """x' A x, never below zero."""
    return max(2.0 * _half_form(triangle, x, 0), 0.0)


@jit
def forms(triangle: Floats, features: Floats, picks: Ints) -> Floats:
    """x' A x, never below zero, of the arms x = features[pick]."""
    count, d = len(picks), features.shape[1]
    halves = np.zeros(count)
    tiled = d - d % _TILE
    first = 0
    while first < tiled:
        last = first + _TILE
        while last < tiled and (last * (last + 1) - first * (first + 1)) // 2 < _BLOCK:
            last += _TILE
        for k in range(0, count, _TILE):
            _meet(triangle, features, picks, halves, k, first, last)
        first = last
    for k in range(count):
        halves[k] += _half_form(triangle, features[picks[k]], tiled)
    for k in range(count):
        halves[k] = max(2.0 * halves[k], 0.0)
    return halves


@jit
def _half_form(triangle: Floats, x: Floats, first: int) -> float:
    """Half of what the lines from `first` on add to x' A x."""
    total = 0.0
    at = first * (first + 1) // 2
    for i in range(first, len(x)):
        line = triangle[at : at + i + 1]
        half = 0.5 * line[i] * x[i]
        for j in range(i):
            half += line[j] * x[j]
        total += half * x[i]
        at += i + 1
    return total


@jit
def _meet(triangle: Floats, features: Floats, picks: Ints, halves: Floats, k: int, first: int, last: int) -> None:
    """Add what the lines from `first` to `last` contribute to the forms of four arms, of fewer at the end."""
    end = len(picks) - 1
    w, x, y, z = (
        features[picks[k]],
        features[picks[min(k + 1, end)]],
        features[picks[min(k + 2, end)]],
        features[picks[min(k + 3, end)]],
    )
    of_w = of_x = of_y = of_z = 0.0
    at = first * (first + 1) // 2
    for i in range(first, last, _TILE):
        a = triangle[at : at + i + 1]
        b = triangle[at + i + 1 : at + 2 * i + 3]
        c = triangle[at + 2 * i + 3 : at + 3 * i + 6]
        e = triangle[at + 3 * i + 6 : at + 4 * i + 10]
        at += 4 * i + 10
        aw = ax = ay = az = bw = bx = by = bz = cw = cx = cy = cz = ew = ex = ey = ez = 0.0
        for j in range(i):
            wj, xj, yj, zj = w[j], x[j], y[j], z[j]
            entry = a[j]
            aw += entry * wj
            ax += entry * xj
            ay += entry * yj
            az += entry * zj
            entry = b[j]
            bw += entry * wj
            bx += entry * xj
            by += entry * yj
            bz += entry * zj
            entry = c[j]
            cw += entry * wj
            cx += entry * xj
            cy += entry * yj
            cz += entry * zj
            entry = e[j]
            ew += entry * wj
            ex += entry * xj
            ey += entry * yj
            ez += entry * zj
        corner = (a[i], b[i], b[i + 1], c[i], c[i + 1], c[i + 2], e[i], e[i + 1], e[i + 2], e[i + 3])
        of_w += _with_corner(corner, w[i], w[i + 1], w[i + 2], w[i + 3], aw, bw, cw, ew)
        of_x += _with_corner(corner, x[i], x[i + 1], x[i + 2], x[i + 3], ax, bx, cx, ex)
        of_y += _with_corner(corner, y[i], y[i + 1], y[i + 2], y[i + 3], ay, by, cy, ey)
        of_z += _with_corner(corner, z[i], z[i + 1], z[i + 2], z[i + 3], az, bz, cz, ez)
    halves[k] += of_w
    if k + 1 <= end:
        halves[k + 1] += of_x
    if k + 2 <= end:
        halves[k + 2] += of_y
    if k + 3 <= end:
        halves[k + 3] += of_z


@jit
def _with_corner(
    corner: tuple[float, ...],
    p: float,
    q: float,
    r: float,
    s: float,
    of_p: float,
    of_q: float,
    of_r: float,
    of_s: float,
) -> float:
    """Half of what four lines add to a form: p, q, r, s are the arm's entries there, `of_p` to `of_s` the sums left of
    the corner.
    """
    pp, qp, qq, rp, rq, rr, sp, sq, sr, ss = corner
    return (
        p * (of_p + 0.5 * pp * p)
        + q * (of_q + qp * p + 0.5 * qq * q)
        + r * (of_r + rp * p + rq * q + 0.5 * rr * r)
        + s * (of_s + sp * p + sq * q + sr * r + 0.5 * ss * s)
    )
