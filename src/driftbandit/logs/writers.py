"""Logs for other programs: obp's dictionary, DSJSON, NDJSON and Parquet."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from driftbandit.files import whole_file
from driftbandit.logs.decisions import EVERYONE, Decisions
from driftbandit.logs.log import DecisionLog
from driftbandit.logs.sources.base import vectors
from driftbandit.logs.sources.memory import ACTION_CONTEXT, CONTEXT


def write_obp(log: DecisionLog) -> dict[str, Any]:
    """A log as obp's `bandit_feedback`, which holds everything in memory.

    Arms get numbers in the order of `log.arms.ids`. A column 'context' of equally long lists becomes obp's context;
    without one, the numeric columns do, in the order of the log.

    Raises
    ------
    ValueError
        If not every arm could be shown every time, which obp cannot say, or the context has no numbers.

    Examples
    --------
    >>> from driftbandit.logs import read_log
    >>> feedback = {
    ...     "n_rounds": 2, "n_actions": 3, "context": [[0.1], [0.2]], "action": [2, 0], "position": None,
    ...     "reward": [1.0, 0.0], "pscore": [0.5, 0.25], "action_context": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    ... }
    >>> back = write_obp(read_log(feedback))
    >>> back["action"].tolist(), back["pscore"].tolist(), back["context"].tolist()
    ([2, 0], [0.5, 0.25], [[0.1], [0.2]])
    """
    batches = list(log)
    arms = len(log.arms)
    for found in batches:
        if (np.diff(found.offsets) != arms).any():
            row = found.rows[(np.diff(found.offsets) != arms).argmax()]
            raise ValueError(f"log: obp expects all {arms} arms in every pool, got fewer in row {row}")
    contexts = [_matrix(found) for found in batches]
    if len({context.shape[1] for context in contexts}) > 1:
        raise ValueError("log: obp expects as many numbers of context in every row")
    described = log.arms.columns().get(ACTION_CONTEXT)
    positions = [found.contexts["position"] for found in batches if "position" in found.contexts]
    return {
        "n_rounds": sum(map(len, batches)),
        "n_actions": arms,
        "context": np.concatenate(contexts),
        "action_context": np.eye(arms, dtype=int) if described is None else np.array(described, dtype=np.float64),
        "action": np.concatenate([found.displayed() for found in batches]),
        "position": np.concatenate(positions).astype(np.int64) if len(positions) == len(batches) else None,
        "reward": np.concatenate([found.rewards for found in batches]),
        "expected_reward": None,
        "pi_b": None,
        "pscore": np.concatenate([found.propensities for found in batches]),
    }


def _matrix(found: Decisions) -> Any:
    """Context as numbers: the column of that name, or all numeric columns."""
    try:
        if CONTEXT in found.contexts:
            matrix = np.array(list(found.contexts[CONTEXT]), dtype=np.float64)
            return matrix if matrix.ndim == 2 else matrix[:, None]
        numeric = [
            values
            for name, values in found.contexts.items()
            if isinstance(values, np.ndarray) and values.dtype == np.float64 and name != "position"
        ]
        return np.column_stack(numeric) if numeric else np.ones((len(found), 1))
    except (TypeError, ValueError) as error:
        raise ValueError("log: obp expects a context of equally many numbers in every row") from error


def write_dsjson(log: DecisionLog, path: str | os.PathLike[str]) -> None:
    """Write a log as DSJSON, one decision per line, whole or not at all.

    DSJSON has the probability of every arm of a pool, and most logs have only that of the arm that was shown: the rest
    is spread evenly over the others, and Vowpal Wabbit does not learn from it. Times are rounded to microseconds.
    """
    with whole_file(path) as partial, open(partial, "w", encoding="utf-8") as file:
        for found in log:
            for line in _dsjson(log, found):
                file.write(json.dumps(line, default=str) + "\n")


def _dsjson(log: DecisionLog, found: Decisions) -> Iterator[dict[str, Any]]:
    facts = {name: values for name, values in log.arms.columns().items() if name != "id"}
    ids = [f"row {row}" for row in found.rows.tolist()] if found.ids is None else found.ids.to_pylist()
    for at, (start, end) in enumerate(zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)):
        shown, chance, size = int(found.shown[at]), float(found.propensities[at]), end - start
        pool = []
        for place in range(start, end):
            row = int(found.members[place])
            action: dict[str, Any] = {"id": log.arms.ids[row]}
            action |= _present({name: values[row] for name, values in facts.items()})
            if found.features is not None:
                action["x"] = found.features[place].tolist()
            pool.append(action)
        rest = (1.0 - chance) / (size - 1) if size > 1 else 0.0
        context = _present({name: values[at] for name, values in found.contexts.items()})
        scope = log.scopes[int(found.scopes[at])]
        yield {
            "_label_cost": 0.0 - float(found.rewards[at]),
            "_label_probability": chance,
            "_label_Action": shown + 1,
            "_labelIndex": shown,
            "Timestamp": _iso(float(found.times[at])),
            "Version": "1",
            "EventId": ids[at],
            "a": [shown + 1, *(place + 1 for place in range(size) if place != shown)],
            "p": [chance, *[rest] * (size - 1)],
            "c": ({} if scope == EVERYONE else {"scope": scope}) | context | {"_multi": pool},
        }


def _present(facts: dict[str, Any]) -> dict[str, Any]:
    """What is not missing, as types that JSON has."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}
    return {
        name: value
        for name, value in plain.items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"log: DSJSON expects times from year 1 to 9999, got {seconds} seconds since 1970") from error


def write_table(log: DecisionLog, path: str | os.PathLike[str]) -> None:
    """Write the usable decisions of a log to a Parquet file that `read_log` reads, whole or not at all.

    Columns of context keep their names and the types of the first batch.
    """
    with whole_file(path) as partial:
        writer = None
        try:
            for found in log:
                table = _table(log, found)
                if writer is None:
                    writer = pq.ParquetWriter(partial, table.schema)
                writer.write_table(table.cast(writer.schema))
        except pa.ArrowException as error:
            raise ValueError(f"log: expected columns of one type throughout ({error})") from error
        finally:
            if writer is not None:
                writer.close()


def _table(log: DecisionLog, found: Decisions) -> Any:
    ids = pa.array(log.arms.ids)
    offsets = pa.array(found.offsets, pa.int32())
    columns: dict[str, Any] = {
        "time": pa.array(found.times),
        "scope": pa.array(log.scopes).take(pa.array(found.scopes)),
        "arms": pa.ListArray.from_arrays(offsets, ids.take(pa.array(found.members))),
        "arm": ids.take(pa.array(found.displayed())),
        "propensity": pa.array(found.propensities),
        "reward": pa.array(found.rewards),
    }
    if found.ids is not None:
        columns["decision"] = found.ids
    if found.features is not None:
        columns["features"] = pa.ListArray.from_arrays(offsets, vectors(found.features))
    clash = set(columns) & set(found.columns)
    if clash:
        raise ValueError(f"log: a column of the context is called {min(clash)!r}, as one of the log's own")
    return pa.table(columns | dict(found.columns))
