"""`ridge` rows of DriftUCB's many models: multiply, absorb, in vector units.

A row is given by the array that holds it and the place at which it begins: to make a view of it would take as long as
the work on a row with few features. These sums round otherwise than those of `ridge`, which stay as they are, because
the service makes models of other policies anew from logs of earlier versions, bit for bit.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.instructions import WIDTH
from driftbandit.kernels.ridge import COUNT, THETA
from driftbandit.kernels.vectors import combine, dot, fade_line, fade_lines, meet_line, meet_lines


@jit_inside
def multiply(rows: Floats, at: int, x: Floats, z: Floats) -> tuple[float, float]:
    """Write M x into `z`, where M is the matrix of the row that begins at `at`; returns theta'x and x' M x."""
    d = len(x)
    product(rows, at + THETA + d, x, z)
    return dot(rows, at + THETA, x, 0, d), dot(z, 0, x, 0, d)


@jit_inside
def absorb(rows: Floats, at: int, z: Floats, error: float, variance: float) -> None:
    """Absorb one reward into the row that begins at `at`, as `ridge.absorb` does. Overwrites `z`."""
    d = len(z)
    combine(rows, at + THETA, 1.0, error / variance, z, 0, d)
    scale(z, 1.0 / math.sqrt(variance))
    fade_outer(rows, at + THETA + d, z, 1.0)
    rows[at + COUNT] += 1.0


@jit_inside
def scale(z: Floats, factor: float) -> None:
    """Multiply all numbers of `z`; a factor of w w' is to be given as its root, because squares of z may overflow."""
    for i in range(len(z)):
        z[i] *= factor


@jit_inside
def product(triangle: Floats, at: int, x: Floats, out: Floats) -> None:
    """Write M x into `out`, where the triangle of M begins at the place `at`."""
    d = len(x)
    tiled = d - d % WIDTH
    for i in range(0, tiled, WIDTH):
        meet_lines(triangle, at, i, x, out)
        at += WIDTH * i + 10
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
        fade_lines(triangle, at, i, w, fade)
        at += WIDTH * i + 10
    for i in range(tiled, d):
        fade_line(triangle, at, i, tiled, w, fade)
        for j in range(tiled, i + 1):
            triangle[at + j] = fade * triangle[at + j] - w[i] * w[j]
        at += i + 1
