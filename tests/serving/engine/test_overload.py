"""More windows are due than there is time to close: requests take turns with them."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import DecisionRequest, RewardRequest
from driftbandit.serving.engine.thread import Runner
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..world import World

WINDOW_MS = 10_000
MANY = 5_000


@pytest.fixture
def late(world: World) -> World:
    """All windows of five thousand decisions, two in a millisecond, are due."""
    world.loop(dim=2, policy="linucb", window=WINDOW_MS / 1000)
    world.arms(np.eye(2))
    for number in range(MANY):
        world.now += number % 2
        world.engine.decide("x", DecisionRequest(f"d{number}", None, None))
    world.engine.commit()
    world.now += WINDOW_MS + MANY
    return world


def test_windows_close_a_part_at_a_time_and_no_reward_is_late_because_of_it(late: World) -> None:
    late.engine.tick(1_000)
    learned = late.counts().learned
    assert 1_000 <= learned < 1_100
    assert late.engine.behind() > 0.0
    assert late.reward(f"d{MANY - 1}", 1.0) == "accepted", "its window is due, but not closed"
    assert late.reward("d0", 1.0) == "410", "this one is closed"
    late.decide("new")
    assert late.counts().learned < learned + 100, "a command does not close the rest"
    late.check()
    late.engine.tick()
    late.engine.commit()
    assert late.counts().learned == MANY
    assert late.engine.behind() == 0.0
    late.now += WINDOW_MS
    late.engine.tick()
    late.engine.commit()
    assert late.counts().learned == MANY + 1
    digest = late.check()
    late.restart()
    assert late.check() == digest


def test_a_decision_made_while_the_time_is_behind_keeps_its_whole_window(late: World) -> None:
    late.engine.tick(1)
    assert late.engine.behind() > 1.0
    late.decide("new")
    late.now += WINDOW_MS - 1
    late.engine.tick()
    assert late.engine.behind() == 0.0
    assert late.reward("new", 1.0) == "accepted", "its window ends a millisecond later"
    late.now += 1
    late.engine.tick()
    assert late.reward("new", 1.0) in ("duplicate", "410")
    late.check()
    late.restart()
    late.check()


def test_time_is_held_until_the_next_commit(late: World) -> None:
    late.now -= MANY
    late.engine.tick()
    late.engine.commit()
    late.engine.decide("x", DecisionRequest("one", None, None))
    late.engine.commit()
    late.now += WINDOW_MS
    late.engine.tick(hold=True)
    assert late.counts().learned == MANY + 1
    late.engine.decide("x", DecisionRequest("two", None, None))
    late.engine.commit()
    late.now += WINDOW_MS - 1
    late.engine.tick(hold=True)
    late.now += 1_000
    late.engine.look_up("x", ["two"])
    assert late.engine.reward("x", "two", RewardRequest(1.0)), "its window was open when the turn began"
    late.engine.commit()
    assert late.counts().learned == MANY + 1
    late.decide("three")
    assert late.counts().learned == MANY + 2, "now it is closed"
    late.check()


def test_time_does_not_stand_still_while_windows_are_due(late: World) -> None:
    times = []
    while not times or late.engine.behind():
        late.engine.tick(1)
        late.engine.commit()
        times.append(late.engine.parts("x")[0].state.time)
        late.now += 1
    assert times == sorted(set(times))
    assert len(times) == MANY // 1_000


def test_a_command_is_answered_before_all_windows_are_closed(late: World) -> None:
    late.store.close()
    order: list[Any] = []

    class Watched(Engine):
        def tick(self, most: float = np.inf, *, hold: bool = False) -> None:
            super().tick(most, hold=hold)
            order.append(self.behind() > 0.0)

    async def run() -> None:
        def open_store() -> SQLiteStore:
            return SQLiteStore(late.path)

        runner = Runner(open_store, lambda store, *_: Watched(store, lambda: late.now), asyncio.get_running_loop())
        runner.start()
        await runner.started
        await runner.submit(lambda engine: order.append("answered"))
        runner.stop()
        await asyncio.get_running_loop().run_in_executor(None, runner.join)

    asyncio.run(run())
    assert True in order[: order.index("answered")], "windows were left when it was carried out"
