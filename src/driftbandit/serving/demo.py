"""`driftbandit demo`: the service on a temporary store, with readers whose tastes shift while you watch.

A reward is the share of an article that was read. Articles are mixtures of topics, and a taste says how much of an
article is read, by topic: most of it on one or two favourite topics, little on the others. Favourites change every
period; if each reader has their own taste, those of a third of the readers change. Each of these shifts is marked on
the page, so that one sees how long it took to be detected.
"""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.client import Client, ServiceError
from driftbandit.core import Floats
from driftbandit.serving.server import build_app, make_server

TOPICS = ("sports", "politics", "music", "science", "travel", "food")
LOOPS: dict[str, dict[str, Any]] = {
    "front-page": {"policy": "driftucb"},
    "front-page-dlinucb": {"policy": "dlinucb", "settings": {"noise": 0.1}},
    "for-you": {"policy": "driftucb", "scoped": True},
}
_READERS = 9
_ARTICLES = 40
_SHOWN = 10
_WINDOW_S = 2.0
_NOISE = 0.1
_MARKS = 100
_LOVED, _OTHER = 0.85, 0.15


class Audience:
    """Readers of one loop.

    Parameters
    ----------
    readers : int
        How many there are; 1 where all share a taste.
    seed : int
        Seed of everything that the readers do.

    Examples
    --------
    >>> audience = Audience(readers=1, seed=0)
    >>> before = audience.tastes[0].copy()
    >>> audience.shift()
    'tastes shift'
    >>> bool((before != audience.tastes[0]).any())
    True
    """

    def __init__(self, readers: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.articles: Floats = self._rng.dirichlet(np.full(len(TOPICS), 0.4), _ARTICLES)
        self.tastes = [self._taste(None) for _ in range(readers)]

    def _taste(self, old: Floats | None) -> Floats:
        """A new taste, with one or two favourite topics that were not favourites before."""
        free = np.arange(len(TOPICS)) if old is None else np.flatnonzero(old < _LOVED)
        taste = np.full(len(TOPICS), _OTHER)
        taste[self._rng.choice(free, self._rng.integers(1, 3), replace=False)] = _LOVED
        return taste

    def shift(self) -> str:
        """Change a third of the tastes, and at least one; says whose."""
        changed = self._rng.choice(len(self.tastes), max(1, len(self.tastes) // 3), replace=False)
        for who in changed:
            self.tastes[who] = self._taste(self.tastes[who])
        if len(self.tastes) == 1:
            return "tastes shift"
        return f"tastes of readers {', '.join(str(who + 1) for who in sorted(changed))} shift"

    def visit(self) -> tuple[int, list[int]]:
        """Which reader comes, and the articles that can be shown."""
        who = int(self._rng.integers(len(self.tastes)))
        return who, self._rng.choice(_ARTICLES, _SHOWN, replace=False).tolist()

    def read(self, who: int, article: int) -> float:
        """The share that a reader reads of an article."""
        share = self.articles[article] @ self.tastes[who] + _NOISE * self._rng.standard_normal()
        return float(np.clip(share, 0.0, 1.0))

    def play(self, client: Client, stop: threading.Event, config: dict[str, Any], period: float, rate: float) -> None:
        """Visit until told to stop. The loop exists, with these settings."""
        due = time.monotonic()
        shift_due = due + period
        marked = True
        while not stop.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            due = max(due + 1.0 / rate, now)  # visits that came late are not made up for
            if now >= shift_due:
                shift_due += period
                mark = {"time": datetime.now(UTC).isoformat(), "label": self.shift()}
                config = config | {"marks": [*config.get("marks", []), mark][-_MARKS:]}
                marked = False
            who, pool = self.visit()
            try:
                if not marked:
                    config["version"] = client.put_loop(config)["version"]
                    marked = True
                scope = f"reader {who + 1}" if config.get("scoped") else None
                choice = client.decide([f"article {i + 1}" for i in pool], scope=scope)
                client.reward(choice, self.read(who, pool[choice.index]))
            except ServiceError:
                if not stop.wait(1.0):  # the service is starting or stopping
                    continue
        client.close()


def run_demo(port: int, *, period: float, rate: float, seed: int, say: Callable[[str], None]) -> None:
    """Serve and visit until interrupted; no files are left behind."""
    with tempfile.TemporaryDirectory(prefix="driftbandit-demo-") as folder, _listen(port) as listening:
        host, port = listening.getsockname()
        url = f"http://{host}:{port}"
        app = build_app(f"sqlite:{Path(folder) / 'demo.db'}", secure=False)
        stop = threading.Event()
        end_streams = app.stop

        def close() -> None:
            stop.set()  # visitors leave first
            end_streams()

        app.stop = close
        visitors = threading.Thread(target=_visit, args=(url, stop, period, rate, seed, say), daemon=True)
        server = make_server(app, host, port, visitors.start)

        def leave(number: int, frame: object) -> None:
            server.should_exit = True

        # uvicorn has handlers of its own while it runs. It stops in good order and then raises the signal again, which
        # must not end us before we have cleaned up. SIGINT is set too: a shell's script starts what it runs in the
        # background with SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)
        say("starting ...")
        server.run(sockets=[listening])
        if not server.began:
            raise ValueError("the service did not start")
        say("stopped")


def _listen(port: int) -> socket.socket:
    """A socket on this port of the loopback address, or on any free port."""
    for wanted in (port, 0):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", wanted))
            return listening
        except OSError:
            listening.close()
    raise ValueError("port: there is none free on 127.0.0.1")


def _visit(url: str, stop: threading.Event, period: float, rate: float, seed: int, say: Callable[[str], None]) -> None:
    """Make the loops, then send readers to them until told to stop."""
    threads = []
    for name, config in LOOPS.items():
        audience = Audience(_READERS if config.get("scoped") else 1, seed)
        client = Client(url, name, timeout=120.0)  # policies are compiled before a loop is served
        common = {"dim": len(TOPICS), "window": _WINDOW_S, "reward_range": [0.0, 1.0], "feature_names": list(TOPICS)}
        try:
            made = client.put_loop(config | common)
            client.put_arms(
                [{"id": f"article {i + 1}", "features": row} for i, row in enumerate(audience.articles.tolist())]
            )
        except ServiceError as error:
            if not stop.is_set():
                say(f"the demo could not start: {error}")
            return
        settings = config | common | {"version": made["version"]}
        threads.append(threading.Thread(target=audience.play, args=(client, stop, settings, period, rate), daemon=True))
    say(f"{url}/  open it in a browser: tastes shift every {period:g} seconds (solid lines). Ctrl-C ends the demo.")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
