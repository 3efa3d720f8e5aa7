"""Several processes on one PostgreSQL store: who writes to which shard."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from msgspec.msgpack import encode

from driftbandit.client import Client
from driftbandit.serving.log.archive import ParquetArchive
from driftbandit.serving.loop.events import Run
from driftbandit.serving.stores.base import Fenced, StoreError
from driftbandit.serving.stores.leases import ALONE
from driftbandit.serving.stores.postgresql import SHARDS, PostgreSQLStore
from driftbandit.serving.stores.rows import Batch

from ..conftest import Server
from ..test_crash import ARMS, Load, check


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
    fall_asleep(sleeper)
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


def test_shards_move_when_a_process_is_killed_or_sleeps(
    database: str, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """Two processes on one store, one killed, one stopped for longer than its lease: never two writers of a shard."""
    servers = [make_server(database, snapshot_every=60) for _ in range(2)]
    for server in servers:
        server.options["advertise"] = server.url
        server.start()
    client = Client(servers[0].url, "x", timeout=10)
    client.put_loop({"dim": 3, "policy": "dlinucb", "scoped": True, "window": 0.2})
    client.put_arms(ARMS)
    client.close()
    wait_for(database, 2, "shards are shared out")
    load = Load([server.url for server in servers], threads=4)
    try:
        load.wait(20)
        servers[0].kill()  # its connection is gone: its shards move at once
        wait_for(database, 1, "the other has them all")
        load.wait(20)
        servers[0].start()
        wait_for(database, 2, "both serve again")
        load.wait(20)
        os.kill(servers[1].pid, signal.SIGSTOP)  # its connection lives on: they move when the lease ends
        wait_for(database, 1, "the sleeper's lease has ended")
        os.kill(servers[1].pid, signal.SIGCONT)  # and now it believes to be their writer still
        load.wait(20)
        wait_for(database, 2, "both serve again")
        load.wait(20)
    finally:
        load.stop()
    for server in servers:
        server.kill()
    check(database, load, ParquetArchive(tmp_path))  # with nothing in it


def test_a_process_that_is_busy_keeps_its_shards(database: str) -> None:
    """However long its work takes, also in the middle of a transaction, its lease is renewed."""
    busy = PostgreSQLStore(database, shards=2, lease=1.0)
    before = busy.hold()
    number = busy.put_loop("x", 0, b"").number
    other = PostgreSQLStore(database, lease=1.0)
    other.hold()
    with busy._db.transaction():
        busy._db.execute("SELECT shard FROM shards FOR SHARE")
        for _ in range(8):
            time.sleep(0.3)
            assert other.hold() == {}
    busy.commit(Batch(events=[Run.of(number, shard, 1, [encode("one")]) for shard in before]))
    after = busy.hold()  # now the other gets its share
    assert after.items() < before.items()
    assert other.hold().keys() == before.keys() - after.keys()
    busy.close()
    other.close()


def test_a_lease_is_renewed_again_after_its_connection_broke(database: str) -> None:
    store = PostgreSQLStore(database, shards=2, lease=0.5)
    store.hold()
    with psycopg.connect(database, autocommit=True) as admin:
        others = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'UPDATE processes%'"
        )
        deadline = time.monotonic() + 30
        while not admin.execute(others).fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        seen = admin.execute("SELECT seen FROM processes").fetchone()
        while admin.execute("SELECT seen FROM processes").fetchone() == seen:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    store.close()


def fall_asleep(store: PostgreSQLStore) -> None:
    """As a process that is stopped: its lease is renewed no more."""
    assert store._leases is not None
    assert store._leases.pulse is not None
    store._leases.pulse.stop()


def wait_for(address: str, processes: int, what: str) -> None:
    """Wait until so many processes hold all shards between them."""
    deadline = time.monotonic() + 60
    with psycopg.connect(address, autocommit=True) as db:
        while True:
            found = db.execute(
                "SELECT count(DISTINCT p.id), count(*), count(p.id) FROM shards s LEFT JOIN processes p "
                "ON p.id = s.holder AND p.seen > now() - interval '5 seconds'"
            )
            holders, shards, held = found.fetchone() or (0, 0, 0)
            if holders == processes and shards == held == SHARDS:
                return
            assert time.monotonic() < deadline, what
            time.sleep(0.1)
