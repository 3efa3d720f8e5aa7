"""Many scopes at once: `ManyScopes` on one and on two threads beside a loop over `PerScope`, all from one run.

Two programs that share nothing, one thread each, show how much a second thread can add on the machine at hand.

``python -m driftbandit.benchmarks.many_scopes`` prints the table of docs/performance.md.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from driftbandit.batch import ManyScopes
from driftbandit.benchmarks.options import no_options
from driftbandit.core import Floats
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.scoped.per_scope import PerScope

THREADS = (1, 2)
LOOP = "PerScope, one by one"
ONE_PROGRAM, TWO_PROGRAMS = "one program", "two programs"
_NOISE = 0.1
_TRAINING = 300
_REPEATS = 3
_ROUNDS = 8  # DriftUCB's young models learn once in eight rewards
_PATIENCE_S = 600.0  # for a program that compiles first

POLICIES: dict[str, Callable[[int], Any]] = {
    "LinUCB": LinUCB,
    "LinTS": LinTS,
    "DLinUCB": lambda dim: DLinUCB.preset("table1", dim, _NOISE),
    "DriftUCB": DriftUCB,
}


class World:
    """Scopes with the taste that `trained` policies have learned; pools repeat after a few rounds."""

    def __init__(self, dim: int, arms: int, scopes: int, seed: int) -> None:
        self.rng = np.random.default_rng([seed, dim, arms, scopes])
        self.scopes = np.arange(scopes)
        self.taste = _taste(dim, seed)
        self.pools = [_unit(self.rng.standard_normal((scopes, arms, dim))) for _ in range(2)]

    def rewards(self, played: Floats) -> Floats:
        """Rewards of the arms that were played, one per scope."""
        noise = _NOISE * self.rng.standard_normal(len(played))
        paid: Floats = played @ self.taste + noise
        return paid


def _unit(vectors: Floats) -> Floats:
    result: Floats = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return result


def _taste(dim: int, seed: int) -> Floats:
    return _unit(np.random.default_rng([seed, dim]).standard_normal(dim))


def _trained(build: Callable[[int], Any], dim: int, seed: int) -> Any:
    """A policy with some experience, which every scope begins with."""
    rng = np.random.default_rng([seed, dim, 1])
    policy, taste = build(dim), _taste(dim, seed)
    for _ in range(_TRAINING):
        x = _unit(rng.standard_normal(dim))
        policy.learn(x, float(x @ taste + _NOISE * rng.standard_normal()))
    return policy


def _loop(store: PerScope, world: World, pools: Floats) -> float:
    rows = list(pools)
    started = time.perf_counter()
    arms = [store.choose(pool, scope=scope) for scope, pool in enumerate(rows)]
    between = time.perf_counter()
    played = pools[world.scopes, arms]
    rewards, lines = world.rewards(played).tolist(), list(played)
    again = time.perf_counter()
    for scope, (x, reward) in enumerate(zip(lines, rewards, strict=True)):
        store.learn(x, reward, scope=scope)
    return time.perf_counter() - again + between - started


def at_once(store: ManyScopes, world: World, pools: Floats) -> float:
    """Choose for all scopes and learn their rewards; the seconds that this took."""
    started = time.perf_counter()
    arms = store.choose_many(world.scopes, pools)
    between = time.perf_counter()
    played = pools[world.scopes, arms]
    rewards = world.rewards(played)
    again = time.perf_counter()
    store.learn_many(world.scopes, played, rewards)
    return time.perf_counter() - again + between - started


def _play(store: ManyScopes, world: World) -> float:
    """Play `_ROUNDS` rounds; the seconds that they took."""
    return sum(at_once(store, world, world.pools[turn % len(world.pools)]) for turn in range(_ROUNDS))


_starts: list[Any] = []  # in a program: the barrier at which all wait for each other


def _meet_at(start: Any) -> None:
    _starts.append(start)


def _program(name: str, dim: int, arms: int, scopes: int, seed: int) -> float:
    """A program: the seconds of its fastest run."""
    world, store = World(dim, arms, scopes, seed), ManyScopes(_trained(POLICIES[name], dim, seed), scopes, threads=1)
    best = float("inf")
    for repeat in range(1 + _REPEATS):
        _starts[0].wait(_PATIENCE_S)
        took = _play(store, world)
        best = min(best, took) if repeat else best
    return best


def _in_programs(count: int, name: str, dim: int, arms: int, scopes: int, seed: int) -> float:
    """Seconds in which each of some programs that run at the same time plays `_ROUNDS` rounds."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(count)
    with ProcessPoolExecutor(count, context, _meet_at, (start,)) as programs:
        answers = [programs.submit(_program, name, dim, arms, scopes, seed) for _ in range(count)]
        found = [answer.result() for answer in answers]
    return sum(found) / count


