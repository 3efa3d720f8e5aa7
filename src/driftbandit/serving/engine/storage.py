"""Loops to the store and back: what a commit and a snapshot hold, and how a loop is read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from driftbandit.serving.engine.saving import relieve
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Catalogued, Configured
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.loop.scopes import Room
from driftbandit.serving.stores.base import Batch, ChangeRow, Closed, LoopRow, Store, Unfinished

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


def load_loop(store: Store, row: LoopRow, shard: int, room: Room, *, whole_log: bool = False) -> Loop:
    """Read one shard of a loop: its last snapshot, and the events after it.

    Parameters
    ----------
    store, row, shard :
        Where to read, and what.
    room : Room
        How much memory there is.
    whole_log : bool
        Whether to ignore the snapshot and repeat the whole log.
    """
    number = row.number

    def load(role: int, epoch: int, scope: str) -> bytes | None:
        return None if whole_log else store.model(number, shard, role, epoch, scope)

    loop = Loop(row.name, shard, load, room, number)
    snapshot = None if whole_log else store.snapshot(number, shard)
    if snapshot is not None:
        loop.restore(snapshot[1])
    state = loop.state
    loop.outbox.saved_at = state.seq
    if not whole_log:
        store.commit(Batch(unfinished=[Unfinished(number, shard, state.seq)]))
    while True:
        rows = store.events(number, shard, state.seq, _READ)
        for seq, body in rows:
            loop.apply(log.decode(body))
            if state.seq != seq:
                raise RuntimeError(f"loop {row.name!r}: event {state.seq} is missing from the log")
        if len(rows) < _READ:
            break
        if not whole_log:
            relieve(store, loop, room)
    loop.outbox.found.clear()  # the store got these changes together with their events
    return loop


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
        outbox, seq = loop.outbox, loop.state.seq
        outbox.seal(seq)
        if outbox.sealed:
            batch.events += outbox.sealed
            count += seq - outbox.sealed[0].first + 1
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
    outbox.sealed.clear()
    outbox.found.clear()
    loop.known.clear()
    if len(outbox.closed) >= INDEXED:
        loop.forget_closed()
