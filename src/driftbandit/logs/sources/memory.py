"""Logs that other libraries hold in memory: obp's `bandit_feedback` and coba's logged interactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from driftbandit.blemishes import Report
from driftbandit.core import Floats
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.base import vectors
from driftbandit.logs.sources.dsjson import CHANGED
from driftbandit.logs.sources.lines import Row, as_text, flattened, gathered

CONTEXT, ACTION_CONTEXT = "context", "action_context"


def is_obp(source: Any) -> bool:
    """Whether a source looks like obp's dictionary."""
    return isinstance(source, Mapping) and {"n_rounds", "n_actions", "action", "reward"} <= set(source)


class Obp:
    """obp's `bandit_feedback`: arms are called '0', '1', ..., and each of them could be shown in every round.

    Features without an encoder are the rows of `action_context`.
    """

    name = "bandit_feedback"

    def __init__(self, feedback: Mapping[str, Any], batch_rows: int) -> None:
        self._batch_rows = batch_rows
        try:
            self._rounds, self._actions = int(feedback["n_rounds"]), int(feedback["n_actions"])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError("bandit_feedback: expected whole numbers for n_rounds and n_actions") from error
        if self._rounds < 1 or self._actions < 1:
            raise ValueError("bandit_feedback: expected at least one round and one action")
        self._arrays = {
            name: _array(feedback, name, 1, self._rounds)
            for name in ("action", "reward", "pscore", "position")
            if name in ("action", "reward") or feedback.get(name) is not None
        }
        self._context = None if feedback.get(CONTEXT) is None else _array(feedback, CONTEXT, 2, self._rounds)
        arms = feedback.get(ACTION_CONTEXT)
        self._arms = None if arms is None else _array(feedback, ACTION_CONTEXT, 2, self._actions)
        self.roles = frozenset({"arms", "arm", "reward", *(["propensity"] if "pscore" in self._arrays else [])})

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some rounds at a time."""
        for row in range(self._actions):
            facts = {} if self._arms is None else {ACTION_CONTEXT: self._arms[row].tolist()}
            catalogue.describe(str(row), facts)
        names = pa.array([str(row) for row in range(self._actions)])
        for start in range(0, self._rounds, self._batch_rows):
            part = slice(start, min(start + self._batch_rows, self._rounds))
            count = part.stop - part.start
            ends = pa.array(np.arange(count + 1, dtype=np.int32) * self._actions)
            everyone = pa.array(np.tile(np.arange(self._actions), count))
            roles = {
                "arms": pa.ListArray.from_arrays(ends, names.take(everyone)),
                "arm": pa.array(self._arrays["action"][part]),
                "reward": pa.array(self._arrays["reward"][part]),
            }
            if "pscore" in self._arrays:
                roles["propensity"] = pa.array(self._arrays["pscore"][part])
            if self._arms is not None:
                features = vectors(np.tile(self._arms, (count, 1)))
                roles["features"] = pa.ListArray.from_arrays(ends, features)
            context = {}
            if self._context is not None:
                context[CONTEXT] = vectors(self._context[part])
            if "position" in self._arrays:
                context["position"] = pa.array(self._arrays["position"][part])
            yield Piece(roles, context, self.name, np.arange(part.start + 1, part.stop + 1), -1)


def _array(feedback: Mapping[str, Any], name: str, dimensions: int, rows: int) -> Floats:
    shape = f"({rows},)" if dimensions == 1 else f"({rows}, d)"
    try:
        array: Floats = np.asarray(feedback[name], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"bandit_feedback: expected numbers of shape {shape} for {name}") from error
    if array.ndim != dimensions or len(array) != rows or 0 in array.shape:
        raise ValueError(f"bandit_feedback: expected shape {shape} for {name}, got {array.shape}")
    return array


def is_coba(source: Any) -> bool:
    """Whether a source looks like coba's logged interactions, or like an environment that reads them."""
    if isinstance(source, str | bytes | Mapping):
        return False
    first = next(iter(source), None) if isinstance(source, Sequence) else None
    return callable(getattr(source, "read", None)) or (isinstance(first, Mapping) and "action" in first)


class Coba:
    """coba's logged interactions: dictionaries with context, action, reward, probability and actions.

    Arms are known by their action: a word or number as it is, anything else as JSON.
    """

    name = "the interactions"

    def __init__(self, source: Any, batch_rows: int) -> None:
        self._source, self._batch_rows = source, batch_rows
        first = next(iter(self._read()), None)
        if first is None:
            raise ValueError("source: expected logged interactions, got none")
        if not isinstance(first, Mapping) or not {"action", "reward"} <= set(first):
            raise ValueError("source: expected interactions with an action and a reward")
        roles = {"arms": "actions", "propensity": "probability"}
        self.roles = frozenset({"arm", "reward", *(role for role, key in roles.items() if first.get(key) is not None)})

    def _read(self) -> Iterable[Any]:
        return self._source.read() if hasattr(self._source, "read") else self._source  # type: ignore[no-any-return]

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some interactions at a time."""
        yield from gathered(self._rows(report, catalogue), self.name, -1, self._batch_rows)

    def _rows(self, report: Report, catalogue: Catalogue) -> Iterator[Row]:
        for line, interaction in enumerate(self._read(), 1):
            if not isinstance(interaction, Mapping):
                report.lines += 1
                report.skip("not an interaction", self.name, [line])
                continue
            roles = {"arm": as_text(_plain(interaction.get("action"))), "reward": interaction.get("reward")}
            if "propensity" in self.roles:
                roles["propensity"] = interaction.get("probability")
            if "arms" in self.roles:
                given = _plain(interaction.get("actions"))
                actions = given if isinstance(given, list) else []
                roles["arms"] = [as_text(action) for action in actions]
                same = [catalogue.describe(as_text(action), _facts(action)) for action in actions if _facts(action)]
                if not all(same):
                    report.note(CHANGED, self.name, [line])
            yield Row(line, roles, _facts(_plain(interaction.get(CONTEXT)), CONTEXT))


def _plain(value: Any) -> Any:
    """Tuples as lists, and words of any class as plain strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, str) else value


def _facts(value: Any, name: str = "action") -> dict[str, Any]:
    """What a context or an action says: a record by its names, a list of numbers as a vector, else one by one."""
    if isinstance(value, dict):
        return flattened(value) if value else {}
    if isinstance(value, list):
        if all(isinstance(part, int | float) for part in value):
            return {name: [float(part) for part in value]} if value else {}
        return {f"{name}.{place}": part for place, part in enumerate(value)}
    return {} if value is None or name == "action" else {name: value}
