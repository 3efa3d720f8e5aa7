"""How kernels are compiled: once, cached on disk, without holding the GIL."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np

_LARGEST_FLOAT = float(np.finfo(np.float64).max)

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and fused, which is what lets them use vector units; NaN and infinity keep their meaning,
# because the kernels report input that is not finite.
_FASTMATH = {"reassoc", "contract", "nsz"}


def _sources() -> str:
    """Short hash of all source that ends up in machine code."""
    package = Path(__file__).parents[1]
    files = sorted([*(package / "kernels").glob("*.py"), *(package / "models").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:8]


_SOURCES = _sources()


def jit(function: F) -> F:
    """Compile `function` at its first call and keep the machine code in Numba's cache.

    Numba finds cached code by the function's name and file, and would not notice an edit of a kernel that it calls
    in another file; a hash of all kernels' source in the name makes it.

    Numba writes the cache beside the source, or into the user's cache directory where the install is read-only. Where
    neither can be written the kernel is compiled anew in every process.
    """
    function.__qualname__ += f"-{_SOURCES}"
    try:
        return _compile(function, cache=True)
    except RuntimeError:  # Numba found no place for its cache
        return _compile(function, cache=False)


def fill_in(template: F, name: str, **kernels: Callable[..., Any]) -> F:
    """Copy `template` under another name, with some of the functions it calls replaced by these kernels.

    This is how one loop serves several models: Numba can cache such a copy, which it cannot do for a kernel that
    gets other kernels as arguments.
    """
    copy = FunctionType(template.__code__, {**template.__globals__, **kernels}, name)
    copy.__qualname__ = name
    return cast(F, copy)


def _compile(function: F, *, cache: bool) -> F:
    compiled = numba.njit(function, cache=cache, nogil=True, fastmath=_FASTMATH, error_model="numpy")
    return cast(F, compiled)


@jit
def finite(value: float) -> bool:
    """Neither NaN nor infinite; `math.isfinite` is compiled to x - x == x - x, which reordered sums fold to True."""
    return abs(value) <= _LARGEST_FLOAT
