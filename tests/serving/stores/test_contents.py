"""What stores keep, beyond the contract of `check_store`: order, limits, and what belongs to whom."""

from __future__ import annotations

import itertools
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from msgspec.msgpack import encode

from driftbandit.serving.stores.base import Fenced, Run, StoreError, VersionConflict
from driftbandit.serving.stores.postgresql import PostgreSQLStore
from driftbandit.serving.stores.rows import (
    Batch,
    ChangeRow,
    Closed,
    KeyRow,
    LoopRow,
    ModelRow,
    Outdated,
    Snapshot,
    Unfinished,
)
from driftbandit.serving.stores.runs import bodies_after, check_order
from driftbandit.serving.stores.sqlite import SQLiteStore


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        opened: Any = SQLiteStore(tmp_path / "a.db")
    else:
        opened = PostgreSQLStore(request.getfixturevalue("database"), shards=3)
        opened.hold()
    yield opened
    opened.close()


def bodies(first: int, last: int) -> list[bytes]:
    return [encode(f"event {seq}") for seq in range(first, last + 1)]


def test_events_of_any_part_of_the_log(store: Any) -> None:
    """Eleven events in four runs, beside those of another loop and another shard."""
    for first, last in ((1, 3), (4, 5), (6, 10), (11, 11)):
        store.commit(Batch(events=[Run.of(1, 0, first, bodies(first, last))]))
    store.commit(Batch(events=[Run.of(2, 0, 1, [encode("other loop")] * 20), Run.of(1, 1, 1, [encode("other")] * 20)]))
    whole = list(zip(range(1, 12), bodies(1, 11), strict=True))
    for after, limit in itertools.product(range(13), range(1, 13)):
        assert store.events(1, 0, after, limit) == whole[after : after + limit], (after, limit)
    assert [store.event(1, 0, seq) for seq in range(1, 12)] == bodies(1, 11)
    assert (store.event(1, 0, 0), store.event(1, 0, 12), store.event(3, 0, 1)) == (None, None, None)
    with pytest.raises(StoreError, match="event 11 of loop 1 does not follow 11"):
        store.commit(Batch(events=[Run.of(1, 0, 11, bodies(11, 11))]))
    with pytest.raises(StoreError, match="event 13 of loop 1 does not follow 11"):
        store.commit(Batch(events=[Run.of(1, 0, 13, bodies(13, 13))]))
    with pytest.raises(StoreError, match="event 3 of loop 4 does not follow 1"):
        store.commit(Batch(events=[Run.of(4, 0, 1, bodies(1, 1)), Run.of(4, 0, 3, bodies(3, 3))]))
    assert store.events(4, 0, 0, 9) == []
    store.commit(
        Batch(events=[Run.of(4, 0, 1, bodies(1, 2)), Run.of(4, 1, 1, bodies(1, 1)), Run.of(4, 0, 3, bodies(3, 3))])
    )
    assert [seq for seq, _ in store.events(4, 0, 0, 9)] == [1, 2, 3]
    assert [seq for seq, _ in store.events(4, 1, 0, 9)] == [1]


def test_large_events_are_read_a_few_at_a_time(store: Any) -> None:
    """Every event is a megabyte; a limit on their number alone would read them all."""
    body = encode(b"x" * (1 << 20))
    for seq in range(1, 21):
        store.commit(Batch(events=[Run.of(5, 0, seq, [body])]))
    found: list[int] = []
    while rows := store.events(5, 0, found[-1] if found else 0, 1_000):
        assert len(rows) <= 9
        found += [seq for seq, _ in rows]
    assert found == list(range(1, 21))
    assert [seq for seq, _ in store.events(5, 0, 7, 2)] == [8, 9]


def test_runs_and_batches() -> None:
    run = Run.of(1, 0, 7, bodies(7, 9))
    assert (run.first, run.last) == (7, 9)
    assert [run.event(seq) for seq in (7, 8, 9)] == bodies(7, 9)
    rows = [(run.first, run.bodies), (10, Run.of(1, 0, 10, bodies(10, 12)).bodies)]
    assert [seq for seq, _ in bodies_after(rows, 6, 99)] == [7, 8, 9, 10, 11, 12]
    assert bodies_after(rows, 8, 2) == [(9, bodies(9, 9)[0]), (10, bodies(10, 10)[0])]
    assert bodies_after([rows[0], (10, b"not read")], 6, 3) == list(zip((7, 8, 9), bodies(7, 9), strict=True))
    check_order([run, Run.of(1, 1, 3, bodies(3, 3)), Run.of(1, 0, 10, bodies(10, 10))], lambda _, shard: 6 - 4 * shard)
    assert not Batch()
    change = ChangeRow(1, 0, 1, 1, 1, "ann", b"{}")
    shot = Snapshot(1, 0, 1, b"")
    for part in ({"events": [run]}, {"changes": [change]}, {"closed": [Closed(1, 0, [])]}, {"snapshots": [shot]}):
        assert Batch(**part)
        assert Batch(**part).shards == {0}
    conflict = VersionConflict(3)
    assert (conflict.version, str(conflict)) == (3, "the loop has version 3")


