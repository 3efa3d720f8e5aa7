"""Several service processes on one PostgreSQL."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from driftbandit.client import Client

from .conftest import Server
from .postgres import server as postgresql_server
from .test_crash import ARMS, Load, check


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    try:
        with postgresql_server() as address:
            yield address
    except RuntimeError as reason:
        pytest.skip(str(reason))


def test_shards_move_when_a_process_is_killed_or_sleeps(postgresql: str, make_server: Callable[..., Server]) -> None:
    """Two processes on one store, one killed, one stopped for longer than its lease: never two writers of a shard."""
    with psycopg.connect(postgresql, autocommit=True) as admin:
        admin.execute("CREATE DATABASE two")
    address = postgresql.replace("/postgres?", "/two?")
    servers = [make_server(address, "--insecure-local", "--snapshot-every", "60") for _ in range(2)]
    for server in servers:
        server.command += ["--advertise", server.url]
        server.start()
    client = Client(servers[0].url, "x", timeout=10)
    client.put_loop({"dim": 3, "policy": "dlinucb", "scoped": True, "window": 0.2})
    client.put_arms(ARMS)
    client.close()
    time.sleep(2.5)  # shards are shared out
    load = Load([server.url for server in servers], threads=4)
    try:
        time.sleep(1.0)
        before = len(load.rewarded)
        servers[0].kill()  # its connection is gone: its shards move at once
        time.sleep(2.5)
        after = len(load.rewarded)
        assert after > before
        servers[0].start()
        time.sleep(3.0)
        assert servers[1].process is not None
        os.kill(servers[1].process.pid, signal.SIGSTOP)  # its connection lives on: they move when the lease ends
        time.sleep(8.0)
        os.kill(servers[1].process.pid, signal.SIGCONT)
        time.sleep(3.0)
    finally:
        load.stop()
    with psycopg.connect(address) as db:
        holders = db.execute("SELECT count(DISTINCT holder), min(token) FROM shards").fetchone()
    assert holders is not None
    assert holders[0] == 2, "both serve again"
    for server in servers:
        server.kill()
    check(address, load)
