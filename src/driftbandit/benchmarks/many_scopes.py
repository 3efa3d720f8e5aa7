"""Many scopes at once: `ManyScopes` on one and on two threads beside a loop over `PerScope`, all from one run.

Two programs that share nothing, one thread each, show how much a second thread can add on the machine at hand.

``python -m driftbandit.benchmarks.many_scopes`` prints the table of docs/performance.md.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from driftbandit.batch import ManyScopes
from driftbandit.benchmarks.options import no_options
from driftbandit.core import Floats, Ints
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.scoped.per_scope import PerScope

THREADS = (1, 2)
LOOP = "PerScope, one by one"
ONE_PROGRAM, TWO_PROGRAMS = "one program", "two programs"
APART = "in two calls"
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


class Round(NamedTuple):
    """What everyone learns, the arms that they played last and their rewards, and the pools for their next choices."""

    played: Floats
    rewards: Floats
    pools: Floats


class World:
    """Scopes with the taste that `trained` policies have learned; pools repeat after a few rounds."""

    def __init__(self, dim: int, arms: int, scopes: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, dim, arms, scopes])
        self._scopes, self._turn = np.arange(scopes), 0
        self._taste = _taste(dim, seed)
        self._pools = [_unit(self._rng.standard_normal((scopes, arms, dim))) for _ in range(2)]

    def round(self, arms: Ints) -> Round:
        """The round in which the rewards of these arms come, one per scope, of the pools before."""
        played = self._pools[self._turn][self._scopes, arms]
        self._turn = (self._turn + 1) % len(self._pools)
        means = (played * self._taste).sum(axis=1)  # BLAS would leave a thread behind that waits on a core, for a while
        rewards = means + _NOISE * self._rng.standard_normal(len(played))
        return Round(played, rewards, self._pools[self._turn])


Answer = tuple[float, Ints]
"""The seconds that a round took, and the arms that were chosen."""


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


def _one_by_one(store: PerScope, given: Round) -> Answer:
    lines, rewards, pools = list(given.played), given.rewards.tolist(), list(given.pools)
    arms = []
    started = time.perf_counter()
    for scope, (x, reward, pool) in enumerate(zip(lines, rewards, pools, strict=True)):
        store.learn(x, reward, scope=scope)
        arms.append(store.choose(pool, scope=scope))
    return time.perf_counter() - started, np.array(arms)


def at_once(store: ManyScopes, given: Round) -> Answer:
    """Learn from all scopes and choose for them, in one call."""
    started = time.perf_counter()
    _, arms = store.step_many(None, *given)
    return time.perf_counter() - started, arms


def _apart(store: ManyScopes, given: Round) -> Answer:
    started = time.perf_counter()
    store.learn_many(None, given.played, given.rewards)
    arms = store.choose_many(None, given.pools)
    return time.perf_counter() - started, arms


def _play(ways: Mapping[str, Callable[[Round], Answer]], world: World, arms: Ints) -> tuple[dict[str, float], Ints]:
    """Play `_ROUNDS` rounds after these arms; the seconds that each way took, and the last arms."""
    took = dict.fromkeys(ways, 0.0)
    for _ in range(_ROUNDS):
        given = world.round(arms)
        for way, answer in ways.items():
            seconds, arms = answer(given)
            took[way] += seconds
    return took, arms


_starts: list[Any] = []  # in a program: the barrier at which all wait for each other


def _meet_at(start: Any) -> None:
    _starts.append(start)


def _program(name: str, dim: int, arms: int, scopes: int, seed: int) -> float:
    """A program: the seconds of its fastest run."""
    world, store = World(dim, arms, scopes, seed), ManyScopes(_trained(POLICIES[name], dim, seed), scopes, threads=1)
    best, last = float("inf"), np.zeros(scopes, dtype=np.int64)
    for repeat in range(1 + _REPEATS):
        _starts[0].wait(_PATIENCE_S)
        took, last = _play({ONE_PROGRAM: partial(at_once, store)}, world, last)
        best = min(best, took[ONE_PROGRAM]) if repeat else best
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
    """Microseconds per learn + choose, by policy and way: the best of some runs of eight rounds, taken in turns.

    The last two ways are those of a program by itself, and of each of two at the same time.
    """
    result: dict[str, dict[str, float]] = {}
    for name in policies:
        world, last = World(dim, arms, scopes, seed), np.zeros(scopes, dtype=np.int64)
        policy = _trained(POLICIES[name], dim, seed)
        ways: dict[str, Callable[[Round], Answer]] = {LOOP: partial(_one_by_one, PerScope(policy))}
        for threads in THREADS:
            ways[f"threads: {threads}"] = partial(at_once, ManyScopes(policy, scopes, threads=threads))
        ways[APART] = partial(_apart, ManyScopes(policy, scopes, threads=1))
        best = dict.fromkeys(ways, float("inf"))
        for repeat in range(1 + _REPEATS):  # the first one compiles, and builds the policies
            took, last = _play(ways, world, last)
            if repeat:
                best = {way: min(best[way], took[way]) for way in ways}
        ways.clear()  # their arrays may fill the memory
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
        f"Many scopes at once: microseconds per learn + choose of one of {scopes:,} scopes, d={dim}, K={arms}",
        ("policy", LOOP, "one thread", "two threads", "loop / one thread", "one / two threads", TWO_PROGRAMS, APART),
        tuple(
            (
                name,
                *(f"{row[way]:.2f}" for way in (LOOP, one, two)),
                f"{row[LOOP] / row[one]:.1f}×",
                f"{row[one] / row[two]:.2f}×",
                f"{2.0 * row[ONE_PROGRAM] / row[TWO_PROGRAMS]:.2f}×",
                f"{row[APART]:.2f}",
            )
            for name, row in times.items()
        ),
        f"Every scope begins with a policy that has learned {_TRAINING} rewards. One by one, each scope learns and "
        f"then chooses; threads do so in step_many. Best of {_REPEATS} runs of {_ROUNDS} rounds over all scopes, in "
        "turns in one process. Two programs: how much more they do than one in the same time; they have one thread "
        "each and share nothing: this is what a second thread can add here. In two calls: learn_many for all "
        "scopes, then choose_many, on one thread.",
    )


if __name__ == "__main__":
    no_options(__doc__)
    table = many_scopes_table(measure())
    print(f"{table.title}\n\n{table.markdown()}")
