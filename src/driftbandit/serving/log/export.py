"""The log in formats for other programs: lines of JSON, Parquet, and the decision-service JSON of Vowpal Wabbit."""

from __future__ import annotations

import heapq
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from driftbandit.serving.engine.messages import iso
from driftbandit.serving.log.tables import parquet_pieces
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import (
    AnyEvent,
    Catalogued,
    Configured,
    Decided,
    Erasure,
    Late,
    NamedArms,
    NamedDecision,
    Record,
    Rewarded,
    Ticked,
)
from driftbandit.serving.loop.randomness import chance
from driftbandit.serving.stores.base import Store

_READ = 2_000
_PIECE = 256 << 10
"""About how many bytes are sent at a time."""
_PLAIN: dict[str, Any] = {name: kind for kind, name in log.KINDS.items() if kind not in (NamedArms, NamedDecision)}
_NAMED = {"arms": (NamedArms, "records"), "decision": (NamedDecision, "context")}
"""Kinds of events that loops with an encoder have in a form of their own, and the field that tells."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to export: those after a number, of one shard of a loop or of all."""

    loop: str
    number: int
    shard: int | None = None
    after: int = 0


def read_log(open_reader: Callable[[], Store], wanted: Wanted) -> Generator[tuple[int, int, AnyEvent, int], None, None]:
    """(shard, seq, event, bytes in the store) of the wanted events, shard after shard."""
    store = open_reader()
    try:
        for shard in range(store.shards) if wanted.shard is None else [wanted.shard]:
            after = wanted.after
            while rows := store.events(wanted.number, shard, after, _READ):
                for seq, body in rows:
                    yield shard, seq, log.decode(body), len(body)
                after = rows[-1][0]
    finally:
        store.close()


def as_row(seq: int, name: str, shard: int, event: AnyEvent) -> dict[str, Any]:
    """An event as a dictionary, with features as rows of numbers; features by name are in `context` and `records`."""
    row: dict[str, Any] = {"seq": seq, "loop": name, "shard": shard, "kind": log.KINDS[type(event)]}
    for field in event.__struct_fields__:
        row[field] = getattr(event, field)
    if isinstance(event, Configured):
        row["config"] = msgspec.json.decode(event.config)
        if event.model is None:
            del row["model"]
        else:
            row["model"] = b64encode(event.model).decode()
    elif isinstance(event, Erasure):
        row["tally"] = b64encode(event.tally).decode()
        row["models"] = [[role, b64encode(model).decode()] for role, model in event.models]
    elif isinstance(event, Catalogued | Decided) and event.features is not None:
        count = len(event.ids if isinstance(event, Catalogued) else event.arms or [])
        row["features"] = np.frombuffer(event.features).reshape(count, -1).tolist()
    return row


def from_row(row: dict[str, Any]) -> AnyEvent:
    """The event of an exported row; raises ValueError, TypeError or KeyError if the row is no event."""
    kind = _PLAIN.get(row["kind"])
    if kind is None:
        raise ValueError(f"kind: expected one of {', '.join(_PLAIN)}, got {row['kind']!r}")
    named, field = _NAMED.get(row["kind"], (kind, ""))
    if row.get(field) is not None:
        kind = named
    if kind is Configured:
        row = {"model": None, **row}
    values = {field: row[field] for field in kind.__struct_fields__}
    if kind is Configured:
        config = msgspec.convert(row["config"], LoopConfig)
        values["config"] = msgspec.json.encode(config)
        if row["model"] is not None:
            values["model"] = b64decode(row["model"], validate=True)
    elif kind is Erasure:
        values["tally"] = b64decode(row["tally"], validate=True)
        values["models"] = [(role, b64decode(model, validate=True)) for role, model in row["models"]]
    elif issubclass(kind, Catalogued | Decided) and row["features"] is not None:
        values["features"] = np.array(row["features"], dtype=np.float64).tobytes()
    tag = kind.__struct_config__.tag
    event: AnyEvent = msgspec.convert([tag, *values.values()], kind)  # unlike kind(), this checks types
    if isinstance(event, Rewarded | Late) and not math.isfinite(event.value):
        raise ValueError(f"value: expected a finite number, got {event.value}")
    return event


def ndjson(open_reader: Callable[[], Store], wanted: Wanted) -> Generator[bytes]:
    """One event per line, as JSON."""
    encode = msgspec.json.Encoder().encode
    return _pieces(
        encode(as_row(seq, wanted.loop, shard, event)) for shard, seq, event, _ in read_log(open_reader, wanted)
    )


