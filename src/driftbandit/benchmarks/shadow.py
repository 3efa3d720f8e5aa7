"""How fast do policies go through a log? Events a second, and how many times faster than call by call.

``python -m driftbandit.benchmarks.shadow`` runs LinUCB with 25 features and ten candidates through a made-up log in
memory: as `shadow_values` does it, with the reward model, and through `choose` and `learn` alone, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from driftbandit.benchmarks.options import no_options
from driftbandit.logs import Events
from driftbandit.policies.linear.linucb import LinUCB

_BATCH = 10_000


def made_log(events: int, *, dim: int = 25, arms: int = 10, seed: int = 0) -> list[Events]:
    """A uniform log of clicks that follow one taste, in batches.

    >>> [len(batch) for batch in made_log(12_000, dim=2, arms=3)]
    [10000, 2000]
    """
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal(dim)
    batches = []
    for start in range(0, events, _BATCH):
        count = min(_BATCH, events - start)
        features = rng.standard_normal((count * arms, dim)) / dim**0.5
        shown, offsets = rng.integers(arms, size=count), np.arange(0, count * arms + 1, arms)
        rates = 1.0 / (1.0 + np.exp(2.0 - features[offsets[:-1] + shown] @ taste))
        batches.append(
            Events(
                features=features,
                arms=np.tile(np.arange(arms), count),
                offsets=offsets,
                shown=shown,
                propensities=np.full(count, 1.0 / arms),
                rewards=(rng.random(count) < rates).astype(np.float64),
                scopes=np.zeros(count, dtype=np.int64),
                times=np.arange(float(start), float(start + count)),
                rows=np.arange(start, start + count),
            )
        )
    return batches


def measure(events: int = 100_000, turns: int = 5) -> tuple[float, float, float]:
    """Best events a second of LinUCB alone, of LinUCB with both baselines, and of `choose` and `learn` by hand."""
    from driftbandit.evaluation.logged import shadow_values

    log = made_log(events)
    dim = log[0].dim
    ways: tuple[Callable[[], object], ...] = (
        lambda: shadow_values({"linucb": LinUCB(dim)}, log, baselines=False),
        lambda: shadow_values({"linucb": LinUCB(dim)}, log),
        lambda: _by_hand(LinUCB(dim), log),
    )
    best = [0.0, 0.0, 0.0]
    shadow_values({"linucb": LinUCB(dim)}, log[:1])  # compiles
    for _ in range(turns):
        for place, run in enumerate(ways):
            started = time.perf_counter()
            run()
            best[place] = max(best[place], events / (time.perf_counter() - started))
    return best[0], best[1], best[2]


def _by_hand(policy: LinUCB, log: list[Events]) -> None:
    for events in log:
        for event in range(len(events)):
            pool = events.pool(event)
            policy.choose(pool)
            policy.learn(pool[events.shown[event]], float(events.rewards[event]))


if __name__ == "__main__":
    no_options(__doc__)
    alone, everything, by_hand = measure()
    print("LinUCB, 25 features, ten candidates: shadow value with the reward model")
    print(f"  alone                   {alone:>10,.0f} events a second")
    print(f"  with both baselines     {everything:>10,.0f} events a second")
    print(f"  choose and learn only   {by_hand:>10,.0f} events a second, call by call")
    print(f"  ratio                   {alone / by_hand:>10.1f}")
