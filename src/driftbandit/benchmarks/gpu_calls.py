"""Rounds per second of `ManyScopes` on a GPU, checks and bookkeeping included.

``python -m driftbandit.benchmarks.gpu_calls`` times `step_many` for everyone with arguments that are on the GPU;
`batch_cuda` times the kernels alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from driftbandit.batch import ManyScopes
from driftbandit.batch.cuda import cupy
from driftbandit.benchmarks.options import no_options
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB

_SCOPES = 1_000_000
_ARMS = 10
_TIMES = 20
_CASES: tuple[tuple[str, int, Callable[[int], Any], str], ...] = (
    ("LinUCB", 25, LinUCB, "float64"),
    ("LinUCB", 6, LinUCB, "float64"),
    ("LinUCB", 25, LinUCB, "float32"),
    ("LinTS", 25, LinTS, "float64"),
)


def rounds_per_second(policy: Any, dtype: Any, scopes: int = _SCOPES) -> float:
    """Rewards learned and arms chosen per second, by calls of `step_many`."""
    xp, dim = cupy(), policy.dim
    store = ManyScopes(policy, scopes, device="cuda", dtype=dtype)
    pools = xp.random.standard_normal((scopes, _ARMS, dim)) / dim**0.5
    played = pools[:, 0].copy()
    rewards = played[:, 0] + 0.1 * xp.random.standard_normal(scopes)
    store.step_many(None, played, rewards, pools)  # compiles
    xp.cuda.Device().synchronize()
    started = time.perf_counter()
    for _ in range(_TIMES):
        store.step_many(None, played, rewards, pools)
    xp.cuda.Device().synchronize()
    return _TIMES * scopes / (time.perf_counter() - started)


def main() -> None:
    """Print a table in Markdown."""
    no_options(__doc__)
    try:
        cupy()
    except ImportError as error:
        raise SystemExit(str(error)) from error
    print(f"| policy | features | stored as | million rounds a second, {_SCOPES:,} scopes, {_ARMS} arms |")
    print("|---|---:|---|---:|")
    for name, dim, build, dtype in _CASES:
        print(f"| {name} | {dim} | {dtype} | {rounds_per_second(build(dim), dtype) / 1e6:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
