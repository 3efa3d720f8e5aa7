"""Up to eight rewards at once for one model: what a block of rewards changes, in few passes over its matrix.

A model with the weights theta and the matrix M learns the rewards r of the arms x_1 to x_8, the columns of X, one after
the other: with z = M x and the error e = r - theta'x, theta grows by z e / (1 + x'z) and M falls by z z' / (1 + x'z).
With Z = M X and the Cholesky factor L of 1 + X'Z, all eight come to

    widths 1 + x'z:          the squares of L's diagonal
    e / sqrt(1 + x'z):       v = L^-1 (r - X'theta)
    theta <- theta + W v,    M <- M - W W',    W = Z L^-T.

So M is read once and written once, instead of eight times each. Arms stand side by side, as in `forms`: number i of
the eight arms are line i of a table with `LANES` columns. Tables have whole groups of `WIDTH` lines, the last ones 0.
Loops are written as in `vectors`, with what they do in plain Python at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.vector_units.instructions import FLOAT, INT, SHORT, WIDTH, Writer, compiled_as

LANES = 8
"""Rewards of a block, at most."""

_PLACE = types.intp
_LANES = ir.Constant(INT, LANES)


@jit
def multiply(triangle: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """Write M X into `products`, where the triangle of M begins at the place `at` and the table `arms` is X."""
    for i in range(0, d - d % WIDTH, WIDTH):
        _meet_four(triangle, at, i, arms, products)
        at += WIDTH * i + 10
    for i in range(d - d % WIDTH, d):
        _meet_one(triangle, at, i, arms, products)
        at += i + 1


@jit
def project(vectors: Floats, at: int, count: int, d: int, arms: Floats, products: Floats) -> None:
    """Z <- Z - V V'X, where the `count` columns of V begin at the place `at` of `vectors`, one behind the other."""
    for k in range(0, count - count % 4, 4):
        _project_four(vectors, at + k * d, d, arms, products)
    for k in range(count - count % 4, count):
        _project_one(vectors, at + k * d, d, arms, products)


@jit
def subtract(triangle: Floats, at: int, d: int, vectors: Floats, first: int, lines: int) -> None:
    """M <- M - W W', where the triangle of M begins at `at` and the eight columns of W begin at the place `first` of
    `vectors`, each with room for `lines` numbers.

    Up to three numbers behind each column are read, but do not count.
    """
    for i in range(0, d - d % WIDTH, WIDTH):
        _subtract_four(triangle, at, i, vectors, first, lines)
        at += WIDTH * i + 10
    i = d - d % WIDTH
    if d % WIDTH == 1:
        _subtract_one(triangle, at, i, vectors, first, lines)
    elif d % WIDTH == 2:
        _subtract_two(triangle, at, i, vectors, first, lines)
    elif d % WIDTH == 3:
        _subtract_three(triangle, at, i, vectors, first, lines)


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

    def typed(context: Any, triangle: Any, at: Any, i: Any, arms: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, LANES)
            triangle, at, i, arms, products = arguments
            lines = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            arms, products = write.numbers(signature.args[3], arms), write.numbers(signature.args[4], products)

            def line_of(table: Any, number: Any) -> Any:
                return write.place(table, builder.mul(number, _LANES))

            own = [write.load(write.place(line_of(arms, i), k * LANES)) for k in range(count)]

            def body(j: Any, totals: Sequence[Any]) -> list[Any]:
                entries = [write.spread(builder.load(write.place(line, j))) for line in lines]
                x, place = write.load(line_of(arms, j)), line_of(products, j)
                z = write.load(place)
                for entry, mine in zip(entries, own, strict=True):
                    z = write.plus(z, entry, mine)
                write.store(z, place)
                return [write.plus(total, entry, x) for total, entry in zip(totals, entries, strict=True)]

            totals = write.loop(i, 1, [write.zero] * count, body)
            for k in range(count):  # columns from i on, where a line meets itself and the other one
                for j in range(k + 1):
                    entry = write.spread(builder.load(write.place(lines[k], i, j)))
                    totals[k] = write.plus(totals[k], entry, own[j])
                    if j < k:
                        totals[j] = write.plus(totals[j], entry, own[k])
            for k in range(count):
                write.store(totals[k], write.place(line_of(products, i), k * LANES))
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, arms, products), generate

    return typed


