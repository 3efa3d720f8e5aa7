"""Loops over short lines of numbers, written for vector units.

Numba leaves vector units to its compiler, which takes sixteen numbers at a time and the rest one by one; the lines of a
triangle with 25 columns are mostly rest. Here loops take `WIDTH` numbers at a time, in instructions of LLVM, the
compiler behind Numba. Each function stands in plain Python at the end of this file: that is what it does, and what runs
without the compiler. They take arrays and places in them, not parts of arrays, which Numba would count as users.

Line i of a triangle holds the entries (i, 0) to (i, i) of a symmetric matrix M; `at` is the place of its first entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.instructions import FLOAT, INT, WIDTH, Writer, compiled_as

ARMS = 8
"""Arms of a group, which `weigh_lines` takes side by side."""

_PLACE = types.intp

Drift = tuple[float, float, float, float]
"""How weights and a matrix change before a reward is learned; see `expect`."""


def _meeting(count: int) -> Callable[..., Any]:
    """Instructions of `meet_lines`, for so many lines."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, x: Any, z: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder)
            triangle, at, i, x, z = arguments
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            x, z = write.numbers(signature.args[3], x), write.numbers(signature.args[4], z)
            own = [write.spread(builder.load(write.place(x, i, k))) for k in range(count)]

            def body(j: Any, totals: Sequence[Any]) -> list[Any]:
                parts = [write.load(write.place(line, j)) for line in lines]
                of_x, place = write.load(write.place(x, j)), write.place(z, j)
                of_z = write.load(place)
                for part, factor in zip(parts, own, strict=True):
                    of_z = write.plus(of_z, part, factor)
                write.store(of_z, place)
                return [write.plus(total, part, of_x) for total, part in zip(totals, parts, strict=True)]

            totals = write.loop(i, WIDTH, [write.zero] * count, body)
            of_x, above = write.load(write.place(x, i)), write.zero
            for k in range(count):  # columns i to i + 3, the last of which is the diagonal's
                part = write.load_first(write.place(lines[k], i), k + 1)
                totals[k] = write.plus(totals[k], part, of_x)
                above = write.plus(above, write.pick(part, [j if j < k else WIDTH for j in range(WIDTH)]), own[k])
            sums = write.sums(totals + [write.zero] * (WIDTH - count))
            write.store(write.add(sums, above), write.place(z, i))
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, x, z), generate

    return typed


def _fading(count: int) -> Callable[..., Any]:
    """Instructions of `fade_lines`, for so many lines."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, w: Any, fade: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder)
            triangle, at, i, w, fade = arguments
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            w = write.numbers(signature.args[3], w)
            own = [builder.fneg(builder.load(write.place(w, i, k))) for k in range(count)]

            def body(write: Writer, j: Any) -> None:
                places, of_w = [write.place(line, j) for line in lines], write.load(write.place(w, j))
                faded = [write.times(write.spread(fade), write.load(place)) for place in places]
                for place, part, factor in zip(places, faded, own, strict=True):
                    write.store(write.plus(part, of_w, write.spread(factor)), place)

            write.in_pairs(i, body)
            of_w = write.load(write.place(w, i))
            for k in range(count):  # columns i to i + 3, the last of which is the diagonal's
                place = write.place(lines[k], i)
                faded = write.times(write.spread(fade), write.load_first(place, k + 1))
                write.store_first(write.plus(faded, of_w, write.spread(own[k])), place, k + 1)
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, w, types.float64), generate

    return typed


def _expect(context: Any, rows: Any, theta: Any, towards: Any, drift: Any, z: Any, lifted: Any, x: Any, d: Any) -> Any:
    """Instructions of `expect`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        rows, theta, towards, drift, z, lifted, x, d = arguments
        rows, z, lifted, x = (
            write.numbers(signature.args[k], each) for k, each in ((0, rows), (4, z), (5, lifted), (6, x))
        )
        theta, towards = write.place(rows, theta), write.place(rows, towards)
        keep, pull, fade, lift = (write.spread(builder.extract_value(drift, k)) for k in range(4))

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            of_x, place = write.load(write.place(x, j)), write.place(z, j)
            weights = write.times(keep, write.load(write.place(theta, j)))
            weights = write.plus(weights, pull, write.load(write.place(towards, j)))
            of_z = write.plus(write.times(fade, write.load(place)), lift, write.load(write.place(lifted, j)))
            write.store(of_z, place)
            return [write.plus(totals[0], weights, of_x), write.plus(totals[1], of_z, of_x)]

        totals = write.loop(d, WIDTH, [write.zero] * 2, body)
        return context.make_tuple(builder, signature.return_type, [write.sum(total) for total in totals])

    pair: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
    return pair(rows, _PLACE, _PLACE, drift, z, lifted, x, _PLACE), generate


