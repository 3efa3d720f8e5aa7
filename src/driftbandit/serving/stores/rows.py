"""The rows that a store takes and gives, and the batch of them that one commit makes durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from driftbandit.serving.loop.events import Run
from driftbandit.serving.stores.removals import Blotted, Finished, Forgotten, Pruned, Swept


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop as the store knows it; `config` and `arms` are encoded events."""

    number: int
    name: str
    version: int
    config: bytes
    arms_version: int
    arms: bytes | None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An access key; `digest` is the SHA-256 of its secret.

    `expires` is when it ends, `loops` are the loops that it is for (None: all), `rate` the requests per second that it
    may make (None: the service's own limit).
    """

    id: str
    name: str
    role: str
    digest: bytes
    created: int
    revoked: int | None
    expires: int | None = None
    rate: float | None = None
    loops: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change that a policy detected, numbered within one shard of a loop; `body` is JSON."""

    loop: int
    shard: int
    number: int
    seq: int
    time: int
    scope: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of one shard of a loop after event `seq`.

    `core` is everything but the models, which the store must have already: those of the snapshot are the latest of
    each scope with a number up to `seq`.
    """

    loop: int
    shard: int
    seq: int
    core: bytes


class ModelRow(NamedTuple):
    """The packed state of a scope after event `seq`.

    The store keeps it beside the one that the latest snapshot, after event `saved`, has of this scope.
    """

    loop: int
    shard: int
    role: int
    epoch: int
    scope: str
    seq: int
    state: bytes
    saved: int


class Outdated(NamedTuple):
    """Scopes of a role whose models of epochs before `epoch` go."""

    loop: int
    shard: int
    role: int
    epoch: int
    scopes: list[str]


class Closed(NamedTuple):
    """Decisions of one shard of a loop that closed, as (id, number of the event, reward).

    The store may have some of them already.
    """

    loop: int
    shard: int
    rows: list[tuple[str, int, float | None]]


class Unfinished(NamedTuple):
    """A shard of a loop whose models of events after its latest snapshot go, since no snapshot has them."""

    loop: int
    shard: int


class SizeRow(NamedTuple):
    """How much a loop has of one kind of data: 'events', 'models', 'snapshots', 'closed' or 'changes'."""

    loop: str
    kind: str
    rows: int
    bytes: int


class TallyRow(NamedTuple):
    """What one shard of a loop has counted; `body` is for the processes that do not serve the shard."""

    loop: int
    shard: int
    body: bytes


@dataclass(slots=True)
class Batch:
    """What one commit makes durable."""

    events: list[Run] = field(default_factory=list)
    changes: list[ChangeRow] = field(default_factory=list)
    closed: list[Closed] = field(default_factory=list)
    models: list[ModelRow] = field(default_factory=list)
    outdated: list[Outdated] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    tallies: list[TallyRow] = field(default_factory=list)
    swept: list[Swept] = field(default_factory=list)
    forgotten: list[Forgotten] = field(default_factory=list)
    blotted: list[Blotted] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    pruned: list[Pruned] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__dataclass_fields__)

    @property
    def shards(self) -> set[int]:
        """The shards that it writes to."""
        return {row.shard for name in self.__dataclass_fields__ for row in getattr(self, name)}
