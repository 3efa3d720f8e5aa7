"""Where CUDA kernels run in tests: on the CPU, which plays a GPU, and on a GPU where there is one."""

from __future__ import annotations

import pytest

from batch.emulation import COMPILER, Emulated
from driftbandit.batch.cuda import Gpu

_NO_COMPILER = "needs a C++ compiler to run CUDA source on the CPU"


@pytest.fixture(autouse=True)
def busy_threads(monkeypatch):
    """Let a thread take a single item, so that small crowds keep several busy."""
    monkeypatch.setattr("driftbandit.batch.threads._PART", 1)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Folder of what was compiled; tests that need the same kernels share it."""
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture(params=["32 lanes", "GPU"])
def device(request, built):
    """A device; "one lane" is a CPU that plays a GPU whose warps have one lane, which is fast."""
    if request.param == "GPU":
        try:
            return Gpu()
        except (ImportError, RuntimeError) as error:
            pytest.skip(str(error))
    if COMPILER is None:
        pytest.skip(_NO_COMPILER)
    return Emulated(built, lanes=1 if request.param == "one lane" else 32)


fast = pytest.mark.parametrize("device", ["one lane", "GPU"], indirect=True)
"""Marks tests that play too many rounds for 32 lanes that take turns."""


def many_rounds(device):
    """How many rounds such a test plays."""
    return 1000 if isinstance(device, Gpu) else 300
