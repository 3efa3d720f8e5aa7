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
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.instructions import FLOAT, INT, WIDTH, Writer, compiled_as

ARMS = 8
"""Arms of a group, which `weigh_lines` takes side by side."""

_PLACE = types.intp


def _met(write: Writer, lines: Sequence[Any], own: Sequence[Any], stop: Any, x: Any, z: Any) -> list[Any]:
    """What lines contribute by their columns before `stop`: to z there, and, in vectors to be summed, to themselves."""

    def body(j: Any, totals: Sequence[Any]) -> list[Any]:
        parts = [write.load(write.place(line, j)) for line in lines]
        of_x, place = write.load(write.place(x, j)), write.place(z, j)
        of_z = write.load(place)
        for part, factor in zip(parts, own, strict=True):
            of_z = write.plus(of_z, part, factor)
        write.store(of_z, place)
        return [write.plus(total, part, of_x) for total, part in zip(totals, parts, strict=True)]

    return write.loop(stop, WIDTH, [write.zero] * len(lines), body)


def _meet_line(context: Any, triangle: Any, at: Any, i: Any, stop: Any, x: Any, z: Any) -> Any:
    """Instructions of `meet_line`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, stop, x, z = arguments
        line = write.place(write.numbers(signature.args[0], triangle), at)
        x, z = write.numbers(signature.args[4], x), write.numbers(signature.args[5], z)
        own = write.spread(builder.load(write.place(x, i)))
        return write.sum(*_met(write, [line], [own], stop, x, z))

    return types.float64(triangle, _PLACE, _PLACE, _PLACE, x, z), generate


def _meet_lines(context: Any, triangle: Any, at: Any, i: Any, x: Any, z: Any) -> Any:
    """Instructions of `meet_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, x, z = arguments
        lines = write.lines(write.numbers(signature.args[0], triangle), at, i, WIDTH)
        x, z = write.numbers(signature.args[3], x), write.numbers(signature.args[4], z)
        own = [write.spread(builder.load(write.place(x, i, k))) for k in range(WIDTH)]
        totals = _met(write, lines, own, i, x, z)
        of_x, above = write.load(write.place(x, i)), write.zero
        for k in range(WIDTH):  # columns i to i + 3, the last of which is the diagonal's
            part = write.load_first(write.place(lines[k], i), k + 1)
            totals[k] = write.plus(totals[k], part, of_x)
            above = write.plus(above, write.pick(part, [j if j < k else WIDTH for j in range(WIDTH)]), own[k])
        write.store(write.add(write.sums(totals), above), write.place(z, i))
        return context.get_dummy_value()

    return types.void(triangle, _PLACE, _PLACE, x, z), generate


def _fade(write: Writer, lines: Sequence[Any], own: Sequence[Any], stop: Any, w: Any, fade: Any) -> None:
    """Fade the columns of lines before `stop`, and add `own`, the numbers of -w there, times w."""

    def body(j: Any, _: Sequence[Any]) -> list[Any]:
        places = [write.place(line, j) for line in lines]
        faded = [write.times(fade, write.load(place)) for place in places]
        of_w = write.load(write.place(w, j))
        for place, part, factor in zip(places, faded, own, strict=True):
            write.store(write.plus(part, of_w, factor), place)
        return []

    write.loop(stop, WIDTH, [], body)


def _fade_line(context: Any, triangle: Any, at: Any, i: Any, stop: Any, w: Any, fade: Any) -> Any:
    """Instructions of `fade_line`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, stop, w, fade = arguments
        line = write.place(write.numbers(signature.args[0], triangle), at)
        w = write.numbers(signature.args[4], w)
        own = write.spread(builder.fneg(builder.load(write.place(w, i))))
        _fade(write, [line], [own], stop, w, write.spread(fade))
        return context.get_dummy_value()

    return types.void(triangle, _PLACE, _PLACE, _PLACE, w, types.float64), generate


def _fade_lines(context: Any, triangle: Any, at: Any, i: Any, w: Any, fade: Any) -> Any:
    """Instructions of `fade_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, w, fade = arguments
        lines = write.lines(write.numbers(signature.args[0], triangle), at, i, WIDTH)
        w, fade = write.numbers(signature.args[3], w), write.spread(fade)
        own = [write.spread(builder.fneg(builder.load(write.place(w, i, k)))) for k in range(WIDTH)]
        _fade(write, lines, own, i, w, fade)
        of_w = write.load(write.place(w, i))
        for k in range(WIDTH):  # columns i to i + 3, the last of which is the diagonal's
            place = write.place(lines[k], i)
            faded = write.times(fade, write.load_first(place, k + 1))
            write.store_first(write.plus(faded, of_w, own[k]), place, k + 1)
        return context.get_dummy_value()

    return types.void(triangle, _PLACE, _PLACE, w, types.float64), generate


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


