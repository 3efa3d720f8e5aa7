"""Weights drawn at random, for choices that are made before earlier ones are answered.

Without answers nothing is learned, so that the arm of highest mean + c * deviation stays the same; a batch of choices
would play it throughout. Weights drawn anew for every choice play each arm about as often as it may be the best.

The draws are a function of the number of the choice, so that choosing changes nothing and can be repeated.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import Floats
from driftbandit.kernels.cholesky import add_draw_of_tiles
from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.rows import matrix_at

OUTSTANDING = 5
"""Weights are drawn from this many unanswered choices on."""

_PRIME = 2_147_483_647  # numbers below it can be multiplied without overflow


@jit
def draw(rows: Floats, at: int, theta: Floats, scale: float, number: int) -> None:
    """Add `scale` * L z to `theta`, where L L' is the matrix of the row that begins at `at`, and z is normal."""
    z = np.empty(len(theta))
    for i in range(len(theta)):
        z[i] = _normal(number, i)
    add_draw_of_tiles(theta, rows, at + matrix_at(len(theta)), z, scale)


@jit
def _normal(number: int, index: int) -> float:
    """A standard normal number that looks random in both arguments (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(_uniform(number, 2 * index)))
    return radius * math.cos(2.0 * math.pi * _uniform(number, 2 * index + 1))


@jit
def _uniform(number: int, index: int) -> float:
    """A number between 0 and 1 that looks random in both arguments."""
    mixed = (number % _PRIME * 48_271 + index * 69_621 + 1) % _PRIME
    for step in range(4):
        mixed = (mixed * mixed + 1_234_567 * (step + 1) + index) % _PRIME
    return (mixed + 0.5) / _PRIME
