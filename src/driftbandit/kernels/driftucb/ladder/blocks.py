"""Up to eight rewards at once for one model: what a block of rewards changes, in few passes over its matrix.

A model with the weights theta and the matrix M learns the rewards r of the arms x_1 to x_8, the columns of X, one after
the other: with z = M x and the error e = r - theta'x, theta grows by z e / (1 + x'z) and M falls by z z' / (1 + x'z).
With Z = M X and the Cholesky factor L of 1 + X'Z, all eight come to

    widths 1 + x'z:          the squares of L's diagonal
    e / sqrt(1 + x'z):       v = L^-1 (r - X'theta)
    theta <- theta + W v,    M <- M - W W',    W = Z L^-T.

So M, which is in tiles, is read once and written once, instead of eight times each. Arms stand side by side, as
in `forms`: number i of the eight arms are line i of a table with `LANES` columns. Tables have as many lines as a vector
has numbers, see `vectors.padded`, the last ones 0. Loops are written as in `vectors`, with what they do in plain Python
at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units.instructions import FLOAT, INT, LINES, SHORT, WIDTH, Writer, compiled_as
from driftbandit.kernels.vector_units.tiles import TileLines, entry_at
from driftbandit.kernels.vector_units.vectors import padded

LANES = 8
"""Rewards of a block, at most."""

_PLACE = types.intp
_LANES = ir.Constant(INT, LANES)


@jit
def multiply(matrix: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """Write M X into `products`, where M begins at the place `at` and the table `arms` is X."""
    tiled = d - d % LINES
    for i in range(0, tiled, LINES):
        _meet_four(matrix, at + entry_at(d, i, 0), i, d, arms, products)
    for i in range(tiled, d):
        _meet_one(matrix, at + entry_at(d, i, 0), i, d, arms, products)


@jit
def project(vectors: Floats, at: int, count: int, d: int, arms: Floats, products: Floats) -> None:
    """Z <- Z - V V'X, where the `count` columns of V begin at the place `at` of `vectors`, one behind the other."""
    for k in range(0, count - count % LINES, LINES):
        _project_four(vectors, at + k * padded(d), d, arms, products)
    for k in range(count - count % LINES, count):
        _project_one(vectors, at + k * padded(d), d, arms, products)


@jit
def subtract(matrix: Floats, at: int, d: int, vectors: Floats, first: int) -> None:
    """M <- M - W W', where M begins at `at` and the eight columns of W begin at the place `first` of `vectors`."""
    tiled = d - d % LINES
    for i in range(0, tiled, LINES):
        _subtract_four(matrix, at + entry_at(d, i, 0), i, d, vectors, first)
    for i in range(tiled, d):
        _subtract_one(matrix, at + entry_at(d, i, 0), i, d, vectors, first)


@jit
def factor(gram: Floats, errors: Floats, first: int, count: int, widths: Floats, inverse: Floats) -> None:
    """Take the rewards from `first` to before `count` as a block, given X'Z, from the diagonal on, in the table `gram`.

    Turns `errors` from r - X'theta into v, writes 1 + x'z into `widths` and L^-1 into the table `inverse`; the other
    rewards' entries are 0. Overwrites `gram`.
    """
    if first > 0 or count < LANES:
        for p in range(LANES):
            for k in range(LANES):
                if min(p, k) < first or max(p, k) >= count:
                    gram[p * LANES + k] = 0.0
            if p < first or p >= count:
                errors[p] = 0.0
    _factor_all(gram, errors, widths, inverse)
    for p in range(first):
        inverse[p * LANES + p] = 0.0


def _meeting(count: int) -> Callable[..., Any]:
    """Instructions of `_meet_one` and `_meet_four`."""

    def typed(context: Any, matrix: Any, at: Any, i: Any, d: Any, arms: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, LANES, literal=True)
            matrix, at, i, d, arms, products = arguments
            arms, products = write.numbers(signature.args[4], arms), write.numbers(signature.args[5], products)
            lines = TileLines(write, write.place(write.numbers(signature.args[0], matrix), at), i, d, count)

            def line_of(table: Any, number: Any) -> Any:
                return write.place(table, builder.mul(number, _LANES))

            own = [write.load(write.place(line_of(arms, i), k * LANES)) for k in range(count)]

            def meet(j: Any, entries: Sequence[Any], totals: Sequence[Any]) -> list[Any]:
                entries = [write.spread(entry) for entry in entries]
                x, place = write.load(line_of(arms, j)), line_of(products, j)
                z = write.load(place)
                for entry, mine in zip(entries, own, strict=True):
                    z = write.plus(z, entry, mine)
                write.store(z, place)
                return [write.plus(total, entry, x) for total, entry in zip(totals, entries, strict=True)]

            totals = lines.before(meet, [write.zero] * count)
            for k in range(count):
                for j in range(count):
                    totals[k] = write.plus(totals[k], write.spread(builder.load(lines.own(k, j))), own[j])
                write.store(totals[k], write.place(line_of(products, i), k * LANES))
            return context.get_dummy_value()

        return types.void(matrix, _PLACE, _PLACE, _PLACE, arms, products), generate

    return typed