def _correct(
    context: Any, rows: Any, theta: Any, towards: Any, drift: Any, z: Any, gain: Any, shrink: Any, d: Any
) -> Any:
    """Instructions of `correct`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        rows, theta, towards, drift, z, gain, shrink, d = arguments
        rows, z = write.numbers(signature.args[0], rows), write.numbers(signature.args[4], z)
        theta, towards = write.place(rows, theta), write.place(rows, towards)
        keep, pull = (write.spread(builder.extract_value(drift, k)) for k in range(2))
        gain, shrink = write.spread(gain), write.spread(shrink)

        def corrected(j: Any) -> Any:
            of_z = write.load(write.place(z, j))
            weights = write.times(keep, write.load(write.place(theta, j)))
            weights = write.plus(weights, pull, write.load(write.place(towards, j)))
            write.store(write.times(shrink, of_z), write.place(z, j))
            return write.plus(weights, gain, of_z)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            write.store(corrected(j), write.place(theta, j))
            return []

        whole = builder.and_(d, ir.Constant(INT, -WIDTH))
        write.loop(whole, WIDTH, [], body)
        rest = builder.sub(d, whole)
        with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(INT, 0))):
            last, place = corrected(whole), write.place(theta, whole)
            for count in range(1, WIDTH):
                with builder.if_then(builder.icmp_signed("==", rest, ir.Constant(INT, count))):
                    write.store_first(last, place, count)
        return context.get_dummy_value()

    return types.void(rows, _PLACE, _PLACE, drift, z, types.float64, types.float64, _PLACE), generate


def _weighing(count: int, groups: int) -> Callable[..., Any]:
    """Instructions of `weigh_lines`, for so many lines and groups of arms."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, arms: Any, group: Any, halves: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, ARMS)
            triangle, at, i, arms, group, halves = arguments
            width = ir.Constant(INT, ARMS)
            features = builder.extract_value(context.make_array(signature.args[3])(context, builder, arms).shape, 1)
            arms, halves = write.numbers(signature.args[3], arms), write.numbers(signature.args[5], halves)
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            numbers = [builder.add(group, ir.Constant(INT, g)) for g in range(groups)]
            starts = [write.place(arms, builder.mul(builder.mul(number, features), width)) for number in numbers]
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

        return types.void(triangle, _PLACE, _PLACE, arms, _PLACE, halves), generate

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


def _weigh_arm(context: Any, features: Any, at: Any, theta: Any, first: Any, units: Any) -> Any:
    """Instructions of `weigh_arm`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, 2 * WIDTH)
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


def _weigh_squares(context: Any, numbers: Any, at: Any, weights: Any, count: Any) -> Any:
    """Instructions of `weigh_squares`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, 2 * WIDTH)
        numbers, at, weights, count = arguments
        numbers = write.place(write.numbers(signature.args[0], numbers), at)
        weights = write.numbers(signature.args[2], weights)

        def body(j: Any, totals: Sequence[Any], load: Any, _: Any) -> list[Any]:
            part = load(write.place(numbers, j))
            return [write.plus(totals[0], write.times(part, part), load(write.place(weights, j)))]

        (total,) = write.along(count, [write.zero], body)
        return write.sum(total)

    return types.float64(numbers, _PLACE, weights, _PLACE), generate


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


@compiled_as(_meeting(1))
def meet_line(triangle: Floats, at: int, i: int, x: Floats, z: Floats) -> None:
    """Let line i, a multiple of `WIDTH`, contribute to M x.

    What it contributes to the lines before is added to `z`, what to itself is written, and so is what follows, up to a
    multiple of `WIDTH`: there x must be 0, and z is then anything.
    """
    part = triangle[at : at + i + 1]
    z[:i] += part[:i] * x[i]
    z[i] = part @ x[: i + 1]


@compiled_as(_meeting(2))
def meet_two(triangle: Floats, at: int, i: int, x: Floats, z: Floats) -> None:
    """As `meet_line`, for lines i and i + 1."""
    meet_line(triangle, at, i, x, z)
    meet_line(triangle, at + i + 1, i + 1, x, z)


@compiled_as(_meeting(3))
def meet_three(triangle: Floats, at: int, i: int, x: Floats, z: Floats) -> None:
    """As `meet_line`, for lines i to i + 2."""
    meet_two(triangle, at, i, x, z)
    meet_line(triangle, at + 2 * i + 3, i + 2, x, z)


@compiled_as(_meeting(4))
def meet_four(triangle: Floats, at: int, i: int, x: Floats, z: Floats) -> None:
    """As `meet_line`, for lines i to i + 3."""
    meet_three(triangle, at, i, x, z)
    meet_line(triangle, at + 3 * i + 6, i + 3, x, z)


