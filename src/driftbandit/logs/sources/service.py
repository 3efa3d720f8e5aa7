"""The service's own exports: a log of events, whose decisions and rewards are put together here.

A row has `seq`, `loop`, `shard`, `kind` and the fields of its kind: 'config', 'arms' (a new catalogue), 'decision',
'reward', 'late' (a reward that came too late, and is not used) or 'tick' (reward windows closed). Loops with an encoder
give features by name: a decision then has a `context`, and arms are described by `records`.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from driftbandit.blemishes import Report
from driftbandit.logs.catalogue import Catalogue
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.base import readable
from driftbandit.logs.sources.dsjson import CHANGED
from driftbandit.logs.sources.lines import Objects, Row, flattened, gathered

ROLES = frozenset({"time", "scope", "decision", "arms", "arm", "propensity", "reward"})

MARKS = frozenset({"seq", "loop", "shard", "kind"})
"""Columns by which an export is recognised."""

_KINDS = ("config", "arms", "decision", "reward", "late", "tick")


class Service:
    """Exports as NDJSON or Parquet. Every row is one event; those that are no decision are not counted as rows."""

    roles = ROLES

    def __init__(self, files: list[Path], batch_rows: int, *, parquet: bool) -> None:
        self.name = str(files[0] if len(files) == 1 else files[0].parent)
        self._files, self._batch_rows, self._parquet = files, batch_rows, parquet

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some decisions of every file, in the order in which each shard made them."""
        before = 0
        for file in self._files:
            events: Objects | _ParquetRows = _ParquetRows(file) if self._parquet else Objects(file, report)
            rows = _joined(events, str(file), report, catalogue)
            yield from gathered(rows, str(file), before - 1, self._batch_rows)
            before += events.line


@dataclass
class _ParquetRows:
    """(row, object) of a Parquet file."""

    file: Path
    line: int = 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with readable(str(self.file)), pq.ParquetFile(self.file, pre_buffer=False) as opened:
            for batch in opened.iter_batches(1000, use_threads=False):
                for row in batch.to_pylist():
                    self.line += 1
                    yield self.line, row


def _joined(events: Objects | _ParquetRows, file: str, report: Report, catalogue: Catalogue) -> Iterator[Row]:
    shards: dict[Any, _Join] = {}
    for line, event in events:
        try:
            if event["kind"] not in _KINDS:
                raise ValueError(event["kind"])
            join = shards.setdefault(event["shard"], _Join())
            join.take(line, event)
            same = [catalogue.describe(arm, facts) for arm, facts in _described(event)]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            report.lines += 1
            report.skip("not an event of the service", file, [line])
        else:
            if not all(same):
                report.note(CHANGED, file, [line])
            yield from join.closed()
    for join in shards.values():
        yield from join.closed(everything=True)


def _parsed(value: Any) -> Any:
    """A field that is JSON in Parquet."""
    return json.loads(value) if isinstance(value, str) else value


def _described(event: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Ids and columns of arms that an event of a loop with an encoder describes."""
    records = _parsed(event.get("records"))
    if records is None:
        return []
    ids = event["ids"] if event["kind"] == "arms" else event["arms"]
    return [(str(arm), dict(record)) for arm, record in zip(ids, records, strict=True) if record]


@dataclass(slots=True)
class _Open:
    """A decision that waits for its reward."""

    row: Row
    closed: bool = False


@dataclass
class _Join:
    """Decisions of one shard, with their rewards."""

    ids: list[str] = field(default_factory=list)
    rows: dict[str, list[float]] = field(default_factory=dict)
    default: float | None = None
    dims: dict[int, int | None] = field(default_factory=dict)
    _waiting: deque[_Open] = field(default_factory=deque)
    _open: dict[str, _Open] = field(default_factory=dict)
    _due: list[tuple[int, int, str]] = field(default_factory=list)

    def take(self, line: int, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        kind = event["kind"]
        if kind == "config":
            config = _parsed(event["config"])
            self.default = config.get("default_reward", 0.0)
            self.dims[event["version"]] = config.get("dim")
        elif kind == "arms":
            self.ids = list(event["ids"])
            self.rows = dict(zip(self.ids, event["features"] or [], strict=False))
        elif kind == "decision":
            opened = _Open(self._row(line, event))
            self._waiting.append(opened)
            self._open[event["id"]] = opened
            heapq.heappush(self._due, (event["expires"], line, event["id"]))
        elif kind == "reward":
            self._close(event["id"], event["value"], event["time"] / 1000.0)
        elif kind == "tick":
            while self._due and self._due[0][0] <= event["time"]:
                self._close(heapq.heappop(self._due)[2], self.default)

    def _close(self, key: str, reward: Any, time: float | None = None) -> None:
        opened = self._open.pop(key, None)
        if opened is not None:  # a rewarded decision is still due
            opened.row.roles |= {"reward": reward, "rewarded": time}
            opened.closed = True

    def closed(self, *, everything: bool = False) -> Iterator[Row]:
        """Decisions whose reward is final, up to the first one that is still open, or all of them."""
        while self._waiting and (everything or self._waiting[0].closed):
            yield self._waiting.popleft().row

    def _row(self, line: int, event: Mapping[str, Any]) -> Row:
        arms = list(event["arms"]) if event["arms"] is not None else self.ids
        roles: dict[str, Any] = {
            "time": event["time"] / 1000.0,
            "scope": event["scope"],
            "decision": event["id"],
            "arms": arms,
            "arm": event["arm"],
            "propensity": event["propensity"],
            "reward": None,
            "rewarded": None,
        }
        features = event["features"]
        context = _parsed(event.get("context"))
        if context is not None:
            return Row(line, roles, flattened(context) if context else {})
        if features is None and self.dims.get(event["version"]) is not None:
            features = [self.rows.get(arm) for arm in arms]
        if features is not None:
            roles["features"] = features
        return Row(line, roles)
