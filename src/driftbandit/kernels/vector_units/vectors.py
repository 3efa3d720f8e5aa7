"""Loops over short lines of numbers, written for vector units.

Numba leaves vector units to its compiler, which takes sixteen numbers at a time and the rest one by one; the lines of a
matrix with 25 columns are mostly rest. Here loops take `WIDTH` numbers at a time, in instructions of LLVM, the compiler
behind Numba. Each function stands in plain Python at the end of its file: that is what it does, and what runs without
the compiler. They take arrays and places in them, not parts of arrays, which Numba would count as users. `tiles` and
`groups` hold such loops over the lines of a matrix and over groups of arms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units.instructions import FLOAT, INT, MANY_REGISTERS, WIDTH, Writer, compiled_as

_PLACE = types.intp
_CACHE_LINE = 64  # bytes
_AT_ONCE = (8, 4, 1) if MANY_REGISTERS else (4, 1)  # vectors of a sum that are kept in registers


def aligned_zeros(shape: tuple[int, ...]) -> Floats:
    """Zeros that begin where a cache line does: vectors that cross one take longer to load."""
    count = int(np.prod(shape))
    room = np.zeros(count + _CACHE_LINE // 8)
    first = -room.__array_interface__["data"][0] % _CACHE_LINE // 8
    return room[first : first + count].reshape(shape)


@jit
def padded(d: int) -> int:
    """The next multiple of `WIDTH`: room for d numbers in whole vectors."""
    return (d + WIDTH - 1) // WIDTH * WIDTH


def _weigh_arm(context: Any, features: Any, at: Any, theta: Any, first: Any, units: Any) -> Any:
    """Instructions of `weigh_arm`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        features, at, theta, first, units = arguments
        count = builder.extract_value(context.make_array(signature.args[4])(context, builder, units).shape, 0)
        x = write.place(write.numbers(signature.args[0], features), at)
        theta = write.place(write.numbers(signature.args[2], theta), first)
        units = write.numbers(signature.args[4], units)

        def body(j: Any, totals: Sequence[Any], load: Any, _: Any) -> list[Any]:
            of_x = load(write.place(x, j))
            sized = write.times(of_x, load(write.place(units, j)))
            mean = write.plus(totals[0], of_x, load(write.place(theta, j)))
            return [mean, write.plus(totals[1], sized, sized)]

        totals = write.along(count, [write.zero] * 2, body)
        return context.make_tuple(builder, signature.return_type, [write.sum(total) for total in totals])

    pair: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
    return pair(features, _PLACE, theta, _PLACE, units), generate


def _dot(context: Any, a: Any, at: Any, b: Any, first: Any, count: Any) -> Any:
    """Instructions of `dot`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        a, at, b, first, count = arguments
        a = write.place(write.numbers(signature.args[0], a), at)
        b = write.place(write.numbers(signature.args[2], b), first)

        def body(j: Any, totals: Sequence[Any], load: Any, _: Any) -> list[Any]:
            return [write.plus(totals[0], load(write.place(a, j)), load(write.place(b, j)))]

        (total,) = write.along(count, [write.zero], body)
        return write.sum(total)

    return types.float64(a, _PLACE, b, _PLACE, _PLACE), generate


def _weigh_squares(context: Any, numbers: Any, at: Any, weights: Any, first: Any, count: Any) -> Any:
    """Instructions of `weigh_squares`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, weights, first, count = arguments
        numbers = write.place(write.numbers(signature.args[0], numbers), at)
        weights = write.place(write.numbers(signature.args[2], weights), first)

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            part = write.load(write.place(numbers, j))
            return [write.plus(totals[0], write.times(part, part), write.load(write.place(weights, j)))]

        (total,) = write.loop(count, WIDTH, [write.zero], body)
        return write.sum(total)

    return types.float64(numbers, _PLACE, weights, _PLACE, _PLACE), generate


