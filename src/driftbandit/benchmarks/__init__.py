"""Benchmarks: our policies beside NumPy and other packages, in one run."""
