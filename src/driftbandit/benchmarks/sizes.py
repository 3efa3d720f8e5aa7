"""The cost of one more scope in the decision service: bytes of memory and of disk.

``python -m driftbandit.benchmarks.sizes`` prints the table of docs/service.md. Nothing in it depends on the machine's
speed.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.benchmarks.options import no_options
from driftbandit.serving.loop.config import LoopConfig, Plan, builder
from driftbandit.serving.loop.slab import Slab, pack
from driftbandit.serving.stores.rows import Batch, ModelRow
from driftbandit.serving.stores.sqlite import SQLiteStore

CASES = (
    ("linucb", 6, 300),
    ("linucb", 25, 300),
    ("dlinucb", 6, 300),
    ("dlinucb", 25, 300),
    ("driftucb", 6, 300),
    ("driftucb", 25, 1),
    ("driftucb", 25, 10),
    ("driftucb", 25, 50),
    ("driftucb", 25, 99),
    ("driftucb", 25, 300),
)
"""Policies, their features, and how many rewards a scope has learned."""

_BYTES = 64 << 20  # bytes of states: enough for shared costs to become negligible


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of one scope.

    Attributes
    ----------
    state : int
        The numbers of its model, as a policy object has them.
    memory : float
        Bytes of memory when packed: the numbers that must be kept, its name, and its place among the others.
    store : float
        Bytes in a SQLite file, after a snapshot.
    """

    state: int
    memory: float
    store: float


def taught(policy: str, dim: int, rewards: int) -> Any:
    """A scope's model after so many rewards that follow one taste."""
    model = builder(LoopConfig(policy=policy, dim=dim, scoped=True), Plan(policy))()
    rng = np.random.default_rng(0)
    taste = rng.standard_normal(dim) / dim**0.5
    for _ in range(rewards):
        pool = rng.standard_normal((10, dim)) / dim**0.5
        x = pool[model.choose(pool, None)]
        model.learn(x, float(x @ taste + 0.1 * rng.standard_normal()), None)
    return model


def measure(policy: str, dim: int, rewards: int, total: int = _BYTES) -> Cost:
    """Keep many copies of a state, about `total` bytes in all, and measure the space used.

    >>> cost = measure("linucb", 6, 300, total=1 << 18)
    >>> cost.state == 8 * (6 * 6 + 1) < cost.memory
    True
    """
    model = taught(policy, dim, rewards)
    state = sum(array.nbytes for array in model.state().values())
    data = pack(model.short_state() or model.state())
    names = [f"user-{number:08}" for number in range(max(100, total // len(data)))]
    return Cost(state, _memory(names, data), _disk(names, data))


def _memory(names: list[str], data: bytes) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        slab = Slab()
        for name in names:
            slab.put("".join(name), data)  # a name of its own
        return tracemalloc.get_traced_memory()[0] / len(names)
    finally:
        tracemalloc.stop()


def _disk(names: list[str], data: bytes) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        sizes = []
        for rows in ([], [ModelRow(1, 0, 0, 1, name, 1, data, saved=0) for name in names]):
            store = SQLiteStore(path)
            store.commit(Batch(models=rows))
            store.close()  # moves everything from the write-ahead log into the file
            sizes.append(path.stat().st_size)
    return (sizes[1] - sizes[0]) / len(names)


def table() -> str:
    """The costs as Markdown."""
    lines = [
        "| policy | features | rewards | bytes of its numbers | of memory | in SQLite | a million in memory |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for policy, dim, rewards in CASES:
        cost = measure(policy, dim, rewards)
        lines.append(
            f"| `{policy}` | {dim} | {rewards} | {cost.state:,} | {cost.memory:,.0f} | {cost.store:,.0f} "
            f"| {cost.memory / 1e3:.1f} GB |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    no_options(__doc__)
    print(table())
