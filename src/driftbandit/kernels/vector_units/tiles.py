"""Symmetric matrices in tiles: what a model learns from a reward, in vector units.

A matrix M is cut into tiles of `WIDTH` lines and columns. Those on and left of the diagonal are kept, one group of
lines after the other, each from left to right; the last group has only the lines that are left. A tile holds one line
after the other, each as long as a vector, with 0 behind the last column. So everything is read and written in whole
vectors, one behind the other. Tiles on the diagonal hold both their halves, which stay equal to the last bit. Vectors
beside a matrix are as long as `vectors.padded` says, with 0 behind the last column.

Loops are written as in `vectors`, with what they do in plain Python at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit_inside
from driftbandit.kernels.vector_units.instructions import INT, LINES, MANY_REGISTERS, WIDTH, Meet, Writer, compiled_as
from driftbandit.kernels.vector_units.vectors import clear, fetch, padded

_PLACE = types.intp
_AT_ONCE = WIDTH if MANY_REGISTERS else LINES

Drift = tuple[float, float, float, float]
"""How weights and a matrix change before a reward is learned; see `expect`."""


@jit_inside
def matrix_size(d: int) -> int:
    """Numbers of a matrix in tiles.

    >>> [matrix_size(dim) for dim in (1, 8, 9, 25)]
    [8, 64, 80, 416]
    """
    return group_at(d) + d % WIDTH * padded(d)


@jit_inside
def group_at(i: int) -> int:
    """Where the group of line i begins."""
    return WIDTH * WIDTH // 2 * (i // WIDTH) * (i // WIDTH + 1)


@jit_inside
def entry_at(d: int, i: int, j: int) -> int:
    """Where the entry (i, j) stands, which must not be right of the tiles that are kept."""
    lines = min(d - i // WIDTH * WIDTH, WIDTH)
    return group_at(i) + j // WIDTH * WIDTH * lines + i % WIDTH * WIDTH + j % WIDTH


class TileLines:
    """Lines of a matrix with d columns, from line i on, whose part of the first tile begins at the place `start`."""

    def __init__(self, write: Writer, start: Any, i: Any, d: Any, count: int) -> None:
        builder = write.builder
        self._write, self._block = write, write.block_of(i)
        left, width = builder.sub(d, self._block), ir.Constant(INT, WIDTH)
        self._step = builder.select(builder.icmp_signed("<", left, width), left, width)  # lines of the group
        self._lines = [write.place(start, WIDTH * k) for k in range(count)]
        self._skipped = builder.sub(i, self._block)  # columns of the last tile that come before i

    def before(self, meet: Meet, values: Sequence[Any]) -> list[Any]:
        """Let ``values = meet(j, entries, values)`` run for all columns j before i, with the lines' entries there."""
        write = self._write

        def column(j: Any, c: Any, values: Sequence[Any]) -> list[Any]:
            places = [write.place(line, write.builder.mul(j, self._step), c) for line in self._lines]
            of_c = write.builder.add(j, ir.Constant(INT, c) if isinstance(c, int) else c)
            return meet(of_c, [write.builder.load(place) for place in places], values)

        def tile(j: Any, values: Sequence[Any]) -> list[Any]:
            found = list(values)
            for c in range(WIDTH):
                found = column(j, c, found)
            return found

        found = write.loop(self._block, WIDTH, values, tile)
        return write.loop(self._skipped, 1, found, lambda c, values: column(self._block, c, values))

    def vectors(self, j: Any) -> list[Any]:
        """Where the lines' vectors from column j on stand, the first column of a tile."""
        return [self._write.place(line, self._write.builder.mul(j, self._step)) for line in self._lines]

    def own(self, k: int, j: int) -> Any:
        """Where the entry (i + k, i + j) stands."""
        write = self._write
        return write.place(self._lines[k], write.builder.mul(self._block, self._step), self._skipped, j)


@jit_inside
def _fetch_group(numbers: Floats, at: int, i: int, lines: int, ahead: int) -> None:
    if ahead != 0:
        fetch(numbers, at + ahead + group_at(i), lines * (i + WIDTH))


