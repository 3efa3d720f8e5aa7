"""Where CUDA kernels run in tests: on the CPU, which plays a GPU, and on a GPU where there is one."""

from __future__ import annotations

import pytest
from emulation import COMPILER, Emulated

from driftbandit.batch.cuda import Gpu

_NO_COMPILER = "needs a C++ compiler to run CUDA source on the CPU"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Folder of what was compiled; tests that need the same kernels share it."""
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture(params=["one lane", "32 lanes", "GPU"])
def device(request, built):
    """A device; `rounds` says how many rounds it can play in a test."""
    if request.param == "GPU":
        try:
            found = Gpu()
        except (ImportError, RuntimeError) as error:
            pytest.skip(str(error))
        found.rounds = 1000
        return found
    if COMPILER is None:
        pytest.skip(_NO_COMPILER)
    found = Emulated(built, lanes=1 if request.param == "one lane" else 32)
    found.rounds = 1000 if request.param == "one lane" else 60
    return found