def _subtracting(count: int) -> Callable[..., Any]:
    """Instructions of `_subtract_one` and `_subtract_four`."""

    def typed(context: Any, matrix: Any, at: Any, i: Any, d: Any, vectors: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, literal=True)
            matrix, at, i, d, vectors, first = arguments
            columns = _columns(write, write.place(write.numbers(signature.args[4], vectors), first), write.whole(d))
            lines = TileLines(write, write.place(write.numbers(signature.args[0], matrix), at), i, d, count)
            own = [[write.place(w, i, k) for w in columns] for k in range(count)]

            def body(j: Any, _: Sequence[Any]) -> list[Any]:
                places = lines.vectors(j)
                parts = [write.load(place) for place in places]
                for p, w in enumerate(columns):
                    of_w = write.load(write.place(w, j))
                    factors = [write.spread(builder.load(own[k][p])) for k in range(count)]
                    parts = [write.minus(part, of_w, factor) for part, factor in zip(parts, factors, strict=True)]
                for part, place in zip(parts, places, strict=True):
                    write.store(part, place)
                return []

            write.loop(builder.add(i, ir.Constant(INT, 1)), WIDTH, [], body)
            return context.get_dummy_value()

        return types.void(matrix, _PLACE, _PLACE, _PLACE, vectors, _PLACE), generate

    return typed


def _columns(write: Writer, start: Any, length: Any) -> list[Any]:
    """Where the eight columns of W begin."""
    starts = [start]
    for _ in range(1, LANES):
        starts.append(write.place(starts[-1], length))
    return starts


def _projecting(count: int) -> Callable[..., Any]:
    """Instructions of `_project_one` and `_project_four`."""

    def typed(context: Any, vectors: Any, at: Any, d: Any, arms: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, LANES)
            vectors, at, d, arms, products = arguments
            starts = [write.place(write.numbers(signature.args[0], vectors), at)]
            for _ in range(1, count):
                starts.append(write.place(starts[-1], write.whole(d)))
            arms, products = write.numbers(signature.args[3], arms), write.numbers(signature.args[4], products)

            def entries(i: Any) -> list[Any]:
                return [write.spread(builder.load(write.place(start, i))) for start in starts]

            def meet(i: Any, totals: Sequence[Any]) -> list[Any]:
                x = write.load(write.place(arms, builder.mul(i, _LANES)))
                return [write.plus(total, entry, x) for total, entry in zip(totals, entries(i), strict=True)]

            along = write.loop(d, 1, [write.zero] * count, meet)

            def subtract(i: Any, _: Sequence[Any]) -> list[Any]:
                place = write.place(products, builder.mul(i, _LANES))
                z = write.load(place)
                for part, entry in zip(along, entries(i), strict=True):
                    z = write.minus(z, entry, part)
                write.store(z, place)
                return []

            write.loop(d, 1, [], subtract)
            return context.get_dummy_value()

        return types.void(vectors, _PLACE, _PLACE, arms, products), generate

    return typed


