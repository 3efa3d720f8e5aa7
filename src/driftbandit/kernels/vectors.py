"""Loops over short lines of numbers, written for vector units.

Numba leaves vector units to its compiler, which takes sixteen numbers at a time and the rest one by one; the lines of a
triangle with 25 columns are mostly rest. Here loops take `WIDTH` numbers at a time, in instructions of LLVM, the
compiler behind Numba. Each function stands in plain Python at the end of this file: that is what it does, and what runs
without the compiler. They take arrays and places in them, not parts of arrays, which Numba would count as users.

Line i of a triangle holds the entries (i, 0) to (i, i) of a symmetric matrix M; `at` is the place of its first entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside

F = TypeVar("F", bound=Callable[..., Any])

WIDTH = 4
"""Numbers, and lines of a triangle, at a time."""

ARMS = 8
"""Arms of a group, which `weigh_lines` takes side by side."""

_FAST = ("reassoc", "contract", "nsz")  # as in `compile`
_FLOAT, _INT, _SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_PLACE = types.intp


class _Writer:
    """Writes instructions on vectors of `width` numbers."""

    def __init__(self, context: Any, builder: Any, width: int = WIDTH) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.vector = ir.VectorType(_FLOAT, width)
        self.zero = ir.Constant(self.vector, [0.0] * width)

    def numbers(self, kind: Any, array: Any) -> Any:
        """Where an array's numbers are."""
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def place(self, start: Any, *steps: Any) -> Any:
        """So many numbers behind `start`."""
        for step in steps:
            start = self.builder.gep(start, [ir.Constant(_INT, step) if isinstance(step, int) else step])
        return start

    def lines(self, triangle: Any, at: Any, i: Any, count: int) -> list[Any]:
        """Where `count` lines begin, line i at the place `at`."""
        lines = [self.place(triangle, at)]
        for k in range(1, count):
            lines.append(self.place(lines[-1], i, k))
        return lines

    def load(self, place: Any) -> Any:
        """A vector of the numbers there."""
        found = self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()))
        found.align = 8
        return found

    def store(self, vector: Any, place: Any) -> None:
        """Overwrite the numbers there."""
        self.builder.store(vector, self.builder.bitcast(place, self.vector.as_pointer())).align = 8

    def spread(self, number: Any) -> Any:
        """A vector of equal numbers."""
        nothing = ir.Constant(ir.VectorType(number.type, self.width), ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(_SHORT, 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_SHORT, self.width), None))

    def times(self, a: Any, b: Any) -> Any:
        """a * b."""
        return self.builder.fmul(a, b, flags=_FAST)

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """total + a * b."""
        return self.builder.fadd(total, self.times(a, b), flags=_FAST)

    def sum(self, vector: Any) -> Any:
        """The sum of a vector's numbers."""
        name = f"llvm.vector.reduce.fadd.v{self.width}f64"
        reduce = self.builder.module.globals.get(name) or ir.Function(
            self.builder.module, ir.FunctionType(_FLOAT, [_FLOAT, self.vector]), name
        )
        return self.builder.call(reduce, [ir.Constant(_FLOAT, 0.0), vector], fastmath=_FAST)

    def loop(
        self, stop: Any, step: int, first: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
    ) -> list[Any]:
        """Let ``values = body(j, values)`` run for j = 0, step, ... below `stop`, from `first` on; the last values."""
        builder = self.builder
        before, around, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", stop, ir.Constant(_INT, 0)), around, after)
        builder.position_at_end(around)
        j, values = builder.phi(_INT), [builder.phi(value.type) for value in first]
        found = body(j, values)
        following = builder.add(j, ir.Constant(_INT, step))
        builder.cbranch(builder.icmp_signed("<", following, stop), around, after)
        builder.position_at_end(after)
        last = [builder.phi(value.type) for value in first]
        starts, ends = (ir.Constant(_INT, 0), *first, *first), (following, *found, *found)
        for value, start, end in zip((j, *values, *last), starts, ends, strict=True):
            value.add_incoming(start, before)
            value.add_incoming(end, around)
        return last


