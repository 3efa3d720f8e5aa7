"""`ridge` rows of DriftUCB's many models: multiply, absorb, in vector units.

A row is given by the array that holds it and the place at which it begins: to make a view of it would take as long as
the work on a row with few features. Vectors beside it, x and z = M x, are as long as `vectors.padded` says, with 0
behind the features in x and anything in z. These sums round otherwise than those of `ridge`, which stay as they are,
because the service makes models of other policies anew from logs of earlier versions, bit for bit.
"""

from __future__ import annotations

import math

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.ridge import COUNT, THETA
from driftbandit.kernels.vector_units.instructions import WIDTH
from driftbandit.kernels.vector_units.lines import Drift, correct, expect, fade_lines, meet_lines

STEADY = (1.0, 0.0, 1.0, 0.0)
"""No drift."""


@jit_inside
def multiply(rows: Floats, at: int, d: int, x: Floats, z: Floats) -> tuple[float, float]:
    """Write M x into `z`, where M is the matrix of the row that begins at `at`; returns theta'x and x' M x."""
    return multiply_drifted(rows, at, at, d, STEADY, x, x, z)


@jit_inside
def absorb(rows: Floats, at: int, d: int, z: Floats, error: float, variance: float) -> None:
    """Absorb one reward into the row that begins at `at`, as `ridge.absorb` does. Overwrites `z`."""
    absorb_drifted(rows, at, at, d, STEADY, z, error, variance)


@jit_inside
def multiply_drifted(
    rows: Floats, at: int, towards: int, d: int, drift: Drift, x: Floats, lifted: Floats, z: Floats
) -> tuple[float, float]:
    """As `multiply`, for a row that drifts before: its weights towards those of the row that begins at `towards`."""
    product(rows, at + THETA + d, d, x, z)
    return expect(rows, at + THETA, towards + THETA, drift, z, lifted, x, d)


@jit_inside
def absorb_drifted(
    rows: Floats, at: int, towards: int, d: int, drift: Drift, z: Floats, error: float, variance: float
) -> None:
    """As `absorb`, for a row that drifts before, all but the diagonal of its matrix, which gains by itself."""
    # w w' is given by w alone, because squares of z may overflow
    correct(rows, at + THETA, towards + THETA, drift, z, error / variance, 1.0 / math.sqrt(variance), d)
    fade_outer(rows, at + THETA + d, d, z, drift[2])
    rows[at + COUNT] += 1.0


@jit_inside
def product(triangle: Floats, at: int, d: int, x: Floats, out: Floats) -> None:
    """Write M x into `out`, where the triangle of M begins at the place `at`."""
    tiled = d - d % WIDTH
    for i in range(0, tiled, WIDTH):
        meet_lines(triangle, at, i, WIDTH, x, out)
        at += WIDTH * i + 10
    meet_lines(triangle, at, tiled, d - tiled, x, out)


@jit_inside
def fade_outer(triangle: Floats, at: int, d: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w', where the triangle of M begins at the place `at`."""
    tiled = d - d % WIDTH
    for i in range(0, tiled, WIDTH):
        fade_lines(triangle, at, i, WIDTH, w, fade)
        at += WIDTH * i + 10
    fade_lines(triangle, at, tiled, d - tiled, w, fade)