def _weigh_arm(context: Any, features: Any, at: Any, theta: Any, first: Any, units: Any, stop: Any) -> Any:
    """Instructions of `_weigh_arm_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        features, at, theta, first, units, stop = arguments
        x = write.place(write.numbers(signature.args[0], features), at)
        theta = write.place(write.numbers(signature.args[2], theta), first)
        units = write.numbers(signature.args[4], units)

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            of_x = write.load(write.place(x, j))
            sized = write.times(of_x, write.load(write.place(units, j)))
            mean = write.plus(totals[0], of_x, write.load(write.place(theta, j)))
            return [mean, write.plus(totals[1], sized, sized)]

        totals = write.loop(stop, WIDTH, [write.zero] * 2, body)
        return context.make_tuple(builder, signature.return_type, [write.sum(total) for total in totals])

    pair: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
    return pair(features, _PLACE, theta, _PLACE, units, _PLACE), generate


def _dot(context: Any, a: Any, at: Any, b: Any, first: Any, stop: Any) -> Any:
    """Instructions of `_dot_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        a, at, b, first, stop = arguments
        a = write.place(write.numbers(signature.args[0], a), at)
        b = write.place(write.numbers(signature.args[2], b), first)

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            return [write.plus(totals[0], write.load(write.place(a, j)), write.load(write.place(b, j)))]

        (total,) = write.loop(stop, WIDTH, [write.zero], body)
        return write.sum(total)

    return types.float64(a, _PLACE, b, _PLACE, _PLACE), generate


def _combine(context: Any, total: Any, at: Any, keep: Any, factor: Any, part: Any, first: Any, stop: Any) -> Any:
    """Instructions of `_combine_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        total, at, keep, factor, part, first, stop = arguments
        total = write.place(write.numbers(signature.args[0], total), at)
        part = write.place(write.numbers(signature.args[4], part), first)
        keep, factor = write.spread(keep), write.spread(factor)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            place = write.place(total, j)
            kept = write.times(keep, write.load(place))
            write.store(write.plus(kept, factor, write.load(write.place(part, j))), place)
            return []

        write.loop(stop, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(total, _PLACE, types.float64, types.float64, part, _PLACE, _PLACE), generate


def _assign(context: Any, total: Any, at: Any, factor: Any, part: Any, first: Any, stop: Any) -> Any:
    """Instructions of `_assign_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        total, at, factor, part, first, stop = arguments
        total = write.place(write.numbers(signature.args[0], total), at)
        part = write.place(write.numbers(signature.args[3], part), first)
        factor = write.spread(factor)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            write.store(write.times(factor, write.load(write.place(part, j))), write.place(total, j))
            return []

        write.loop(stop, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(total, _PLACE, types.float64, part, _PLACE, _PLACE), generate


@compiled_as(_meet_line)
def meet_line(triangle: Floats, at: int, i: int, stop: int, x: Floats, z: Floats) -> float:
    """Add what line i contributes to M x by its columns before `stop`, a multiple of `WIDTH`.

    What it contributes to the lines before `stop` is added to `z`, what to line i itself is returned.
    """
    part = triangle[at : at + stop]
    z[:stop] += part * x[i]
    return float(part @ x[:stop])


@compiled_as(_meet_lines)
def meet_lines(triangle: Floats, at: int, i: int, x: Floats, z: Floats) -> None:
    """Let lines i to i + 3, where i is a multiple of `WIDTH`, contribute to M x.

    What they contribute to the lines before is added to `z`, what to themselves is written.
    """
    for line in range(i, i + WIDTH):
        part = triangle[at : at + line + 1]
        z[:line] += part[:line] * x[line]
        z[line] = part @ x[: line + 1]
        at += line + 1


@compiled_as(_fade_line)
def fade_line(triangle: Floats, at: int, i: int, stop: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w' in the columns of line i before `stop`, a multiple of `WIDTH`."""
    triangle[at : at + stop] = fade * triangle[at : at + stop] - w[i] * w[:stop]


@compiled_as(_fade_lines)
def fade_lines(triangle: Floats, at: int, i: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w' in lines i to i + 3, where i is a multiple of `WIDTH`."""
    for line in range(i, i + WIDTH):
        fade_line(triangle, at, line, line + 1, w, fade)
        at += line + 1


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
def _weigh_arm_whole(
    features: Floats, at: int, theta: Floats, first: int, units: Floats, stop: int
) -> tuple[float, float]:
    x = features[at : at + stop]
    return float(x @ theta[first : first + stop]), float(np.sum((x * units[:stop]) ** 2))


@jit_inside
def weigh_arm(features: Floats, at: int, theta: Floats, first: int, units: Floats) -> tuple[float, float]:
    """theta'x, where theta begins at the place `first`, and |units * x|^2, of the arm that begins at the place `at`."""
    whole = len(units) - len(units) % WIDTH
    mean, size = _weigh_arm_whole(features, at, theta, first, units, whole)
    for i in range(whole, len(units)):
        mean += features[at + i] * theta[first + i]
        size += (features[at + i] * units[i]) ** 2
    return mean, size


@compiled_as(_dot)
def _dot_whole(a: Floats, at: int, b: Floats, first: int, stop: int) -> float:
    return float(a[at : at + stop] @ b[first : first + stop])


@jit_inside
def dot(a: Floats, at: int, b: Floats, first: int, count: int) -> float:
    """Product of `count` numbers of `a`, from `at` on, with those of `b` from `first` on."""
    whole = count - count % WIDTH
    total = _dot_whole(a, at, b, first, whole)
    for i in range(whole, count):
        total += a[at + i] * b[first + i]
    return total


@compiled_as(_combine)
def _combine_whole(total: Floats, at: int, keep: float, factor: float, part: Floats, first: int, stop: int) -> None:
    total[at : at + stop] = keep * total[at : at + stop] + factor * part[first : first + stop]


@jit_inside
def combine(total: Floats, at: int, keep: float, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `keep` times themselves plus `factor` times those of `part`."""
    whole = count - count % WIDTH
    _combine_whole(total, at, keep, factor, part, first, whole)
    for i in range(whole, count):
        total[at + i] = keep * total[at + i] + factor * part[first + i]


@compiled_as(_assign)
def _assign_whole(total: Floats, at: int, factor: float, part: Floats, first: int, stop: int) -> None:
    total[at : at + stop] = factor * part[first : first + stop]


@jit_inside
def assign(total: Floats, at: int, factor: float, part: Floats, first: int, count: int) -> None:
    """Let `count` numbers of `total`, from `at` on, be `factor` times those of `part` from `first` on."""
    whole = count - count % WIDTH
    _assign_whole(total, at, factor, part, first, whole)
    for i in range(whole, count):
        total[at + i] = factor * part[first + i]