def _meeting(count: int) -> Callable[..., Any]:
    """Instructions of `meet_lines`, for so many lines."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, stop: Any, x: Any, z: Any) -> Any:
        result: Any = types.UniTuple(types.float64, count) if count > 1 else types.float64  # type: ignore[no-untyped-call]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = _Writer(context, builder)
            triangle, at, i, stop, x, z = arguments
            x, z = write.numbers(signature.args[4], x), write.numbers(signature.args[5], z)
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            own = [write.spread(builder.load(write.place(x, i, k))) for k in range(count)]

            def body(j: Any, totals: Sequence[Any]) -> list[Any]:
                parts = [write.load(write.place(line, j)) for line in lines]
                of_x, place = write.load(write.place(x, j)), write.place(z, j)
                of_z = write.load(place)
                for part, factor in zip(parts, own, strict=True):
                    of_z = write.plus(of_z, part, factor)
                write.store(of_z, place)
                return [write.plus(total, part, of_x) for total, part in zip(totals, parts, strict=True)]

            totals = [write.sum(total) for total in write.loop(stop, WIDTH, [write.zero] * count, body)]
            return context.make_tuple(builder, signature.return_type, totals) if count > 1 else totals[0]

        return result(triangle, _PLACE, _PLACE, _PLACE, x, z), generate

    return typed


def _fading(count: int) -> Callable[..., Any]:
    """Instructions of `fade_lines`, for so many lines."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, stop: Any, w: Any, fade: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = _Writer(context, builder)
            triangle, at, i, stop, w, fade = arguments
            w, fade = write.numbers(signature.args[4], w), write.spread(fade)
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            own = [write.spread(builder.fneg(builder.load(write.place(w, i, k)))) for k in range(count)]

            def body(j: Any, _: Sequence[Any]) -> list[Any]:
                places = [write.place(line, j) for line in lines]
                faded = [write.times(fade, write.load(place)) for place in places]
                of_w = write.load(write.place(w, j))
                for place, part, factor in zip(places, faded, own, strict=True):
                    write.store(write.plus(part, of_w, factor), place)
                return []

            write.loop(stop, WIDTH, [], body)
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, _PLACE, w, types.float64), generate

    return typed


