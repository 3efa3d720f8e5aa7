"""Rounds per second of the CUDA back end, as a share of what the GPU's memory allows.

Usage: ``python -m driftbandit.benchmarks.batch_cuda``, or, where Numba is not installed, run this file itself.

A round is one `step`: learn the last reward of a scope and choose its next arm. The floor counts every number that must
be read or written once, at the speed of a large copy measured in the same run. Before anything is timed, arms and state
of some scopes are compared with NumPy's.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

_SCOPES = 1_000_000
_CHECKED = 500
_TIMES = 9
_VARIANTS: dict[str, dict[str, int]] = {
    "own plan": {},
    "one pass of blocks": {"ROUNDS": 1_000_000},
    "two stages": {"STAGES": 2},
    "two stages, one warp a block": {"STAGES": 2, "WARPS": 1, "LEAST_BLOCKS": 7},
    "16 lanes": {"GROUP": 16, "CHUNK": 16},
    "8 lanes": {"GROUP": 8, "CHUNK": 16},
    "5 lanes": {"GROUP": 5, "CHUNK": 10},
    "32 lanes": {"GROUP": 32, "CHUNK": 32},
}


def back_end() -> Any:
    """The folder driftbandit/batch/cuda as a package, without importing driftbandit."""
    name = "driftbandit_cuda"
    if name not in sys.modules:
        folder = Path(__file__).parents[1] / "batch" / "cuda"
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def seconds(xp: Any, work: Callable[[], object], times: int = _TIMES) -> float:
    """Median time of `work` on the GPU, after a first run that is not counted."""
    work()
    found = []
    for _ in range(times):
        start, end = xp.cuda.Event(), xp.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        found.append(xp.cuda.get_elapsed_time(start, end) / 1e3)
    return median(found)


def copy_speed(xp: Any, size: int = 4 << 30) -> float:
    """Bytes read and written per second by a large copy."""
    source = xp.random.standard_normal(size // 8)
    target = xp.empty_like(source)
    return 2 * size / seconds(xp, lambda: xp.copyto(target, source))


def fresh_rows(dim: int, scopes: int, ridge: float) -> Any:
    """Rows of models that have learned nothing."""
    rows = np.zeros((scopes, 1 + dim + dim * (dim + 1) // 2))
    at = 1 + dim
    for i in range(dim):
        rows[:, at + i] = 1.0 / ridge
        at += i + 1
    return rows


def whole(rows: Any, dim: int) -> Any:
    """Both triangles of the matrices of rows."""
    lines, columns = np.tril_indices(dim)
    result = np.empty((len(rows), dim, dim))
    result[:, lines, columns] = result[:, columns, lines] = rows[:, 1 + dim :]
    return result


def check(cuda: Any, dim: int, arms: int, plan: Mapping[str, int]) -> float:
    """Play some rounds and compare with NumPy; the largest difference of the states."""
    rng = np.random.default_rng(0)
    settings = np.array([0.1, 0.0, 0.0, 0.0, 0.6])
    gpu = cuda.LinUCB(dim, settings, settings, plan=plan)
    rows = fresh_rows(dim, _CHECKED, 0.1)
    gpu.load({"rows": rows})
    inverse, theta = whole(rows, dim), np.zeros((_CHECKED, dim))
    taste = rng.standard_normal((_CHECKED, dim))
    scopes, offsets = np.arange(_CHECKED), arms * np.arange(_CHECKED + 1)
    played = rng.standard_normal((_CHECKED, dim))
    for _ in range(50):
        rewards = np.sum(played * taste, axis=1) + 0.1 * rng.standard_normal(_CHECKED)
        pools = rng.standard_normal((_CHECKED, arms, dim))
        z = np.einsum("sij,sj->si", inverse, played)
        width = 1.0 + np.sum(z * played, axis=1)
        theta += z * ((rewards - np.sum(theta * played, axis=1)) / width)[:, None]
        inverse -= z[:, :, None] * z[:, None, :] / width[:, None, None]
        status, found = gpu.step(scopes, played, rewards, pools.reshape(-1, dim), offsets)
        squares = np.einsum("ski,sij,skj->sk", pools, inverse, pools)
        scores = np.einsum("ski,si->sk", pools, theta) + 0.6 * np.sqrt(squares)
        found = found.get()
        assert not status.get().any()
        short = scores.max(axis=1) - scores[scopes, found]
        assert (short < 1e-9).all(), f"{np.sum(short >= 1e-9)} arms differ"
        played = pools[scopes, found]
    saved = gpu.save()["rows"].get()
    return float(max(np.abs(whole(saved, dim) - inverse).max(), np.abs(saved[:, 1 : 1 + dim] - theta).max()))


def linear(cuda: Any, xp: Any, dim: int, arms: int, plan: Mapping[str, int]) -> tuple[float, int]:
    """Seconds of one `step` of all scopes, and the bytes that one round must move."""
    settings = np.array([0.1, 0.0, 0.0, 0.0, 0.6])
    gpu = cuda.LinUCB(dim, settings, settings, plan=plan)
    gpu.load({"rows": xp.asarray(fresh_rows(dim, 1, 0.1)).repeat(_SCOPES, axis=0)})
    scopes, offsets = xp.random.permutation(_SCOPES).astype(np.int64), arms * xp.arange(_SCOPES + 1)
    played, rewards = xp.random.standard_normal((_SCOPES, dim)), xp.random.standard_normal(_SCOPES)
    features = xp.random.standard_normal((_SCOPES * arms, dim))
    row = 8 * (1 + dim + dim * (dim + 1) // 2)
    return seconds(xp, lambda: gpu.step(scopes, played, rewards, features, offsets)), 2 * row + 8 * dim * (
        arms + 1
    ) + 40


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", action="store_true", help="time other plans of the kernels too")
    options = parser.parse_args()
    cuda = back_end()
    xp = cuda.cupy()
    speed = copy_speed(xp)
    print(f"{xp.cuda.runtime.getDeviceProperties(0)['name'].decode()}; a copy moves {speed / 1e12:.2f} TB/s")
    print(f"{'policy':10}{'d':>4}{'arms':>6}{'million rounds/s':>18}{'share of the floor':>20}{'difference':>12}  plan")
    for dim, arms in ((25, 10), (25, 25), (6, 10)):
        for name, plan in _VARIANTS.items() if options.variants else [("", {})]:
            try:
                difference = check(cuda, dim, arms, plan)
                time, moved = linear(cuda, xp, dim, arms, plan)
            except Exception as error:  # other plans are still of interest
                if not options.variants:
                    raise
                print(f"LinUCB {dim} {arms} {name}: {type(error).__name__}: {error}")
                continue
            rate = _SCOPES / time
            share = rate * moved / speed
            print(f"{'LinUCB':10}{dim:4}{arms:6}{rate / 1e6:18.1f}{share:20.0%}{difference:12.1e}  {name}", flush=True)


if __name__ == "__main__":
    main()
