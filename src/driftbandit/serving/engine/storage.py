"""Loops to the store and back: what a commit and a snapshot hold, and how a loop is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import AnyEvent, Catalogued, Configured
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Room
from driftbandit.serving.stores.base import LATEST, Damaged, Store
from driftbandit.serving.stores.rows import Batch, ChangeRow, Closed, LoopRow

INDEXED = 2048
"""Closed decisions that go into the store's index together: enough to share its pages, too few for a long pause."""

_READ = 10_000


def settings(row: LoopRow) -> LoopConfig:
    """The settings of a loop as the store knows it."""
    return msgspec.json.decode(configured(row).config, type=LoopConfig)


def configured(row: LoopRow) -> Configured:
    """The settings of a loop as the store knows it, still encoded, and the model with which it begins."""
    event = log.decode(row.config)
    assert isinstance(event, Configured)
    return event


class Source:
    """Where one shard of a loop is read from.

    Called with a role, an epoch and a scope, it reads a packed model, which may be long after the shard was read. The
    shard is read over one connection and used with another, so the store can be replaced.

    Parameters
    ----------
    store : Store
        The store, as the thread that uses this object sees it.
    number, shard : int
        Which loop, and which of its shards.

    Attributes
    ----------
    upto : int
        Models of later events are not read: no snapshot has them, until the shard is served.
    """

    def __init__(self, store: Store, number: int, shard: int) -> None:
        self.store = store
        self.number = number
        self.shard = shard
        self.upto = LATEST

    def __call__(self, role: int, epoch: int, scope: str) -> bytes | None:
        """A packed model, or None if the store has none."""
        return self.store.model(self.number, self.shard, role, epoch, scope, self.upto)


History = Callable[[int, int, int], Iterator[AnyEvent]]
"""Events 1 to a number of a loop's shard that the store no longer has: ``history(loop, shard, upto)``."""


def load_loop(
    source: Source, row: LoopRow, room: Room, *, whole_log: bool = False, history: History | None = None
) -> Loop:
    """Read one shard of a loop: its last snapshot, and the events after it.

    Raises Damaged if the snapshot, or a model or an event that is needed, is not what was written.

    Parameters
    ----------
    source, row : Source, LoopRow
        Where to read, and which loop.
    room : Room
        How much memory there is.
    whole_log : bool
        Whether to ignore snapshot and models and repeat the whole log. No model of the store is read until then.
    history : callable, optional
        Reads old events that went out of the store, for `whole_log`.
    """
    store, number, shard = source.store, source.number, source.shard
    reading = whole_log

    def load(role: int, epoch: int, scope: str) -> bytes | None:
        return None if reading else source(role, epoch, scope)

    loop = Loop(row.name, shard, load, room, number)
    snapshot = None if whole_log else store.snapshot(number, shard)
    source.upto = -1 if snapshot is None else snapshot[0]
    if snapshot is not None:
        try:
            loop.restore(snapshot[1])
        except ValueError as error:  # without a checksum: of an older version
            raise Damaged(f"loop {row.name!r}, shard {shard}: the snapshot ({error})", rest=True) from error
    state = loop.state
    loop.outbox.saved_at = state.seq
    gone = store.pruned(number, shard) if snapshot is None else 0
    if gone and history is None:
        raise RuntimeError(
            f"loop {row.name!r}, shard {shard}: there is no snapshot that can be used, and events 1 to {gone} went out "
            "of the log because they were old; restore a backup, or serve with --archive"
        )
    for event in history(number, shard, gone) if gone and history is not None else ():
        loop.apply(event)
    while rows := store.events(number, shard, state.seq, _READ):
        for seq, body in rows:
            loop.apply(log.decode(body))
            if state.seq != seq:
                raise RuntimeError(f"loop {row.name!r}: event {state.seq} is missing from the log")
    reading = False
    loop.outbox.stored = state.seq
    loop.outbox.found.clear()  # the store got these changes together with their events
    return loop


def load_whole(store: Store, row: LoopRow, shard: int, history: History | None) -> Loop:
    """One shard of a loop as its whole log makes it."""
    return load_loop(Source(store, row.number, shard), row, Room(), whole_log=True, history=history)


def news(loop: Loop, row: LoopRow, now: int) -> list[Configured | Catalogued]:
    """Events that bring a loop up to date with the settings and the catalogue in the store."""
    found: list[Configured | Catalogued] = []
    if loop.state.version != row.version:
        event = configured(row)
        found.append(Configured(now, row.version, event.config, event.model))
    if row.arms is not None and loop.state.arms_version != row.arms_version:
        arms = log.decode(row.arms)
        assert isinstance(arms, Catalogued)
        found.append(msgspec.structs.replace(arms, time=now, version=row.arms_version))
    return found


def lacks_arms(row: LoopRow, arms: Catalogued) -> bool:
    """Whether a loop has no catalogue yet, or one of another kind: numbers where these arms have names."""
    return row.arms is None or type(log.decode(row.arms)) is not type(arms)


def gather(loops: Iterable[Loop]) -> tuple[int, Batch]:
    """What a commit must make durable, and the number of its events."""
    batch = Batch()
    count = 0
    for loop in loops:
        outbox = loop.outbox
        outbox.seal()
        if outbox.sealed:
            batch.events += outbox.sealed
            count += outbox.last - outbox.stored
        if outbox.found:
            batch.changes.extend(change_rows(loop))
        if len(outbox.closed) >= INDEXED:
            batch.closed.append(Closed(loop.number, loop.shard, outbox.closed))
    return count, batch


def change_rows(loop: Loop) -> list[ChangeRow]:
    """The changes that were detected since the last commit, as the store keeps them."""
    rows = []
    for found in loop.outbox.found:
        change = found.change
        body = {
            "kind": change.kind,
            "member": change.member,
            "round": change.round,
            "evidence": dict(change.evidence),
            "weights_before": None if found.before is None else np.frombuffer(found.before).tolist(),
        }
        rows.append(
            ChangeRow(
                loop.number, loop.shard, found.number, found.seq, found.time, found.scope, msgspec.json.encode(body)
            )
        )
    return rows


def committed(loop: Loop) -> None:
    """Forget what a commit has just stored."""
    outbox = loop.outbox
    outbox.stored = outbox.last
    outbox.sealed.clear()
    outbox.found.clear()
    loop.known.clear()
    if len(outbox.closed) >= INDEXED:
        loop.forget_closed()