def test_changes_of_all_shards_by_time(store: Any) -> None:
    def change(shard: int, number: int, time: int, scope: str, loop: int = 1) -> ChangeRow:
        return ChangeRow(loop, shard, number, 10 * number, time, scope, f"{shard}/{number}".encode())

    rows = [
        change(0, 1, 100, "ann"),
        change(0, 2, 300, "bob"),
        change(0, 3, 300, "ann"),
        change(1, 1, 200, "cid"),
        change(1, 2, 300, "cid"),
        change(0, 1, 400, "ann", loop=2),
    ]
    store.commit(Batch(changes=rows))
    in_time = [rows[0], rows[3], rows[1], rows[2], rows[4]]  # of one time: by shard, then by number
    for limit in range(1, 7):
        assert store.last_changes(1, limit) == in_time[-limit:]
    assert store.last_changes(1, 9, "ann") == [rows[0], rows[2]]
    assert store.last_changes(1, 1, "ann") == [rows[2]]
    assert store.last_changes(3, 9) == []
    assert store.changes(1, 0, 0, 9) == rows[:3]
    assert store.changes(1, 0, 1, 9) == rows[1:3]
    assert store.changes(1, 0, 0, 2) == rows[:2]
    assert store.changes(1, 1, 0, 9) == rows[3:5]
    assert [tuple(row) for row in store.changed_scopes(1, 9)] == [("ann", 2, 300), ("cid", 2, 300), ("bob", 1, 300)]
    assert [row[0] for row in store.changed_scopes(1, 2)] == ["ann", "cid"]
    assert [tuple(row) for row in store.changed_scopes(2, 9)] == [("ann", 1, 400)]


def test_models_belong_to_a_loop_a_shard_a_role_and_an_epoch(store: Any) -> None:
    def save(loop: int, shard: int, seq: int, epochs: tuple[int, int], *models: tuple[int, int, str]) -> None:
        states = [(model, f"{loop}{shard}{seq}{model}".encode()) for model in models]
        rows = [ModelRow(loop, shard, *model, seq, state, 0) for model, state in states]
        outdated = [
            Outdated(loop, shard, role, epoch, store.outdated(loop, shard, role, epoch, 99))
            for role, epoch in enumerate(epochs)
        ]
        core = f"core {loop} {shard} {seq}".encode()
        store.commit(Batch(models=rows, outdated=outdated, snapshots=[Snapshot(loop, shard, seq, core)]))

    save(1, 0, 5, (1, 1), (0, 1, "b"), (0, 1, "a"), (1, 1, "a"))
    save(1, 1, 6, (1, 1), (0, 1, "a"))
    save(2, 0, 7, (1, 1), (0, 1, "a"))
    save(1, 0, 8, (3, 1), (0, 3, "a"))
    assert store.snapshot(1, 0) == (8, b"core 1 0 8")
    assert store.snapshot(1, 1) == (6, b"core 1 1 6")
    assert store.snapshot(2, 0) == (7, b"core 2 0 7")
    assert store.snapshot(2, 1) is None
    assert store.model_scopes(1, 0, 0, 1) == [], "models of earlier epochs go"
    assert store.model_scopes(1, 0, 0, 2) == []
    assert store.model_scopes(1, 0, 0, 3) == ["a"]
    assert store.model(1, 0, 1, 1, "a") is not None, "the other role's stay"
    assert store.model(1, 1, 0, 1, "a") is not None, "and the other shard's"
    assert store.model(2, 0, 0, 1, "a") is not None, "and the other loop's"
    save(1, 0, 9, (3, 1), (0, 3, "c"), (0, 3, "b"))
    assert store.model_scopes(1, 0, 0, 3) == ["a", "b", "c"]
    assert store.model(1, 0, 0, 3, "a") == b"108(0, 3, 'a')", "what did not change stays"
    for other in ((1, 0, 0, 2, "a"), (1, 0, 1, 3, "a"), (1, 1, 0, 3, "a"), (2, 0, 0, 3, "a"), (1, 0, 0, 3, "d")):
        assert store.model(*other) is None


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_closed_decisions_in_any_number(store: Any, count: int) -> None:
    rows = [(f"d{number}", number, None if number % 3 == 0 else number / 4) for number in range(1, count + 1)]
    store.commit(Batch(closed=[Closed(1, 2, rows[::-1])]))
    store.commit(Batch(closed=[Closed(1, 2, [(ident, seq, -1.0) for ident, seq, _ in rows])]))  # known: the first stays
    found = store.closed(1, [ident for ident, _, _ in rows])
    assert sorted((row.seq, row.id, row.shard, row.reward) for row in found) == [
        (seq, ident, 2, reward) for ident, seq, reward in rows
    ]
    assert store.closed(2, ["d1"]) == store.closed(1, []) == store.closed(1, ["x"]) == []


