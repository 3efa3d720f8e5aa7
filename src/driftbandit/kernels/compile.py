"""How kernels are compiled: once, cached on disk, without holding the GIL.

A waiting user is told once, on standard error, that compiling takes a while.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import BaseContext
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import event, types
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

_LARGEST_FLOAT = float(np.finfo(np.float64).max)

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and fused, so that they can use vector units; NaN and infinity keep their meaning, because the
# kernels report input that is not finite.
_FASTMATH = {"reassoc", "contract", "nsz"}


def _sources() -> str:
    """Short hash of all source that ends up in machine code."""
    package = Path(__file__).parents[1]
    files = sorted([*(package / "kernels").rglob("*.py"), *(package / "models").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


_SOURCES = _sources()


def jit(function: F) -> F:
    """Compile `function` at its first call and keep the machine code in Numba's cache.

    Numba finds cached code by the function's name and file, and would not notice an edit of a kernel that it calls
    in another file; a hash of all kernels' source in the name makes it notice.

    Numba writes the cache beside the source, or into the user's cache directory if the install is read-only. If neither
    can be written, the kernel is compiled anew in every process.
    """
    return _cached(function)


def jit_inside(function: F) -> F:
    """As `jit`, for a short kernel that others call once per model: it becomes part of them.

    Calls hand over arrays in many numbers, which takes as long as the work on a model with few features.
    """
    return _cached(function, forceinline=True)


def jit_into(function: F) -> F:
    """As `jit`, for a few lines between a long kernel and its callers: they are compiled with the callers only.

    Numba compiles a kernel again for every kernel that calls it, and for those that call these; with DriftUCB's
    `learn`, each takes seconds.

    Not for a long kernel after which its callers go on: when DriftUCB's `learn` was compiled in this way, Numba 0.68
    lost what callers stored afterwards in an array that had come in a tuple.
    """
    return _cached(function, inline="always")


def _cached(function: F, **options: Any) -> F:
    function.__qualname__ += f"_{_SOURCES}"
    try:
        return _compile(function, cache=True, **options)
    except RuntimeError:  # Numba found no place for its cache
        return _compile(function, cache=False, **options)


def fill_in(template: F, name: str, **kernels: Callable[..., Any]) -> F:
    """Copy `template` under another name, with some of the functions it calls replaced by these kernels.

    In this way one loop serves several models: Numba can cache the copy, but not a kernel that gets other kernels as
    arguments.
    """
    copy = FunctionType(template.__code__, {**template.__globals__, **kernels}, name)
    copy.__qualname__ = name
    return cast(F, copy)


def plain(kernel: F) -> F:
    """The Python function of a kernel, to be compiled in another way."""
    return cast(F, getattr(kernel, "py_func", kernel))


def _compile(function: F, **options: Any) -> F:
    return cast(F, numba.njit(function, nogil=True, fastmath=_FASTMATH, error_model="numpy", **options))


class _Notice(event.Listener):
    """Says once that kernels are being compiled.

    Numba calls it when it compiles, not when it loads cached code or runs compiled code.
    """

    def __init__(self) -> None:
        self._turn: Any = threading.Lock()
        self._shared: BaseContext | None = None

    def share(self, context: BaseContext) -> Any:
        """Lock shared by this process and its workers, so that only one of them prints the message."""
        if self._shared is not context:  # a lock made for forked workers cannot be sent to spawned ones
            turn = context.Lock()
            if self._turn.acquire(False):
                self._turn.release()
            else:  # the message was printed
                turn.acquire()
            self.take(turn)
            self._shared = context
        return self._turn

    def take(self, turn: Any) -> None:
        """Use a lock that `share` returned in the parent process."""
        self._turn = turn

    def on_start(self, event: Any) -> None:
        """Numba starts to compile."""
        ours = event.data["dispatcher"].py_func.__module__.startswith("driftbandit.")
        if ours and _somebody_waits() and self._turn.acquire(False):
            with suppress(OSError, ValueError):  # standard error may be closed
                print(
                    "driftbandit: compiling what this needs, once; this may take half a minute",
                    file=sys.stderr,
                    flush=True,
                )

    def on_end(self, event: Any) -> None:
        """Numba has finished compiling."""


def _somebody_waits() -> bool:
    """Whether a person may be waiting: in a console, notebook or terminal, or a driftbandit command without JSON."""
    if hasattr(sys, "ps1"):
        return True
    if Path(sys.argv[0] if sys.argv else "").stem == "driftbandit":
        return "--json" not in sys.argv
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


NOTICE = _Notice()
event.register("numba:compile", NOTICE)  # type: ignore[no-untyped-call]


@jit
def finite(value: float) -> bool:
    """Neither NaN nor infinite; `math.isfinite` is compiled to x - x == x - x, which reordered sums fold to True."""
    return abs(value) <= _LARGEST_FLOAT


@jit
def copy_into(target: Any, source: Any) -> None:
    """Overwrite the first numbers of a vector by another vector.

    ``target[:] = source`` would let Numba compile the text of an error first, which takes seconds.
    """
    for i in range(len(source)):
        target[i] = source[i]


def borrow(array: Any) -> Any:
    """The same array, without Numba counting who uses it and its parts.

    Every count is an atomic instruction, which waits for all earlier ones: that takes long beside the work on a few
    features. For arguments, which live on after the call; an array that a kernel made would be freed while it is used,
    unless the kernel must `hold` it. No part of a borrowed array may be returned to Python.
    """
    return array


def flat(array: Any) -> Any:
    """All numbers of an array that has no gaps, one behind the other, borrowed: NumPy's reshape, without its checks."""
    return array.reshape(array.size)


