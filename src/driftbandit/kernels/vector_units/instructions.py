"""Instructions of LLVM, the compiler behind Numba, on vectors of numbers: what `vectors` and the like consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

WIDTH = 4
"""Numbers, and lines of a triangle, at a time."""

MANY_REGISTERS = bool(get_host_cpu_features().get("avx512f"))
"""Whether the processor has room for the sums of sixteen arms and four lines at once: 32 vector registers, not 16."""

FLOAT, INT, SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_FAST = ("reassoc", "contract", "nsz")  # as in `compile`


def compiled_as(typed: Callable[..., Any]) -> Callable[[F], F]:
    """Let compiled kernels have the instructions that `typed` writes in place of a plain function."""

    def replace(plain: F) -> F:
        return plain if numba.config.DISABLE_JIT else cast(F, intrinsic(typed))  # type: ignore[attr-defined]

    return replace


class Writer:
    """Writes instructions on vectors of `width` numbers."""

    def __init__(self, context: Any, builder: Any, width: int = WIDTH) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.vector = ir.VectorType(FLOAT, width)
        self.zero = ir.Constant(self.vector, [0.0] * width)

    def numbers(self, kind: Any, array: Any) -> Any:
        """Where an array's numbers are."""
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def place(self, start: Any, *steps: Any) -> Any:
        """So many numbers behind `start`."""
        for step in steps:
            start = self.builder.gep(start, [ir.Constant(INT, step) if isinstance(step, int) else step])
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

    def load_first(self, place: Any, count: int) -> Any:
        """A vector of the first `count` numbers there, up to `WIDTH`, and 0 for the others."""
        if count == self.width:
            return self.load(place)
        result = self.zero
        if count > 1:
            result = self.pick(Writer(self.context, self.builder, 2).load(place), (0, 1, 2, 3))
        if count % 2:
            last = self.builder.load(self.place(place, count - 1))
            result = self.builder.insert_element(result, last, ir.Constant(SHORT, count - 1))
        return result

    def store_first(self, vector: Any, place: Any, count: int) -> None:
        """Overwrite the first `count` numbers there, up to `WIDTH`."""
        if count == self.width:
            self.store(vector, place)
            return
        if count > 1:
            Writer(self.context, self.builder, 2).store(self.pick(vector, (0, 1)), place)
        if count % 2:
            last = self.builder.extract_element(vector, ir.Constant(SHORT, count - 1))
            self.builder.store(last, self.place(place, count - 1))

    def rest_of(self, count: Any) -> Any:
        """Which numbers of a vector are among the `count` % `width` last ones of a line, those from its first on."""
        rest = self.builder.and_(count, ir.Constant(INT, self.width - 1))
        places = ir.Constant(ir.VectorType(INT, self.width), list(range(self.width)))
        return self.builder.icmp_signed("<", places, self.spread(rest))

    def load_some(self, place: Any, which: Any) -> Any:
        """A vector of those numbers there that `which` says, and 0 for the others, which are not touched."""
        pointer, mask = self.vector.as_pointer(), which.type
        load = self._known(f"llvm.masked.load.v{self.width}f64.p0", self.vector, pointer, SHORT, mask, self.vector)
        return self.builder.call(load, [self.builder.bitcast(place, pointer), ir.Constant(SHORT, 8), which, self.zero])

    def store_some(self, vector: Any, place: Any, which: Any) -> None:
        """Overwrite those numbers there that `which` says."""
        pointer, mask, nothing = self.vector.as_pointer(), which.type, ir.VoidType()
        store = self._known(f"llvm.masked.store.v{self.width}f64.p0", nothing, self.vector, pointer, SHORT, mask)
        self.builder.call(store, [vector, self.builder.bitcast(place, pointer), ir.Constant(SHORT, 8), which])

    def pick(self, a: Any, which: Sequence[int], b: Any = None) -> Any:
        """A vector of these numbers of `a` and, counted on, of `b`, which is 0 if not given."""
        b = ir.Constant(a.type, None) if b is None else b
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(SHORT, len(which)), list(which)))

    def spread(self, number: Any) -> Any:
        """A vector of equal numbers."""
        nothing = ir.Constant(ir.VectorType(number.type, self.width), ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(SHORT, 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(SHORT, self.width), None))

    def times(self, a: Any, b: Any) -> Any:
        """a * b."""
        return self.builder.fmul(a, b, flags=_FAST)

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        return self.builder.fadd(a, b, flags=_FAST)

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """total + a * b."""
        return self.add(total, self.times(a, b))

    def minus(self, total: Any, a: Any, b: Any) -> Any:
        """total - a * b."""
        return self.builder.fsub(total, self.times(a, b), flags=_FAST)

    def sum(self, vector: Any) -> Any:
        """The sum of a vector's numbers."""
        reduce = self._known(f"llvm.vector.reduce.fadd.v{self.width}f64", FLOAT, FLOAT, self.vector)
        return self.builder.call(reduce, [ir.Constant(FLOAT, 0.0), vector], fastmath=_FAST)

    def roots(self, vector: Any) -> Any:
        """A vector of the square roots of a vector's numbers."""
        return self.builder.call(self._known(f"llvm.sqrt.v{self.width}f64", self.vector, self.vector), [vector])

    def _known(self, name: str, result: Any, *arguments: Any) -> Any:
        """A function that LLVM knows."""
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)

    def turned(self, a: Any, b: Any, c: Any, e: Any) -> list[Any]:
        """The columns of the matrix whose lines are these four vectors."""
        even, odd, low, high = (0, 4, 2, 6), (1, 5, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
        pairs = [(self.pick(a, which, b), self.pick(c, which, e)) for which in (even, odd)]
        return [self.pick(p, which, q) for which in (low, high) for p, q in pairs]

    def sums(self, vectors: Sequence[Any]) -> Any:
        """A vector of the sums of four vectors."""
        a, b, c, e = self.turned(*vectors)
        return self.add(self.add(a, b), self.add(c, e))

    def by_count(self, count: Any, most: int, body: Callable[[int], None]) -> None:
        """Write what ``body(count)`` writes for each count up to `most`, of which one runs, or none if it is 0."""
        for each in range(1, most + 1):
            with self.builder.if_then(self.builder.icmp_signed("==", count, ir.Constant(INT, each))):
                body(each)

    def in_pairs(self, stop: Any, body: Callable[[Writer, Any], None]) -> None:
        """Let ``body(writer, j)`` run for the vectors from j = 0 on below `stop`, a multiple of `width`, two as one."""
        twice = Writer(self.context, self.builder, 2 * self.width)

        def pair(j: Any, _: Sequence[Any]) -> list[Any]:
            body(twice, j)
            return []

        whole = self.builder.and_(stop, ir.Constant(INT, -2 * self.width))
        twice.loop(whole, 2 * self.width, [], pair)
        with self.builder.if_then(self.builder.icmp_signed("<", whole, stop)):
            body(self, whole)

    def along(
        self, count: Any, first: Sequence[Any], body: Callable[[Any, Sequence[Any], Any, Any], list[Any]]
    ) -> list[Any]:
        """Let ``values = body(j, values, load, store)`` run for all numbers of a line of `count`, `width` at a time.

        The last ones are fewer, maybe none; `load` and `store` touch no others.
        """
        builder = self.builder
        whole = builder.and_(count, ir.Constant(INT, -self.width))
        values = self.loop(whole, self.width, first, lambda j, found: body(j, found, self.load, self.store))
        before = builder.block
        with builder.if_then(builder.icmp_signed("<", whole, count)):
            which = self.rest_of(count)
            found = body(
                whole,
                values,
                lambda place: self.load_some(place, which),
                lambda vector, place: self.store_some(vector, place, which),
            )
            inside = builder.block
        last = [builder.phi(value.type) for value in values]
        for result, skipped, value in zip(last, values, found, strict=True):
            result.add_incoming(skipped, before)
            result.add_incoming(value, inside)
        return last

    def loop(
        self, stop: Any, step: int, first: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
    ) -> list[Any]:
        """Let ``values = body(j, values)`` run for j = 0, step, ... below `stop`, from `first` on; the last values."""
        builder = self.builder
        before, around, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", stop, ir.Constant(INT, 0)), around, after)
        builder.position_at_end(around)
        j, values = builder.phi(INT), [builder.phi(value.type) for value in first]
        found = body(j, values)
        following = builder.add(j, ir.Constant(INT, step))
        builder.cbranch(builder.icmp_signed("<", following, stop), around, after)
        builder.position_at_end(after)
        last = [builder.phi(value.type) for value in first]
        starts, ends = (ir.Constant(INT, 0), *first, *first), (following, *found, *found)
        for value, start, end in zip((j, *values, *last), starts, ends, strict=True):
            value.add_incoming(start, before)
            value.add_incoming(end, around)
        return last
