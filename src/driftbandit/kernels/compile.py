"""How kernels are compiled: once, cached on disk, without holding the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

_LARGEST_FLOAT = float(np.finfo(np.float64).max)

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and fused, which is what lets them use vector units; NaN and infinity keep their meaning,
# because the kernels report input that is not finite.
_FASTMATH = {"reassoc", "contract", "nsz"}


def jit(function: F) -> F:
    """Compile `function` at its first call and keep the machine code in Numba's cache.

    Numba writes the cache beside the source, or into the user's cache directory where the install is read-only. Where
    neither can be written the kernel is compiled anew in every process.
    """
    try:
        return _compile(function, cache=True)
    except RuntimeError:  # Numba found no place for its cache
        return _compile(function, cache=False)


def jit_generic(function: F) -> F:
    """Compile a kernel that takes other kernels as arguments: it becomes part of each caller's cached code."""
    return _compile(function, cache=False)


def plain(function: F) -> F:
    """Return the Python function behind a kernel."""
    return cast(F, getattr(function, "py_func", function))


def _compile(function: F, *, cache: bool) -> F:
    compiled = numba.njit(function, cache=cache, nogil=True, fastmath=_FASTMATH, error_model="numpy")
    return cast(F, compiled)


@jit
def finite(value: float) -> bool:
    """Neither NaN nor infinite; `math.isfinite` is compiled to x - x == x - x, which reordered sums fold to True."""
    return abs(value) <= _LARGEST_FLOAT
