"""Real service processes under load, killed at random: nothing acknowledged is lost, nothing is learned twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from driftbandit.client import Client, ServiceError
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.events import Decided, Rewarded
from driftbandit.serving.server import open_store

from .conftest import Server

KILLS = int(os.environ.get("DRIFTBANDIT_KILLS", "20"))
ARMS = [{"id": f"a{i}", "features": [i / 5, 1 - i / 5, 0.3]} for i in range(5)]


class Load:
    """Threads that decide and reward, and remember what was acknowledged."""

    def __init__(self, urls: list[str], threads: int = 3) -> None:
        self.urls = urls
        self.decided: dict[str, str] = {}
        self.rewarded: dict[str, float] = {}
        self.tried: dict[str, float] = {}
        self.stopping = False
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        clients = [Client(url, "x", timeout=5, retries=0) for url in self.urls]
        count = 0
        while not self.stopping:
            count += 1
            ident, scope = f"{number}-{count}", f"user {rng.randrange(8)}"
            value = float(rng.random() < 0.5)
            self.tried[ident] = value
            client = rng.choice(clients)
            try:
                choice = client.decide(scope=scope, decision_id=ident)
                with self._lock:
                    self.decided[ident] = choice.arm
                if rng.random() < 0.8:
                    for _ in range(rng.choice((1, 1, 2))):  # now and then twice
                        if client.reward(ident, value, scope=scope) in ("accepted", "duplicate"):
                            with self._lock:
                                self.rewarded[ident] = value
            except ServiceError:
                time.sleep(0.01)
        for client in clients:
            client.close()

    def wait(self, count: int) -> None:
        """Wait until so many more rewards were acknowledged."""
        enough = len(self.rewarded) + count
        deadline = time.monotonic() + 60
        while len(self.rewarded) < enough:
            assert time.monotonic() < deadline, "the load is not heard"
            time.sleep(0.002)

    def stop(self) -> None:
        self.stopping = True
        for thread in self._threads:
            thread.join()


def check(address: str, load: Load) -> None:
    """Look at the log: all that was acknowledged is there, once, and recovery agrees with a replay of everything."""
    store = open_store(address)
    engine = Engine(store, lambda: wall() + 3_600_000)  # by when all windows have closed
    engine.tick()
    engine.commit()
    decided: dict[str, Decided] = {}
    rewarded: dict[str, float] = {}
    for shard in range(store.shards):
        for _, body in store.events(engine.number("x"), shard, 0, 1_000_000):
            event = log.decode(body)
            if isinstance(event, Decided):
                assert event.id not in decided, "decided twice"
                decided[event.id] = event
            elif isinstance(event, Rewarded):
                assert event.id not in rewarded, "rewarded twice"
                rewarded[event.id] = event.value
    assert {ident: decided[ident].arm for ident in load.decided} == load.decided
    assert {ident: rewarded[ident] for ident in load.rewarded} == load.rewarded
    assert all(load.tried[ident] == value for ident, value in rewarded.items())
    counts = [part.counts for part in engine.parts("x")]
    assert sum(count.decisions for count in counts) == len(decided)
    assert sum(count.learned for count in counts) == len(decided), "every decision is learned exactly once"
    assert engine.digest("x") == engine.digest("x", whole_log=True)
    store.close()


def crash(address: str, make_server: Callable[..., Server]) -> None:
    rng = random.Random(7)
    server = make_server(address, snapshot_every=60)
    server.start()
    client = Client(server.url, "x", timeout=10)
    client.put_loop({"dim": 3, "policy": "dlinucb", "scoped": True, "window": 0.2})
    client.put_arms(ARMS)
    client.close()
    load = Load([server.url])
    try:
        for _ in range(KILLS):
            load.wait(rng.randrange(1, 40))
            server.kill()  # wherever it is in serving the next ones
            server.start()
        load.wait(10)
    finally:
        load.stop()
    server.kill()
    check(address, load)


def test_postgresql_survives_being_killed(database: str, make_server: Callable[..., Server]) -> None:
    crash(database, make_server)


def test_sqlite_survives_being_killed(tmp_path: Path, make_server: Callable[..., Server]) -> None:
    crash(f"sqlite:{tmp_path / 'a.db'}", make_server)