def lines_of(array: Any, at: int, count: int, width: int) -> Any:
    """Numbers of a vector, from the place `at` on, as `count` lines of `width`, borrowed: a slice and a reshape."""
    return array[at : at + count * width].reshape(count, width)


SCRATCH = 4096
"""Numbers that `scratch` gives."""


def scratch() -> Any:
    """Room for `SCRATCH` numbers until the kernel that calls this returns: on the stack, where it costs nothing."""
    return np.empty(SCRATCH)


def hold(array: Any) -> None:
    """Keep an array that a kernel made, and that it borrows from itself, until here."""


@intrinsic
def _unowned(context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder, arguments[0])
        for owner in ("meminfo", "parent"):
            setattr(view, owner, ir.Constant(getattr(view, owner).type, None))
        return view._getvalue()

    return array(array), generate


@intrinsic
def _unowned_flat(context: Any, array: Any) -> Any:
    line = array.copy(ndim=1)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.make_array(array)(context, builder, arguments[0])
        view = context.make_array(line)(context, builder)
        populate_array(  # type: ignore[no-untyped-call]
            view, whole.data, [whole.nitems], [whole.itemsize], whole.itemsize, None
        )
        return view._getvalue()

    return line(array), generate


@intrinsic
def _unowned_lines(context: Any, array: Any, at: Any, count: Any, width: Any) -> Any:
    lines = array.copy(ndim=2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = context.make_array(array)(context, builder, arguments[0])
        at, count, width = arguments[1:]
        view, size = context.make_array(lines)(context, builder), whole.itemsize
        first, strides = builder.gep(whole.data, [at]), [builder.mul(width, size), size]
        populate_array(view, first, [count, width], strides, size, None)  # type: ignore[no-untyped-call]
        return view._getvalue()

    return lines(array, types.intp, types.intp, types.intp), generate


@intrinsic
def _on_stack(context: Any) -> Any:
    line = types.Array(types.float64, 1, "C")
    number, size = ir.DoubleType(), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(number, SCRATCH))  # `cgutils.alloca_once` would overwrite it by zeros
        room.align = 64
        view = context.make_array(line)(context, builder)
        shape, step = [ir.Constant(size, SCRATCH)], ir.Constant(size, 8)
        populate_array(  # type: ignore[no-untyped-call]
            view, builder.bitcast(room, number.as_pointer()), shape, [step], step, None
        )
        return view._getvalue()

    return line(), generate


@overload(scratch, inline="always")  # else the room would be on the stack of this function, which returns at once
def _compiled_scratch() -> Any:
    def on_stack() -> Any:
        return _on_stack()  # type: ignore[call-arg]

    return on_stack


@overload(flat)
def _compiled_flat(array: Any) -> Any:
    def without_shape(array: Any) -> Any:
        return _unowned_flat(array)  # type: ignore[call-arg]

    return without_shape


@overload(lines_of)
def _compiled_lines(array: Any, at: Any, count: Any, width: Any) -> Any:
    def without_shape(array: Any, at: Any, count: Any, width: Any) -> Any:
        return _unowned_lines(array, at, count, width)  # type: ignore[call-arg]

    return without_shape


@overload(borrow)
def _compiled_borrow(array: Any) -> Any:
    def without_owner(array: Any) -> Any:
        return _unowned(array)  # type: ignore[call-arg]

    return without_owner


@intrinsic
def _used(context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), generate


@overload(hold)
def _compiled_hold(array: Any) -> Any:
    def use(array: Any) -> None:
        _used(array)  # type: ignore[call-arg]

    return use
