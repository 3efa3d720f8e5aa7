"""Command lines of benchmarks: help is help, and nonsense is refused, before anything is measured."""

import subprocess
import sys

import pytest

RUNS = [
    ("many_scopes", ["--help"], 0, "usage"),
    ("many_scopes", ["--scopes", "5"], 2, "unrecognized arguments"),
    ("service", ["--help"], 0, "memory"),
    ("workers", ["--seeds", "0"], 2, "expected a whole number of at least 1, got '0'"),
    ("sparse", ["--seeds", "none"], 2, "expected a whole number of at least 1"),
    ("policy_objects", ["--threads", "0"], 2, "expected a whole number of at least 1"),
]


@pytest.mark.parametrize(("name", "arguments", "status", "says"), RUNS)
def test_nothing_is_measured_for_help_or_nonsense(name, arguments, status, says):
    command = [sys.executable, "-m", f"driftbandit.benchmarks.{name}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == status, result.stderr
    assert says in result.stdout + result.stderr


@pytest.mark.parametrize("name", ["batch_cuda", "gpu_calls"])
def test_without_cupy_they_say_what_is_missing(name):
    """None in sys.modules makes an import fail, wherever CuPy is installed."""
    code = f"""import runpy, sys
sys.modules["cupy"] = None
sys.argv = ["x"]
runpy.run_module("driftbandit.benchmarks.{name}", run_name="__main__")"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "needs CuPy" in result.stderr
    assert "Traceback" not in result.stderr
