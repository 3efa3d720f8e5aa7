"""Arms in groups of eight, side by side in vector units: their features as columns, and x' M x of all of a group.

Loops are written as in `vectors`, with what they do in plain Python at the end. M is given by its triangle, as in
`lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.vector_units.instructions import FLOAT, INT, WIDTH, Writer, compiled_as

ARMS = 8
"""Arms of a group, which `weigh_lines` takes side by side."""

_PLACE = types.intp


def _weighing(count: int, groups: int) -> Callable[..., Any]:
    """Instructions of `weigh_lines`, for so many lines and groups of arms."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, arms: Any, d: Any, group: Any, halves: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, ARMS)
            triangle, at, i, arms, d, group, halves = arguments
            width = ir.Constant(INT, ARMS)
            arms, halves = write.numbers(signature.args[3], arms), write.numbers(signature.args[6], halves)
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            numbers = [builder.add(group, ir.Constant(INT, g)) for g in range(groups)]
            starts = [write.place(arms, builder.mul(builder.mul(number, d), width)) for number in numbers]
            sums = [write.place(halves, builder.mul(number, width)) for number in numbers]

            def of_arms(j: Any) -> list[Any]:
                return [write.load(write.place(start, builder.mul(j, width))) for start in starts]

            def body(j: Any, totals: Sequence[Any]) -> list[Any]:
                x, entries = of_arms(j), [write.spread(builder.load(write.place(line, j))) for line in lines]
                parts = [(entry, each) for entry in entries for each in x]
                return [write.plus(total, *part) for total, part in zip(totals, parts, strict=True)]

            totals = write.loop(i, 1, [write.zero] * (count * groups), body)
            own = [of_arms(builder.add(i, ir.Constant(INT, k))) for k in range(count)]
            for g in range(groups):
                result = write.load(sums[g])
                for k in range(count):
                    total = totals[k * groups + g]
                    for j in range(k + 1):
                        entry = builder.load(write.place(lines[k], i, j))
                        if j == k:
                            entry = write.times(entry, ir.Constant(FLOAT, 0.5))
                        total = write.plus(total, write.spread(entry), own[j][g])
                    result = write.plus(result, total, own[k][g])
                write.store(result, sums[g])
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, arms, _PLACE, _PLACE, halves), generate

    return typed


def _turn(context: Any, features: Any, a: Any, b: Any, c: Any, e: Any, stop: Any, arms: Any, at: Any) -> Any:
    """Instructions of `turn`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        features, *starts, stop, arms, at = arguments
        features, arms = write.numbers(signature.args[0], features), write.numbers(signature.args[6], arms)
        lines = [write.place(features, start) for start in starts]

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            columns = write.turned(*(write.load(write.place(line, j)) for line in lines))
            first = write.place(arms, at, builder.mul(j, ir.Constant(INT, ARMS)))
            for k, column in enumerate(columns):
                write.store(column, write.place(first, k * ARMS))
            return []

        write.loop(stop, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(features, *[_PLACE] * 5, arms, _PLACE), generate


@compiled_as(_weighing(1, 1))
def weigh_line(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """Add what line i contributes to x' M x / 2 of the `ARMS` arms of a group, columns of a table with d lines.

    The tables of all groups stand one behind the other in `arms`, and their sums in `halves`.
    """
    x = arms.reshape(-1, d, ARMS)[group]
    line = triangle[at : at + i] @ x[:i] + 0.5 * triangle[at + i] * x[i]
    halves[group * ARMS : (group + 1) * ARMS] += line * x[i]


@compiled_as(_weighing(4, 1))
def weigh_lines(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_line`, for lines i to i + 3."""
    for k in range(4):
        weigh_line(triangle, at + k * i + k * (k + 1) // 2, i + k, arms, d, group, halves)


@compiled_as(_weighing(4, 2))
def weigh_lines_twice(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_lines`, for a group and the next."""
    for each in (group, group + 1):
        weigh_lines(triangle, at, i, arms, d, each, halves)


@compiled_as(_turn)
def turn(features: Floats, a: int, b: int, c: int, e: int, stop: int, arms: Floats, at: int) -> None:
    """Copy the first `stop` numbers, a multiple of `WIDTH`, of the four arms that begin at `a`, `b`, `c` and `e`.

    They become columns of a matrix with `ARMS` columns whose first number is at the place `at` of `arms`.
    """
    for column, start in enumerate((a, b, c, e)):
        arms[at + column :: ARMS][:stop] = features[start : start + stop]