def _clear(context: Any, numbers: Any, at: Any, count: Any) -> Any:
    """Instructions of `clear`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, count = arguments
        numbers = write.place(write.numbers(signature.args[0], numbers), at)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            write.store(write.zero, write.place(numbers, j))
            return []

        write.loop(count, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE), generate


def _fetch(context: Any, numbers: Any, at: Any, count: Any) -> Any:
    """Instructions of `fetch`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, count = arguments
        numbers = write.place(write.numbers(signature.args[0], numbers), at)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            write.fetch(write.place(numbers, j))
            return []

        write.loop(count, _CACHE_LINE // 8, [], body)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE), generate


def _combine(context: Any, total: Any, at: Any, keep: Any, factor: Any, part: Any, first: Any, count: Any) -> Any:
    """Instructions of `combine`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        total, at, keep, factor, part, first, count = arguments
        total = write.place(write.numbers(signature.args[0], total), at)
        part = write.place(write.numbers(signature.args[4], part), first)
        keep, factor = write.spread(keep), write.spread(factor)

        def body(j: Any, _: Sequence[Any], load: Any, store: Any) -> list[Any]:
            place = write.place(total, j)
            store(write.plus(write.times(keep, load(place)), factor, load(write.place(part, j))), place)
            return []

        write.along(count, [], body)
        return context.get_dummy_value()

    return types.void(total, _PLACE, types.float64, types.float64, part, _PLACE, _PLACE), generate


def _assign(context: Any, total: Any, at: Any, factor: Any, part: Any, first: Any, count: Any) -> Any:
    """Instructions of `assign`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        total, at, factor, part, first, count = arguments
        total = write.place(write.numbers(signature.args[0], total), at)
        part = write.place(write.numbers(signature.args[3], part), first)
        factor = write.spread(factor)

        def body(j: Any, _: Sequence[Any], load: Any, store: Any) -> list[Any]:
            store(write.times(factor, load(write.place(part, j))), write.place(total, j))
            return []

        write.along(count, [], body)
        return context.get_dummy_value()

    return types.void(total, _PLACE, types.float64, part, _PLACE, _PLACE), generate


def _mix(
    context: Any,
    total: Any,
    at: Any,
    weights: Any,
    least: Any,
    lead: Any,
    rows: Any,
    first: Any,
    width: Any,
    count: Any,
) -> Any:
    """Instructions of `mix`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        total, at, weights, least, lead, rows, first, width, count = arguments
        models = builder.extract_value(context.make_array(signature.args[2])(context, builder, weights).shape, 0)
        total = write.place(write.numbers(signature.args[0], total), at)
        rows = write.place(write.numbers(signature.args[5], rows), first)
        weights, one = write.numbers(signature.args[2], weights), ir.Constant(FLOAT, 1.0)

        def mix_some(j: Any, vectors: int) -> None:
            def add(m: Any, sums: Sequence[Any]) -> list[Any]:
                weight, row = builder.load(write.place(weights, m)), write.place(rows, builder.mul(m, width), j)

                def add_row(sums: Sequence[Any]) -> list[Any]:
                    leads = builder.icmp_signed("==", m, ir.Constant(INT, 0))
                    share = write.spread(builder.fmul(weight, builder.select(leads, lead, one)))
                    parts = [write.load(write.place(row, k * WIDTH)) for k in range(vectors)]
                    return [write.plus(found, share, part) for found, part in zip(sums, parts, strict=True)]

                return write.when(builder.fcmp_ordered(">=", weight, least), sums, add_row)

            for k, found in enumerate(write.loop(models, 1, [write.zero] * vectors, add)):
                write.store(found, write.place(total, j, k * WIDTH))

        def body(vectors: int, start: Any) -> Callable[[Any, Sequence[Any]], list[Any]]:
            def generate_body(j: Any, _: Sequence[Any]) -> list[Any]:
                mix_some(builder.add(start, j), vectors)
                return []

            return generate_body

        done: Any = ir.Constant(INT, 0)
        for vectors in _AT_ONCE:
            here = builder.and_(builder.sub(count, done), ir.Constant(INT, -WIDTH * vectors))
            write.loop(here, WIDTH * vectors, [], body(vectors, done))
            done = builder.add(done, here)
        return context.get_dummy_value()

    number = types.float64
    return types.void(total, _PLACE, weights, number, number, rows, _PLACE, _PLACE, _PLACE), generate


@compiled_as(_weigh_arm)
def weigh_arm(features: Floats, at: int, theta: Floats, first: int, units: Floats) -> tuple[float, float]:
    """theta'x, where theta begins at the place `first`, and |units * x|^2, of the arm that begins at the place `at`."""
    x = features[at : at + len(units)]
    return float(x @ theta[first : first + len(units)]), float(np.sum((x * units) ** 2))


@compiled_as(_dot)
def dot(a: Floats, at: int, b: Floats, first: int, count: int) -> float:
    """Product of `count` numbers of `a`, from `at` on, with those of `b` from `first` on."""
    return float(a[at : at + count] @ b[first : first + count])


@compiled_as(_weigh_squares)
def weigh_squares(numbers: Floats, at: int, weights: Floats, first: int, count: int) -> float:
    """Sum of the squares of `count` numbers, a multiple of `WIDTH`, from `at` on, each times its weight."""
    return float(numbers[at : at + count] ** 2 @ weights[first : first + count])


@compiled_as(_clear)
def clear(numbers: Floats, at: int, count: int) -> None:
    """Set `count` numbers, a multiple of `WIDTH`, to 0, from `at` on."""
    numbers[at : at + count] = 0.0


@compiled_as(_fetch)
def fetch(numbers: Floats, at: int, count: int) -> None:
    """Let the processor fetch `count` numbers, from `at` on, while it works on others; they may lie anywhere."""


@compiled_as(_combine)
def combine(total: Floats, at: int, keep: float, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `keep` times themselves plus `factor` times those of `part`."""
    total[at : at + count] = keep * total[at : at + count] + factor * part[first : first + count]


@compiled_as(_assign)
def assign(total: Floats, at: int, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `factor` times those of `part` from `first` on."""
    total[at : at + count] = factor * part[first : first + count]


@compiled_as(_mix)
def mix(
    total: Floats,
    at: int,
    weights: Floats,
    least: float,
    lead: float,
    rows: Floats,
    first: int,
    width: int,
    count: int,
) -> None:
    """Overwrite `count` numbers of `total`, a multiple of `WIDTH`, from `at` on, by a weighted sum of as many of rows.

    The first row begins at the place `first` of `rows`, each of the others `width` numbers after the one before. A
    weight below `least` counts as 0, and its row is not read; the first weight counts `lead` times.
    """
    total[at : at + count] = 0.0
    for m in range(len(weights)):
        if weights[m] >= least:
            row = first + m * width
            total[at : at + count] += (lead if m == 0 else 1.0) * weights[m] * rows[row : row + count]
