"""Discounted ridge regression on a flat row: every reward's weight shrinks by a constant factor per round.

A row starts like that of `driftbandit.kernels.ridge`, so that the same kernels score a pool: ``[n, theta (d), lower
triangle of V^-1 W V^-1]``, and continues with what these are computed from: ``[b (d), lower triangle of V, lower
triangle of W]``. V = ridge * I + sum of w x x' and b = sum of w r x, with weights w = discount^age; W is V with the
weights squared, and n is the sum of the squared weights, which replaces the number of rewards in the radius.

The ridge is not discounted, so an update changes all directions at once and no rank-one formula applies: each update
factorises V and W anew, in about 1.5 d^3 multiplications.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit


def row_size(dim: int) -> int:
    """Length of a row."""
    return kernel.row_size(dim) + dim + dim * (dim + 1)


@jit
def reset(settings: Floats, row: Floats, dim: int) -> None:
    """Start afresh: no rewards, theta = 0, V = W = ridge * I."""
    kernel.reset(settings, row, dim)
    at = kernel.THETA + 2 * dim + dim * (dim + 1) // 2
    for _ in range(2):
        for i in range(dim):
            row[at + i] = settings[kernel.RIDGE]
            at += i + 1


@jit
def update(settings: Floats, row: Floats, x: Floats, reward: float, discount: float) -> bool:
    """Discount the past and absorb one reward; False, without an update, if features are not usable."""
    if not kernel.usable(x.reshape(1, len(x)), settings[kernel.RIDGE]):
        return False
    absorb(settings, row, x, reward, discount)
    solve(settings, row, len(x))
    return True


@jit
def absorb(settings: Floats, row: Floats, x: Floats, reward: float, discount: float) -> None:
    """Discount the past and add one reward to V, W and b; `solve` or `estimate` must follow."""
    d = len(x)
    squared = discount * discount
    moment, gram, noise_gram = _sums(row, d)
    at = 0
    for i in range(d):
        moment[i] = discount * moment[i] + reward * x[i]
        for j in range(i + 1):
            product = x[i] * x[j]
            gram[at + j] = discount * gram[at + j] + product
            noise_gram[at + j] = squared * noise_gram[at + j] + product
        gram[at + i] += (1.0 - discount) * settings[kernel.RIDGE]
        noise_gram[at + i] += (1.0 - squared) * settings[kernel.RIDGE]
        at += i + 1
    row[kernel.COUNT] = squared * row[kernel.COUNT] + 1.0


@jit
def _sums(row: Floats, d: int) -> tuple[Floats, Floats, Floats]:
    """b, V and W of a row."""
    half = d * (d + 1) // 2
    start = kernel.THETA + d + half
    return row[start : start + d], row[start + d : start + d + half], row[start + d + half : start + d + 2 * half]


@jit
def estimate(settings: Floats, row: Floats, d: int) -> None:
    """Theta = V^-1 b alone, for a row that predicts but does not choose: a ninth of the work of `solve`."""
    moment, gram, _ = _sums(row, d)
    upper = _cholesky(gram, settings[kernel.RIDGE], d)
    theta = row[kernel.THETA : kernel.THETA + d]
    theta[:] = moment
    for i in range(d):
        theta[i] /= upper[i, i]
        for j in range(i + 1, d):
            theta[j] -= upper[i, j] * theta[i]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            theta[i] -= upper[i, j] * theta[j]
        theta[i] /= upper[i, i]


@jit
def solve(settings: Floats, row: Floats, d: int) -> None:
    """Theta = V^-1 b and V^-1 W V^-1, by way of V = L L' and W = C C'.

    With R = L^-1 and F = L^-1 C, V^-1 W V^-1 = (F'R)'(F'R), which cannot become negative. All inner loops add a
    multiple of one row to another, which suits vector units best.
    """
    ridge = settings[kernel.RIDGE]
    moment, gram, noise_gram = _sums(row, d)
    upper, noise_upper = _cholesky(gram, ridge, d), _cholesky(noise_gram, ridge, d)
    inverse, solved, product = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    half_way = moment.copy()
    theta = row[kernel.THETA : kernel.THETA + d]
    theta[:] = 0.0
    for i in range(d):  # row i of R, of F, of F'R, and of theta = R'(R b)
        line, solved_line = inverse[i], solved[i]
        line[i] = 1.0
        for j in range(i + 1):
            solved_line[j] = noise_upper[j, i]
        for k in range(i):
            factor = upper[k, i]
            half_way[i] -= factor * half_way[k]
            for j in range(k + 1):
                line[j] -= factor * inverse[k, j]
                solved_line[j] -= factor * solved[k, j]
        scale = 1.0 / upper[i, i]
        half_way[i] *= scale
        for j in range(i + 1):
            line[j] *= scale
            solved_line[j] *= scale
            theta[j] += line[j] * half_way[i]
        for k in range(i + 1):
            for j in range(i + 1):
                product[k, j] += solved_line[k] * line[j]
    at = kernel.THETA + d
    for i in range(d):
        line = row[at : at + i + 1]
        line[:] = 0.0
        for k in range(d):
            for j in range(i + 1):
                line[j] += product[k, i] * product[k, j]
        at += i + 1


@jit
def _cholesky(triangle: Floats, ridge: float, d: int) -> Floats:
    """Upper Cholesky factor of a lower triangle.

    No pivot of ridge * I + (a positive semidefinite matrix) is below the ridge, so pivots that rounding made smaller
    are raised to it.
    """
    upper = np.zeros((d, d))
    at = 0
    for i in range(d):
        for j in range(i + 1):
            upper[j, i] = triangle[at + j]
        at += i + 1
    for j in range(d):
        line = upper[j]
        root = math.sqrt(max(line[j], ridge))
        line[j] = root
        for i in range(j + 1, d):
            line[i] /= root
        for i in range(j + 1, d):
            for k in range(i, d):
                upper[i, k] -= line[i] * line[k]
    return upper
