"""Tests that say 'something changed'. The paper's own, the miss rate, lives in `driftbandit.kernels.windows`."""
