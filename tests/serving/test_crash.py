"""Real service processes under load, killed at random: nothing acknowledged is lost, nothing is learned twice.

`make soak` does more of it: more kills, processes stopped for longer than their lease, thousands of scopes, online
backups, events that move to an archive after a minute, and some minutes of mixed load at the end, during which memory
must not grow.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx

from driftbandit.cli.service import milliseconds_of
from driftbandit.client import Client, ServiceError
from driftbandit.serving.engine.clock import wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.retention import Retention
from driftbandit.serving.log.archive import ParquetArchive
from driftbandit.serving.log.export import Wanted, read_log
from driftbandit.serving.loop.events import AnyEvent, Decided, Rewarded
from driftbandit.serving.server import open_store
from driftbandit.serving.stores.backup import backup

from .conftest import Server

KILLS = int(os.environ.get("DRIFTBANDIT_KILLS", "20"))
SLEEPS = int(os.environ.get("DRIFTBANDIT_SLEEPS", "0"))
SCOPES = int(os.environ.get("DRIFTBANDIT_SCOPES", "8"))
MINUTES = float(os.environ.get("DRIFTBANDIT_MINUTES", "0"))
POLICY = os.environ.get("DRIFTBANDIT_POLICY", "dlinucb")  # forks.py compiles it
KEEP = "1m"
"""How long events stay in the store, if processes sleep; older ones are archived."""
KEEP_MS = milliseconds_of("keep", KEEP)
LONGEST_SLEEP_S = 8.0  # the lease has 5 seconds
MORE_MEMORY = 1.1
"""How many times what it had before a process may have at the end of the mixed load."""
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
            ident, scope = f"{number}-{count}", f"user {rng.randrange(SCOPES)}"
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

    def fill(self, url: str) -> None:
        """Let every scope decide and learn once; to be called before other processes take shards."""
        for start in range(0, SCOPES, 1000):
            some = range(start, min(start + 1000, SCOPES))
            decisions = [{"decision_id": f"fill-{n}", "scope": f"user {n}"} for n in some]
            rewards = [{"decision_id": f"fill-{n}", "scope": f"user {n}", "value": 1.0} for n in some]
            self.tried |= {f"fill-{n}": 1.0 for n in some}
            decided = httpx.post(f"{url}/v1/loops/x/decisions:batch", json={"decisions": decisions}, timeout=60)
            rewarded = httpx.post(f"{url}/v1/loops/x/rewards:batch", json={"rewards": rewards}, timeout=60)
            for n, one, other in zip(some, decided.json()["results"], rewarded.json()["results"], strict=True):
                with self._lock:
                    self.decided[f"fill-{n}"] = one["decision"]["arm"]
                    if other["status"] == 200:  # the window may have closed meanwhile
                        self.rewarded[f"fill-{n}"] = 1.0

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


def check(address: str, load: Load, archive: ParquetArchive) -> None:
    """Look at the log: all that was acknowledged is there, once, and recovery agrees with a replay of everything."""
    store = open_store(address)
    # by when all windows have closed
    engine = Engine(store, lambda: wall() + 3_600_000, retention=Retention(KEEP_MS, archive))
    engine.tick()
    engine.commit()
    decided: dict[str, Decided] = {}
    rewarded: dict[str, float] = {}

    def events() -> Iterator[AnyEvent]:
        number = engine.number("x")
        for shard in range(store.shards):
            yield from archive.read(number, shard, store.pruned(number, shard))
        for _, _, event, _ in read_log(store.reader, Wanted("x", number)):
            yield event

    for event in events():
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
    if MINUTES * 60_000 > 2 * KEEP_MS:
        old = sum(store.pruned(engine.number("x"), shard) for shard in range(store.shards))
        print(f"{len(decided)} decisions, {old} events archived")
        assert old
    store.close()


@contextmanager
def backups(address: str, archive: ParquetArchive) -> Iterator[None]:
    """Copy an SQLite store again and again meanwhile; the last copy's snapshots agree with a replay of its log."""
    path = Path(address.removeprefix("sqlite:"))
    copy, stopping = path.with_name("copy.db"), threading.Event()

    def run() -> int:
        count = 0
        while not stopping.wait(5.0) or not count:
            backup(path, copy, force=True)  # which checks every row
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(run)
        try:
            yield
        finally:
            stopping.set()
        print(f"{made.result()} online backups")
    store = open_store(f"sqlite:{copy}")
    engine = Engine(store, wall, retention=Retention(KEEP_MS, archive))
    assert engine.digest("x") == engine.digest("x", whole_log=True)
    store.close()


