"""Shared by all tests."""

from hypothesis import settings

# Machines are shared and noisy: no deadlines; and the same examples on every run, so that a red test stays red.
settings.register_profile("driftbandit", deadline=None, derandomize=True)
settings.load_profile("driftbandit")
