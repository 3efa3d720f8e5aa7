"""Many features, as ratios: LinUCB beside NumPy, DriftUCB beside LinUCB, and the bytes of a young DriftUCB scope."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftbandit.benchmarks import speed
from driftbandit.evaluation.results import Table
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.serving.loop.slab import pack

GRID = ((6, 10), (25, 25), (64, 20), (128, 20), (256, 5), (256, 50), (512, 20), (1024, 20))
"""Features and arms at which LinUCB is compared with NumPy."""
PAIRS = ((6, 10), (10, 10), (25, 25), (25, 1000), (100, 100), (256, 50))
"""Features and arms at which DriftUCB is compared with LinUCB."""
YOUNG = (1, 10, 25, 50, 99)
"""Rewards after which a scope's bytes are counted."""

_DIM = 25  # features of the scope whose bytes are counted
TRAINING = (0, 1_000, 50_000)
"""Rewards that models have learned when DriftUCB is compared with LinUCB."""


@dataclass(frozen=True)
class Wide:
    """What was measured.

    Attributes
    ----------
    numpy_over_linucb : mapping of (int, int) to float
        Ratios of the times of choose + learn from an untrained model, by features and arms.
    driftucb_over_linucb : mapping of int to mapping of (int, int) to float
        The same ratios by the rewards that both have learned before.
    young : mapping of int to pair of int
        Bytes of a DriftUCB scope's arrays, and of its packed state, by rewards learned.
    """

    numpy_over_linucb: Mapping[tuple[int, int], float]
    driftucb_over_linucb: Mapping[int, Mapping[tuple[int, int], float]]
    young: Mapping[int, tuple[int, int]]

    def as_data(self) -> dict[str, dict[str, float]]:
        """The numbers under names, for JSON."""
        ratios = {
            "numpy_over_linucb": self.numpy_over_linucb,
            **{f"driftucb_over_linucb_after_{rewards}": found for rewards, found in self.driftucb_over_linucb.items()},
        }
        return {
            **{
                name: {f"{dim}x{arms}": value for (dim, arms), value in found.items()} for name, found in ratios.items()
            },
            "young_scope_bytes": {str(rewards): whole for rewards, (whole, _) in self.young.items()},
            "young_scope_bytes_packed": {str(rewards): packed for rewards, (_, packed) in self.young.items()},
        }


def measure(rounds: int, *, seed: int = 0) -> Wide:
    """Measure everything, in runs of at most `rounds` rounds."""
    return Wide(
        {size: _ratio("NumPy LinUCB", "LinUCB", size, rounds, seed) for size in GRID},
        {
            training: {size: _ratio("DriftUCB", "LinUCB", size, rounds, seed, training) for size in PAIRS}
            for training in TRAINING
        },
        {rewards: young_bytes(rewards) for rewards in YOUNG},
    )


def young_bytes(rewards: int, dim: int = _DIM) -> tuple[int, int]:
    """Bytes of the arrays of a DriftUCB scope that has learned so many rewards, and of its packed state.

    >>> whole, packed = young_bytes(1)
    >>> packed < 0.2 * whole
    True
    """
    rng = np.random.default_rng(0)
    policy, taste = DriftUCB(dim), rng.standard_normal(dim) / dim**0.5
    for _ in range(rewards):
        x = rng.standard_normal(dim)
        policy.learn(x, float(x @ taste + 0.1 * rng.standard_normal()))
    state = policy.state()
    return policy.spare + sum(array.nbytes for array in state.values()), len(pack(policy.short_state() or state))


def _ratio(slow: str, fast: str, size: tuple[int, int], rounds: int, seed: int, training: int = 0) -> float:
    """How many times as long `slow` takes as `fast`: the best of several runs each, taken in turns.

    Each run starts from models that have played `training` rounds.
    """
    makers = {"loop": lambda dim, arms: speed.Nobody(), **speed.BASELINES, **speed.OURS}
    stream = speed.Stream.make(*size, seed, rounds)
    best = dict.fromkeys(("loop", slow, fast), float("inf"))
    for name in best:  # compile and warm up
        speed.play(makers[name](*size), stream, min(rounds, 20))
    once = speed.play(makers[slow](*size), stream, min(rounds, 20))
    rounds = max(1, min(rounds, int(speed.SECONDS / once)))
    players = {name: makers[name](*size) for name in best}
    for player in players.values() if training else ():
        speed.play(player, stream, min(training, 50 * rounds))
    for _ in range(speed.runs_of(once * rounds)):
        for name, player in players.items():
            best[name] = min(best[name], speed.play(copy.deepcopy(player), stream, rounds))
    return (best[slow] - best["loop"]) / (best[fast] - best["loop"])


def tables(found: Wide) -> Sequence[Table]:
    """The ratios, and the bytes."""

    def named(sizes: Mapping[tuple[int, int], float]) -> tuple[str, ...]:
        return tuple(f"d={dim}, K={arms}" for dim, arms in sizes)

    return (
        Table(
            "How many times faster than NumPy LinUCB is",
            named(found.numpy_over_linucb),
            (tuple(f"{value:.2g}×" for value in found.numpy_over_linucb.values()),),
            f"Choose + learn from an untrained model: best of {speed.LEAST_RUNS} to {speed.MOST_RUNS} runs of at most "
            "a second, taken in turns.",
        ),
        Table(
            "How many times as long as LinUCB DriftUCB takes",
            ("models", *named(dict.fromkeys(PAIRS, 0.0))),
            tuple(
                (
                    f"after {training:,} rewards" if training else "untrained",
                    *(f"{value:.2f}×" for value in row.values()),
                )
                for training, row in found.driftucb_over_linucb.items()
            ),
            "Measured likewise, each run from models that have learned so much. In its first 256 rewards DriftUCB also "
            "tries frames: units, and an intercept. Where a round takes more than a millisecond, or with fewer than "
            "1,000 rounds, models learn at most 50 times as many rewards as are timed.",
        ),
        Table(
            f"Bytes of a young DriftUCB scope, d={_DIM}",
            ("as", *("after 1 reward" if rewards == 1 else f"{rewards} rewards" for rewards in found.young)),
            (
                ("a policy's arrays", *(f"{whole:,}" for whole, _ in found.young.values())),
                ("packed by the service", *(f"{packed:,}" for _, packed in found.young.values())),
            ),
            "Means of rewards have a deviation of 1, their noise 0.1. These numbers do not depend on the machine.",
        ),
    )
