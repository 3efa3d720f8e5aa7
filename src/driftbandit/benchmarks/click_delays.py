"""The formula for delays on clicks beside simulated shifts: `python -m driftbandit.benchmarks.click_delays`.

A run has one shift. Its lift is the mean click rate of the arms that were best before the shift, divided by the mean
rate of the same arms after it. Prints a table: runs by lift, and the delay of the alarm as a multiple of the formula's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from driftbandit.environments import World
from driftbandit.evaluation.delays import click_delay, click_information
from driftbandit.evaluation.detection import Detection, alarm_rounds
from driftbandit.evaluation.results import Table
from driftbandit.evaluation.simulate import simulate
from driftbandit.policies.choosing_memory.driftucb import DriftUCB

_RATES = (0.15, 0.05, 0.02, 0.01, 0.003)
_LIFTS = (4.0, 2.0, 1.5)
_CELLS = [(rate, lift, 10) for rate in _RATES for lift in _LIFTS]
_CELLS += [(rate, lift, dim) for dim in (6, 25) for rate in (0.05, 0.02) for lift in (4.0, 2.0)]
_BINS = (*pairwise((1.0, 1.2, 1.5, 2.0, 3.0, 5.0, math.inf)), (2.0, math.inf))
_CLICKS, _NATS = 200.0, 50.0  # clicks of an average arm, and nats against the incumbent, that fit between two shifts
_SHORTEST, _LONGEST = 3_000, 80_000


@dataclass(frozen=True)
class Shift:
    """One simulated shift: how large it was, and its delay as a multiple of the formula's, infinite if not found."""

    lift: float
    ratio: float


def measure(seeds: Sequence[int]) -> Iterator[Shift]:
    """Play one shift for every seed in every world."""
    for seed in seeds:
        for rate, lift, dim in _CELLS:
            nats = click_information(rate, rate * lift)
            period = int(max(min(max(_CLICKS / rate, _NATS / nats), _LONGEST), _SHORTEST))
            world = World(
                features="sphere",
                thetas="sphere",
                reward="rates",
                clicks=(rate, rate * lift),
                dim=dim,
                period=period,
                horizon=2 * period,
            )
            shift = measure_one(world, seed)
            if shift is not None:
                yield shift


def measure_one(world: World, seed: int) -> Shift | None:
    """Play a world with one shift, halfway; None if what was best before the shift is at least as good after it."""
    rounds, period = world.rounds(seed), world.period
    rates = np.zeros((2, len(rounds.catalogue)))
    rates[0, rounds.pools[:period]] = rounds.means[:period]
    rates[1, rounds.pools[period:]] = rounds.means[period:]
    later = rounds.pools[period:]
    played = later[np.arange(period), rates[0, later].argmax(axis=1)]
    before, after = rates[:, played].mean(axis=1).tolist()
    if before <= after:
        return None
    found = Detection()
    found.add(alarm_rounds(simulate(DriftUCB(world.dim), rounds).changes), rounds.shifts, 2 * period)
    delay = found.delays[0] if found.delays else math.inf
    return Shift(before / after, delay / click_delay(after, before / after, dim=world.dim, period=period))


def table_of(shifts: Sequence[Shift]) -> Table:
    """Runs by lift: how many, the share found, and the delay as a multiple of the formula's."""
    lines = []
    for low, high in _BINS:
        ratios = [shift.ratio for shift in shifts if low <= shift.lift < high]
        if ratios:
            quartiles = np.quantile(ratios, [0.25, 0.5, 0.75], method="lower").tolist()
            lines.append(
                (
                    f"{low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more",
                    str(len(ratios)),
                    f"{np.isfinite(ratios).mean():.0%}",
                    *(f"{ratio:.2f}" if math.isfinite(ratio) else "not found" for ratio in quartiles),
                    f"{np.mean([0.5 <= ratio <= 2.0 for ratio in ratios]):.0%}",
                )
            )
    quarters = ("delay / formula: a quarter below", "half below", "three quarters below")
    return Table(
        "Delays on clicks", ("lift", "shifts", "found", *quarters, "within a factor of 2 of the formula"), tuple(lines)
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1020, help="first seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    given = parser.parse_args()
    print(table_of(list(measure(range(given.seed, given.seed + given.seeds)))).markdown())


if __name__ == "__main__":
    main()
