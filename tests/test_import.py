"""What `import driftbandit` costs, counted in modules rather than in seconds."""

import json
import subprocess
import sys

import pytest

import driftbandit


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_pulls_in_numpy_and_little_else():
    heavy = "numba scipy matplotlib typer rich pyarrow llvmlite"
    code = f"import sys, driftbandit; print([m for m in {heavy.split()!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_modules_beyond_numpys_own_are_ours_and_a_few_of_the_standard_library():
    code = (
        "import sys, numpy; before = set(sys.modules); import driftbandit;"
        "import json; print(json.dumps(list("
        "{m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names))))"
    )
    numpys_own = {"numpy", "cython_runtime"}  # numpy.random, which numpy itself loads late
    found = set(json.loads(run(code)))
    assert {name for name in found - numpys_own if not name.startswith("_cython")} == {"driftbandit"}


def test_importing_a_policy_compiles_nothing():
    code = (
        "import driftbandit; driftbandit.DLinUCB;"
        "from driftbandit.kernels import ridge; print(len(ridge.update.signatures))"
    )
    assert run(code).strip() == "0"


def test_every_public_name_can_be_imported_and_listed():
    for name in driftbandit.__all__:
        assert getattr(driftbandit, name).__name__ == name
        assert name in dir(driftbandit)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = driftbandit.Nonsense
