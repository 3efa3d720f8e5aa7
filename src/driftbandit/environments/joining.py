"""Several logs as one: what was read day by day, put together as if it had been read in one go."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats
from driftbandit.environments.log import Log
from driftbandit.environments.log_checks import Rows

_EVENTS = ("times", "pools", "shown", "rewards", "users")


class ChangedArticleError(ValueError):
    """An article has other features in one log than in another."""


def joined(logs: Sequence[Log]) -> Log:
    """One log with the events of several, in order; every article and candidate set is kept once.

    Parameters
    ----------
    logs : sequence of Log
        At least one, all without propensities. The result is uniform if all of them are.

    Raises
    ------
    ChangedArticleError
        If the logs disagree about an article's features.

    Examples
    --------
    >>> one = {"features": [[1.0], [2.0]], "pool_offsets": [0, 2], "pool_members": [0, 1], "times": [60], "pools": [0]}
    >>> one |= {"shown": [0], "rewards": [1.0], "users": [[0.5]]}
    >>> first, second = Log(articles=[7, 8], **one), Log(articles=[9, 7], **one | {"features": [[3.0], [1.0]]})
    >>> log = joined([first, second])
    >>> log.articles.tolist(), log.features.tolist(), log.pool_members.tolist(), log.pools.tolist()
    ([7, 8, 9], [[1.0], [2.0], [3.0]], [0, 1, 2, 0], [0, 1])
    """
    if not logs or any(log.propensities is not None for log in logs):
        raise ValueError(f"logs: expected at least one, and none with propensities, got {len(logs)}")
    count = sum(len(log) for log in logs)
    events: dict[str, NDArray[Any]] = {
        name: np.empty((count, *getattr(logs[0], name).shape[1:]), dtype=getattr(logs[0], name).dtype)
        for name in _EVENTS
    }
    rows: dict[int, int] = {}
    features: list[Floats] = []
    pools: dict[bytes, int] = {}
    at = 0
    for log in logs:
        numbers = _pools_of(log, _rows_of(log, rows, features), pools)
        part = slice(at, at + len(log))
        for name, column in events.items():
            column[part] = numbers[log.pools] if name == "pools" else getattr(log, name)
        at += len(log)
    members = [np.frombuffer(pool, dtype=np.int32) for pool in pools]
    return Log(
        articles=np.array([*rows], dtype=np.int64),
        features=np.array(features).reshape(len(rows), logs[0].dim),
        pool_offsets=np.append(0, np.cumsum([len(pool) for pool in members], dtype=np.int64)),
        pool_members=np.concatenate([np.empty(0, dtype=np.int32), *members]),
        uniform=all(log.uniform for log in logs),
        **events,
    )


def _rows_of(log: Log, rows: dict[int, int], features: list[Floats]) -> Rows:
    """Row of each of a log's articles in the joined log, which gets those that are new to it."""
    for article, known in zip(log.articles.tolist(), log.features, strict=True):
        row = rows.setdefault(article, len(rows))
        if row == len(features):
            features.append(known)
        elif not np.array_equal(features[row], known):
            raise ChangedArticleError(f"logs: expected the same features of article {article} in all of them")
    return np.array([rows[article] for article in log.articles.tolist()], dtype=np.int32)


def _pools_of(log: Log, rows: Rows, pools: dict[bytes, int]) -> Rows:
    """Number of each of a log's candidate sets in the joined log, which gets those that are new to it."""
    members = rows[log.pool_members]
    edges = itertools.pairwise(log.pool_offsets.tolist())
    numbers = [pools.setdefault(members[start:stop].tobytes(), len(pools)) for start, stop in edges]
    return np.array(numbers, dtype=np.int32)
