"""Arms in groups of eight, side by side in vector units: their features as columns, and x' M x of all of a group.

Loops are written as in `vectors`, with what they do in plain Python at the end. M is a packed triangle or in `tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.vector_units.instructions import FLOAT, INT, LINES, WIDTH, PackedLines, Writer, compiled_as
from driftbandit.kernels.vector_units.tiles import TileLines

ARMS = 8
"""Arms of a group, which `weigh_lines` takes side by side."""

_PLACE = types.intp


def _weighing(count: int, groups: int, in_tiles: bool = False) -> Callable[..., Any]:
    """Instructions of `weigh_lines`, for so many lines and groups of arms."""

    def typed(context: Any, matrix: Any, at: Any, i: Any, arms: Any, d: Any, group: Any, halves: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, ARMS, literal=in_tiles)
            matrix, at, i, arms, d, group, halves = arguments
            width = ir.Constant(INT, ARMS)
            arms, halves = write.numbers(signature.args[3], arms), write.numbers(signature.args[6], halves)
            numbers = [builder.add(group, ir.Constant(INT, g)) for g in range(groups)]
            starts = [write.place(arms, builder.mul(builder.mul(number, d), width)) for number in numbers]
            sums = [write.place(halves, builder.mul(number, width)) for number in numbers]

            def of_arms(j: Any) -> list[Any]:
                return [write.load(write.place(start, builder.mul(j, width))) for start in starts]

            def meet(j: Any, entries: Sequence[Any], totals: Sequence[Any]) -> list[Any]:
                x = of_arms(j)
                parts = [(entry, each) for entry in map(write.spread, entries) for each in x]
                return [write.plus(total, *part) for total, part in zip(totals, parts, strict=True)]

            start = write.place(write.numbers(signature.args[0], matrix), at)
            lines: Any = TileLines(write, start, i, d, count) if in_tiles else PackedLines(write, start, i, count)
            totals = lines.before(meet, [write.zero] * (count * groups))
            own = [of_arms(builder.add(i, ir.Constant(INT, k))) for k in range(count)]
            for g in range(groups):
                result = write.load(sums[g])
                for k in range(count):
                    total = totals[k * groups + g]
                    for j in range(k + 1):
                        entry = builder.load(lines.own(k, j))
                        if j == k:
                            entry = write.times(entry, ir.Constant(FLOAT, 0.5))
                        total = write.plus(total, write.spread(entry), own[j][g])
                    result = write.plus(result, total, own[k][g])
                write.store(result, sums[g])
            return context.get_dummy_value()

        return types.void(matrix, _PLACE, _PLACE, arms, _PLACE, _PLACE, halves), generate

    return typed


def _turn(context: Any, features: Any, a: Any, b: Any, c: Any, e: Any, stop: Any, arms: Any, at: Any) -> Any:
    """Instructions of `turn`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, LINES)
        features, *starts, stop, arms, at = arguments
        features, arms = write.numbers(signature.args[0], features), write.numbers(signature.args[6], arms)
        lines = [write.place(features, start) for start in starts]

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            columns = write.turned(*(write.load(write.place(line, j)) for line in lines))
            first = write.place(arms, at, builder.mul(j, ir.Constant(INT, ARMS)))
            for k, column in enumerate(columns):
                write.store(column, write.place(first, k * ARMS))
            return []

        write.loop(stop, LINES, [], body)
        return context.get_dummy_value()

    return types.void(features, *[_PLACE] * 5, arms, _PLACE), generate