@jit_inside
def product(numbers: Floats, at: int, d: int, x: Floats, z: Floats, first: int, ahead: int) -> None:
    """Write M x into z, where M begins at the place `at`, and z at the place `first` of its array.

    Unless `ahead` is 0, every second group of lines of the matrix that lies so many numbers behind M is fetched, each
    when its turn comes here; `fade_outer` fetches the others.
    """
    clear(z, first, padded(d))
    whole = d - d % WIDTH
    for i in range(0, whole, WIDTH):
        if i & WIDTH:
            _fetch_group(numbers, at, i, WIDTH, ahead)
        for k in range(0, WIDTH, _AT_ONCE):
            _meet_lines(numbers, at + group_at(i), i, k, x, z, first)
    if d > whole:
        if whole & WIDTH:
            _fetch_group(numbers, at, whole, d - whole, ahead)
        _meet_rest(numbers, at + group_at(whole), whole, d - whole, x, z, first)


@jit_inside
def fade_outer(
    numbers: Floats,
    at: int,
    d: int,
    w: Floats,
    first: int,
    fade: float,
    lift: float,
    sizes: Floats,
    place: int,
    ahead: int,
) -> None:
    """M <- fade * M + lift * diag(sizes) - w w', where M begins at `at`, w at `first`, and sizes at `place`.

    `ahead` is as in `product`.
    """
    whole = d - d % WIDTH
    for i in range(0, whole, WIDTH):
        if not i & WIDTH:
            _fetch_group(numbers, at, i, WIDTH, ahead)
        for k in range(0, WIDTH, _AT_ONCE):
            _fade_lines(numbers, at + group_at(i), i, k, w, first, fade, lift, sizes, place)
    if d > whole:
        if not whole & WIDTH:
            _fetch_group(numbers, at, whole, d - whole, ahead)
        _fade_rest(numbers, at + group_at(whole), whole, d - whole, w, first, fade, lift, sizes, place)


def _meet(context: Any, numbers: Any, at: Any, i: Any, k: Any, x: Any, z: Any, first: Any) -> Any:
    """Instructions of `_meet_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, i, k, x, z, first = arguments
        numbers, x, z = (write.numbers(signature.args[n], each) for n, each in ((0, numbers), (4, x), (5, z)))
        z, tiles, lines = write.place(z, first), write.place(numbers, at), range(_AT_ONCE)
        shift = builder.mul(k, ir.Constant(INT, WIDTH))
        own = [write.spread(builder.load(write.place(x, i, k, line))) for line in lines]

        def parts_of(j: Any) -> list[Any]:
            tile = write.place(tiles, builder.mul(j, ir.Constant(INT, WIDTH)), shift)
            return [write.load(write.place(tile, WIDTH * line)) for line in lines]

        def add_to(place: Any, parts: Sequence[Any]) -> Any:
            sums = write.load(place), write.zero  # two, so that none waits for all the others
            for part, factor in zip(parts, own, strict=True):
                sums = sums[1], write.plus(sums[0], part, factor)
            return write.add(*sums)

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            parts, of_x, place = parts_of(j), write.load(write.place(x, j)), write.place(z, j)
            write.store(add_to(place, parts), place)
            return [write.plus(total, part, of_x) for total, part in zip(totals, parts, strict=True)]

        totals = write.loop(i, WIDTH, [write.zero] * _AT_ONCE, body)
        place = write.place(z, i)
        of_lines = write.only(write.sums(totals), k, _AT_ONCE)
        write.store(write.add(add_to(place, parts_of(i)), of_lines), place)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE, _PLACE, x, z, _PLACE), generate


def _meet_last(context: Any, numbers: Any, at: Any, i: Any, count: Any, x: Any, z: Any, first: Any) -> Any:
    """Instructions of `_meet_rest`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, i, count, x, z, first = arguments
        numbers, x, z = (write.numbers(signature.args[n], each) for n, each in ((0, numbers), (4, x), (5, z)))
        z, tiles = write.place(z, first), write.place(numbers, at)

        def add(k: Any, found: Sequence[Any]) -> list[Any]:
            line = write.place(tiles, builder.mul(k, ir.Constant(INT, WIDTH)))
            own = write.spread(builder.load(write.place(x, i, k)))

            def body(j: Any, total: Sequence[Any]) -> list[Any]:
                part, place = write.load(write.place(line, builder.mul(j, count))), write.place(z, j)
                write.store(write.plus(write.load(place), part, own), place)
                return [write.plus(total[0], part, write.load(write.place(x, j)))]

            (total,) = write.loop(i, WIDTH, [write.zero], body)
            last = write.load(write.place(line, builder.mul(i, count)))
            return [write.add(write.plus(found[0], last, own), write.only(write.sums([total]), k, 1))]

        place = write.place(z, i)
        (found,) = write.loop(count, 1, [write.load(place)], add)
        write.store(found, place)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE, _PLACE, x, z, _PLACE), generate