def crash(address: str, make_server: Callable[..., Server], folder: Path, processes: int = 1) -> None:
    options: dict[str, object] = {"snapshot_every": 60 if SCOPES < 1000 else 2_000}
    if SLEEPS:
        options |= {"keep": KEEP, "archive": str(folder)}
    servers = [make_server(address, **options) for _ in range(processes)]
    first, archive = servers[0], ParquetArchive(folder)
    first.start()
    client = Client(first.url, "x", timeout=120)
    client.put_loop({"dim": 3, "policy": POLICY, "scoped": True, "window": 0.2})
    client.put_arms(ARMS)
    client.close()
    load = Load([server.url for server in servers])
    try:
        if SCOPES >= 1000:
            load.fill(first.url)
        for server in servers[1:]:
            server.start()
        with backups(address, archive) if SLEEPS and address.startswith("sqlite:") else nullcontext():
            trouble(servers, load)
            if MINUTES:
                mixed_load(servers, MINUTES * 60)
    finally:
        load.stop()
    for server in servers:
        server.kill()
    check(address, load, archive)


def trouble(servers: list[Server], load: Load) -> None:
    """Kill processes and let them sleep, in any order."""
    rng = random.Random(7)
    for sleeps in rng.sample([False] * KILLS + [True] * SLEEPS, KILLS + SLEEPS):
        load.wait(rng.randrange(1, 40))
        server = rng.choice(servers)
        if sleeps:
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(rng.uniform(0.0, LONGEST_SLEEP_S))
            os.kill(server.pid, signal.SIGCONT)
        else:
            server.kill()  # wherever it is in serving the next ones
            server.start()
    load.wait(10)


def mixed_load(servers: list[Server], seconds: float) -> None:
    """Read besides: statistics, changes, models, metrics and the log. In the last quarter no process may have grown."""
    began, taken = time.monotonic(), {server.url: ([0], [0]) for server in servers}
    with httpx.Client(timeout=60) as client:
        while (past := time.monotonic() - began) < seconds:
            for server in servers:
                for path in ("stats", "changes", "scopes"):
                    answer = client.get(f"{server.url}/v1/loops/x/{path}")
                    assert answer.status_code in (200, 307, 503), answer.text
                with client.stream("GET", f"{server.url}/v1/loops/x/log") as export:
                    for _ in zip(range(200), export.iter_raw(), strict=False):
                        pass  # and leaves before the end
                assert client.get(f"{server.url}/metrics").status_code == 200
                if past > seconds / 4:
                    taken[server.url][past > 3 * seconds / 4].append(memory(server.pid))
            time.sleep(0.5)
    for before, at_end in taken.values():
        print(f"memory: at most {max(before) >> 20} MiB before the last quarter, {max(at_end) >> 20} MiB in it")
        assert max(at_end) < MORE_MEMORY * max(before)


def memory(process: int) -> int:
    """Bytes of memory that a process has."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def test_postgresql_survives_being_killed(database: str, tmp_path: Path, make_server: Callable[..., Server]) -> None:
    crash(database, make_server, tmp_path / "archive", 2 if SLEEPS else 1)


def test_sqlite_survives_being_killed(tmp_path: Path, make_server: Callable[..., Server]) -> None:
    crash(f"sqlite:{tmp_path / 'a.db'}", make_server, tmp_path / "archive")
