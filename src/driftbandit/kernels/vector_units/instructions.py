"""Instructions of LLVM, the compiler behind Numba, on vectors of numbers: what `vectors` and the like consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

WIDTH = 8
"""Numbers of a vector, unless said otherwise."""

LINES = 4
"""Lines of a matrix, or arms, at a time, where not more is said."""

MANY_REGISTERS = bool(get_host_cpu_features().get("avx512f"))
"""Whether the processor has 32 registers for eight numbers each, not 16 for four."""

FLOAT, INT, SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_FAST = ("reassoc", "contract", "nsz")  # as in `compile`
_LITERAL = ("contract", "nsz")


def compiled_as(typed: Callable[..., Any]) -> Callable[[F], F]:
    """Let compiled kernels have the instructions that `typed` writes in place of a plain function."""

    def replace(plain: F) -> F:
        return plain if numba.config.DISABLE_JIT else cast(F, intrinsic(typed))  # type: ignore[attr-defined]

    return replace


Meet = Callable[[Any, Sequence[Any], Sequence[Any]], list[Any]]


class Writer:
    """Writes instructions on vectors of `width` numbers; if `literal`, LLVM neither reorders sums nor unrolls loops."""

    def __init__(self, context: Any, builder: Any, width: int = WIDTH, literal: bool = False) -> None:
        self.context, self.builder, self.width, self.literal = context, builder, width, literal
        self._flags = _LITERAL if literal else _FAST
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

    def block_of(self, i: Any) -> Any:
        """The first line of the group that line i belongs to, and the first column of its block on the diagonal."""
        return self.builder.and_(i, ir.Constant(INT, -WIDTH))

    def whole(self, count: Any) -> Any:
        """Room for so many numbers in whole vectors."""
        return self.block_of(self.builder.add(count, ir.Constant(INT, WIDTH - 1)))

    def load(self, place: Any) -> Any:
        """A vector of the numbers there."""
        found = self.builder.load(self.builder.bitcast(place, self.vector.as_pointer()))
        found.align = 8
        return found

    def store(self, vector: Any, place: Any) -> None:
        """Overwrite the numbers there."""
        self.builder.store(vector, self.builder.bitcast(place, self.vector.as_pointer())).align = 8

    def fetch(self, place: Any) -> None:
        """Let the processor load the cache line there into its second cache, and go on meanwhile.

        The fastest cache has no room for much that is not needed yet, and to leave out the second one, which AMD's
        processors like as well, takes Intel's several times as long.
        """
        byte = ir.IntType(8).as_pointer()
        fetch = self._known("llvm.prefetch.p0", ir.VoidType(), byte, SHORT, SHORT, SHORT)
        read, second, data = (ir.Constant(SHORT, number) for number in (0, 2, 1))
        self.builder.call(fetch, [self.builder.bitcast(place, byte), read, second, data])

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
        return self.builder.fmul(a, b, flags=self._flags)

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        return self.builder.fadd(a, b, flags=self._flags)

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """total + a * b."""
        return self.add(total, self.times(a, b))

    def minus(self, total: Any, a: Any, b: Any) -> Any:
        """total - a * b."""
        return self.builder.fsub(total, self.times(a, b), flags=self._flags)

    def sum(self, vector: Any) -> Any:
        """The sum of a vector's numbers."""
        reduce = self._known(f"llvm.vector.reduce.fadd.v{self.width}f64", FLOAT, FLOAT, self.vector)
        return self.builder.call(reduce, [ir.Constant(FLOAT, 0.0), vector], fastmath=_FAST)

    def roots(self, vector: Any) -> Any:
        """A vector of the square roots of a vector's numbers."""
        return self.builder.call(self._known(f"llvm.sqrt.v{self.width}f64", self.vector, self.vector), [vector])

    def _once(self) -> Any:
        """What tells LLVM not to write a loop's body several times."""
        module = self.builder.module
        advice = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
        found = module.add_metadata([ir.MetaDataString(module, "loop"), advice])
        found.operands = (found, advice)  # by which LLVM knows that it is about loops
        return found

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
        """A vector of the sums of these vectors, of which there are a power of two, again and again."""
        lanes, found, step = range(self.width), list(vectors), 1
        while step < self.width:
            if len(found) > 1:  # pairs become one: their numbers in turns, `step` of each
                low = [lane - lane % (2 * step) + lane % step + self.width * (lane // step % 2) for lane in lanes]
                pairs = list(zip(found[::2], found[1::2], strict=True))
            else:
                low, pairs = [lane - lane % (2 * step) + lane % step for lane in lanes], [(found[0], found[0])]
            high = [lane + step for lane in low]
            found = [self.add(self.pick(a, low, b), self.pick(a, high, b)) for a, b in pairs]
            step *= 2
        return found[0]

    def only(self, vector: Any, first: Any, count: int, others: Any = None) -> Any:
        """The vector at the `count` places from `first` on, elsewhere `others`, which are 0 if not given."""
        places = ir.Constant(ir.VectorType(INT, self.width), list(range(self.width)))
        ahead, last = self.builder.sub(places, self.spread(first)), self.spread(ir.Constant(INT, count))
        which = self.builder.icmp_unsigned("<", ahead, last)
        return self.builder.select(which, vector, self.zero if others is None else others)

    def along(
        self, count: Any, first: Sequence[Any], body: Callable[[Any, Sequence[Any], Any, Any], list[Any]]
    ) -> list[Any]:
        """Let ``values = body(j, values, load, store)`` run for all numbers of a line of `count`, `width` at a time.

        The last ones are fewer, maybe none; `load` and `store` touch no others.
        """
        builder = self.builder
        whole = builder.and_(count, ir.Constant(INT, -self.width))
        values = self.loop(whole, self.width, first, lambda j, found: body(j, found, self.load, self.store))

        def rest(values: Sequence[Any]) -> list[Any]:
            which = self.rest_of(count)
            return body(
                whole,
                values,
                lambda place: self.load_some(place, which),
                lambda vector, place: self.store_some(vector, place, which),
            )

        return self.when(builder.icmp_signed("<", whole, count), values, rest)

    def when(self, condition: Any, values: Sequence[Any], body: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
        """Let ``values = body(values)`` run on a condition."""
        builder, before = self.builder, self.builder.block
        with builder.if_then(condition):
            found = body(values)
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
        following, inside = builder.add(j, ir.Constant(INT, step)), builder.block
        again = builder.cbranch(builder.icmp_signed("<", following, stop), around, after)
        if self.literal:
            again.set_metadata("llvm.loop", self._once())
        builder.position_at_end(after)
        last = [builder.phi(value.type) for value in first]
        starts, ends = (ir.Constant(INT, 0), *first, *first), (following, *found, *found)
        for value, start, end in zip((j, *values, *last), starts, ends, strict=True):
            value.add_incoming(start, before)
            value.add_incoming(end, inside)
        return last


class PackedLines:
    """Lines of a packed triangle, from line i on, which begins at the place `start`."""

    def __init__(self, write: Writer, start: Any, i: Any, count: int) -> None:
        self._write, self._i, self._lines = write, i, [start]
        for k in range(1, count):
            self._lines.append(write.place(self._lines[-1], i, k))

    def before(self, meet: Meet, values: Sequence[Any]) -> list[Any]:
        """Let ``values = meet(j, entries, values)`` run for all columns j before i, with the lines' entries there."""
        write = self._write

        def body(j: Any, values: Sequence[Any]) -> list[Any]:
            return meet(j, [write.builder.load(write.place(line, j)) for line in self._lines], values)

        return write.loop(self._i, 1, values, body)

    def own(self, k: int, j: int) -> Any:
        """Where the entry (i + k, i + j) stands."""
        return self._write.place(self._lines[k], self._i, j)