def _fade(
    context: Any,
    numbers: Any,
    at: Any,
    i: Any,
    k: Any,
    w: Any,
    first: Any,
    fade: Any,
    lift: Any,
    sizes: Any,
    place: Any,
) -> Any:
    """Instructions of `_fade_lines`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, i, k, w, first, fade, lift, sizes, at_sizes = arguments
        numbers, w, sizes = (write.numbers(signature.args[n], each) for n, each in ((0, numbers), (4, w), (8, sizes)))
        w, tiles, lines = write.place(w, first), write.place(numbers, at), range(_AT_ONCE)
        shift, fade = builder.mul(k, ir.Constant(INT, WIDTH)), write.spread(fade)
        own = [write.spread(builder.load(write.place(w, i, k, line))) for line in lines]

        def fade_tile(j: Any, gains: Sequence[Any]) -> None:
            tile, of_w = (
                write.place(tiles, builder.mul(j, ir.Constant(INT, WIDTH)), shift),
                write.load(write.place(w, j)),
            )
            for line, factor in enumerate(own):
                place = write.place(tile, WIDTH * line)
                found = write.minus(write.times(fade, write.load(place)), of_w, factor)
                write.store(write.add(found, gains[line]) if gains else found, place)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            fade_tile(j, ())
            return []

        write.loop(i, WIDTH, [], body)
        gains = write.times(write.spread(lift), write.load(write.place(sizes, at_sizes, i)))
        fade_tile(i, [write.only(gains, builder.add(k, ir.Constant(INT, line)), 1) for line in lines])
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE, _PLACE, w, _PLACE, types.float64, types.float64, sizes, _PLACE), generate


def _fade_last(
    context: Any,
    numbers: Any,
    at: Any,
    i: Any,
    count: Any,
    w: Any,
    first: Any,
    fade: Any,
    lift: Any,
    sizes: Any,
    place: Any,
) -> Any:
    """Instructions of `_fade_rest`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, i, count, w, first, fade, lift, sizes, at_sizes = arguments
        numbers, w, sizes = (write.numbers(signature.args[n], each) for n, each in ((0, numbers), (4, w), (8, sizes)))
        w, tiles, fade = write.place(w, first), write.place(numbers, at), write.spread(fade)
        gains = write.times(write.spread(lift), write.load(write.place(sizes, at_sizes, i)))

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            tile, of_w = write.place(tiles, builder.mul(j, count)), write.load(write.place(w, j))
            is_last = builder.icmp_signed("==", i, j)

            def fade_line(k: Any, _: Sequence[Any]) -> list[Any]:
                place = write.place(tile, builder.mul(k, ir.Constant(INT, WIDTH)))
                own = write.spread(builder.load(write.place(w, i, k)))
                found = write.minus(write.times(fade, write.load(place)), of_w, own)
                gain = builder.select(is_last, write.only(gains, k, 1), write.zero)
                write.store(write.add(found, gain), place)
                return []

            write.loop(count, 1, [], fade_line)
            return []

        write.loop(builder.add(i, ir.Constant(INT, 1)), WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE, _PLACE, w, _PLACE, types.float64, types.float64, sizes, _PLACE), generate


def _weigh(context: Any, numbers: Any, at: Any, i: Any, lines: Any, weights: Any, share: Any, totals: Any) -> Any:
    """Instructions of `weigh_line`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, i, lines, weights, share, totals = arguments
        line, block = write.place(write.numbers(signature.args[0], numbers), at), write.block_of(i)
        weights, totals = write.numbers(signature.args[4], weights), write.numbers(signature.args[6], totals)

        def body(j: Any, found: Sequence[Any]) -> list[Any]:
            part = write.load(write.place(line, builder.mul(j, lines)))
            return [write.plus(found[0], write.times(part, write.load(write.place(weights, j))), part)]

        (before,) = write.loop(block, WIDTH, [write.zero], body)
        (found,) = body(block, [write.add(before, before)])
        write.store(write.plus(write.load(totals), write.spread(share), found), totals)
        return context.get_dummy_value()

    return types.void(numbers, _PLACE, _PLACE, _PLACE, weights, types.float64, totals), generate


def _diagonal(context: Any, numbers: Any, at: Any, d: Any, weights: Any, first: Any) -> Any:
    """Instructions of `weigh_diagonal`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        numbers, at, d, weights, first = arguments
        numbers = write.place(write.numbers(signature.args[0], numbers), at)
        weights, width = write.place(write.numbers(signature.args[3], weights), first), ir.Constant(INT, WIDTH)

        def group(i: Any, values: Sequence[Any]) -> list[Any]:
            total, start = values
            left = builder.sub(d, i)
            lines = builder.select(builder.icmp_signed("<", left, width), left, width)
            tile = write.place(numbers, start, builder.mul(i, lines))

            def line(k: Any, found: Sequence[Any]) -> list[Any]:
                return [write.only(write.load(write.place(tile, builder.mul(k, width))), k, 1, found[0])]

            (found,) = write.loop(lines, 1, [write.zero], line)
            following = builder.add(start, builder.mul(lines, builder.add(i, width)))
            return [write.plus(total, found, write.load(write.place(weights, i))), following]

        total, _ = write.loop(d, WIDTH, [write.zero, ir.Constant(INT, 0)], group)
        return write.sum(total)

    return types.float64(numbers, _PLACE, _PLACE, weights, _PLACE), generate