def _subtracting(count: int) -> Callable[..., Any]:
    """Instructions of `_subtract_one` to `_subtract_four`."""

    def typed(context: Any, triangle: Any, at: Any, i: Any, vectors: Any, first: Any, lines: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder)
            triangle, at, i, vectors, first, lines = arguments
            starts = _columns(write, write.place(write.numbers(signature.args[3], vectors), first), lines)
            found = write.lines(write.numbers(signature.args[0], triangle), at, i, count)
            _subtract_from(write, found, i, starts)
            return context.get_dummy_value()

        return types.void(triangle, _PLACE, _PLACE, vectors, _PLACE, _PLACE), generate

    return typed


def _columns(write: Writer, start: Any, lines: Any) -> list[Any]:
    """Where the eight columns of W begin."""
    starts = [start]
    for _ in range(1, LANES):
        starts.append(write.place(starts[-1], lines))
    return starts


def _subtract_from(write: Writer, lines: Sequence[Any], i: Any, columns: Sequence[Any]) -> None:
    """Subtract W W' from lines of a triangle, of which i is the first."""
    builder = write.builder
    own = [[write.place(w, i, k) for w in columns] for k in range(len(lines))]

    def less(write: Writer, parts: Sequence[Any], j: Any) -> Sequence[Any]:
        for p, w in enumerate(columns):
            of_w = write.load(write.place(w, j))
            parts = [write.minus(part, of_w, write.spread(builder.load(own[k][p]))) for k, part in enumerate(parts)]
        return parts

    def subtract(write: Writer, j: Any) -> None:
        places = [write.place(line, j) for line in lines]
        for part, place in zip(less(write, [write.load(place) for place in places], j), places, strict=True):
            write.store(part, place)

    write.in_pairs(i, subtract)
    places = [write.place(line, i) for line in lines]
    parts = less(write, [write.load_first(place, k + 1) for k, place in enumerate(places)], i)
    for k, part in enumerate(parts):
        write.store_first(part, places[k], k + 1)  # the last of these columns is the diagonal's