def measure(
    dim: int = 25, arms: int = 10, scopes: int = 10_000, *, policies: Sequence[str] = tuple(POLICIES), seed: int = 0
) -> dict[str, dict[str, float]]:
    """Microseconds per choose + learn, by policy and way: the best of some runs of eight rounds, taken in turns.

    The last two ways are those of a program by itself, and of each of two at the same time.
    """
    result: dict[str, dict[str, float]] = {}
    for name in policies:
        world = World(dim, arms, scopes, seed)
        policy = _trained(POLICIES[name], dim, seed)
        one_by_one = PerScope(policy)
        stores = {f"threads: {threads}": ManyScopes(policy, scopes, threads=threads) for threads in THREADS}
        best = dict.fromkeys([LOOP, *stores], float("inf"))
        for repeat in range(1 + _REPEATS):  # the first one compiles, and builds the policies
            took = dict.fromkeys(best, 0.0)
            for turn in range(_ROUNDS):
                pools = world.pools[turn % len(world.pools)]
                took[LOOP] += _loop(one_by_one, world, pools)
                for way, store in stores.items():
                    took[way] += at_once(store, world, pools)
            if repeat:
                best = {way: min(best[way], took[way]) for way in best}
        del one_by_one, stores, store  # their arrays may fill the memory
        for count, way in enumerate((ONE_PROGRAM, TWO_PROGRAMS), 1):
            best[way] = _in_programs(count, name, dim, arms, scopes, seed)
        result[name] = {way: 1e6 * seconds / (scopes * _ROUNDS) for way, seconds in best.items()}
    return result


def many_scopes_table(
    times: Mapping[str, Mapping[str, float]], dim: int = 25, arms: int = 10, scopes: int = 10_000
) -> Table:
    """Microseconds, and ratios."""
    one, two = (f"threads: {threads}" for threads in THREADS)
    return Table(
        f"Many scopes at once: microseconds per choose + learn of one of {scopes:,} scopes, d={dim}, K={arms}",
        ("policy", LOOP, "one thread", "two threads", "loop / one thread", "one / two threads", TWO_PROGRAMS),
        tuple(
            (
                name,
                *(f"{row[way]:.2f}" for way in (LOOP, one, two)),
                f"{row[LOOP] / row[one]:.1f}×",
                f"{row[one] / row[two]:.2f}×",
                f"{2.0 * row[ONE_PROGRAM] / row[TWO_PROGRAMS]:.2f}×",
            )
            for name, row in times.items()
        ),
        f"Every scope begins with a policy that has learned {_TRAINING} rewards. Best of {_REPEATS} runs of {_ROUNDS} "
        "rounds over all scopes, taken in turns in one process. The last column says how much more two programs do "
        "than one in the same time; they have one thread each and share nothing: what a second thread can add here.",
    )


if __name__ == "__main__":
    no_options(__doc__)
    table = many_scopes_table(measure())
    print(f"{table.title}\n\n{table.markdown()}")
