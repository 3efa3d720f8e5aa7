"""Microseconds per choose + learn, and ratios to NumPy, all from one run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandit.benchmarks.numpy_linucb import BareNumpyLinUCB, NumpyLinUCB
from driftbandit.benchmarks.peers import Player, installed
from driftbandit.core import Floats
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.linucb import LinUCB

ROUNDS = 5000
SECONDS = 1.0  # of a run, about, where there may be fewer rounds
LEAST_RUNS, MOST_RUNS = 3, 20  # of each policy: many short ones, so that one of them meets a quiet machine

_NOISE = 0.1
_MEMBERS = 3
_POOL_BYTES = 200_000_000
_PEER_SECONDS = 2.0
_PEER_LEAST = 10


@dataclass(frozen=True)
class Stream:
    """Rounds of a stationary linear world: fresh unit-length arms each round, as long as memory allows."""

    pools: list[Floats]
    rewards: list[list[float]]

    @classmethod
    def make(cls, dim: int, arms: int, seed: int, rounds: int | None = None) -> Stream:
        rng = np.random.default_rng([seed, dim, arms])
        count = min(ROUNDS if rounds is None else rounds, _POOL_BYTES // (8 * dim * arms))
        theta = rng.random(dim)
        theta /= np.linalg.norm(theta)
        pools, rewards = [], []
        for _ in range(count):
            pool = rng.standard_normal((arms, dim))
            pool /= np.linalg.norm(pool, axis=1, keepdims=True)
            pools.append(pool)
            rewards.append((pool @ theta + _NOISE * rng.standard_normal(arms)).tolist())
        return cls(pools, rewards)


class ByRow:
    """A policy of the contract (or NumPy's) as a `Player`."""

    def __init__(self, policy: Any) -> None:
        self.choose = policy.choose
        self._learn = policy.learn

    def learn(self, features: Floats, index: int, reward: float) -> None:
        self._learn(features[index], reward)


def _three_members(dim: int) -> DLinUCB:
    """dLinUCB with several members, as after a shift; the stream is stationary, so the members are added by hand."""
    policy = DLinUCB(dim, _NOISE)
    for _ in range(_MEMBERS - 1):
        policy._add_member()
    return policy


OURS: dict[str, Callable[[int, int], Player]] = {
    "LinUCB": lambda dim, arms: ByRow(LinUCB(dim)),
    "DLinUCB, 3 members": lambda dim, arms: ByRow(_three_members(dim)),
    "DriftUCB": lambda dim, arms: ByRow(DriftUCB(dim)),
}
BASELINES: dict[str, Callable[[int, int], Player]] = {
    "NumPy LinUCB": lambda dim, arms: ByRow(NumpyLinUCB(dim)),
    "NumPy LinUCB, no checks": lambda dim, arms: ByRow(BareNumpyLinUCB(dim)),
}


def play(player: Player, stream: Stream, rounds: int, seconds: float = float("inf")) -> float:
    """Seconds per round; stops early after `seconds`.

    The candidates are copied into one buffer first, as a service would gather them: a policy rarely meets features that
    are not in the processor's cache.
    """
    count = len(stream.pools)
    pool = np.empty_like(stream.pools[0])
    started = time.perf_counter()
    played = 0
    for t in range(rounds):
        np.copyto(pool, stream.pools[t % count])
        index = player.choose(pool)
        player.learn(pool, index, stream.rewards[t % count][index])
        played = t + 1
        if seconds < float("inf") and played >= _PEER_LEAST and time.perf_counter() - started > seconds:
            break
    return (time.perf_counter() - started) / played


def runs_of(seconds: float) -> int:
    """How many runs to make if each takes so long.

    >>> runs_of(0.001), runs_of(0.5), runs_of(5.0)
    (20, 6, 3)
    """
    return min(max(int(LEAST_RUNS * SECONDS / seconds), LEAST_RUNS), MOST_RUNS)


class Nobody:
    """Does nothing, to measure the cost of the benchmark's own loop, which is subtracted."""

    def choose(self, features: Floats) -> int:
        return 0

    def learn(self, features: Floats, index: int, reward: float) -> None:
        self.last = features[index]


def measure(
    sizes: Sequence[tuple[int, int]], *, seed: int = 0, peers: bool = True, rounds: int = ROUNDS
) -> dict[str, dict[tuple[int, int], float]]:
    """Microseconds per choose + learn, by name and size: the best of several runs, taken in turns.

    A size is a number of features and a number of arms per round.
    Every run starts from an untrained model. Peers, which are slow, play for two seconds at each size.
    """
    result: dict[str, dict[tuple[int, int], float]] = {}
    for dim, arms in sizes:
        stream = Stream.make(dim, arms, seed)
        makers = {"loop": lambda dim, arms: Nobody(), **BASELINES, **OURS}
        for build in makers.values():  # compile and warm up
            play(build(dim, arms), stream, 20)
        best = dict.fromkeys(makers, float("inf"))
        slowest = max(play(build(dim, arms), stream, min(rounds, 20)) for build in makers.values())
        for _ in range(runs_of(slowest * rounds)):
            for name, build in makers.items():
                best[name] = min(best[name], play(build(dim, arms), stream, rounds))
        if peers:
            for name, (build, takes_features) in installed().items():
                label = name if takes_features else f"{name} (no arm features)"
                best[label] = play(build(dim, arms), stream, rounds, _PEER_SECONDS)
        loop = best.pop("loop")
        for name, seconds in best.items():
            result.setdefault(name, {})[dim, arms] = 1e6 * (seconds - loop)
    return result


def import_ratio(repeats: int = 7) -> float:
    """How many times longer `import driftbandit` takes than `import numpy`, each in fresh interpreters."""

    def seconds(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    codes = ("pass", "import numpy", "import driftbandit")
    runs = [[seconds(code) for code in codes] for _ in range(repeats)]
    bare, numpy, ours = np.min(runs, axis=0).tolist()
    return float((ours - bare) / (numpy - bare))


def speed_table(times: dict[str, dict[tuple[int, int], float]], rounds: int = ROUNDS) -> Table:
    """Microseconds, and how many times faster than NumPy."""
    sizes = list(next(iter(times.values())))
    base = times["NumPy LinUCB"]

    def cell(name: str, size: tuple[int, int]) -> str:
        microseconds = times[name][size]
        return f"{microseconds:,.1f}  ({base[size] / microseconds:.2g}×)"

    return Table(
        "Microseconds per choose + learn, and how many times faster than NumPy",
        ("policy", *(f"d={dim}, K={arms}" for dim, arms in sizes)),
        tuple((name, *(cell(name, size) for size in sizes)) for name in times),
        f"Best of {LEAST_RUNS} to {MOST_RUNS} runs of {rounds:,} rounds from an untrained model, taken in turns in one "
        "process.",
    )