def _weighing(count: int, groups: int) -> Callable[..., Any]:
    """Instructions of `weigh_lines`, for so many lines and groups of arms."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, arms: Any, group: Any, halves: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = _Writer(context, builder, ARMS)
            triangle, at, i, arms, group, halves = arguments
            width = ir.Constant(_INT, ARMS)
            features = builder.extract_value(context.make_array(signature.args[3])(context, builder, arms).shape, 1)
            arms, halves = write.numbers(signature.args[3], arms), write.numbers(signature.args[5], halves)
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            numbers = [builder.add(group, ir.Constant(_INT, g)) for g in range(groups)]
            starts = [write.place(arms, builder.mul(builder.mul(number, features), width)) for number in numbers]
            sums = [write.place(halves, builder.mul(number, width)) for number in numbers]

            def of_arms(j: Any) -> list[Any]:
                return [write.load(write.place(start, builder.mul(j, width))) for start in starts]

            def body(j: Any, totals: Sequence[Any]) -> list[Any]:
                x, entries = of_arms(j), [write.spread(builder.load(write.place(line, j))) for line in lines]
                parts = [(entry, each) for entry in entries for each in x]
                return [write.plus(total, *part) for total, part in zip(totals, parts, strict=True)]

            totals = write.loop(i, 1, [write.zero] * (count * groups), body)
            own = [of_arms(builder.add(i, ir.Constant(_INT, k))) for k in range(count)]
            for g in range(groups):
                result = write.load(sums[g])
                for k in range(count):
                    total = totals[k * groups + g]
                    for j in range(k + 1):
                        entry = builder.load(write.place(lines[k], i, j))
                        if j == k:
                            entry = write.times(entry, ir.Constant(_FLOAT, 0.5))
                        total = write.plus(total, write.spread(entry), own[j][g])
                    result = write.plus(result, total, own[k][g])
                write.store(result, sums[g])
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, arms, _PLACE, halves), generate

    return typed


def _dot(context: Any, a: Any, at: Any, b: Any, first: Any, stop: Any) -> Any:
    """Instructions of `_dot_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = _Writer(context, builder)
        a, at, b, first, stop = arguments
        a = write.place(write.numbers(signature.args[0], a), at)
        b = write.place(write.numbers(signature.args[2], b), first)

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            return [write.plus(totals[0], write.load(write.place(a, j)), write.load(write.place(b, j)))]

        (total,) = write.loop(stop, WIDTH, [write.zero], body)
        return write.sum(total)

    return types.float64(a, _PLACE, b, _PLACE, _PLACE), generate


def _add(context: Any, total: Any, at: Any, factor: Any, part: Any, first: Any, stop: Any) -> Any:
    """Instructions of `_add_whole`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = _Writer(context, builder)
        total, at, factor, part, first, stop = arguments
        total = write.place(write.numbers(signature.args[0], total), at)
        part = write.place(write.numbers(signature.args[3], part), first)
        factor = write.spread(factor)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            place = write.place(total, j)
            write.store(write.plus(write.load(place), factor, write.load(write.place(part, j))), place)
            return []

        write.loop(stop, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(total, _PLACE, types.float64, part, _PLACE, _PLACE), generate


def _compiled_as(typed: Callable[..., Any]) -> Callable[[F], F]:
    """Let compiled kernels have the instructions that `typed` writes in place of a plain function."""

    def replace(plain: F) -> F:
        return plain if numba.config.DISABLE_JIT else cast(F, intrinsic(typed))  # type: ignore[attr-defined]

    return replace


@_compiled_as(_meeting(1))
def meet_line(triangle: Floats, at: int, i: int, stop: int, x: Floats, z: Floats) -> float:
    """Add what line i contributes to M x by its columns before `stop`, a multiple of `WIDTH`.

    What it contributes to the lines before `stop` is added to `z`, what to line i itself is returned.
    """
    part = triangle[at : at + stop]
    z[:stop] += part * x[i]
    return float(part @ x[:stop])


@_compiled_as(_meeting(4))
def meet_lines(triangle: Floats, at: int, i: int, stop: int, x: Floats, z: Floats) -> tuple[float, ...]:
    """As `meet_line`, for lines i to i + 3."""
    return tuple(meet_line(triangle, at + k * i + k * (k + 1) // 2, i + k, stop, x, z) for k in range(4))


@_compiled_as(_fading(1))
def fade_line(triangle: Floats, at: int, i: int, stop: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w' in the columns of line i before `stop`, a multiple of `WIDTH`."""
    triangle[at : at + stop] = fade * triangle[at : at + stop] - w[i] * w[:stop]


@_compiled_as(_fading(4))
def fade_lines(triangle: Floats, at: int, i: int, stop: int, w: Floats, fade: float) -> None:
    """As `fade_line`, for lines i to i + 3."""
    for k in range(4):
        fade_line(triangle, at + k * i + k * (k + 1) // 2, i + k, stop, w, fade)


@_compiled_as(_weighing(1, 1))
def weigh_line(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """Add what line i contributes to x' M x / 2 of the `ARMS` arms of a group, the columns of ``arms[group]``."""
    x = arms[group]
    halves[group] += (triangle[at : at + i] @ x[:i] + 0.5 * triangle[at + i] * x[i]) * x[i]


@_compiled_as(_weighing(4, 1))
def weigh_lines(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """As `weigh_line`, for lines i to i + 3."""
    for k in range(4):
        weigh_line(triangle, at + k * i + k * (k + 1) // 2, i + k, arms, group, halves)


@_compiled_as(_weighing(4, 2))
def weigh_lines_twice(triangle: Floats, at: int, i: int, arms: Floats, group: int, halves: Floats) -> None:
    """As `weigh_lines`, for a group and the next."""
    for each in (group, group + 1):
        weigh_lines(triangle, at, i, arms, each, halves)


@_compiled_as(_dot)
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


@_compiled_as(_add)
def _add_whole(total: Floats, at: int, factor: float, part: Floats, first: int, stop: int) -> None:
    total[at : at + stop] += factor * part[first : first + stop]


@jit_inside
def add(total: Floats, at: int, factor: float, part: Floats, first: int, count: int) -> None:
    """Add `factor` times `count` numbers of `part`, from `first` on, to those of `total` from `at` on."""
    whole = count - count % WIDTH
    _add_whole(total, at, factor, part, first, whole)
    for i in range(whole, count):
        total[at + i] += factor * part[first + i]