def _projecting(count: int) -> Callable[..., Any]:
    """Instructions of `_project_one` and `_project_four`."""

    def typed(context: Any, vectors: Any, at: Any, d: Any, arms: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            write = Writer(context, builder, LANES)
            vectors, at, d, arms, products = arguments
            starts = [write.place(write.numbers(signature.args[0], vectors), at)]
            for _ in range(1, count):
                starts.append(write.place(starts[-1], d))
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

        half = Writer(context, builder)

        def first_four(i: Any, totals: Sequence[Any]) -> list[Any]:
            line = builder.mul(i, _LANES)
            x, z = write.place(arms, line), write.load(write.place(products, line))
            own = [write.spread(builder.load(write.place(x, p))) for p in range(WIDTH)]
            return [write.plus(total, each, z) for total, each in zip(totals, own, strict=True)]

        def last_four(i: Any, totals: Sequence[Any]) -> list[Any]:
            line = builder.mul(i, _LANES)
            x, z = write.place(arms, line), half.load(write.place(products, line, WIDTH))
            own = [half.spread(builder.load(write.place(x, WIDTH + p))) for p in range(WIDTH)]
            mean = write.plus(totals[WIDTH], write.spread(builder.load(write.place(theta, i))), write.load(x))
            return [*(half.plus(total, each, z) for total, each in zip(totals[:WIDTH], own, strict=True)), mean]

        met = write.loop(d, 1, [write.zero] * WIDTH, first_four)
        *rest, mean = write.loop(d, 1, [*[half.zero] * WIDTH, write.zero], last_four)
        for p in range(WIDTH):
            write.store(met[p], write.place(gram, p * LANES))
            half.store(half.zero, write.place(gram, (WIDTH + p) * LANES))
            half.store(rest[p], write.place(gram, (WIDTH + p) * LANES + WIDTH))
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


def _whiten(context: Any, products: Any, inverse: Any, errors: Any, lines: Any, vectors: Any, step: Any) -> Any:
    """Instructions of `whiten`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        write = Writer(context, builder)
        products, inverse, errors, lines, vectors, step = (
            write.numbers(kind, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        starts = _columns(write, vectors, lines)

        def body(i: Any, _: Sequence[Any]) -> list[Any]:
            line = write.place(products, builder.mul(i, _LANES))
            z: list[Any] = []
            for half in (0, WIDTH):
                z += write.turned(*(write.load(write.place(line, k * LANES + half)) for k in range(WIDTH)))
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

        write.loop(lines, WIDTH, [], body)
        return context.get_dummy_value()

    return types.void(products, inverse, errors, _PLACE, vectors, step), generate


@compiled_as(_meeting(1))
def _meet_one(triangle: Floats, at: int, i: int, arms: Floats, products: Floats) -> None:
    """Let line i contribute to M X: to the lines before it, and what these contribute to it."""
    x, z = arms.reshape(-1, LANES), products.reshape(-1, LANES)
    line = triangle[at : at + i]
    z[i] = line @ x[:i] + triangle[at + i] * x[i]
    z[:i] += np.outer(line, x[i])


@compiled_as(_meeting(WIDTH))
def _meet_four(triangle: Floats, at: int, i: int, arms: Floats, products: Floats) -> None:
    """As `_meet_one`, for lines i to i + 3."""
    for line in range(i, i + WIDTH):
        _meet_one(triangle, at, line, arms, products)
        at += line + 1


def _subtract_lines(triangle: Floats, at: int, i: int, vectors: Floats, first: int, lines: int, count: int) -> None:
    w = vectors[first : first + LANES * lines].reshape(LANES, lines)
    for k in range(i, i + count):
        triangle[at : at + k + 1] -= w[:, k] @ w[:, : k + 1]
        at += k + 1


@compiled_as(_subtracting(1))
def _subtract_one(triangle: Floats, at: int, i: int, vectors: Floats, first: int, lines: int) -> None:
    """M <- M - W W' in line i, a multiple of `WIDTH`."""
    _subtract_lines(triangle, at, i, vectors, first, lines, 1)


@compiled_as(_subtracting(2))
def _subtract_two(triangle: Floats, at: int, i: int, vectors: Floats, first: int, lines: int) -> None:
    """As `_subtract_one`, for lines i and i + 1."""
    _subtract_lines(triangle, at, i, vectors, first, lines, 2)


@compiled_as(_subtracting(3))
def _subtract_three(triangle: Floats, at: int, i: int, vectors: Floats, first: int, lines: int) -> None:
    """As `_subtract_one`, for lines i to i + 2."""
    _subtract_lines(triangle, at, i, vectors, first, lines, 3)


@compiled_as(_subtracting(4))
def _subtract_four(triangle: Floats, at: int, i: int, vectors: Floats, first: int, lines: int) -> None:
    """As `_subtract_one`, for lines i to i + 3."""
    _subtract_lines(triangle, at, i, vectors, first, lines, 4)


@compiled_as(_gram)
def meet(arms: Floats, products: Floats, theta: Floats, first: int, d: int, gram: Floats, means: Floats) -> None:
    """Write X'Z into `gram` and X'theta into `means`; theta begins at the place `first` of its array.

    X'Z is symmetric, and of the last four lines the first four columns are left 0.
    """
    x, z = arms.reshape(-1, LANES)[:d], products.reshape(-1, LANES)[:d]
    gram[:] = (x.T @ z).ravel()
    gram.reshape(LANES, LANES)[WIDTH:, :WIDTH] = 0.0
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
def whiten(products: Floats, inverse: Floats, errors: Floats, lines: int, vectors: Floats, step: Floats) -> None:
    """Write the columns of W = Z L^-T into `vectors`, one behind the other, each with `lines` numbers, and W v into
    `step`.
    """
    columns = products.reshape(lines, LANES) @ inverse.reshape(LANES, LANES).T
    vectors[:] = columns.T.ravel()
    step[:] = columns @ errors


@compiled_as(_projecting(1))
def _project_one(vectors: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """Z <- Z - w w'X for the vector w that begins at the place `at`."""
    x, z = arms.reshape(-1, LANES)[:d], products.reshape(-1, LANES)[:d]
    w = vectors[at : at + d]
    z -= np.outer(w, w @ x)


@compiled_as(_projecting(4))
def _project_four(vectors: Floats, at: int, d: int, arms: Floats, products: Floats) -> None:
    """As `_project_one`, for four vectors, one behind the other."""
    for k in range(4):
        _project_one(vectors, at + k * d, d, arms, products)
