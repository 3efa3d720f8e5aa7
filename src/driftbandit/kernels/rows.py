"""`ridge` rows of DriftUCB's many models: multiply, absorb, in vector units.

A row is given by the array that holds it and the place at which it begins: to make a view of it would take as long as
the work on a row with few features. These sums round otherwise than those of `ridge`, which stay as they are, because
the service makes models of other policies anew from logs of earlier versions, bit for bit.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.ridge import COUNT, THETA
from driftbandit.kernels.vectors import WIDTH, add, dot, fade_line, fade_lines, meet_line, meet_lines


@jit_inside
def multiply(rows: Floats, at: int, x: Floats, z: Floats) -> tuple[float, float]:
    """Write M x into `z`, where M is the matrix of the row that begins at `at`; returns theta'x and x' M x."""
    d = len(x)
    product(rows, at + THETA + d, x, z)
    return dot(rows, at + THETA, x, 0, d), dot(z, 0, x, 0, d)


@jit_inside
def absorb(rows: Floats, at: int, z: Floats, error: float, variance: float) -> None:
    """Absorb one reward into the row that begins at `at`, as `ridge.absorb` does. Overwrites `z`."""
    shrink = 1.0 / math.sqrt(variance)
    add(rows, at + THETA, error / variance, z, 0, len(z))
    for i in range(len(z)):
        z[i] *= shrink
    fade_outer(rows, at + THETA + len(z), z, 1.0)
    rows[at + COUNT] += 1.0


@jit_inside
def product(triangle: Floats, at: int, x: Floats, out: Floats) -> None:
    """Write M x into `out`, where the triangle of M begins at the place `at`."""
    d = len(x)
    tiled = d - d % WIDTH
    for i in range(0, tiled, WIDTH):
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
def fade_outer(triangle: Floats, at: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w', where the triangle of M begins at the place `at`."""
    d = len(w)
    tiled = d - d % WIDTH
    for i in range(0, tiled, WIDTH):
        fade_lines(triangle, at, i, i, w, fade)
        for k in range(WIDTH):
            at += i
            for j in range(k + 1):
                triangle[at + j] = fade * triangle[at + j] - w[i + k] * w[i + j]
            at += k + 1
    for i in range(tiled, d):
        fade_line(triangle, at, i, tiled, w, fade)
        for j in range(tiled, i + 1):
            triangle[at + j] = fade * triangle[at + j] - w[i] * w[j]
        at += i + 1
