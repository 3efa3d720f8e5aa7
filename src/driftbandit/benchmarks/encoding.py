"""What encoding costs: 10 arms with 8 columns each and a context of 8 into 64 features, beside DriftUCB at that size.

``python -m driftbandit.benchmarks.encoding`` prints microseconds per decision, all taken in turns in one run, and rows
a second of `encode_many`; with ``--alarms`` also whether a frozen encoder causes alarms of its own.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbandit.core import Floats
from driftbandit.features import Encoder
from driftbandit.policies.choosing_memory.driftucb import DriftUCB

DIM = 64
ARMS = 10
ITEMS = 200
"""Arms in the catalogue."""

POLICY = "DriftUCB, choose + learn"

Record = dict[str, Any]


@dataclass(frozen=True)
class Decisions:
    """Made-up decisions.

    Attributes
    ----------
    contexts : list of dict
        Who asks.
    items : list of dict
        The catalogue.
    pools : array of shape (n, 10)
        Items shown in each decision.
    fresh : list of list of dict
        Pools of as many arms that never come again.
    """

    contexts: list[Record]
    items: list[Record]
    pools: np.ndarray[Any, np.dtype[np.int64]]
    fresh: list[list[Record]]

    @classmethod
    def make(cls, count: int, seed: int = 0) -> Decisions:
        """Draw them: 8 columns on either side, half of them numbers and half categories."""
        rng = np.random.default_rng(seed)
        pools = np.argsort(rng.random((count, ITEMS)), axis=1)[:, :ARMS]
        fresh = [_records(rng, ARMS, "item") for _ in range(count)]
        return cls(_records(rng, count, "user"), _records(rng, ITEMS, "item"), pools, fresh)

    def encoder(self, reduce: Any = "hash") -> Encoder:
        """An encoder fitted to the contexts and the catalogue."""
        return Encoder(dim=DIM, reduce=reduce).fit(self.contexts, arms=self.items)


def _records(rng: np.random.Generator, count: int, prefix: str) -> list[Record]:
    numbers = rng.standard_normal((count, 4))
    words = rng.integers(6, size=(count, 4))
    return [
        {f"{prefix} {place}": float(number) for place, number in enumerate(line)}
        | {f"{prefix} kind {place}": f"word {word}" for place, word in enumerate(row)}
        for line, row in zip(numbers, words, strict=True)
    ]


def measure(count: int = 1000, repeats: int = 20) -> dict[str, Floats]:
    """Microseconds of the processor per decision, one figure for each of several turns."""
    decisions = Decisions.make(count)
    known = [[decisions.items[item] for item in pool] for pool in decisions.pools.tolist()]
    hashed, projected = decisions.encoder(), decisions.encoder("project")
    pools = [hashed.encode(*one) for one in zip(decisions.contexts, known, strict=True)]
    rewards = np.random.default_rng(1).standard_normal(count).tolist()
    policy = DriftUCB(DIM)
    players: dict[str, Callable[[], object]] = {
        POLICY: lambda: _play(policy, pools, rewards),
        "encode, arms of a catalogue": lambda: _encode(hashed, decisions.contexts, known),
        "encode, arms never seen before": lambda: _encode(hashed, decisions.contexts, decisions.fresh),
        "encode, projected": lambda: _encode(projected, decisions.contexts, known),
    }
    spent = {name: np.empty(repeats + 1) for name in players}
    for turn in range(repeats + 1):
        for name, play in players.items():
            start = time.process_time()
            play()
            spent[name][turn] = (time.process_time() - start) / count * 1e6
    return {name: times[1:] for name, times in spent.items()}  # the first turn compiles


def rows_a_second(count: int = 20_000, repeats: int = 3) -> float:
    """Rows that `encode_many` makes a second, at its best."""
    decisions = Decisions.make(count)
    encoder = decisions.encoder()
    contexts = {name: [one[name] for one in decisions.contexts] for name in decisions.contexts[0]}
    items = {name: [one[name] for one in decisions.items] for name in decisions.items[0]}
    owners, members = np.repeat(np.arange(count), ARMS), decisions.pools.ravel()
    spent = np.inf
    for _ in range(repeats + 1):
        start = time.process_time()
        encoder.encode_many(contexts, items, owners, members)
        spent = min(spent, time.process_time() - start)
    return len(members) / spent


def false_alarms(seed: int, rounds: int = 3000) -> dict[str, int]:
    """Alarms of DriftUCB in a world that never changes, on its true features and on what encoders make of raw columns.

    Rewards are linear in products of context and arm. The raw columns are those of a shop, in units from shares to
    cents; the encoders are fitted to the first 200 decisions.
    """
    rng = np.random.default_rng(seed)
    people = rng.standard_normal((rounds, 2))
    devices = rng.integers(3, size=rounds)
    songs = rng.standard_normal((rounds, ARMS, 2))
    genres = rng.integers(4, size=(rounds, ARMS))
    left = np.concatenate([np.ones((rounds, 1)), people, np.eye(3)[devices]], axis=1)
    right = np.concatenate([np.ones((rounds, ARMS, 1)), songs, np.eye(4)[genres]], axis=2)
    true = np.einsum("ti,tkj->tkij", left, right).reshape(rounds, ARMS, -1)
    weights = rng.standard_normal(true.shape[2]) / math.sqrt(true.shape[2])
    rewards = true @ weights + 0.3 * rng.standard_normal((rounds, ARMS))
    contexts = [
        {"income": 31_000 + 9_000 * a, "share": 0.4 + 0.01 * b, "device": f"device {d}"}
        for (a, b), d in zip(people.tolist(), devices.tolist(), strict=True)
    ]
    pools = [
        [
            {"price": 1999 + 450 * x, "seconds": 200 + 35 * y, "genre": f"genre {g}"}
            for (x, y), g in zip(*pool, strict=True)
        ]
        for pool in zip(songs.tolist(), genres.tolist(), strict=True)
    ]
    sample = list(zip(contexts, pools, strict=True))
    played = {"true features": list(true)}
    for name, encoder in (
        ("encoded", Encoder()),
        ("hashed", Encoder(dim=DIM)),
        ("projected", Encoder(dim=DIM, reduce="project")),
    ):
        encoder.fit(sample[:200])
        played[name] = [encoder.encode(*decision) for decision in sample]
    found = {}
    for name, features in played.items():
        policy = DriftUCB(features[0].shape[1])
        for pool, paid in zip(features, rewards, strict=True):
            arm = policy.choose(pool)
            policy.learn(pool[arm], float(paid[arm]))
        found[name] = len(policy.changes)
    return found


def _play(policy: DriftUCB, pools: list[Floats], rewards: list[float]) -> None:
    for pool, reward in zip(pools, rewards, strict=True):
        policy.learn(pool[policy.choose(pool)], reward)


def _encode(encoder: Encoder, contexts: list[Record], pools: list[list[Record]]) -> None:
    for context, pool in zip(contexts, pools, strict=True):
        encoder.encode(context, pool)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarms", action="store_true", help="count the alarms that a frozen encoder causes")
    options = parser.parse_args()
    spent = measure()
    for name, microseconds in spent.items():
        share = np.mean(microseconds / spent[POLICY])
        print(
            f"{name:32} {np.mean(microseconds):7.1f} us  {share:.2f} of DriftUCB's, means of {len(microseconds)} turns"
        )
    print(f"{'encode_many':32} {rows_a_second():,.0f} rows a second")
    if options.alarms:
        totals = sum((Counter(false_alarms(seed)) for seed in range(20)), Counter[str]())
        print("alarms on 20 still worlds: " + ", ".join(f"{name} {totals[name]}" for name in false_alarms(0, 300)))
