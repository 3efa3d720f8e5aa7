"""Nothing is compiled while requests wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from driftbandit.serving import server
from driftbandit.serving.engine import warmup as rehearsal
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.warmup import Rehearsals, rehearse
from driftbandit.serving.loop.config import SERVED, LoopConfig
from driftbandit.serving.loop.events import Configured, Refused, encode
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live
from ..world import START

# In a process of its own, where nothing is compiled or loaded yet: after the rehearsal, a hundred rounds of the real
# thing must not add a compiled version to any kernel. Numba's own helpers come and go while it compiles.
_TRAFFIC = """
import gc, sys
import msgspec, numpy as np
from numba.core.dispatcher import Dispatcher
from driftbandit.serving.loop.config import SERVED, LoopConfig
from driftbandit.serving.loop.events import Catalogued, Configured
from driftbandit.serving.loop.loop import Loop
from driftbandit.serving.engine.warmup import rehearse
from driftbandit.batch import objects
objects._CHOICE = objects._CHOICES = objects._REWARDS = 0

def versions():
    found = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {d.py_func.__qualname__: len(d.overloads) for d in found if d.py_func.__module__.startswith("driftbandit")}

rng = np.random.default_rng(0)
cases = [("dlinucb", "window_close", True, {"noise": 0.1})]  # before anything else learns one by one
cases += [(policy, ("window_close", "arrival")[at % 2], False, {}) for at, policy in enumerate(SERVED)]
cases += [(policy, "window_close", True, {}) for policy in ("driftucb", "linucb", "lints")]
for policy, learn, scoped, settings in cases:
    config = LoopConfig(
        policy=policy, dim=4, window=0.001, learn=learn, scoped=scoped, draws=2, reward_range=(0.0, 1.0),
        settings=settings,
    )
    rehearse(config)
    before = versions()
    loop = Loop("x", 0, lambda *_: None)
    loop.apply(Configured(0, 1, msgspec.json.encode(config)))
    features = rng.standard_normal((6, 4)) / 4
    arms = [f"a{i}" for i in range(6)]
    loop.apply(Catalogued(0, 1, arms, features.tobytes()))
    for number in range(150):
        now = min(number, 100)
        pool = loop.pools.of(arms[:5], features[:5].copy() if number % 3 else None)
        event = loop.decide(now, str(number), str(number % 7), pool)
        loop.reward(now, str(number), float((event.index == 0) == (number < 50)), None)
        if number < 100:
            loop.tick(now)
    loop.tick(150)
    loop.look_ahead([("x", loop.pools.of(arms)) for _ in range(2)])
    after = versions()
    for kernel in after:
        if after[kernel] != before.get(kernel, 0):
            print(policy, learn, scoped, kernel, before.get(kernel, 0), after[kernel])
    assert loop.counts.learned == 150