def _expect(
    context: Any, rows: Any, theta: Any, towards: Any, drift: Any, z: Any, first: Any, lifted: Any, x: Any
) -> Any:
    """Instructions of `expect`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        rows, theta, towards, drift, z, first, lifted, x = arguments
        length = builder.extract_value(context.make_array(signature.args[7])(context, builder, x).shape, 0)
        rows, z, lifted, x = (
            write.numbers(signature.args[k], each) for k, each in ((0, rows), (4, z), (6, lifted), (7, x))
        )
        theta, towards, z = write.place(rows, theta), write.place(rows, towards), write.place(z, first)
        keep, pull, fade, lift = (write.spread(builder.extract_value(drift, k)) for k in range(4))

        def body(j: Any, totals: Sequence[Any]) -> list[Any]:
            of_x, place = write.load(write.place(x, j)), write.place(z, j)
            weights = write.times(keep, write.load(write.place(theta, j)))
            weights = write.plus(weights, pull, write.load(write.place(towards, j)))
            of_z = write.plus(write.times(fade, write.load(place)), lift, write.load(write.place(lifted, j)))
            write.store(of_z, place)
            return [write.plus(totals[0], weights, of_x), write.plus(totals[1], of_z, of_x)]

        totals = write.loop(length, WIDTH, [write.zero] * 2, body)
        return context.make_tuple(builder, signature.return_type, [write.sum(total) for total in totals])

    pair: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
    return pair(rows, _PLACE, _PLACE, drift, z, _PLACE, lifted, x), generate


def _correct(
    context: Any,
    rows: Any,
    theta: Any,
    towards: Any,
    drift: Any,
    z: Any,
    first: Any,
    length: Any,
    gain: Any,
    shrink: Any,
) -> Any:
    """Instructions of `correct`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, literal=True)
        rows, theta, towards, drift, z, first, length, gain, shrink = arguments
        rows, z = write.numbers(signature.args[0], rows), write.numbers(signature.args[4], z)
        theta, towards, z = write.place(rows, theta), write.place(rows, towards), write.place(z, first)
        keep, pull = (write.spread(builder.extract_value(drift, k)) for k in range(2))
        gain, shrink = write.spread(gain), write.spread(shrink)

        def body(j: Any, _: Sequence[Any]) -> list[Any]:
            of_z, place = write.load(write.place(z, j)), write.place(theta, j)
            weights = write.times(keep, write.load(place))
            weights = write.plus(weights, pull, write.load(write.place(towards, j)))
            write.store(write.plus(weights, gain, of_z), place)
            write.store(write.times(shrink, of_z), write.place(z, j))
            return []

        write.loop(length, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(rows, _PLACE, _PLACE, drift, z, _PLACE, _PLACE, types.float64, types.float64), generate


def _tiles(numbers: Floats, at: int, i: int, count: int) -> Floats:
    """The lines of the group that begins at the place `at` with line i, and has `count` lines, as a table."""
    tiles = numbers[at : at + count * (i + WIDTH)].reshape(i // WIDTH + 1, count, WIDTH)
    table: Floats = tiles.transpose(1, 0, 2)
    return table


@compiled_as(_meet)
def _meet_lines(numbers: Floats, at: int, i: int, k: int, x: Floats, z: Floats, first: int) -> None:
    """Let `_AT_ONCE` lines of a group, from its line k on, contribute to M x; the group begins with line i at `at`."""
    lines = _tiles(numbers, at, i, WIDTH)[k : k + _AT_ONCE].reshape(_AT_ONCE, i + WIDTH)
    z[first : first + i + WIDTH] += x[i + k : i + k + _AT_ONCE] @ lines
    z[first + i + k : first + i + k + _AT_ONCE] += lines[:, :i] @ x[:i]


@compiled_as(_meet_last)
def _meet_rest(numbers: Floats, at: int, i: int, count: int, x: Floats, z: Floats, first: int) -> None:
    """As `_meet_lines`, for a group of `count` lines."""
    lines = _tiles(numbers, at, i, count).reshape(count, i + WIDTH)
    z[first : first + i + WIDTH] += x[i : i + count] @ lines
    z[first + i : first + i + count] += lines[:, :i] @ x[:i]


def _fade_some(tiles: Floats, i: int, k: int, w: Floats, fade: float, lift: float, sizes: Floats) -> None:
    tiles *= fade
    tiles -= w[i + k : i + k + len(tiles), np.newaxis, np.newaxis] * w[: i + WIDTH].reshape(-1, WIDTH)
    for line in range(len(tiles)):
        tiles[line, -1, k + line] += lift * sizes[i + k + line]


@compiled_as(_fade)
def _fade_lines(
    numbers: Floats, at: int, i: int, k: int, w: Floats, first: int, fade: float, lift: float, sizes: Floats, place: int
) -> None:
    """M <- fade * M + lift * diag(sizes) - w w' in `_AT_ONCE` lines of a group, see `_meet_lines`."""
    _fade_some(_tiles(numbers, at, i, WIDTH)[k : k + _AT_ONCE], i, k, w[first:], fade, lift, sizes[place:])


@compiled_as(_fade_last)
def _fade_rest(
    numbers: Floats,
    at: int,
    i: int,
    count: int,
    w: Floats,
    first: int,
    fade: float,
    lift: float,
    sizes: Floats,
    place: int,
) -> None:
    """As `_fade_lines`, for a group of `count` lines."""
    _fade_some(_tiles(numbers, at, i, count), i, 0, w[first:], fade, lift, sizes[place:])


@compiled_as(_weigh)
def weigh_line(numbers: Floats, at: int, i: int, lines: int, weights: Floats, share: float, totals: Floats) -> None:
    """Add `share` times the squares of line i, each times its weight, to `totals`; no square is taken without it.

    The line begins at the place `at`, its group has so many `lines`. Squares of entries left of the tile on the
    diagonal count twice, as they stand in M twice. `totals` has `WIDTH` numbers, among which the sum is spread.
    """
    block = i - i % WIDTH
    line = numbers[at : at + lines * block + WIDTH]
    for j in range(0, block + WIDTH, WIDTH):
        part = line[j * lines : j * lines + WIDTH]
        totals += (2.0 if j < block else 1.0) * share * (part * weights[j : j + WIDTH] * part)


@compiled_as(_diagonal)
def weigh_diagonal(numbers: Floats, at: int, d: int, weights: Floats, first: int) -> float:
    """Sum of the diagonal of a matrix with d lines that begins at the place `at`, each number times its weight."""
    return float(sum(numbers[at + entry_at(d, i, i)] * weights[first + i] for i in range(d)))


@compiled_as(_expect)
def expect(
    rows: Floats, theta: int, towards: int, drift: Drift, z: Floats, first: int, lifted: Floats, x: Floats
) -> tuple[float, float]:
    """Let weights that begin at the place `theta` drift, without storing them, and z; returns theta'x and z'x.

    `drift` holds four numbers: theta <- keep * theta + pull * the weights that begin at `towards`, and z <- fade * z +
    lift * lifted. z begins at the place `first` of its array.
    """
    keep, pull, fade, lift = drift
    count = len(x)
    z[first : first + count] = fade * z[first : first + count] + lift * lifted
    weights = keep * rows[theta : theta + count] + pull * rows[towards : towards + count]
    return float(weights @ x), float(z[first : first + count] @ x)


@compiled_as(_correct)
def correct(
    rows: Floats, theta: int, towards: int, drift: Drift, z: Floats, first: int, count: int, gain: float, shrink: float
) -> None:
    """Let weights drift, as `expect` does, and add `gain` * z; then z <- shrink * z, which has `count` numbers."""
    keep, pull, _, _ = drift
    weights = keep * rows[theta : theta + count] + pull * rows[towards : towards + count]
    rows[theta : theta + count] = weights + gain * z[first : first + count]
    z[first : first + count] *= shrink
