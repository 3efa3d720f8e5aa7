"""The GPU that kernels run on: compiles CUDA source, holds arrays, starts kernels.

Nothing here or beside it imports the rest of driftbandit, so that this folder works where Numba is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

MULTIPROCESSOR = 228 * 1024
"""Shared memory of a multiprocessor, in bytes, of which every block takes `RESERVED` for itself."""
RESERVED = 1024
_LARGEST_BLOCK = 227 * 1024
_REGISTERS = 65_536
_THREADS = 2_048

WARP = 32

Kernel = Callable[..., None]
Macros = Mapping[str, int]

_HERE = Path(__file__).parent


class Device(Protocol):
    """What the classes of this folder need from a GPU; tests have one that runs on the CPU."""

    xp: Any
    """CuPy, or NumPy where the CPU plays the GPU."""

    def compile(self, source: str, macros: Macros, names: tuple[str, ...]) -> dict[str, Kernel]:
        """Compile source; each kernel is called with blocks, warps of a block, bytes of shared memory, arguments."""
        ...

    def multiprocessors(self) -> int:
        """How many multiprocessors there are."""
        ...


class Gpu:
    """The current CUDA device, through CuPy."""

    def __init__(self) -> None:
        self.xp = cupy()

    def compile(self, source: str, macros: Macros, names: tuple[str, ...]) -> dict[str, Kernel]:
        """Compile source for this GPU; CuPy keeps the result on disk."""
        options = ("-std=c++17", *(f"-D{name}={value}" for name, value in macros.items()))
        module = self.xp.RawModule(code=source, options=options)
        return {name: self._kernel(module.get_function(name)) for name in names}

    def multiprocessors(self) -> int:
        """How many multiprocessors the GPU has."""
        count: int = self.xp.cuda.Device().attributes["MultiProcessorCount"]
        return count

    def _kernel(self, function: Any) -> Kernel:
        def start(blocks: int, warps: int, shared: int, *arguments: Any) -> None:
            function.max_dynamic_shared_size_bytes = shared
            function((blocks,), (WARP * warps,), arguments, shared_mem=shared)

        return start


def cupy() -> Any:
    """CuPy, if it is installed and sees a GPU; else an error that says what is missing."""
    try:
        module = import_module("cupy")
    except ImportError as error:
        raise ImportError(
            "device='cuda' needs CuPy: pip install 'driftbandit[gpu]', or cupy-cuda13x with CUDA 13"
        ) from error
    try:
        found = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"device='cuda': CuPy sees no GPU ({error})") from error
    if not found:
        raise RuntimeError("device='cuda': CuPy sees no GPU")
    return module


@lru_cache
def source(*names: str) -> str:
    """The text of some files of this folder, one after the other."""
    return "\n".join((_HERE / name).read_text() for name in names)


def fit(shared: int, registers: int) -> tuple[int, int]:
    """Warps of a block, and blocks of a multiprocessor, such that as many warps as possible fit.

    Parameters
    ----------
    shared : int
        Bytes of shared memory that one warp needs.
    registers : int
        Registers that one thread needs.

    Examples
    --------
    >>> fit(15_000, 128)
    (5, 3)
    """
    best = (0, 0, 0)
    for warps in range(1, 9):
        block = warps * shared
        if block > _LARGEST_BLOCK:
            break
        blocks = min(
            MULTIPROCESSOR // (block + RESERVED),
            _REGISTERS // (WARP * warps * registers),
            _THREADS // (WARP * warps),
            32,
        )
        best = max(best, (warps * blocks, -blocks, warps))
    total, blocks, warps = best
    if not total:
        raise ValueError(
            f"dim: one model of so many features needs {shared} bytes of shared memory; a GPU has {_LARGEST_BLOCK}"
        )
    return warps, -blocks


def as_floats(xp: Any, name: str, values: Any, shape: tuple[int | None, ...]) -> Any:
    """An array of float64 on the device with this shape; None stands for any length."""
    array = xp.ascontiguousarray(xp.asarray(values, dtype=np.float64))
    if len(array.shape) != len(shape) or any(
        want not in (None, got) for want, got in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join("n" if length is None else str(length) for length in shape)
        raise ValueError(f"{name}: expected shape ({wanted}{',' * (len(shape) == 1)}), got {array.shape}")
    return array


def as_ints(xp: Any, name: str, values: Any, length: int | None = None) -> Any:
    """A flat array of int64 on the device, of this length if one is given."""
    array = xp.ascontiguousarray(xp.asarray(values))
    if array.dtype != np.int64:
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name}: expected whole numbers, got {array.dtype}")
        array = array.astype(np.int64)
    if array.ndim != 1 or length not in (None, len(array)):
        raise ValueError(f"{name}: expected shape ({'n' if length is None else length},), got {array.shape}")
    return array
