"""A row of numbers for each of DriftUCB's models: where they are; multiply and absorb, in vector units.

A row is ``[head, theta, matrix]``. The head has `COUNT`, the number of rewards learned; in models that act, also
`TRACE`, that of the matrix in the frame's units; in rungs of the ladder, also what `ladder.young` and `ladder.evidence`
keep there. The matrix, A^-1 or, in an expert, a covariance, is in `vector_units.tiles`. Each part fills whole vectors
with zeros. Rows are given by the array that holds them and the place at which they begin: to make a view of one would
take as long as the work on a row with few features. Vectors beside a row, x and z = M x, are as long as
`vectors.padded` says, with 0 behind the features.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import SCRATCH, borrow, copy_into, fill_in, hold, jit, jit_inside, scratch
from driftbandit.kernels.driftucb.ahead import fetch_row
from driftbandit.kernels.forms import forms_with_tiles
from driftbandit.kernels.vector_units.tiles import (
    Drift,
    correct,
    entry_at,
    expect,
    fade_outer,
    matrix_size,
    product,
    weigh_diagonal,
)
from driftbandit.kernels.vector_units.vectors import dot, padded

COUNT, TRACE = 0, 15
OTHERS = 1
"""First slot of the head of what only rungs have."""
THETA = 16

STEADY = (1.0, 0.0, 1.0, 0.0)
"""No drift; see `vector_units.tiles.expect`."""


@jit
def row_size(dim: int) -> int:
    """Length of a row."""
    return matrix_at(dim) + matrix_size(dim)


@jit_inside
def matrix_at(d: int) -> int:
    """Where the matrix begins in a row."""
    return THETA + padded(d)


@jit_inside
def variance_at(d: int, i: int) -> int:
    """Where entry (i, i) of the matrix stands in a row."""
    return matrix_at(d) + entry_at(d, i, i)


@jit_inside
def multiply(
    rows: Floats,
    at: int,
    towards: int,
    d: int,
    drift: Drift,
    lifted: Floats,
    x: Floats,
    z: Floats,
    first: int,
    ahead: int,
) -> tuple[float, float]:
    """Let a row drift, but for what `absorb` will store, and write M x into z; returns theta'x and x' M x.

    The rows begin at the places `at` and, of that to whose weights it drifts, `towards`; z begins at the place `first`
    of its array. `lifted` is diag(sizes) x, see `absorb`. Meanwhile half of the row that lies `ahead` numbers behind
    this one is fetched, as it is needed next; nothing if that is 0. `absorb` fetches the other half.
    """
    fetch_row(rows, at, ahead, matrix_at(d))
    product(rows, at + matrix_at(d), d, x, z, first, ahead)
    return expect(rows, at + THETA, towards + THETA, drift, z, first, lifted, x)


@jit_inside
def absorb(
    rows: Floats,
    at: int,
    towards: int,
    d: int,
    drift: Drift,
    sizes: Floats,
    place: int,
    z: Floats,
    first: int,
    error: float,
    variance: float,
    ahead: int,
) -> None:
    """Let a row drift and absorb a reward, where z is M x and `error` the reward minus theta'x, after the drift.

    With M = A^-1 the `variance` of the error is 1 + x' M x; with M a covariance it is the noise variance + x' M x. The
    drift adds to the diagonal of M as `sizes`, from `place` on, say. Overwrites z.
    """
    # w w' is given by w alone, because squares of z may overflow
    gain, shrink = error / variance, 1.0 / math.sqrt(variance)
    correct(rows, at + THETA, towards + THETA, drift, z, first, padded(d), gain, shrink)
    fade_outer(rows, at + matrix_at(d), d, z, first, drift[2], drift[3], sizes, place, ahead)
    rows[at + COUNT] += 1.0


@jit_inside
def note_trace(rows: Floats, at: int, d: int, shares: int) -> None:
    """Set the trace of the row that begins at the place `at`; 1 / units^2 begin at the place `shares`."""
    rows[at + TRACE] = weigh_diagonal(rows, at + matrix_at(d), d, rows, shares)


@jit
def learn(rows: Floats, at: int, d: int, x: Floats, reward: float, z: Floats) -> tuple[float, float]:
    """Let the row that begins at the place `at` learn a reward; returns the error and 1 + x' M x, where M = A^-1."""
    mean, square = multiply(rows, at, at, d, STEADY, x, x, z, 0, 0)
    error, width = reward - mean, 1.0 + max(square, 0.0)
    absorb(rows, at, at, d, STEADY, x, 0, z, 0, error, width, 0)
    return error, width


@jit
def square(row: Floats, x: Floats) -> float:
    """x' M x, never below zero."""
    d, length = len(x), padded(len(x))
    owned = np.empty(2 * length) if 2 * length > SCRATCH else scratch()
    room = borrow(owned)
    copy_into(room, x)
    for i in range(d, length):
        room[i] = 0.0
    product(row, matrix_at(d), d, room[:length], room, length, 0)
    found = max(dot(room, 0, room, length, length), 0.0)
    hold(owned)
    return found


@jit
def _squares(row: Floats, features: Floats, picks: Ints) -> Floats:
    """x' M x of the arms x = features[pick]."""
    return forms_with_tiles(row, matrix_at(features.shape[1]), features, picks)


score_best = jit(fill_in(ridge.score_best_by, "score_best_of_rows", _square=square, _squares=_squares))
"""`ridge.score_best_by` for the rows of this file."""
