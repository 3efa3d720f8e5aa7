"""Where compiled kernels are kept, and what happens where nothing can be written."""

import ast
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from driftbandit import LinUCB
from driftbandit.kernels import ridge
from driftbandit.kernels.compile import SCRATCH, borrow, flat, hold, jit, lines_of, scratch

SOURCE = Path(__file__).parents[2] / "src" / "driftbandit"

CODE = """
import numpy as np
from driftbandit.kernels import ridge
row = np.empty(ridge.row_size(2))
ridge.reset(np.array([0.1, 0.0, 0.0, 0.0, 1.0]), row, 2)
print(sum(ridge.reset.stats.cache_hits.values()), sum(ridge.reset.stats.cache_misses.values()), end=" ")
print(type(ridge.reset._cache).__name__)
"""

DROP_CAPABILITY, OVERRIDE_FILE_MODES = 24, 1  # PR_CAPBSET_DROP and CAP_DAC_OVERRIDE of Linux


@pytest.fixture
def install(tmp_path):
    """A copy of the package that may not be written to, and a home."""
    (tmp_path / "home").mkdir()
    target = tmp_path / "site" / "driftbandit"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [tmp_path / "site", *(path for path in (tmp_path / "site").rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield tmp_path
    for folder in [*folders, tmp_path / "home"]:
        folder.chmod(0o755)


def obey_file_modes():
    """Root may write anywhere; give that up in the child."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(DROP_CAPABILITY, OVERRIDE_FILE_MODES, 0, 0, 0):
        os._exit(77)


def run(folder):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": str(folder / "site")}
    result = subprocess.run(
        [sys.executable, "-B", "-c", CODE],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey_file_modes,
    )
    if result.returncode == 77:
        pytest.skip("root here cannot give up its right to write anywhere")
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_a_read_only_install_caches_in_the_users_own_directory(install):
    assert run(install) == ["0", "1", "FunctionCache"]
    assert list((install / "home").rglob("*.nbi"))
    assert not list((install / "site").rglob("*.nbi"))
    assert run(install) == ["1", "0", "FunctionCache"]


def test_without_any_place_for_a_cache_kernels_are_compiled_anew(install):
    (install / "home").chmod(0o555)
    for _ in range(2):
        assert run(install) == ["0", "1", "NullCache"]


def test_read_only_features_are_no_new_type_for_the_kernels():
    policy = LinUCB(3)
    pool = np.eye(3)
    policy.learn(pool[policy.choose(pool)], 1.0)
    compiled = len(getattr(ridge.optimistic_arm, "signatures", ())), len(getattr(ridge.update, "signatures", ()))
    pool.flags.writeable = False
    policy.learn(pool[policy.choose(pool)], 1.0)
    policy.learn(pool[:, 0], 1.0)
    after = len(getattr(ridge.optimistic_arm, "signatures", ())), len(getattr(ridge.update, "signatures", ()))
    assert after == compiled


WARM = """
import numpy as np
from driftbandit.kernels import ridge
ridge.reset(np.array([0.1, 0.0, 0.0, 0.0, 1.0]), np.empty(ridge.row_size(2)), 2)
"""
CONSOLE = "import sys; sys.ps1 = '>>> '\n"
SAID = "driftbandit: compiling what this needs, once; this may take half a minute\n"


def test_kernels_use_nothing_of_math_that_the_oldest_numba_lacks():
    known = {"ceil", "cos", "exp", "inf", "log", "log1p", "nan", "pi", "sqrt"}  # add what Numba 0.59 compiles
    for path in (SOURCE / "kernels").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [
            node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        assert {node.attr for node in calls if node.value.id == "math"} <= known, path.name


@jit
def fill_second_line(table, scale):
    line = borrow(table)[1]
    line[:] = scale
    return line.sum()


def test_a_borrowed_array_is_the_callers_own_and_nobody_keeps_it():
    table = np.zeros((3, 4))
    users = sys.getrefcount(table)
    assert fill_second_line(table, 2.0) == 8.0
    assert table.tolist() == [[0.0] * 4, [2.0] * 4, [0.0] * 4]
    assert sys.getrefcount(table) == users
    assert borrow(table) is table, "without the compiler"


@jit
def sum_own_lines(count, length):
    """Borrows an array that it made, and makes others of the same size, which would take its place if it were freed."""
    owned = np.ones((count, length))
    table, total = borrow(owned), 0.0
    for i in range(count):
        other = np.full((count, length), 99.0)
        line = table[i]
        total += line.sum() + other[0, 0] - other[i, 0]
    hold(owned)
    return total


def test_a_kernel_that_holds_its_array_may_borrow_it():
    assert sum_own_lines(50, 40) == 2000.0
    assert hold(np.ones(2)) is None, "without the compiler"


@jit
def double_all(array, first):
    numbers = flat(array[first:])
    for i in range(len(numbers)):
        numbers[i] *= 2.0
    return len(numbers)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 3, 2), (5, 0)])
@pytest.mark.parametrize("first", [0, 2, 5])
def test_a_flat_array_is_the_same_numbers(shape, first):
    array = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    expected, users = array.copy(), sys.getrefcount(array)
    expected[first:] *= 2.0
    assert double_all(array, first) == expected[first:].size
    np.testing.assert_array_equal(array, expected)
    assert sys.getrefcount(array) == users


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
class TestNotice:
    """Half a minute of silence at the first call looks like a hang."""

    def errors(self, folder, *command):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
        result = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def test_a_console_is_told_once_and_only_if_something_is_compiled(self, tmp_path):
        assert self.errors(tmp_path, sys.executable, "-c", CONSOLE + WARM) == SAID
        assert self.errors(tmp_path, sys.executable, "-c", CONSOLE + WARM) == "", "loaded from the cache"

    def test_a_script_whose_output_nobody_watches_stays_silent(self, tmp_path):
        assert self.errors(tmp_path, sys.executable, "-c", WARM) == ""

    def test_kernels_of_others_are_not_ours_to_announce(self, tmp_path):
        code = "import numba, driftbandit.kernels.ridge\nnumba.njit(lambda x: x + 1)(1)"
        assert self.errors(tmp_path, sys.executable, "-c", CONSOLE + code) == ""

    def test_a_command_says_it_once_however_many_processes_compile(self, tmp_path):
        script = str(Path(sys.executable).with_name("driftbandit"))
        options = ["--policies", "ucb1", "--seeds", "2", "--horizon", "20", "--processes", "2", "--fresh"]
        assert self.errors(tmp_path, script, "compare", *options) == SAID
        assert self.errors(tmp_path, script, "compare", *options) == "", "loaded from the cache"

    def test_a_command_that_speaks_to_a_program_stays_silent(self, tmp_path):
        script = str(Path(sys.executable).with_name("driftbandit"))
        options = ["--policies", "ucb1", "--seeds", "1", "--horizon", "20", "--processes", "1", "--json"]
        assert self.errors(tmp_path, script, "compare", *options) == ""


@jit
def _two_rooms():
    first, second = scratch(), scratch()
    first[:] = 1.0
    second[:] = 2.0
    return first.sum(), second.sum()


@jit
def _room_inside(depth):
    mine = scratch()
    mine[:] = depth
    return mine.sum()


@jit
def _rooms_of_two_kernels():
    mine = scratch()
    mine[:] = 1.0
    return mine.sum(), _room_inside(2.0)


def test_every_kernel_has_a_room_of_its_own_until_it_returns():
    assert _two_rooms() == (SCRATCH, 2.0 * SCRATCH)
    assert _rooms_of_two_kernels() == (SCRATCH, 2.0 * SCRATCH)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_the_room_is_not_that_of_a_function_that_has_returned():
    """With newer compilers that happens to work."""
    inspected = numba.njit(_two_rooms.py_func)  # what comes from a cache cannot be inspected
    inspected()
    (code,) = inspected.inspect_llvm().values()
    assert "on_stack" not in code


@jit
def _fill_lines(array, at, count, width):
    lines = lines_of(array, at, count, width)
    lines[:] += np.arange(width)
    return lines.shape, flat(lines).sum()


@pytest.mark.parametrize(("at", "count", "width"), [(0, 1, 1), (2, 3, 4), (5, 0, 3), (1, 4, 1)])
def test_lines_are_a_part_of_the_array(at, count, width):
    array = np.arange(20.0)
    expected = array.copy()
    part = expected[at : at + count * width].reshape(count, width)
    part += np.arange(width)
    assert _fill_lines(array, at, count, width) == ((count, width), part.sum())
    assert array.tolist() == expected.tolist()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_kernel_spends_time_on_zeros_in_its_room():
    """Room for 4,096 numbers, overwritten at every call, took longer than all the work on few features."""

    @numba.njit
    def use(first, second):
        room = scratch()
        room[first] = 1.0
        return room[second]

    assert use(3, 3) == 1.0
    (instructions,) = use.inspect_llvm().values()
    assert f"alloca [{SCRATCH} x double]" in instructions
    assert "memset" not in instructions
