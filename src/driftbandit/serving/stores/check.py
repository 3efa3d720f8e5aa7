"""The conformance test of stores: it checks that a store keeps each promise of the protocol."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from driftbandit.serving.loop.events import Run
from driftbandit.serving.loop.windows import ClosedRow
from driftbandit.serving.stores.base import Store, StoreError, VersionConflict
from driftbandit.serving.stores.removals import Swept
from driftbandit.serving.stores.rows import (
    Batch,
    ChangeRow,
    Closed,
    KeyRow,
    ModelRow,
    Outdated,
    Snapshot,
    TallyRow,
    Unfinished,
)


def check_store(make: Callable[[], Store]) -> None:
    """Check that a store keeps its promises; raises AssertionError naming the promise that was broken.

    Parameters
    ----------
    make : callable
        Opens the same store each time, for writing; it must be empty at first.
    """
    store = make()
    assert store.hold().keys() == set(range(store.shards)), "the only process must hold all shards"
    number = _check_loops(store)
    _check_log(store, number)
    _check_snapshots(store, number)
    _check_changes(store, number)
    _check_tallies(store, number)
    _check_keys(store)
    _check_sessions(store)
    _check_deleting(store, number)
    expected = store.events(number, 0, 0, 100)
    store.close()
    store = make()
    store.hold()
    assert store.events(number, 0, 0, 100) == expected, "events must survive closing the store"
    assert store.snapshot(number, 0) == (3, b"core2"), "snapshots must survive closing the store"
    reader = store.reader()
    assert reader.events(number, 0, 0, 100) == expected, "a reader must see what was committed"
    assert reader.hold() == {}, "a reader must hold nothing"
    _refuses(
        lambda: reader.commit(Batch(events=[Run.of(number, 0, 99, [b"\x01"])])), "a reader must not write to the log"
    )
    reader.close()
    store.close()


def _check_loops(store: Store) -> int:
    assert store.loops() == [], "a new store must have no loops"
    row = store.put_loop("a loop ü", 0, b"one")
    assert (row.name, row.version, row.config, row.arms) == ("a loop ü", 1, b"one", None), "a new loop has version 1"
    for expected in (0, 2):
        try:
            store.put_loop("a loop ü", expected, b"two")
        except VersionConflict as error:
            assert error.version == 1, "a conflict must name the version that is there"
        else:
            raise AssertionError(f"expected version {expected} must conflict with 1")
    try:
        store.put_loop("another", 3, b"x")
    except VersionConflict as error:
        assert error.version == 0, "a missing loop has version 0"
    else:
        raise AssertionError("a missing loop must conflict with an expected version")
    assert store.put_loop("a loop ü", 1, b"two").version == 2, "the next version is 2"
    arms = store.put_arms(row.number, b"arms")
    assert (arms.arms_version, arms.arms, arms.version) == (1, b"arms", 2), "arms have versions of their own"
    assert store.loops() == [arms], "loops must list what was put"
    both = store.put_loop("a loop ü", 2, b"three", b"more arms")
    assert (both.version, both.config, both.arms_version, both.arms) == (3, b"three", 2, b"more arms"), "both at once"
    kept = store.put_loop("a loop ü", 3, b"four")
    assert (kept.arms_version, kept.arms) == (2, b"more arms"), "settings alone must leave the arms as they are"
    return row.number


def _check_log(store: Store, number: int) -> None:
    first, second, third, other = (msgspec.msgpack.encode(event) for event in ("a", b"\x00b", ["c"], None))
    store.commit(Batch(events=[Run.of(number, 0, 1, [first, second])]))
    store.commit(Batch(events=[Run.of(number, 0, 3, [third]), Run.of(number + 1, 0, 1, [other])]))
    assert store.events(number, 0, 0, 2) == [(1, first), (2, second)], "events come in order, at most the limit"
    assert store.events(number, 0, 2, 9) == [(3, third)], "events after a number must exclude it"
    assert store.event(number, 0, 2) == second, "one event by number"
    assert store.event(number, 0, 9) is None, "no event, None"
    for wrong in (2, 3, 5):  # twice, twice, a gap
        again = Batch(events=[Run.of(number + 1, 0, 2, [first]), Run.of(number, 0, wrong, [first])])
        _refuses(lambda batch=again: store.commit(batch), "events must follow each other without gaps")  # type: ignore[misc]
    assert len(store.events(number, 0, 0, 9)) == 3, "a failed commit must leave nothing behind"
    assert len(store.events(number + 1, 0, 0, 9)) == 1, "a failed commit must leave nothing behind"


def _check_snapshots(store: Store, number: int) -> None:
    assert store.snapshot(number, 0) is None, "no snapshot, None"
    first = [(0, 1, "ann", 2, b"A1"), (0, 1, "bob", 2, b"B1"), (1, 1, "ann", 2, b"S1")]
    closed: list[tuple[str, int, float | None]] = [("d1", 1, 0.5), ("d2 ü", 2, None)]
    store.commit(Batch(closed=[Closed(number, 0, closed[:1])]))
    store.commit(Batch(models=[ModelRow(number, 0, *row, saved=0) for row in first]))
    store.commit(Batch(closed=[Closed(number, 0, closed)], snapshots=[Snapshot(number, 0, 2, b"core")]))
    assert store.snapshot(number, 0) == (2, b"core"), "the snapshot that was saved"
    assert store.model_scopes(number, 0, 0, 1) == ["ann", "bob"], "models by role and epoch"
    found = store.closed(number, ["d1", "d2 ü", "d3"])
    assert sorted(found, key=lambda row: row.id) == [ClosedRow(number, row[0], 0, *row[1:]) for row in closed], (
        "closed decisions by id"
    )
    assert store.closed(number + 1, ["d1"]) == [], "closed decisions belong to a loop"
    assert store.closed(number, [f"n{i}" for i in range(2000)]) == [], "many unknown ids"
    second = [(0, 1, "ann", 3, b"A2"), (1, 2, "ann", 3, b"S2")]
    store.commit(Batch(models=[ModelRow(number, 0, *row, saved=2) for row in second]))
    assert store.model(number, 0, 0, 1, "ann") == b"A2", "the latest model of a scope"
    assert store.model(number, 0, 0, 1, "ann", 2) == b"A1", "the latest up to an event"
    store.commit(Batch(unfinished=[Unfinished(number, 0)]))
    assert store.model(number, 0, 0, 1, "ann") == b"A1", "what no snapshot has must go, what the last one has must stay"
    store.commit(Batch(models=[ModelRow(number, 0, *row, saved=2) for row in second]))
    store.commit(Batch(snapshots=[Snapshot(number, 0, 3, b"core2")]))
    older = Snapshot(number, 0, 2, b"older")
    _refuses(lambda: store.commit(Batch(snapshots=[older])), "an older snapshot must not replace a newer one")
    assert store.model(number, 0, 0, 1, "ann") == b"A2", "a model must be replaced"
    assert store.model(number, 0, 0, 1, "bob") == b"B1", "a model that did not change must stay"
    assert store.outdated(number, 0, 1, 2, 9) == ["ann"], "scopes with models of earlier epochs"
    store.commit(Batch(outdated=[Outdated(number, 0, 1, 2, ["ann"])]))
    assert store.outdated(number, 0, 1, 2, 9) == [], "models of earlier epochs must go"
    assert store.model(number, 0, 1, 1, "ann") is None, "models of earlier epochs must go"
    assert store.model(number, 0, 1, 2, "ann") == b"S2", "models of this epoch must stay"
    assert store.model(number, 0, 0, 1, "eve") is None, "no model, None"


def _check_changes(store: Store, number: int) -> None:
    rows = [ChangeRow(number, 0, i, i, 1000 + i, "ann" if i < 3 else "bob", b"{}") for i in (1, 2, 3)]
    store.commit(Batch(changes=rows[:2]))
    store.commit(Batch(changes=rows))
    assert store.changes(number, 0, 0, 9) == rows, "changes must be stored once"
    assert store.changes(number, 0, 1, 1) == rows[1:2], "changes after a number, at most the limit"
    assert store.last_changes(number, 2) == rows[1:], "the latest changes, oldest first"
    assert store.last_changes(number, 5, "bob") == [row for row in rows if row.scope == "bob"], "changes of a scope"
    assert store.changed_scopes(number, 5) == [("ann", 2, 1002), ("bob", 1, 1003)], "the most changed scopes"


def _check_tallies(store: Store, number: int) -> None:
    assert store.tallies() == [], "no tallies at first"
    for body in (b"one", b"two"):
        store.commit(Batch(tallies=[TallyRow(number, 0, body)]))
        assert store.tallies() == [TallyRow(number, 0, body)], "the latest tally counts"


def _check_deleting(store: Store, number: int) -> None:
    assert not store.delete_loop("no loop", "k1", 5), "deleting an unknown loop must say so"
    kept = store.put_loop("kept", 0, b"one").number
    gone = store.put_loop("gone", 0, b"one").number
    store.commit(
        Batch(
            events=[Run.of(gone, 0, 1, [b"\x01"])],
            changes=[ChangeRow(gone, 0, 1, 1, 5, "ann", b"{}")],
            closed=[Closed(gone, 0, [("d", 1, None)])],
            models=[ModelRow(gone, 0, 0, 1, "ann", 1, b"A", saved=0)],
            snapshots=[Snapshot(gone, 0, 1, b"core")],
            tallies=[TallyRow(gone, 0, b"one")],
        )
    )
    assert store.delete_loop("gone", "k1", 5), "deleting a loop must say so"
    assert [row.number for row in store.loops()] == [number, kept], "a deleted loop is not listed"
    for _ in range(20):
        assert store.has_rows(gone), "data stays until it is swept"
        store.commit(Batch(swept=[Swept(gone, 0, None)]))
        if not store.has_rows(gone):
            break
    assert not store.has_rows(gone), "sweeping must remove all data of the loop"
    assert store.has_rows(number), "sweeping must not touch other loops"
    assert [row[1:] for row in store.removals(pending=True)] == [(gone, 0, "gone", None, None, "k1", 5, None)], (
        "the record is kept"
    )
    store.commit(Batch(swept=[Swept(gone, 0, 9)]))
    assert [row.done for row in store.removals()] == [9], "the record says when the last data was gone"
    assert store.removals(pending=True) == [], "what is done is not pending"
    again = store.put_loop("gone", 0, b"two").number
    assert again > gone, "a loop of the same name must have a new number"
    store.delete_loop("gone", "k1", 6)


def _check_keys(store: Store) -> None:
    key = KeyRow("k1", "site", "decide", b"\x00hash", 5, None, 99, 2.5, ("a loop ü", "b,c"))
    store.add_key(key)
    _refuses(lambda: store.add_key(key), "a key's id must be taken only once")
    assert store.access_keys() == [key], "keys must list what was added"
    assert not store.revoke_key("k2", 9), "revoking an unknown key must say so"
    assert store.revoke_key("k1", 9), "revoking a key must say so"
    assert store.revoke_key("k1", 11), "revoking again is fine"
    assert store.access_keys()[0].revoked == 9, "the first time counts"


def _check_sessions(store: Store) -> None:
    store.add_session(b"\x00one", "k1", 100, 0)
    assert store.session(b"\x00one", 99) == "k1", "a session must know its key"
    assert store.session(b"\x00one", 100) is None, "a session must end in time"
    assert store.session(b"two", 0) is None, "no session, None"
    store.add_session(b"two", "k2", 300, 150)
    assert store.session(b"\x00one", 0) is None, "sessions that are over must be forgotten"
    store.end_session(b"two")
    assert store.session(b"two", 200) is None, "a session that was ended must be over"
    store.end_session(b"two")


def _refuses(call: Callable[[], object], promise: str) -> None:
    try:
        call()
    except StoreError:
        return
    raise AssertionError(promise)
