"""Shared by all tests."""

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "driftbandit"


def pytest_configure(config):
    """Drop Numba's cache if any source is newer.

    Numba looks at the file of a cached function only, not at the files of the kernels compiled into it.
    """
    if hasattr(config, "workerinput"):  # the controller has done it before its workers start
        return
    cached = list(SOURCE.rglob("*.nbi")) + list(SOURCE.rglob("*.nbc"))
    newest = max(path.stat().st_mtime for path in SOURCE.rglob("*.py"))
    if any(path.stat().st_mtime < newest for path in cached):
        for path in cached:
            path.unlink(missing_ok=True)