def _gram(context: Any, arms: Any, products: Any, theta: Any, first: Any, d: Any, gram: Any, means: Any) -> Any:
    """Instructions of `meet`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, LANES)
        arms, products, theta, first, d, gram, means = (
            write.numbers(kind, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        theta = write.place(theta, first)

        half = Writer(context, builder, LINES)

        def first_four(i: Any, totals: Sequence[Any]) -> list[Any]:
            line = builder.mul(i, _LANES)
            x, z = write.place(arms, line), write.load(write.place(products, line))
            own = [write.spread(builder.load(write.place(x, p))) for p in range(LINES)]
            return [write.plus(total, each, z) for total, each in zip(totals, own, strict=True)]

        def last_four(i: Any, totals: Sequence[Any]) -> list[Any]:
            line = builder.mul(i, _LANES)
            x, z = write.place(arms, line), half.load(write.place(products, line, LINES))
            own = [half.spread(builder.load(write.place(x, LINES + p))) for p in range(LINES)]
            mean = write.plus(totals[LINES], write.spread(builder.load(write.place(theta, i))), write.load(x))
            return [*(half.plus(total, each, z) for total, each in zip(totals[:LINES], own, strict=True)), mean]

        met = write.loop(d, 1, [write.zero] * LINES, first_four)
        *rest, mean = write.loop(d, 1, [*[half.zero] * LINES, write.zero], last_four)
        for p in range(LINES):
            write.store(met[p], write.place(gram, p * LANES))
            half.store(half.zero, write.place(gram, (LINES + p) * LANES))
            half.store(rest[p], write.place(gram, (LINES + p) * LANES + LINES))
        write.store(mean, means)
        return context.get_dummy_value()

    return types.void(arms, products, theta, _PLACE, _PLACE, gram, means), generate


def _factor(context: Any, gram: Any, errors: Any, widths: Any, inverse: Any) -> Any:
    """Instructions of `_factor_all`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, LANES)
        gram, errors, widths, inverse = (
            write.numbers(kind, value) for kind, value in zip(signature.args, arguments, strict=True)
        )
        one, nothing = ir.Constant(FLOAT, 1.0), ir.Constant(FLOAT, 0.0)
        rows = [write.load(write.place(gram, p * LANES)) for p in range(LANES)]
        unit = [ir.Constant(write.vector, [float(k == p) for k in range(LANES)]) for p in range(LANES)]
        left, found, pivots = write.load(errors), write.zero, write.zero
        for p in range(LANES):  # of the rows of 1 + X'Z and of those of the unit matrix; their roots can wait
            lane = ir.Constant(SHORT, p)
            square = builder.extract_element(rows[p], lane)
            square = builder.select(builder.fcmp_ordered(">", square, nothing), square, nothing)
            width = write.add(one, square)
            pivots = builder.insert_element(pivots, width, lane)
            error = builder.extract_element(left, lane)
            found = builder.insert_element(found, error, lane)
            shares = write.times(rows[p], write.spread(builder.fdiv(one, width)))
            left = write.minus(left, write.spread(error), shares)
            for k in range(p + 1, LANES):
                less = write.spread(builder.extract_element(shares, ir.Constant(SHORT, k)))
                rows[k] = write.minus(rows[k], less, rows[p])
                unit[k] = write.minus(unit[k], less, unit[p])
        ones = ir.Constant(write.vector, [1.0] * LANES)
        roots = builder.fdiv(ones, write.roots(pivots))
        write.store(pivots, widths)
        write.store(write.times(found, roots), errors)
        for p in range(LANES):
            share = write.spread(builder.extract_element(roots, ir.Constant(SHORT, p)))
            write.store(write.times(unit[p], share), write.place(inverse, p * LANES))
        return context.get_dummy_value()

    return types.void(gram, errors, widths, inverse), generate


