"""The inner loops: plain loops over flat arrays, compiled by Numba on first use.

With ``NUMBA_DISABLE_JIT=1`` the same lines run as ordinary Python: slow, debuggable, and the reference in tests.
"""