def test_keys_in_the_order_of_their_making(store: Any) -> None:
    keys = [
        KeyRow(ident, "n", "read", ident.encode(), created, None) for ident, created in (("b", 5), ("a", 5), ("c", 3))
    ]
    for key in keys:
        store.add_key(key)
    assert [key.id for key in store.access_keys()] == ["c", "a", "b"]
    assert store.revoke_key("a", 7)
    assert store.revoke_key("a", 9)
    assert not store.revoke_key("x", 7)
    assert {key.id: key.revoked for key in store.access_keys()} == {"a": 7, "b": None, "c": None}


def test_loops_in_the_order_of_their_making(store: Any) -> None:
    numbers = [store.put_loop(name, 0, name.encode()).number for name in ("b", "a", "c")]
    assert numbers == sorted(set(numbers))
    changed = store.put_loop("a", 1, b"new")
    assert (changed.number, changed.version, changed.config, changed.arms_version) == (numbers[1], 2, b"new", 0)
    assert store.put_arms(numbers[1], b"one").arms_version == 1
    assert store.put_arms(numbers[1], b"two").arms_version == 2
    found = [(row.name, row.version, row.config, row.arms_version, row.arms) for row in store.loops()]
    assert found == [("b", 1, b"b", 0, None), ("a", 2, b"new", 2, b"two"), ("c", 1, b"c", 0, None)]
    for name, expected, version in (("a", 1, 2), ("a", 0, 2), ("a", 3, 2), ("x", 1, 0)):
        with pytest.raises(VersionConflict) as conflict:
            store.put_loop(name, expected, b"")
        assert conflict.value.version == version
    assert len(store.loops()) == 3


def test_after_a_failure_the_store_works_on(store: Any) -> None:
    number = store.put_loop("x", 0, b"").number
    with pytest.raises(StoreError, match="does not follow"):
        store.commit(Batch(events=[Run.of(number, 0, 1, bodies(1, 1)), Run.of(number, 0, 5, bodies(5, 5))]))
    assert store.events(number, 0, 0, 9) == []
    store.commit(Batch(events=[Run.of(number, 0, 1, bodies(1, 1))]))
    store.reopen()
    store.hold()
    store.commit(Batch(events=[Run.of(number, 0, 2, bodies(2, 2))]))
    assert [seq for seq, _ in store.events(number, 0, 0, 9)] == [1, 2]
    reader = store.reader()
    assert reader.hold() == {}
    assert [seq for seq, _ in reader.events(number, 0, 0, 9)] == [1, 2]
    with pytest.raises(StoreError):
        reader.commit(Batch(events=[Run.of(number, 0, 3, bodies(3, 3))]))
    reader.add_key(KeyRow("k", "n", "read", b"d", 1, None))
    assert [key.id for key in store.access_keys()] == ["k"]
    reader.close()


def test_a_sqlite_file_has_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "deeper" / "a.db"
    with pytest.raises(StoreError, match="there is no store"):
        SQLiteStore(path, create=False)
    store = SQLiteStore(path)
    assert (store.hold(), store.holder(0), store.shards) == ({0: 1}, None, 1)
    readers = [SQLiteStore(path, writer=False, create=False), store.reader()]
    assert [reader.hold() for reader in readers] == [{}, {}]
    for _ in range(2):
        with pytest.raises(StoreError, match="another process is serving from this file"):
            SQLiteStore(path)
        store.reopen()  # keeps the file
        readers[0].reopen()
    store.close()
    again = SQLiteStore(path)
    assert again.hold() == {0: 1}
    again.close()
    assert ((path.parent / "a.db.lock").stat().st_mode & 0o777) == 0o600
    with pytest.raises(ValueError, match="store: expected sqlite:PATH, got no path"):
        SQLiteStore("")


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE zebras (id INTEGER); CREATE TABLE events (id INTEGER)")
    for _ in range(2):  # and the lock is not kept
        with pytest.raises(StoreError, match="the database of another program, with a table 'events'"):
            SQLiteStore(path)
    assert {name for (name,) in other.execute("SELECT name FROM sqlite_master")} == {"zebras", "events"}
    (tmp_path / "text.db").write_text("no database at all, but long enough to be read as one" * 99)
    with pytest.raises(StoreError, match=r"text\.db: SQLite: NotADBError"):
        SQLiteStore(tmp_path / "text.db")


