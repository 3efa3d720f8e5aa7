"""Weights drawn at random around an estimate: scale * L noise, where L L' is a triangle's, or in tiles.

L is found by Cholesky's method in a table with a line per column of L, so that vector units take several rows of L at a
time. `LINES` columns at once first lose what the columns before explain, in registers, then what they explain of each
other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.compile import fill_in, jit
from driftbandit.kernels.forms import entry_at
from driftbandit.kernels.vector_units import tiles
from driftbandit.kernels.vector_units.instructions import INT, LINES, Writer, compiled_as
from driftbandit.kernels.vector_units.vectors import assign, combine


def _explain(context: Any, table: Any, width: Any, first: Any, row: Any) -> Any:
    """Instructions of `_explain_before`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, LINES)
        table, width, first, row = arguments
        table = write.numbers(signature.args[0], table)
        columns = [builder.add(first, ir.Constant(INT, k)) for k in range(LINES)]
        places = [write.place(table, builder.mul(column, width), row) for column in columns]

        def body(k: Any, totals: Sequence[Any]) -> list[Any]:
            line = write.place(table, builder.mul(k, width))
            part = write.load(write.place(line, row))
            shares = [write.spread(builder.load(write.place(line, column))) for column in columns]
            return [write.minus(total, part, share) for total, share in zip(totals, shares, strict=True)]

        for total, place in zip(
            write.loop(first, 1, [write.load(place) for place in places], body), places, strict=True
        ):
            write.store(total, place)
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, types.intp), generate


@compiled_as(_explain)
def _explain_before(table: Floats, width: int, first: int, row: int) -> None:
    """Subtract from rows `row` to `row` + 3 of columns `first` to `first` + 3 what the columns before explain."""
    found = table.reshape(-1, width)
    found[first : first + LINES, row : row + LINES] -= (
        found[:first, first : first + LINES].T @ found[:first, row : row + LINES]
    )


def _add_draw(sample: Floats, matrix: Floats, at: int, noise: Floats, scale: float) -> None:
    """Add scale * L noise to `sample`, where L L' is the matrix that begins at the place `at`.

    A direction without variance gets none. A template for packed triangles and for tiles.
    """
    d = len(noise)
    width = -(-d // LINES) * LINES
    table = np.zeros(width * width)
    for i in range(d):
        for j in range(i + 1):
            table[j * width + i] = matrix[at + entry_at(d, i, j)]
    for first in range(0, d, LINES):
        for row in range(first, width, LINES):
            _explain_before(table, width, first, row)
        for j in range(first, min(first + LINES, d)):
            line = j * width
            for k in range(first, j):
                combine(table, line + first, 1.0, -table[k * width + j], table, k * width + first, width - first)
            square = table[line + j]
            share = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
            assign(table, line + first, share, table, line + first, width - first)
            combine(sample, j, 1.0, scale * noise[j], table, line + j, d - j)


add_draw = jit(fill_in(_add_draw, "add_draw"))
"""Add scale * L noise, where L L' is given by its triangle."""

add_draw_of_tiles = jit(fill_in(_add_draw, "add_draw_of_tiles", entry_at=tiles.entry_at))
"""Add scale * L noise, where L L' is in tiles."""
