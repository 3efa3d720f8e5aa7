"""DSJSON: one decision per line, as Vowpal Wabbit's decision service writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driftbandit.blemishes import Report
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.lines import Objects, Row, as_text, flattened, gathered

ROLES = frozenset({"time", "scope", "decision", "arms", "arm", "propensity", "reward"})

CHANGED = "an arm with other features than when it was first seen, which it keeps"


def is_dsjson(record: Mapping[str, Any]) -> bool:
    """Whether an object looks like a line of DSJSON."""
    shared = record.get("c")
    return "_label_cost" in record or "_labelIndex" in record or (isinstance(shared, Mapping) and "_multi" in shared)


class DSJSON:
    """Lines of DSJSON.

    The reward is the negative `_label_cost`. An action is known by its `id`, else its `_tag`, else by all of its
    features as text. A list of numbers `x` is taken as the action's features; other features describe the arm.
    """

    roles = ROLES

    def __init__(self, files: list[Path], batch_rows: int) -> None:
        self.name = str(files[0] if len(files) == 1 else files[0].parent)
        self._files, self._batch_rows = files, batch_rows

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some lines of every file."""
        before = 0
        for file in self._files:
            lines = Objects(file, report)
            rows = self._rows(lines, str(file), report, catalogue)
            yield from gathered(rows, str(file), before - 1, self._batch_rows)
            before += lines.line

    def _rows(self, lines: Objects, file: str, report: Report, catalogue: Catalogue) -> Iterator[Row]:
        for line, record in lines:
            shared = record.get("c")
            actions = shared.get("_multi") if isinstance(shared, Mapping) else None
            if not isinstance(shared, Mapping) or not isinstance(actions, list):
                report.lines += 1
                report.skip("not a decision", file, [line])
                continue
            parts = [_action(action) for action in actions]
            same = [catalogue.describe(arm, facts) for arm, _, facts in parts if facts]
            if not all(same):
                report.note(CHANGED, file, [line])
            yield _row(line, record, shared, parts)


def _row(line: int, record: Mapping[str, Any], shared: Mapping[str, Any], parts: list[Any]) -> Row:
    arms = [arm for arm, _, _ in parts]
    cost = record.get("_label_cost")
    index = record.get("_labelIndex")
    if not isinstance(index, int):
        action = record.get("_label_Action")
        index = action - 1 if isinstance(action, int) else -1
    chances = record.get("p")
    first = chances[0] if isinstance(chances, list) and chances else None
    roles: dict[str, Any] = {
        "time": record.get("Timestamp"),
        "scope": shared.get("scope"),
        "decision": record.get("EventId"),
        "arms": arms,
        "arm": arms[index] if 0 <= index < len(arms) else None,
        "propensity": record.get("_label_probability", first),
        "reward": 0.0 - cost if isinstance(cost, int | float) else cost,
    }
    if any(features is not None for _, features, _ in parts):
        roles["features"] = [features for _, features, _ in parts]
    context = {name: value for name, value in shared.items() if name not in ("_multi", "scope")}
    return Row(line, roles, flattened(context) if context else {})


def _action(action: Any) -> tuple[str, list[Any] | None, dict[str, Any]]:
    """Id, numeric features and other features of an action."""
    if not isinstance(action, Mapping):
        return as_text(action), None, {}
    known = action.get("id", action.get("_tag"))
    features = action.get("x")
    features = features if isinstance(features, list) else None
    facts = {
        name: value
        for name, value in action.items()
        if name not in ("id", "_tag") and not (name == "x" and features is not None)
    }
    return as_text(action if known is None else known), features, flattened(facts) if facts else {}
