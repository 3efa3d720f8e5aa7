from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest
from msgspec.msgpack import encode

from driftbandit.serving.loop.events import Run
from driftbandit.serving.stores.base import Batch, Fenced, StoreError
from driftbandit.serving.stores.check import check_store
from driftbandit.serving.stores.leases import ALONE
from driftbandit.serving.stores.postgresql import PostgreSQLStore
from driftbandit.serving.stores.sqlite import SQLiteStore


def test_sqlite_keeps_the_contract(tmp_path: Path) -> None:
    check_store(lambda: SQLiteStore(tmp_path / "deep" / "a.db"))


def test_postgresql_keeps_the_contract(database: str) -> None:
    check_store(lambda: PostgreSQLStore(database))


def test_sqlite_has_one_writer(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    with pytest.raises(StoreError, match="another process is serving"):
        SQLiteStore(tmp_path / "a.db")
    store.close()
    SQLiteStore(tmp_path / "a.db").close()


def test_check_store_notices_a_store_that_forgets(tmp_path: Path) -> None:
    class Forgetful(SQLiteStore):
        def commit(self, batch: Batch) -> None:
            batch.changes = batch.changes[:-1]
            super().commit(batch)

    with pytest.raises(AssertionError, match="changes must be stored once"):
        check_store(lambda: Forgetful(tmp_path / "a.db"))


def test_processes_share_the_shards_and_inherit_from_the_dead(database: str) -> None:
    first = PostgreSQLStore(database, shards=5)
    assert set(first.hold()) == set(range(5))
    second = PostgreSQLStore(database, advertise="http://second")
    assert second.hold() == {}  # nothing is free yet
    assert len(first.hold()) == 3  # the fair share of five between two
    mine = second.hold()
    assert len(mine) == 2
    shard = next(iter(mine))
    assert first.holder(shard) == "http://second"
    second._db.close()  # as if it had crashed: no goodbye, no lease waited for
    deadline = time.monotonic() + 4.0  # less than the lease
    while set(first.hold()) != set(range(5)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.close()


def test_a_holder_that_overslept_is_fenced_out(database: str) -> None:
    sleeper = PostgreSQLStore(database, shards=2, lease=0.2)
    before = sleeper.hold()
    number = sleeper.put_loop("x", 0, b"").number
    sleeper.commit(Batch(events=[Run.of(number, 0, 1, [encode("one")])]))
    heir = PostgreSQLStore(database, lease=60.0)
    with psycopg.connect(database, autocommit=True) as other:  # the lease ends while its holder sleeps
        other.execute("UPDATE shards SET expires = now() - interval '1 second'")
        other.execute("DELETE FROM processes")
    after = heir.hold()
    assert set(after) == {0, 1}
    assert all(after[shard] > before[shard] for shard in after)
    heir.commit(Batch(events=[Run.of(number, 0, 2, [encode("heir")])]))
    with pytest.raises(Fenced):
        sleeper.commit(Batch(events=[Run.of(number, 0, 3, [encode("ghost")])]))
    assert [body for _, body in heir.events(number, 0, 0, 9)] == [encode("one"), encode("heir")]
    assert sleeper.hold() == {}
    heir.close()
    sleeper.close()


@pytest.mark.parametrize("statement", ["SELECT pg_advisory_xact_lock(%s)", "SELECT shard FROM shards FOR SHARE"])
def test_a_holder_that_fell_asleep_in_a_transaction_loses_its_locks(database: str, statement: str) -> None:
    sleeper = PostgreSQLStore(database, shards=2, lease=0.2)
    sleeper.hold()
    number = sleeper.put_loop("x", 0, b"").number
    heir = PostgreSQLStore(database, lease=0.2)
    with sleeper._db.cursor() as asleep:
        asleep.execute("BEGIN")
        asleep.execute(statement, (ALONE,) if "%s" in statement else ())
        deadline = time.monotonic() + 60
        while set(heir.hold()) != {0, 1}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with pytest.raises(StoreError):
        sleeper.commit(Batch(events=[Run.of(number, 0, 1, [encode("ghost")])]))
    heir.commit(Batch(events=[Run.of(number, 0, 1, [encode("heir")])]))
    sleeper.reopen()
    assert sleeper.hold() == {}
    heir.close()
    sleeper.close()