"""


def test_after_a_rehearsal_nothing_is_left_to_compile() -> None:
    done = subprocess.run([sys.executable, "-c", _TRAFFIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_a_rehearsal_says_what_is_wrong_with_settings() -> None:
    with pytest.raises(ValueError, match="needs the number of features"):
        rehearse(LoopConfig(policy="linucb"))
    with pytest.raises(ValueError, match="settings: "):
        rehearse(LoopConfig(policy="linucb", dim=25, settings={"alpha": 1.0, "colour": "red"}))


def test_a_rehearsal_leaves_the_loop_as_it_is(tmp_path: Path) -> None:
    """The first decision comes out the same whether it was rehearsed or not."""
    answers = []
    for name, config in (("a", LoopConfig(policy="lints", dim=2)),) * 2:
        store = SQLiteStore(tmp_path / f"{len(answers)}.db")
        engine = Engine(store, lambda: START)
        engine.configure(name, config, None)
        loop = engine.parts(name)[0]
        answers.append(loop.decide(START, "1", None, loop.pools.of(["x", "y"], np.eye(2))))
        rehearse(config)
        store.close()
    assert answers[0] == answers[1]


def test_what_waits_for_its_rehearsal_stalls_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow(config: LoopConfig) -> None:
        if config.policy == "ucb1":
            began.set()
            assert go_on.wait(30)

    monkeypatch.setattr(rehearsal, "rehearse", slow)
    app = server.build_app(f"sqlite:{tmp_path / 'a.db'}", secure=False)
    with live(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        assert client.put("/v1/loops/quick", json={"policy": "random"}).status_code == 201
        statuses: list[int] = []

        def put() -> None:
            statuses.append(httpx.put(f"{url}/v1/loops/slow", json={"policy": "ucb1"}, timeout=60).status_code)

        waiting = threading.Thread(target=put)
        waiting.start()
        assert began.wait(30)
        assert client.post("/v1/loops/quick/decisions", json={"arms": ["a", "b"]}).status_code == 201
        assert client.post("/v1/loops/slow/decisions", json={"arms": ["a"]}).status_code == 404
        assert not statuses
        go_on.set()
        waiting.join(60)
        assert statuses == [201]
        assert client.post("/v1/loops/slow/decisions", json={"arms": ["a"]}).status_code == 201
        assert client.put("/v1/loops/bad", json={"policy": "nonsense"}).status_code == 422


def test_the_service_is_ready_after_the_rehearsal_of_its_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"sqlite:{tmp_path / 'a.db'}"
    store = SQLiteStore(tmp_path / "a.db")
    Engine(store, lambda: START).configure("x", LoopConfig(policy="ucb1"), None)
    store.close()
    rehearsed: list[str] = []
    monkeypatch.setattr(rehearsal, "rehearse", lambda config: rehearsed.append(config.policy))
    with live(server.build_app(address, secure=False)) as url:
        assert rehearsed == ["ucb1"]
        assert httpx.get(f"{url}/readyz").status_code == 200


def test_settings_from_another_process_come_into_force_when_they_are_ready(tmp_path: Path) -> None:
    ready = {"ucb1"}
    store = SQLiteStore(tmp_path / "a.db")
    engine = Engine(store, lambda: START, ready=lambda config: config.policy in ready)
    engine.configure("x", LoopConfig(policy="ucb1"), None)
    for name, version in (("x", 1), ("y", 0)):  # what another process would put
        store.put_loop(name, version, encode(Configured(START, 0, msgspec.json.encode(LoopConfig(policy="sw-ucb")))))
    engine.refresh()
    assert engine.names() == ["x"]
    assert engine.configuration("x").config.policy == "ucb1"
    with pytest.raises(Refused, match="no loop 'y'"):
        engine.configuration("y")
    ready.add("sw-ucb")
    engine.refresh()
    assert engine.names() == ["x", "y"]
    assert {engine.configuration(name).config.policy for name in ("x", "y")} == {"sw-ucb"}
    store.close()


def test_rehearsals_in_the_background_happen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    calls: list[str] = []

    def note(config: LoopConfig) -> None:
        calls.append(config.policy)
        done.set()

    monkeypatch.setattr(rehearsal, "rehearse", note)
    rehearsals = Rehearsals()
    config = LoopConfig(policy="ucb1")
    assert not rehearsals.ready(config)
    assert done.wait(30)
    while not rehearsals.ready(config):
        pass
    rehearsals.run(config)
    assert calls == ["ucb1"]


# Compiles one policy ahead as `driftbandit warm` does, and counts the kernels that Numba's cache did not have.
_WARM = """
import gc
from typer.testing import CliRunner
from numba.core.dispatcher import Dispatcher
from driftbandit.cli import app
from driftbandit.serving.engine import warmup

warmup.SERVED = ("ucb1",)
assert CliRunner().invoke(app, ["warm"]).output == "compiled ucb1\\n"
found = [d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.py_func.__module__.startswith("driftbandit")]
print(sum(sum(d.stats.cache_misses.values()) for d in found))
"""


def test_what_was_compiled_ahead_is_not_compiled_again(tmp_path: Path) -> None:
    missing = [
        int(
            subprocess.run(
                [sys.executable, "-c", _WARM],
                stdout=subprocess.PIPE,
                env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
                check=True,
            ).stdout
        )
        for _ in range(2)
    ]
    assert missing[0] > 0
    assert missing[1] == 0


def test_all_policies_are_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: dict[str, int | None] = {}
    monkeypatch.setattr(rehearsal, "rehearse", lambda config: rehearsed.update({config.policy: config.dim}))
    assert tuple(rehearsal.warm(7)) == SERVED == tuple(rehearsed)
    assert (rehearsed["driftucb"], rehearsed["ucb1"]) == (7, None)
