"""Ways to learn from lists, in a simulated world with shifts: `python -m driftbandit.benchmarks.slates`.

A policy shows a list of 5 out of 20 arms; some people look at everything, some at each position with a probability of
its own, some from the top until they click. Prints a table for every kind of person: clicks per 100 lists, expected
given the arms shown, as mean ± standard deviation over seeds, the gain over learning naively on the same lists, and
the changes that DriftUCB reported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbandit import slates
from driftbandit.core import Floats
from driftbandit.environments import Rounds, World
from driftbandit.evaluation.results import Table
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.forgetting.discounted_linucb import DiscountedLinUCB
from driftbandit.policies.ranking import best_first

Flags = NDArray[np.bool_]
Teach = Callable[[Flags, Floats, np.random.Generator], list[slates.Lesson]]
"""Lessons from the clicks on a list, given the probabilities of looking, as far as they are known."""

LENGTH = 5
LISTS = 4_500
SHIFTS = 2  # in these lists
TRIAL = 2_000
"""Lists in random order, shown before, from which the probabilities of looking are estimated."""

LOOKS = 1.0 / np.arange(1, LENGTH + 1)
"""Probabilities of looking at each position, for people who look by position."""

PEOPLE = {
    "by position": "look at position p with probability 1 / p",
    "cascade": "look from the top until they click",
    "everything": "look at the whole list",
}
TEACHERS: dict[str, Teach] = {
    "naive": lambda clicks, looks, rng: slates.naive(clicks),
    "cascade": lambda clicks, looks, rng: slates.cascade(clicks),
    "positions in the features": lambda clicks, looks, rng: slates.position_weighted(clicks, looks),
    "positions by thinning": lambda clicks, looks, rng: slates.position_weighted(clicks, looks, "thinning", rng),
    "positions in the rewards": lambda clicks, looks, rng: slates.position_weighted(clicks, looks, "rewards"),
}
ESTIMATED = ("positions in the features", "positions by thinning")
"""Ways that are also played with estimated probabilities of looking."""

POLICIES: dict[str, Callable[[int], PolicyBase]] = {
    "DriftUCB": DriftUCB,
    "D-LinUCB": lambda dim: DiscountedLinUCB(dim, noise=0.3, discount=0.9995, explore=0.3),
}


@dataclass(frozen=True)
class Line:
    """A policy that learns in one way: clicks per 100 lists, and how many changes it reported, for every seed."""

    policy: str
    learns: str
    clicks: list[float]
    changes: list[int]


def world(lists: int) -> World:
    """A world of clicks with shifts: an average arm gets 5 %, the best of a pool 20 %."""
    period = lists // (SHIFTS + 1)
    return World(
        features="sphere",
        thetas="sphere",
        reward="rates",
        clicks=(0.05, 0.2),
        pool=20,
        period=period,
        horizon=(SHIFTS + 1) * period,
    )


def clicks_of(people: str, liked: Flags, looked: Flags) -> Flags:
    """What these people click: arms that they like, where they look."""
    if people == "by position":
        return liked & looked
    if people == "cascade":
        liked = np.logical_and(liked, np.cumsum(liked) == 1)
    return liked


def expected_clicks(people: str, rates: Floats) -> float:
    """Expected number of clicks on a list of arms with these rates of being liked."""
    if people == "by position":
        return float(LOOKS @ rates)
    return float(1.0 - np.prod(1.0 - rates)) if people == "cascade" else float(rates.sum())


def estimated_looks(people: str, seed: int, lists: int = TRIAL) -> Floats:
    """Probabilities of looking, estimated from lists in random order."""
    rounds = world(lists).rounds(seed)
    rng = np.random.default_rng([seed, 1])
    rates = rounds.means[:, :LENGTH]  # a pool is in random order
    liked = rng.random(rates.shape) < rates
    looked = rng.random(rates.shape) < LOOKS
    clicks = [clicks_of(people, *one) for one in zip(liked, looked, strict=True)]
    return slates.examination_of(np.array(clicks))


def play(policy: PolicyBase, teach: Teach, people: str, rounds: Rounds, looks: Floats) -> tuple[float, int]:
    """Show lists to people and learn from their clicks; returns clicks per 100 lists, and the number of changes.

    Who likes what and who looks where depends on the seed alone.
    """
    draws = np.random.default_rng([rounds.seed, 2])
    likings, lookings = draws.random(rounds.means.shape), draws.random((len(rounds), LENGTH))
    rng = np.random.default_rng([rounds.seed, 3])
    total, changes = 0.0, 0
    for t, (row, rates) in enumerate(zip(rounds.pools, rounds.means, strict=True)):
        pool = rounds.catalogue[row]
        shown = policy.rank(pool, LENGTH)
        total += expected_clicks(people, rates[shown])
        clicks = clicks_of(people, likings[t, shown] < rates[shown], lookings[t] < LOOKS)
        changes += len(slates.learn_slate(policy, pool[shown], teach(clicks, looks, rng)))
    return 100.0 * total / len(rounds), changes


def best_possible(people: str, rounds: Rounds) -> float:
    """Clicks per 100 lists if all rates were known."""
    lists = (rates[best_first(rates, LENGTH)] for rates in rounds.means)
    return 100.0 * float(np.mean([expected_clicks(people, rates) for rates in lists]))


def measure(people: str, seeds: Sequence[int], lists: int = LISTS) -> Iterator[Line]:
    """Play every policy with every way to learn, after the best that is possible."""
    worlds = [world(lists).rounds(seed) for seed in seeds]
    yield Line("best possible", "–", [best_possible(people, rounds) for rounds in worlds], [])
    given = [LOOKS] * len(seeds)
    guesses = [estimated_looks(people, seed) for seed in seeds]
    ways = []
    for name, teach in TEACHERS.items():
        ways.append((name, teach, given))
        if name in ESTIMATED:
            ways.append((f"{name}, estimated", teach, guesses))
    for title, build in POLICIES.items():
        for name, teach, looks in ways:
            runs = [
                play(build(rounds.dim), teach, people, rounds, one) for rounds, one in zip(worlds, looks, strict=True)
            ]
            yield Line(title, name, [clicks for clicks, _ in runs], [changes for _, changes in runs])


def table_of(people: str, lines: Sequence[Line]) -> Table:
    """Mean ± standard deviation of each line, and its gain over the same policy taught naively."""
    naive = {line.policy: line.clicks for line in lines if line.learns == "naive"}
    cells = []
    for line in lines:
        compared = line.policy in naive and line.learns != "naive"
        gain = spread(np.subtract(line.clicks, naive[line.policy]), sign="+") if compared else "–"
        changes = f"{np.mean(line.changes):.1f}" if any(line.changes) else "–"
        cells.append((line.policy, line.learns, spread(line.clicks), gain, changes))
    heads = ("policy", "learns", "clicks per 100 lists", "more than naively", f"changes ({SHIFTS} shifts)")
    return Table(f"People who {PEOPLE[people]}", heads, tuple(cells))


def spread(values: Sequence[float] | Floats, sign: str = "") -> str:
    """Mean ± standard deviation of a sample."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):{sign}.2f} ± {deviation:.2f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=2000, help="first seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--lists", type=int, default=LISTS, help="lists per run")
    given = parser.parse_args()
    for people, words in PEOPLE.items():
        lines = list(measure(people, range(given.seed, given.seed + given.seeds), given.lists))
        print(f"People who {words}:\n\n{table_of(people, lines).markdown()}\n", flush=True)


if __name__ == "__main__":
    main()
