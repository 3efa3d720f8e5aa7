"""Many scopes at once on an NVIDIA GPU: CUDA kernels, compiled and started through CuPy.

One class for each kind of policy, all with the same methods: `load` and `save` exchange the state of all scopes with
the arrays of the CPU's kernels; `choose`, `learn` and `step` (learn, then choose) work on many scopes in one call.
Arguments may be NumPy or CuPy arrays; what comes back is on the device. Arms are those that the CPU chooses, except for
ties within 1e-9.

Nothing here imports the rest of driftbandit, so that this folder works where Numba is not installed.
"""

from .device import Device, Gpu, cupy
from .drift import DriftUCB
from .linear import LinTS, LinUCB
from .members import DLinUCB

__all__ = ["DLinUCB", "Device", "DriftUCB", "Gpu", "LinTS", "LinUCB", "cupy"]
