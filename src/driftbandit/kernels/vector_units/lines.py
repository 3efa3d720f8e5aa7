"""What a model learns from a reward, in vector units: loops over the lines of its triangle, and over its weights.

Line i of a triangle holds the entries (i, 0) to (i, i) of a symmetric matrix M; `at` is the place of its first entry.
Lines are taken up to four at a time. Loops are written as in `vectors`, with what they do in plain Python at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.vector_units.instructions import INT, WIDTH, Writer, compiled_as

_PLACE = types.intp

Drift = tuple[float, float, float, float]
"""How weights and a matrix change before a reward is learned; see `expect`."""


def _meet_lines(context: Any, triangle: Any, at: Any, i: Any, count: Any, x: Any, z: Any) -> Any:
    """Instructions of `meet_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, count, x, z = arguments
        triangle, x, z = (write.numbers(signature.args[k], each) for k, each in ((0, triangle), (4, x), (5, z)))

        def meet(count: int) -> None:
            lines = write.lines(triangle, at, i, count)
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

        write.by_count(count, WIDTH, meet)
        return context.get_dummy_value()

    return types.void(triangle, _PLACE, _PLACE, _PLACE, x, z), generate


def _fade_lines(context: Any, triangle: Any, at: Any, i: Any, count: Any, w: Any, fade: Any) -> Any:
    """Instructions of `fade_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        triangle, at, i, count, w, fade = arguments
        triangle, w = write.numbers(signature.args[0], triangle), write.numbers(signature.args[4], w)

        def fade_some(count: int) -> None:
            lines = write.lines(triangle, at, i, count)
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

        write.by_count(count, WIDTH, fade_some)
        return context.get_dummy_value()

    return types.void(triangle, _PLACE, _PLACE, _PLACE, w, types.float64), generate


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
            write.by_count(rest, WIDTH - 1, lambda count: write.store_first(last, place, count))
        return context.get_dummy_value()

    return types.void(rows, _PLACE, _PLACE, drift, z, types.float64, types.float64, _PLACE), generate


@compiled_as(_meet_lines)
def meet_lines(triangle: Floats, at: int, i: int, count: int, x: Floats, z: Floats) -> None:
    """Let `count` lines, up to `WIDTH`, from line i on, a multiple of `WIDTH`, contribute to M x.

    What they contribute to the lines before is added to `z`, what to themselves is written, and so is what follows, up
    to a multiple of `WIDTH`: there x must be 0, and z is then anything.
    """
    for line in range(i, i + count):
        part = triangle[at : at + line + 1]
        z[:line] += part[:line] * x[line]
        z[line] = part @ x[: line + 1]
        at += line + 1


@compiled_as(_fade_lines)
def fade_lines(triangle: Floats, at: int, i: int, count: int, w: Floats, fade: float) -> None:
    """M <- fade * M - w w' in `count` lines, up to `WIDTH`, from line i on, a multiple of `WIDTH`."""
    for line in range(i, i + count):
        triangle[at : at + line + 1] = fade * triangle[at : at + line + 1] - w[line] * w[: line + 1]
        at += line + 1


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
