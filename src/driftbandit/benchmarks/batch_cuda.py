"""Rounds per second of the CUDA back end, as a share of what the GPU's memory allows.

Usage: ``python -m driftbandit.benchmarks.batch_cuda``, or, where Numba is not installed, run this file itself.

A round is one `step`: learn the last reward of a scope and choose its next arm. The floor counts every number that must
be read or written once, at the speed of a large copy measured in the same run. Before anything is timed, arms and state
of some scopes are compared with NumPy's.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

_SCOPES = 1_000_000
_CHECKED = 500
_TIMES = 9
_WARM = 20_000  # DriftUCB policies that learn before the measurement, which is made with copies of them
_WARM_ROUNDS = 700
_SHAPES = {
    "LinUCB": [(25, 10), (25, 25), (6, 10)],
    "LinUCB in float32": [(25, 10), (6, 10)],
    "LinTS": [(25, 10), (6, 10)],
    "dLinUCB": [(25, 10), (6, 10)],
    "DriftUCB": [(25, 10), (6, 10)],
}
_LINEAR_PLANS: dict[str, dict[str, int]] = {
    "own plan": {},
    "2 stages": {"STAGES": 2},
    "8 lanes": {"GROUP": 8},
    "16 lanes": {"GROUP": 16},
    "32 lanes": {"GROUP": 32},
    "chunks of 16": {"CHUNK": 16},
    "4 warps, 4 blocks": {"WARPS": 4, "LEAST_BLOCKS": 4},
    "5 warps, 4 blocks": {"WARPS": 5, "LEAST_BLOCKS": 4},
    "4 warps, 10 blocks": {"WARPS": 4, "LEAST_BLOCKS": 10},
}
_DRIFT_PLANS: dict[str, dict[str, int]] = {
    "own plan": {},
    "16 warps": {"WARPS": 4, "LEAST_BLOCKS": 4},
    "18 warps": {"WARPS": 6, "LEAST_BLOCKS": 3},
}


def back_end() -> Any:
    """The folder driftbandit/batch/cuda as a package, without importing driftbandit."""
    name = "driftbandit_cuda"
    if name not in sys.modules:
        folder = Path(__file__).resolve().parents[1] / "batch" / "cuda"
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
    found: list[float] = []
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


def check(cuda: Any, dim: int, arms: int, plan: Mapping[str, int], dtype: str) -> float:
    """Play some rounds and compare with NumPy; the largest difference of the states."""
    rng = np.random.default_rng(0)
    settings = np.array([0.1, 0.0, 0.0, 0.0, 0.6])
    gpu = cuda.LinUCB(dim, settings, settings, dtype=dtype, plan=plan)
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
        tie = 1e-9 if dtype == "float64" else 1e-4
        assert (short < tie).all(), f"{np.sum(short >= tie)} arms differ"
        played = pools[scopes, found]
    saved = gpu.save()["rows"].get()
    return float(max(np.abs(whole(saved, dim) - inverse).max(), np.abs(saved[:, 1 : 1 + dim] - theta).max()))


def rounds_of(xp: Any, dim: int, arms: int, scopes: int) -> tuple[Any, ...]:
    """Arguments of one `step` of all scopes, in random order."""
    return (
        xp.random.permutation(scopes).astype(np.int64),
        xp.random.standard_normal((scopes, dim)),
        xp.random.standard_normal(scopes),
        xp.random.standard_normal((scopes * arms, dim)),
        arms * xp.arange(scopes + 1),
    )


def linear(
    cuda: Any, xp: Any, dim: int, arms: int, plan: Mapping[str, int], dtype: str = "float64"
) -> tuple[float, float, float]:
    """Difference from NumPy, seconds of one `step` of all scopes, bytes that one round must move."""
    difference = check(cuda, dim, arms, plan, dtype)
    settings = np.array([0.1, 0.0, 0.0, 0.0, 0.6])
    gpu = cuda.LinUCB(dim, settings, settings, dtype=dtype, plan=plan)
    gpu.load({"rows": xp.asarray(fresh_rows(dim, 1, 0.1)).repeat(_SCOPES, axis=0)})
    row = np.dtype(dtype).itemsize * (1 + dim + dim * (dim + 1) // 2)
    given = rounds_of(xp, dim, arms, _SCOPES)
    return difference, seconds(xp, lambda: gpu.step(*given)), 2 * row + 8 * dim * (arms + 1) + 40


def ziggurat() -> tuple[Any, Any, Any]:
    """Tables of a ziggurat of 256 layers of equal area under the normal density (Doornik, 2005), as NumPy has them."""
    edge, unit = 3.6541528853610088, 2.0**52
    area = edge * math.exp(-0.5 * edge**2) + math.sqrt(math.pi / 2.0) * math.erfc(edge / math.sqrt(2.0))
    ki, wi, fi = np.zeros(256, dtype=np.uint64), np.zeros(256), np.ones(256)
    base = area * math.exp(0.5 * edge**2)
    ki[0], wi[0] = int(edge / base * unit), base / unit
    wi[255], fi[255] = edge / unit, math.exp(-0.5 * edge**2)
    x = edge
    for i in range(254, 0, -1):
        before, x = x, math.sqrt(-2.0 * math.log(area / x + math.exp(-0.5 * x**2)))
        ki[i + 1], wi[i], fi[i] = int(x / before * unit), x / unit, math.exp(-0.5 * x**2)
    return ki, wi, fi


def sampling(cuda: Any, xp: Any, dim: int, arms: int, plan: Mapping[str, int]) -> tuple[float, float, float]:
    """As `linear`, for LinTS. The difference is for tests."""
    settings = np.array([1.0, 0.0, 0.0, 0.0, 0.1])
    gpu = cuda.LinTS(dim, settings, settings, ziggurat(), plan=plan)
    rows = xp.asarray(fresh_rows(dim, 1, 1.0)).repeat(_SCOPES, axis=0)
    gpu.load({"rows": rows, "words": xp.random.randint(1, 1 << 62, (_SCOPES, 6), dtype=np.int64) | 1})
    row = 8 * (1 + dim + dim * (dim + 1) // 2)
    given = rounds_of(xp, dim, arms, _SCOPES)
    return np.nan, seconds(xp, lambda: gpu.step(*given)), 2 * row + 8 * dim * (arms + 1) + 40 + 96


def members(cuda: Any, xp: Any, dim: int, arms: int, plan: Mapping[str, int]) -> tuple[float, float, float]:
    """As `linear`, for dLinUCB with three members that accept every reward. The difference is for tests."""
    settings, room, window = np.array([0.1, 0.0, 0.0, 0.0, 0.6]), 3, 200
    rules = np.array([100.0, 0.01, 0.002, 1.15, 0.0, 0.0, 2.3, 0.0])
    gpu = cuda.DLinUCB(dim, settings, settings, rules, plan=plan)
    rows = xp.asarray(fresh_rows(dim, 1, 0.1)).repeat(_SCOPES * room, axis=0)
    gpu.load(
        {
            "banks": rows.reshape(_SCOPES, room, -1),
            "ledgers": xp.zeros((_SCOPES, room, 5 + window), dtype=np.int64),
            "count": xp.full(_SCOPES, room),
            "leader": xp.zeros(_SCOPES, dtype=np.int64),
        }
    )
    row = 8 * (1 + dim + dim * (dim + 1) // 2)
    given = rounds_of(xp, dim, arms, _SCOPES)
    return np.nan, seconds(xp, lambda: gpu.step(*given)), room * (2 * row + 96) + 8 * dim * (arms + 1) + 64


def warm_drift(cuda: Any, xp: Any, dim: int) -> tuple[Any, dict[str, Any]]:
    """Rules and state of DriftUCB policies that have learned for a while."""
    memory = (50.0, 500.0, 5_000.0, 50_000.0)
    rules = np.array([0.5, 3.0, 0.02, 0.001, 1.0, 1.0, *(1.0 - 1.0 / rounds for rounds in memory)])
    memo = np.zeros(29 + 5 + 3 * (dim + 1))
    memo[29], memo[25], memo[26] = 1.0, dim, 256.0  # the incumbent's weight, columns, rewards tried
    memo[29 + 5 + dim + 1 : 29 + 5 + 2 * (dim + 1)] = 1.0  # units
    bank = np.zeros((16, 1 + (dim + 1) + (dim + 1) * (dim + 2) // 2 + 9))
    bank[6:, 0] = -1.0
    gpu = cuda.DriftUCB(dim, rules)
    gpu.load(
        {"memos": xp.asarray(memo)[None].repeat(_WARM, axis=0), "banks": xp.asarray(bank)[None].repeat(_WARM, axis=0)}
    )
    everyone, taste = xp.arange(_WARM), xp.random.standard_normal((_WARM, dim)) / dim**0.5
    for _ in range(_WARM_ROUNDS):
        x = xp.random.standard_normal((_WARM, dim))
        gpu.learn(everyone, x, xp.sum(x * taste, axis=1) + 0.1 * xp.random.standard_normal(_WARM))
    return rules, gpu.save()


def drift(cuda: Any, xp: Any, dim: int, arms: int, plan: Mapping[str, int], warm: Any) -> tuple[float, ...]:
    """As `linear`; a round must move the models that live, the memo and the features. The difference is for tests."""
    rules, state = warm
    gpu = cuda.DriftUCB(dim, rules, plan=plan)
    times = _SCOPES // _WARM
    gpu.load({name: xp.concatenate([array] * times) for name, array in state.items()})
    models = float(xp.mean(xp.sum(state["banks"][:, :, 0] >= 0.0, axis=1)))
    row = 8 * (1 + dim + dim * (dim + 1) // 2 + 9)
    given = rounds_of(xp, dim, arms, times * _WARM)
    moved = 2 * models * row + 16 * state["memos"].shape[1] + 8 * dim * (arms + 1) + 40
    return np.nan, seconds(xp, lambda: gpu.step(*given), 5), moved


_MEASURES: dict[str, Callable[..., Any]] = {
    "LinUCB": linear,
    "LinUCB in float32": partial(linear, dtype="float32"),
    "LinTS": sampling,
    "dLinUCB": members,
    "DriftUCB": drift,
}


def show(
    name: str, shape: tuple[int, int], plan: str, speed: float, measure: Callable[..., Any], *arguments: Any
) -> None:
    """Print one line of the table."""
    try:
        difference, time, moved = measure(*arguments)
    except Exception as error:
        print(f"{name} {shape} {plan}: {type(error).__name__}: {error}", flush=True)  # others are still of interest
        return
    rate = _SCOPES / time
    share = rate * moved / speed
    print(f"{name:18}{shape[0]:4}{shape[1]:6}{rate / 1e6:18.1f}{share:20.0%}{difference:12.1e}  {plan}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", action="store_true", help="time other plans of the kernels too")
    parser.add_argument("--only", choices=_SHAPES, help="measure one policy")
    options = parser.parse_args()
    cuda = back_end()
    try:
        xp = cuda.cupy()
    except ImportError as error:
        raise SystemExit(str(error)) from error
    speed = copy_speed(xp)
    print(f"{xp.cuda.runtime.getDeviceProperties(0)['name'].decode()}; a copy moves {speed / 1e12:.2f} TB/s")
    print(f"{'policy':18}{'d':>4}{'arms':>6}{'million rounds/s':>18}{'share of the floor':>20}{'difference':>12}  plan")
    wanted = [options.only] if options.only else list(_SHAPES)
    for policy in wanted:
        plans = {"": {}} if not options.plans else _DRIFT_PLANS if policy == "DriftUCB" else _LINEAR_PLANS
        for shape in _SHAPES[policy]:
            warm = (warm_drift(cuda, xp, shape[0]),) if policy == "DriftUCB" else ()
            for name, plan in plans.items():
                show(policy, shape, name, speed, _MEASURES[policy], cuda, xp, *shape, plan, *warm)
            del warm


if __name__ == "__main__":
    here = str(
        Path(__file__).resolve().parent
    )  # with the names of its files, such as coverage, it would hide other packages
    sys.path[:] = [folder for folder in sys.path if folder != here]
    main()