def _pieces(lines: Iterable[bytes]) -> Generator[bytes]:
    """Lines, some hundred kilobytes at a time."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _PIECE:
            yield b"\n".join(held) + b"\n"
            held, size = [], 0
    if held:
        yield b"\n".join(held) + b"\n"


def parquet(open_reader: Callable[[], Store], wanted: Wanted) -> Generator[bytes]:
    """One event per row; columns that an event does not have are null."""
    found = read_log(open_reader, wanted)
    return parquet_pieces((as_row(seq, wanted.loop, shard, event), size) for shard, seq, event, size in found)


def dsjson(open_reader: Callable[[], Store], wanted: Wanted) -> Generator[bytes]:
    """One decision per line, with its reward once that is final; decisions that are still open have no label."""
    return _pieces(_decision_lines(open_reader, wanted))


def _decision_lines(open_reader: Callable[[], Store], wanted: Wanted) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    whole = replace(wanted, after=0)  # rewards and catalogues may have come before
    for _, events in groupby(read_log(open_reader, whole), itemgetter(0)):
        join = Join()
        closed = (one for _, seq, event, _ in events for one in join.add(seq, event))
        for at, decision, reward in chain(closed, _rest_of(join)):
            if at > wanted.after:
                yield encode(_dsjson(join, decision, reward))


def _rest_of(join: Join) -> Iterator[tuple[int, Pooled, float | None]]:
    """What is still open when this is first asked for."""
    yield from join.rest()


class Join:
    """Puts decisions and their rewards together, reading a log from its start."""

    def __init__(self) -> None:
        self.config = LoopConfig(policy="random")
        self.configs: dict[int, LoopConfig] = {}
        self.catalogue: dict[str, Features] = {}
        self.ids: list[str] = []
        self._open: dict[str, tuple[int, Decided, dict[str, Features], list[str]]] = {}
        self._due: list[tuple[int, int, str]] = []
        self._rewards: dict[str, float] = {}

    def add(self, seq: int, event: AnyEvent) -> Iterable[tuple[int, Pooled, float | None]]:
        """Take an event; returns (seq, decision, reward) of the decisions that it closes."""
        if isinstance(event, Configured):
            self.config = msgspec.json.decode(event.config, type=LoopConfig)
            self.configs[event.version] = self.config
        elif isinstance(event, Catalogued):
            self.ids = event.ids
            self.catalogue = {}
            if isinstance(event, NamedArms):
                self.catalogue = dict(zip(event.ids, event.records, strict=True))
            elif event.features is not None:
                rows = np.frombuffer(event.features).reshape(len(event.ids), -1).tolist()
                self.catalogue = dict(zip(event.ids, rows, strict=True))
        elif isinstance(event, Decided):
            self._open[event.id] = seq, event, self.catalogue, self.ids
            heapq.heappush(self._due, (event.expires, seq, event.id))
        elif isinstance(event, Rewarded):
            self._rewards[event.id] = event.value
        elif isinstance(event, Ticked):
            due = []
            while self._due and self._due[0][0] <= event.time:
                due.append(heapq.heappop(self._due)[2])
            return [self._close(key, self.config.default_reward) for key in due]
        elif isinstance(event, Late):
            pass
        return ()

    def rest(self) -> Iterable[tuple[int, Pooled, float | None]]:
        """The decisions that are still open at the end."""
        return [self._close(key, None) for key in list(self._open)]

    def _close(self, key: str, default: float | None) -> tuple[int, Pooled, float | None]:
        seq, event, catalogue, ids = self._open.pop(key)
        arms = ids if event.arms is None else event.arms
        features: Sequence[Features] | None = None
        if isinstance(event, NamedDecision):
            features = event.records or [catalogue.get(arm, {}) for arm in arms]
        elif event.features is not None:
            features = np.frombuffer(event.features).reshape(len(arms), -1).tolist()
        elif self.configs[event.version].dim is not None:
            features = [catalogue[arm] for arm in arms]
        return seq, Pooled(event, arms, features), self._rewards.pop(key, default)


Features = list[float] | Record
"""An arm's features: numbers, or by name."""


class Pooled(msgspec.Struct, frozen=True):
    """A decision with the ids and features of its pool."""

    event: Decided
    arms: Sequence[str]
    features: Sequence[Features] | None


def probabilities(event: Decided, config: LoopConfig, size: int) -> list[float]:
    """The probability with which each arm of the pool was drawn."""
    return [chance(event.votes, config.floor, size, arm) for arm in range(size)]


def _dsjson(join: Join, decision: Pooled, reward: float | None) -> dict[str, Any]:
    event, size = decision.event, len(decision.arms)
    chances = probabilities(event, join.configs[event.version], size)
    order = [event.index, *(arm for arm in range(size) if arm != event.index)]
    shared: Record = dict(event.context) if isinstance(event, NamedDecision) else {}
    if event.scope is not None:
        shared["scope"] = event.scope
    described = [features if isinstance(features, dict) else {"x": features} for features in decision.features or ()]
    pool = [{"id": arm} | more for arm, more in zip(decision.arms, described or [{}] * size, strict=True)]
    line: dict[str, Any] = {}
    if reward is not None:
        line["_label_cost"] = 0.0 - reward  # 0 and not -0
    line |= {
        "_label_probability": event.propensity,
        "_label_Action": event.index + 1,
        "_labelIndex": event.index,
        "Timestamp": iso(event.time).replace("Z", "0000Z"),
        "Version": "1",
        "EventId": event.id,
        "a": [arm + 1 for arm in order],
        "p": [chances[arm] for arm in order],
        "c": shared | {"_multi": pool},
        "VWState": {"m": f"{event.version}.{event.learned}"},
    }
    return line


FORMATS: dict[str, Callable[[Callable[[], Store], Wanted], Generator[bytes]]] = {
    "ndjson": ndjson,
    "parquet": parquet,
    "dsjson": dsjson,
}
MEDIA_TYPES = {
    "ndjson": b"application/x-ndjson",
    "parquet": b"application/vnd.apache.parquet",
    "dsjson": b"application/x-ndjson",
}
