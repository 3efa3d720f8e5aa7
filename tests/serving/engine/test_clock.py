"""The machine's clock may be set back, or far ahead and back again: windows still close, and learning goes on."""

from __future__ import annotations

import logging

import httpx
import numpy as np
import pytest

from driftbandit.serving.engine import clock as clocks
from driftbandit.serving.engine.clock import Clock
from driftbandit.serving.server import build_app

from ..live import live
from ..world import World

HOUR = 3_600_000
DECADE = 10 * 365 * 24 * HOUR


class Machine:
    """A machine whose two clocks tests turn."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000_000, 5_000

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.steady)

    def wait(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.steady += milliseconds


def test_a_step_of_the_machines_clock_is_not_followed_but_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    start = clock()
    with caplog.at_level(logging.WARNING, "driftbandit"):
        machine.wait(1_000)
        clock.watch()
        assert (clock() - start, clock.off, clock.steps, caplog.messages) == (1_000, 0.0, 0, [])
        machine.wall -= HOUR
        machine.wait(1_000)
        clock.watch()
        clock.watch()
        assert (clock() - start, clock.off, clock.steps) == (2_000, -3_600.0, 1)
        machine.wall += HOUR
        clock.watch()
    assert (clock() - start, clock.off, clock.steps) == (2_000, 0.0, 2)
    assert ["-3600.0 s" in caplog.messages[0], "+3600.0 s" in caplog.messages[1]] == [True, True]


def test_the_real_clocks_agree() -> None:
    clock = Clock()
    first = clock()
    assert clock() >= first
    assert abs(clock.off) < 1.0


def test_windows_close_after_a_restart_with_an_earlier_clock(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A machine that believed to be in the next decade is started again with the right time."""
    world.loop(dim=2, policy="linucb", window=10.0)
    arms = world.arms(np.eye(2))
    world.now += DECADE
    world.decide("there", arms)
    world.now -= DECADE
    with caplog.at_level(logging.WARNING, "driftbandit"):
        world.restart()
    assert any("ahead of the clock" in message for message in caplog.messages)
    assert world.engine.ahead() == pytest.approx(DECADE / 1000)
    world.decide("back", arms)
    assert world.engine.until_due() == pytest.approx(10.0)
    world.now += 9_999
    assert world.reward("back", 1.0) == "accepted"
    world.now += 1
    world.engine.tick()
    world.engine.commit()
    assert world.engine.parts("x")[0].models.peek("").rounds == 2
    world.check()
    world.restart()
    world.check()


def test_the_service_goes_on_learning_while_the_clock_is_set_back(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    monkeypatch.setattr(clocks.Clock.__init__, "__defaults__", (lambda: machine.wall, lambda: machine.steady))
    with (
        live(build_app(f"sqlite:{tmp_path}/a.db", secure=False)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        client.put("/v1/loops/x", json={"policy": "linucb", "dim": 2, "window": 10.0}).raise_for_status()
        arms = [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]
        client.post("/v1/loops/x/decisions", json={"decision_id": "d", "arms": arms}).raise_for_status()
        machine.wall -= HOUR
        machine.wait(10_000)
        client.post("/v1/loops/x/decisions", json={"decision_id": "e", "arms": arms}).raise_for_status()
        answer = client.post("/v1/loops/x/decisions/d/reward", json={"value": 1.0})
        assert answer.status_code == 410, "its window has closed"
        page = client.get("/metrics").text
    assert "driftbandit_clock_off_seconds -3600.0" in page
    assert "driftbandit_loop_ahead_seconds 0.0" in page