def _expect(context: Any, arms: Any, at: Any, theta: Any, units: Any, means: Any, sizes: Any, first: Any) -> Any:
    """Instructions of `expect`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, ARMS, literal=True)
        arms, at, theta, units, means, sizes, first = arguments
        count = builder.extract_value(context.make_array(signature.args[3])(context, builder, units).shape, 0)
        arms, theta, units, means, sizes = (
            write.numbers(signature.args[n], each)
            for n, each in ((0, arms), (2, theta), (3, units), (4, means), (5, sizes))
        )
        arms = write.place(arms, at)

        def body(i: Any, totals: Sequence[Any]) -> list[Any]:
            x = write.load(write.place(arms, builder.mul(i, ir.Constant(INT, ARMS))))
            weight, unit = (write.spread(builder.load(write.place(each, i))) for each in (theta, units))
            sized = write.times(x, unit)
            return [write.plus(totals[0], weight, x), write.plus(totals[1], sized, sized)]

        mean, size = write.loop(count, 1, [write.zero] * 2, body)
        write.store(mean, write.place(means, first))
        write.store(size, write.place(sizes, first))
        return context.get_dummy_value()

    return types.void(arms, _PLACE, theta, units, means, sizes, _PLACE), generate


def _expect_some(
    context: Any, features: Any, at: Any, theta: Any, units: Any, means: Any, sizes: Any, first: Any
) -> Any:
    """Instructions of `expect_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, ARMS, literal=True)
        features, at, theta, units, means, sizes, first = arguments
        count = builder.extract_value(context.make_array(signature.args[3])(context, builder, units).shape, 0)
        features, theta, units, means, sizes = (
            write.numbers(signature.args[n], each)
            for n, each in ((0, features), (2, theta), (3, units), (4, means), (5, sizes))
        )
        lines = [write.place(features, at, builder.mul(count, ir.Constant(INT, k))) for k in range(ARMS)]

        def body(j: Any, totals: Sequence[Any], load: Any, _: Any) -> list[Any]:
            weight, unit = load(write.place(theta, j)), load(write.place(units, j))
            x = [load(write.place(line, j)) for line in lines]
            sized = [write.times(each, unit) for each in x]
            return [
                *(write.plus(total, weight, each) for total, each in zip(totals, x, strict=False)),
                *(write.plus(total, each, each) for total, each in zip(totals[ARMS:], sized, strict=True)),
            ]

        totals = write.along(count, [write.zero] * (2 * ARMS), body)
        write.store(write.sums(totals[:ARMS]), write.place(means, first))
        write.store(write.sums(totals[ARMS:]), write.place(sizes, first))
        return context.get_dummy_value()

    return types.void(features, _PLACE, theta, units, means, sizes, _PLACE), generate


@compiled_as(_expect)
def expect(arms: Floats, at: int, theta: Floats, units: Floats, means: Floats, sizes: Floats, first: int) -> None:
    """Write theta'x and |units * x|^2 of the arms of a group, whose table begins at the place `at`, from `first` on."""
    x = arms[at : at + len(units) * ARMS].reshape(-1, ARMS)
    means[first : first + ARMS] = theta[: len(units)] @ x
    sizes[first : first + ARMS] = np.sum((x * units[:, np.newaxis]) ** 2, axis=0)


@compiled_as(_expect_some)
def expect_lines(
    features: Floats, at: int, theta: Floats, units: Floats, means: Floats, sizes: Floats, first: int
) -> None:
    """As `expect`, for `ARMS` arms that stand one behind the other, the first one from the place `at` on."""
    d = len(units)
    x = features[at : at + ARMS * d].reshape(ARMS, d)
    means[first : first + ARMS] = x @ theta[:d]
    sizes[first : first + ARMS] = np.sum((x * units) ** 2, axis=1)


@compiled_as(_weighing(1, 1))
def weigh_line(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """Add what line i of a packed triangle, which begins at the place `at`, contributes to x' M x / 2 of the arms of a
    group.

    These are columns of a table with d lines. The tables of all groups stand one behind the other in `arms`, and their
    sums in `halves`.
    """
    x = arms.reshape(-1, d, ARMS)[group]
    line = triangle[at : at + i] @ x[:i] + 0.5 * triangle[at + i] * x[i]
    halves[group * ARMS : (group + 1) * ARMS] += line * x[i]


@compiled_as(_weighing(LINES, 1))
def weigh_lines(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_line`, for lines i to i + 3."""
    for k in range(LINES):
        weigh_line(triangle, at + k * i + k * (k + 1) // 2, i + k, arms, d, group, halves)


@compiled_as(_weighing(LINES, 2))
def weigh_lines_twice(triangle: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_lines`, for a group and the next."""
    for each in (group, group + 1):
        weigh_lines(triangle, at, i, arms, d, each, halves)


@compiled_as(_weighing(1, 1, in_tiles=True))
def weigh_tile_line(matrix: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_line`, for a line of a matrix in tiles."""
    step = WIDTH * min(d - i // WIDTH * WIDTH, WIDTH)
    line = np.concatenate([matrix[at + j * step : at + j * step + WIDTH] for j in range(i // WIDTH + 1)])
    weigh_line(line, 0, i, arms, d, group, halves)


@compiled_as(_weighing(1, 2, in_tiles=True))
def weigh_tile_line_twice(matrix: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_tile_line`, for a group and the next."""
    for each in (group, group + 1):
        weigh_tile_line(matrix, at, i, arms, d, each, halves)


@compiled_as(_weighing(LINES, 1, in_tiles=True))
def weigh_tile_lines(matrix: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_tile_line`, for lines i to i + 3."""
    for k in range(LINES):
        weigh_tile_line(matrix, at + k * WIDTH, i + k, arms, d, group, halves)


@compiled_as(_weighing(LINES, 2, in_tiles=True))
def weigh_tile_lines_twice(matrix: Floats, at: int, i: int, arms: Floats, d: int, group: int, halves: Floats) -> None:
    """As `weigh_tile_lines`, for a group and the next."""
    for each in (group, group + 1):
        weigh_tile_lines(matrix, at, i, arms, d, each, halves)


@compiled_as(_turn)
def turn(features: Floats, a: int, b: int, c: int, e: int, stop: int, arms: Floats, at: int) -> None:
    """Copy the first `stop` numbers, a multiple of `LINES`, of the four arms that begin at `a`, `b`, `c` and `e`.

    They become columns of a matrix with `ARMS` columns whose first number is at the place `at` of `arms`.
    """
    for column, start in enumerate((a, b, c, e)):
        arms[at + column :: ARMS][:stop] = features[start : start + stop]
