"""Several service processes on one PostgreSQL."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psycopg

from driftbandit.client import Client
from driftbandit.serving.stores.postgresql import SHARDS

from .conftest import Server
from .test_crash import ARMS, Load, check


def test_shards_move_when_a_process_is_killed_or_sleeps(database: str, make_server: Callable[..., Server]) -> None:
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
    check(database, load)


def wait_for(address: str, processes: int, what: str) -> None:
    """Wait until so many processes hold all shards between them."""
    deadline = time.monotonic() + 60
    with psycopg.connect(address, autocommit=True) as db:
        while True:
            found = db.execute(
                "SELECT count(DISTINCT holder), count(*), count(holder) FROM shards WHERE expires > now()"
            )
            holders, shards, held = found.fetchone() or (0, 0, 0)
            if holders == processes and shards == held == SHARDS:
                return
            assert time.monotonic() < deadline, what
            time.sleep(0.1)