@compiled_as(_fading(1))
def fade_line(triangle: Floats, at: int, i: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w' in line i, a multiple of `WIDTH`."""
    triangle[at : at + i + 1] = fade * triangle[at : at + i + 1] - w[i] * w[: i + 1]


@compiled_as(_fading(2))
def fade_two(triangle: Floats, at: int, i: int, w: Floats, fade: float) -> None:
    """As `fade_line`, for lines i and i + 1."""
    fade_line(triangle, at, i, w, fade)
    fade_line(triangle, at + i + 1, i + 1, w, fade)


@compiled_as(_fading(3))
def fade_three(triangle: Floats, at: int, i: int, w: Floats, fade: float) -> None:
    """As `fade_line`, for lines i to i + 2."""
    fade_two(triangle, at, i, w, fade)
    fade_line(triangle, at + 2 * i + 3, i + 2, w, fade)


@compiled_as(_fading(4))
def fade_four(triangle: Floats, at: int, i: int, w: Floats, fade: float) -> None:
    """As `fade_line`, for lines i to i + 3."""
    fade_three(triangle, at, i, w, fade)
    fade_line(triangle, at + 3 * i + 6, i + 3, w, fade)


@compiled_as(_expect)
def expect(
    rows: Floats, theta: int, towards: int, drift: Drift, z: Floats, lifted: Floats, x: Floats, d: int
) -> tuple[float, float]:
    """Let weights that begin at the place `theta` drift, without storing them, and z; returns theta'x and z'x.

    `drift` holds four numbers: theta <- keep * theta + pull * the weights that begin at `towards`, and z <- fade * z +
    lift * lifted. Vectors other than weights are as long as a multiple of `WIDTH`, and x is 0 from d on. Up to three
    numbers behind the weights are read, which must be finite: `rows` must not end there.
    """
    keep, pull, fade, lift = drift
    z[:] = fade * z + lift * lifted
    weights = keep * rows[theta : theta + d] + pull * rows[towards : towards + d]
    return float(weights @ x[:d]), float(z[:d] @ x[:d])


@compiled_as(_correct)
def correct(
    rows: Floats, theta: int, towards: int, drift: Drift, z: Floats, gain: float, shrink: float, d: int
) -> None:
    """Let weights drift, as `expect` does, and add `gain` * z; then z <- shrink * z."""
    keep, pull, _, _ = drift
    rows[theta : theta + d] = keep * rows[theta : theta + d] + pull * rows[towards : towards + d] + gain * z[:d]
    z *= shrink


@compiled_as(_weighing(1, 1))
def weigh_line(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """Add what line i contributes to x' M x / 2 of the `ARMS` arms of a group, the columns of ``arms[group]``."""
    x = arms[group]
    halves[group] += (triangle[at : at + i] @ x[:i] + 0.5 * triangle[at + i] * x[i]) * x[i]


@compiled_as(_weighing(4, 1))
def weigh_lines(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """As `weigh_line`, for lines i to i + 3."""
    for k in range(4):
        weigh_line(triangle, at + k * i + k * (k + 1) // 2, i + k, arms, group, halves)


@compiled_as(_weighing(4, 2))
def weigh_lines_twice(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """As `weigh_lines`, for a group and the next."""
    for each in (group, group + 1):
        weigh_lines(triangle, at, i, arms, each, halves)


@compiled_as(_turn)
def turn(features: Floats, a: int, b: int, c: int, e: int, stop: int, arms: Floats, at: int) -> None:
    """Copy the first `stop` numbers, a multiple of `WIDTH`, of the four arms that begin at `a`, `b`, `c` and `e`.

    They become columns of a matrix with `ARMS` columns whose first number is at the place `at` of `arms`.
    """
    for column, start in enumerate((a, b, c, e)):
        arms[at + column :: ARMS][:stop] = features[start : start + stop]


@compiled_as(_weigh_arm)
def weigh_arm(features: Floats, at: int, theta: Floats, first: int, units: Floats) -> tuple[float, float]:
    """theta'x, where theta begins at the place `first`, and |units * x|^2, of the arm that begins at the place `at`."""
    x = features[at : at + len(units)]
    return float(x @ theta[first : first + len(units)]), float(np.sum((x * units) ** 2))


@compiled_as(_weigh_squares)
def weigh_squares(numbers: Floats, at: int, weights: Floats, count: int) -> float:
    """Sum of the squares of `count` numbers, from `at` on, each times its weight."""
    return float(numbers[at : at + count] ** 2 @ weights[:count])


@compiled_as(_dot)
def dot(a: Floats, at: int, b: Floats, first: int, count: int) -> float:
    """Product of `count` numbers of `a`, from `at` on, with those of `b` from `first` on."""
    return float(a[at : at + count] @ b[first : first + count])


@compiled_as(_combine)
def combine(total: Floats, at: int, keep: float, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `keep` times themselves plus `factor` times those of `part`."""
    total[at : at + count] = keep * total[at : at + count] + factor * part[first : first + count]


@compiled_as(_assign)
def assign(total: Floats, at: int, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `factor` times those of `part` from `first` on."""
    total[at : at + count] = factor * part[first : first + count]
