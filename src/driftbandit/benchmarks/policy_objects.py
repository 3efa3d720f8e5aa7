"""Many policy objects at once, as the service has them: compiled loops on threads beside one call after the other.

Usage: ``python -m driftbandit.benchmarks.policy_objects [--threads 1 2 4 8]``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from driftbandit.batch.objects import choose_each, learn_each
from driftbandit.benchmarks.options import at_least_one
from driftbandit.core import Floats
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.linucb import LinUCB

POLICIES: dict[str, type[LinUCB] | type[DriftUCB]] = {"LinUCB": LinUCB, "DriftUCB": DriftUCB}
_FIRST = 8  # rewards that every policy has learned before
_NOISE = 0.1
_MEMORY = 100_000_000  # numbers of all models together, about


class Case(NamedTuple):
    """What is measured."""

    policy: str
    dim: int
    arms: int
    batch: int


CASES = tuple(
    Case(policy, dim, arms, batch)
    for policy in POLICIES
    for dim, arms in ((25, 10), (25, 100), (100, 100))
    for batch in (100, 1000)
)


class Times(NamedTuple):
    """Microseconds of a choice and of a reward."""

    choose: float
    learn: float


def measure(case: Case, threads: Sequence[int], *, repeats: int = 9, seed: int = 0) -> dict[int, Times]:
    """Median times by number of threads, taken in turns; 0 stands for one call after the other."""
    rng = np.random.default_rng([seed, case.dim, case.arms])
    taste = rng.standard_normal(case.dim) / np.sqrt(case.dim)
    count = int(np.clip(_MEMORY // (12 * case.dim**2), case.batch, 2000))
    policies = [POLICIES[case.policy](case.dim) for _ in range(count)]
    for _ in range(_FIRST):
        xs, rewards = _rewards(rng, taste, count)
        for policy, x, reward in zip(policies, xs, rewards.tolist(), strict=True):
            policy.learn(x, reward)
    found: dict[int, list[Times]] = {way: [] for way in (0, *threads)}
    for repeat in range(1 + repeats):  # the first one compiles
        for way, times in found.items():
            some = [policies[i] for i in rng.integers(0, count, case.batch)]
            pools = list(rng.standard_normal((case.batch, case.arms, case.dim)))
            took = _timed(some, pools, *_rewards(rng, taste, case.batch), threads=way)
            if repeat:
                times.append(took)
    return {
        way: Times(*(1e6 * median(each) / case.batch for each in zip(*times, strict=True)))
        for way, times in found.items()
    }


def _rewards(rng: np.random.Generator, taste: Floats, count: int) -> tuple[Floats, Floats]:
    xs = rng.standard_normal((count, len(taste)))
    means = (xs * taste).sum(axis=1)  # BLAS would leave a thread behind that waits on a core, for a while
    return xs, means + _NOISE * rng.standard_normal(count)


def _timed(policies: list[Any], pools: list[Floats], xs: Floats, rewards: Floats, threads: int) -> Times:
    """Seconds that choices and rewards took."""
    begun = time.perf_counter()
    if threads:
        choose_each(policies, pools, [0] * len(pools), threads)
    else:
        for policy, pool in zip(policies, pools, strict=True):
            policy.choose(pool)
    between = time.perf_counter()
    if threads:
        learn_each(policies, xs, rewards, threads)
    else:
        for policy, x, reward in zip(policies, list(xs), rewards.tolist(), strict=True):
            policy.learn(x, reward)
    return Times(between - begun, time.perf_counter() - between)


def objects_table(times: dict[Case, dict[int, Times]]) -> Table:
    """Microseconds of a choice and of a reward."""
    ways = next(iter(times.values()))
    return Table(
        "Many policy objects: microseconds of a choice / of a reward",
        ("policy", "d", "K", "at a time", *("one by one" if way == 0 else f"threads: {way}" for way in ways)),
        tuple(
            (*map(str, case), *(f"{took.choose:.1f} / {took.learn:.1f}" for took in row.values()))
            for case, row in times.items()
        ),
        f"Policies of different scopes that have learned {_FIRST} rewards each. Medians, taken in turns.",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=at_least_one, nargs="+", default=[1, 2])
    chosen = parser.parse_args()
    print(objects_table({case: measure(case, chosen.threads) for case in CASES}).markdown())