def _whiten(context: Any, products: Any, inverse: Any, errors: Any, length: Any, vectors: Any, step: Any) -> Any:
    """Instructions of `whiten`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder, LINES)
        products, inverse, errors, length, vectors, step = (
            write.numbers(kind, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        starts = _columns(write, vectors, length)

        def body(i: Any, _: Sequence[Any]) -> list[Any]:
            line = write.place(products, builder.mul(i, _LANES))
            z: list[Any] = []
            for half in (0, LINES):
                z += write.turned(*(write.load(write.place(line, k * LANES + half)) for k in range(LINES)))
            grown = write.zero
            for p in range(LANES):
                total = write.zero
                for k in range(p + 1):
                    entry = write.spread(builder.load(write.place(inverse, p * LANES + k)))
                    total = write.plus(total, entry, z[k])
                write.store(total, write.place(starts[p], i))
                grown = write.plus(grown, total, write.spread(builder.load(write.place(errors, p))))
            write.store(grown, write.place(step, i))
            return []

        write.loop(length, LINES, [], body)
        return context.get_dummy_value()

    return types.void(products, inverse, errors, _PLACE, vectors, step), generate


def _line(matrix: Floats, at: int, i: int, d: int) -> Floats:
    """The vectors of line i, whose part of the first tile begins at the place `at`, one below the other."""
    step = min(d - i // WIDTH * WIDTH, WIDTH)
    return np.lib.stride_tricks.as_strided(matrix[at:], (i // WIDTH + 1, WIDTH), (8 * WIDTH * step, 8))


@compiled_as(_meeting(1))
def _meet_one(matrix: Floats, at: int, i: int, d: int, arms: Floats, products: Floats) -> None:
    """Let line i, whose part of the first tile begins at the place `at`, contribute to M X: to the lines before it,
    and what these contribute to it.
    """
    x, z = arms.reshape(-1, LANES), products.reshape(-1, LANES)
    line = _line(matrix, at, i, d).ravel()
    z[i] = line[: i + 1] @ x[: i + 1]
    z[:i] += np.outer(line[:i], x[i])


@compiled_as(_meeting(LINES))
def _meet_four(matrix: Floats, at: int, i: int, d: int, arms: Floats, products: Floats) -> None:
    """As `_meet_one`, for lines i to i + 3."""
    for k in range(LINES):
        _meet_one(matrix, at + k * WIDTH, i + k, d, arms, products)


@compiled_as(_subtracting(1))
def _subtract_one(matrix: Floats, at: int, i: int, d: int, vectors: Floats, first: int) -> None:
    """M <- M - W W' in line i, whose part of the first tile begins at the place `at`."""
    w, line = vectors[first : first + LANES * padded(d)].reshape(LANES, -1), _line(matrix, at, i, d)
    line -= (w[:, i] @ w[:, : line.size]).reshape(line.shape)


@compiled_as(_subtracting(LINES))
def _subtract_four(matrix: Floats, at: int, i: int, d: int, vectors: Floats, first: int) -> None:
    """As `_subtract_one`, for lines i to i + 3."""
    for k in range(LINES):
        _subtract_one(matrix, at + k * WIDTH, i + k, d, vectors, first)


@compiled_as(_gram)
def meet(arms: Floats, products: Floats, theta: Floats, first: int, d: int, gram: Floats, means: Floats) -> None:
    """Write X'Z into `gram` and X'theta into `means`; theta begins at the place `first` of its array.

    X'Z is symmetric, and of the last four lines the first four columns are left 0.
    """
    x, z = arms.reshape(-1, LANES)[:d], products.reshape(-1, LANES)[:d]
    gram[:] = (x.T @ z).ravel()
    gram.reshape(LANES, LANES)[LINES:, :LINES] = 0.0
    means[:] = theta[first : first + d] @ x


@compiled_as(_factor)
def _factor_all(gram: Floats, errors: Floats, widths: Floats, inverse: Floats) -> None:
    """As `factor`, for eight rewards."""
    table, left = gram.reshape(LANES, LANES).copy(), np.eye(LANES)
    for p in range(LANES):
        widths[p] = 1.0 + max(table[p, p], 0.0)
        shares = table[p] / widths[p]
        for k in range(p + 1, LANES):
            table[k] -= shares[k] * table[p]
            left[k] -= shares[k] * left[p]
            errors[k] -= shares[k] * errors[p]
    roots = np.sqrt(widths)
    errors /= roots
    left /= roots[:, np.newaxis]
    inverse[:] = left.ravel()


@compiled_as(_whiten)
def whiten(products: Floats, inverse: Floats, errors: Floats, length: int, vectors: Floats, step: Floats) -> None:
    """Write the columns of W = Z L^-T into `vectors`, one behind the other, each with `length` numbers, and W v into
    `step`.
    """
    columns = products.reshape(length, LANES) @ inverse.reshape(LANES, LANES).T
    vectors[:] = columns.T.ravel()
    step[:] = columns @ errors


@compiled_as(_projecting(1))
def _project_one(vectors: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """Z <- Z - w w'X for the vector w that begins at the place `at`."""
    x, z = arms.reshape(-1, LANES)[:d], products.reshape(-1, LANES)[:d]
    w = vectors[at : at + d]
    z -= np.outer(w, w @ x)


@compiled_as(_projecting(LINES))
def _project_four(vectors: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """As `_project_one`, for four vectors, one behind the other."""
    for k in range(LINES):
        _project_one(vectors, at + k * padded(d), d, arms, products)