def test_a_postgresql_database_without_a_store_is_left_alone(database: str) -> None:
    with pytest.raises(StoreError, match="there is no store in this database"):
        PostgreSQLStore(database, create=False)
    store = PostgreSQLStore(database, shards=3)
    idle = store.reader()
    assert idle.hold() == {}, "a reader takes nothing, though nobody else has it"
    idle.close()
    assert store.hold() == {0: 1, 1: 1, 2: 1}
    assert store.hold() == {0: 1, 1: 1, 2: 1}
    reader = PostgreSQLStore(database, create=False, writer=False, shards=9)
    assert reader.shards == 3
    reader.close()
    store.close()
    with psycopg.connect(database) as other:
        assert other.execute("SELECT count(*) FROM shards WHERE holder IS NOT NULL").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM processes").fetchone() == (0,)
    again = PostgreSQLStore(database)
    assert again.hold() == {0: 2, 1: 2, 2: 2}, "another holder, another token"
    again._db.close()  # the connection is lost
    again.close()
    with pytest.raises(StoreError, match="PostgreSQL: OperationalError"):
        PostgreSQLStore("postgresql://tester@/postgres?host=/nowhere")


@pytest.mark.parametrize(
    "row",
    [
        LoopRow(1, "x", 1, b"", 0, None),
        KeyRow("k", "n", "read", b"", 1, None),
        ChangeRow(1, 0, 1, 1, 1, "ann", b""),
        Snapshot(1, 0, 1, b""),
    ],
    ids=lambda row: type(row).__name__,
)
def test_rows_are_small_and_cannot_change(row: Any) -> None:
    assert not hasattr(row, "__dict__")
    assert not hasattr(Batch(), "__dict__")
    with pytest.raises(FrozenInstanceError):
        setattr(row, row.__slots__[0], 2)


def test_how_a_sqlite_file_is_written(tmp_path: Path) -> None:
    """A commit must survive a crash of the machine: the log is synced before it ends."""
    store = SQLiteStore(tmp_path / "a.db")
    asked = ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint", "foreign_keys", "user_version")
    found = [next(store._db.execute(f"PRAGMA {name}"))[0] for name in asked]
    assert found == ["wal", 2, 8192, 2000, 1, 0]
    reader = store.reader()
    reader.reopen()
    assert next(store._db.execute("PRAGMA user_version"))[0] == 0
    store.reopen()
    assert next(store._db.execute("PRAGMA user_version"))[0] == 1, "the disk has taken a write"
    store.close()
    reader.close()


def test_a_postgresql_store_has_sixteen_shards_unless_told_otherwise(database: str) -> None:
    store = PostgreSQLStore(database, advertise="http://me")
    assert store.shards == 16
    assert store.holder(15) is None
    assert store.hold() == dict.fromkeys(range(16), 1)
    assert store.holder(15) == "http://me"
    assert store.holder(16) is None
    store.close()


@pytest.mark.parametrize(
    "part",
    [
        {"events": [Run.of(1, 0, 1, [encode("ghost")])]},
        {"changes": [ChangeRow(1, 0, 1, 1, 1, "ann", b"{}")]},
        {"closed": [Closed(1, 0, [("d", 1, None)])]},
        {"models": [ModelRow(1, 0, 0, 1, "ann", 1, b"", 0)]},
        {"outdated": [Outdated(1, 0, 0, 1, ["ann"])]},
        {"unfinished": [Unfinished(1, 0)]},
        {"snapshots": [Snapshot(1, 0, 1, b"")]},
    ],
    ids=lambda part: next(iter(part)),
)
def test_nothing_is_written_to_a_shard_that_is_not_held(database: str, part: dict[str, Any]) -> None:
    store = PostgreSQLStore(database, shards=2)
    with pytest.raises(Fenced, match=r"shards \[0\] are no longer all held by this process"):
        store.commit(Batch(**part))
    store.hold()
    store.commit(Batch(**part))
    store.close()
