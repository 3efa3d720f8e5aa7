"""A GPU played by the CPU: a C++ compiler builds the CUDA source, and the lanes of a warp take turns."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")
_SHIM = Path(__file__).with_name("host.h")


class Emulated:
    """Compiles into `folder`; with `lanes` = 1 a warp has one lane, which is fast, with 32 it is like a GPU's."""

    def __init__(self, folder: Path, lanes: int = 32) -> None:
        self.xp = np
        self._folder, self._lanes = folder, lanes

    def multiprocessors(self) -> int:
        return 2

    def compile(self, source: str, macros: dict[str, int], names: tuple[str, ...]) -> dict[str, Any]:
        macros = {**macros, "WARP": self._lanes}
        if self._lanes == 1:
            macros |= {"GROUP": 1}
        doors = "\n".join(
            f'extern "C" void host_{name}(int blocks, int warps, void** values) '
            f"{{ host::run({name}, blocks, warps, values); }}"
            for name in names
        )
        text = f'#include "{_SHIM}"\n{source}\n{doors}\n'
        options = [f"-D{name}={value}" for name, value in macros.items()]
        key = hashlib.sha256((text + _SHIM.read_text() + str(options)).encode()).hexdigest()[:16]
        built = self._folder / f"{key}.so"
        if not built.exists():
            (self._folder / f"{key}.cpp").write_text(text)
            command = [
                COMPILER,
                "-std=c++17",
                "-O1",
                "-w",
                "-U_FORTIFY_SOURCE",  # it takes a jump to another stack for an overflow
                "-shared",
                "-fPIC",
                "-Wl,-Bsymbolic",
                *options,
                "-o",
                str(built),
            ]
            subprocess.run([*command, str(self._folder / f"{key}.cpp")], check=True)
        library = ctypes.CDLL(str(built))
        return {name: self._kernel(getattr(library, f"host_{name}")) for name in names}

    def _kernel(self, function: Any) -> Any:
        def start(blocks: int, warps: int, shared: int, *arguments: Any) -> None:
            assert shared <= 8 << 16
            values = [
                ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_int64(int(value))
                for value in arguments
            ]
            pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
            function(blocks, warps, pointers)

        return start


def on_host(array: Any) -> Any:
    """An array of any device as a NumPy array of its own."""
    return array.get() if hasattr(array, "get") else np.array(array)
