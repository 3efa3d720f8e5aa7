"""Logs that tests make up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ITEMS = {"tea": 3.0, "cup": 8.0, "pot": 20.0, "mug": 6.0}


def rows(count: int = 50, seed: int = 0) -> list[dict]:
    """Decisions as dictionaries: pools of two to four items, propensities that are not uniform."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        pool = rng.permutation(list(ITEMS))[: rng.integers(2, 5)].tolist()
        chances = rng.dirichlet(np.ones(len(pool)))
        shown = int(rng.choice(len(pool), p=chances))
        made.append(
            {
                "time": 100.0 + number,
                "scope": f"user {rng.integers(3)}",
                "decision": f"d{number}",
                "arms": pool,
                "arm": pool[shown],
                "propensity": float(chances[shown]),
                "reward": float(rng.random() < 0.3),
                "device": ["phone", "desk"][rng.integers(2)],
                "age": int(rng.integers(20, 60)),
            }
        )
    return made


def table(count: int = 50, **columns) -> pa.Table:
    """The same as an Arrow table, with some columns replaced, or left out where None."""
    made = pa.Table.from_pylist(rows(count))
    for name, values in columns.items():
        if name in made.column_names:
            made = made.drop_columns([name])
        if values is not None:
            made = made.append_column(name, pa.array(values))
    return made


class Crossed:
    """Stands in for an encoder: price of the arm, age of the person, and their product, from named columns."""

    def encode_many(self, contexts, arms, owners, members):
        age = np.asarray(contexts["age"], dtype=float)[owners]
        price = np.asarray(arms["price"], dtype=float)[members]
        return np.column_stack([price, age, price * age])


def found(log) -> list[tuple]:
    """All decisions of a log, one by one: what any format must agree on."""
    made = []
    for batch in log:
        for at in range(len(batch)):
            pool = [log.arms.ids[row] for row in batch.members[batch.offsets[at] : batch.offsets[at + 1]]]
            made.append(
                (
                    float(batch.times[at]),
                    log.scopes[batch.scopes[at]],
                    tuple(pool),
                    pool[batch.shown[at]],
                    float(batch.propensities[at]),
                    float(batch.rewards[at]),
                )
            )
    return made


def expected(made: list[dict]) -> list[tuple]:
    return [
        (row["time"], row["scope"], tuple(row["arms"]), row["arm"], row["propensity"], row["reward"]) for row in made
    ]
