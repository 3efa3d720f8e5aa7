"""A command that fails unexpectedly is answered with 500 alone; what memory holds still equals the log."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftbandit.serving.engine.messages import DecisionRequest, RewardRequest
from driftbandit.serving.engine.thread import Runner
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.learner import Learner
from driftbandit.serving.loop.state import State
from driftbandit.serving.loop.windows import Open
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..world import World


class Bad:
    """Makes the policy of loop "bad" fail in the middle of learning, after it has changed, whenever it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = 0
        self.failed = 0
        learn = Learner.learn

        def learn_badly(learner: Learner, record: Open, value: float) -> None:
            learn(learner, record, value)
            if self.fails and record.id.startswith("bad"):
                self.fails -= 1
                self.failed += 1
                raise ArithmeticError("a policy that fails")

        monkeypatch.setattr(Learner, "learn", learn_badly)


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> Bad:
    return Bad(monkeypatch)


def two_loops(world: World, **config: Any) -> None:
    for name in ("bad", "good"):
        world.loop(name, dim=2, policy="lints", window=10.0, **config)
        world.arms(np.eye(2), name)
        for number in range(5):
            world.decide(f"{name}{number}", name=name)


def test_commands_that_wait_with_a_failing_one_are_answered(tmp_path: Path, bad: Bad) -> None:
    world = World(tmp_path / "a.db")
    two_loops(world, learn="arrival")
    world.store.close()

    async def run() -> tuple[list[Any], list[Any], bool]:
        def open_store() -> SQLiteStore:
            world.open()
            return world.store

        runner = Runner(open_store, lambda *given: world.engine, asyncio.get_running_loop())
        runner.start()
        await runner.started
        go_on = threading.Event()
        waiting = runner.submit(lambda engine: go_on.wait(30))  # so that the others wait together
        await asyncio.sleep(0.1)
        bad.fails = 1
        commands = []
        for number in range(5):
            for name in ("bad", "good"):
                call = lambda engine, name=name, number=number: engine.reward(  # noqa: E731
                    name, f"{name}{number}", RewardRequest(1.0)
                )
                commands.append(runner.submit(call))
        go_on.set()
        results = await asyncio.gather(waiting, *commands, return_exceptions=True)
        again = await asyncio.gather(
            runner.submit(lambda engine: engine.reward("bad", "bad0", RewardRequest(1.0))),
            runner.submit(lambda engine: engine.decide("bad", DecisionRequest("bad5"))),
            *[runner.submit(lambda engine, name=name: world.check(name)) for name in ("bad", "good")],
            return_exceptions=True,
        )
        ready = runner.ready
        runner.stop()
        await asyncio.to_thread(runner.join)
        return results, again, ready

    (_, *results), again, ready = asyncio.run(run())
    assert bad.failed == 1
    assert isinstance(results[0], Refused)
    assert (results[0].status, ready) == (500, True)
    assert results[1::2] == [True] * 5, "the other loop's commands"
    for result in results[2::2]:  # the failed loop's other commands find it set aside until the commit
        assert isinstance(result, Refused)
        assert (result.status, "ArithmeticError: a policy that fails" in str(result)) == (503, True)
    accepted, (created, _), *digests = again
    assert accepted is True
    assert created is True
    assert len(digests) == 2


def test_what_was_done_before_the_failure_is_kept(tmp_path: Path, bad: Bad) -> None:
    world = World(tmp_path / "a.db")
    two_loops(world, learn="arrival")
    world.now += 500

    def reward(ident: str) -> Any:
        return world.engine.carry_out(lambda engine: engine.reward("bad", ident, RewardRequest(0.5)))

    assert reward("bad0") is True
    bad.fails = 1
    assert reward("bad1").status == 500
    assert reward("bad2").status == 503
    world.engine.commit()
    assert (world.counts("bad").learned, world.engine.failed_commands) == (1, 1)
    world.check("bad")
    assert [world.reward(f"bad{number}", 0.5, "bad") for number in range(3)] == ["duplicate", "accepted", "accepted"]
    world.restart()
    assert world.counts("bad").learned == 3
    world.check("bad")


def test_windows_that_cannot_close_stop_only_their_loop(tmp_path: Path, bad: Bad) -> None:
    world = World(tmp_path / "a.db", snapshot_every=20)
    two_loops(world)
    assert world.reward("bad3", 1.0, "bad") == "accepted"
    bad.fails = 1_000
    world.now += 10_000
    for _ in range(20):
        world.engine.tick()
        world.engine.commit()
        world.engine.refresh()
        assert world.engine.carry_out(lambda engine: engine.decide("good", DecisionRequest()))[0] is True
        world.engine.commit()
    assert bad.failed < 10, "it is tried again, more seldom each time"
    assert world.counts("good").learned == 5
    with pytest.raises(Refused, match="shard 0 failed and is to be read again: ArithmeticError"):
        world.decide("bad9", name="bad")
    bad.fails = 0
    for _ in range(100):
        world.engine.refresh()
    world.engine.tick()
    world.engine.commit()
    assert world.counts("bad").learned == 5
    assert world.reward("bad4", 1.0, "bad") == "410"
    assert world.reward("bad3", 1.0, "bad") == "duplicate"
    for name in ("bad", "good"):
        world.check(name)
    world.restart()
    for name in ("bad", "good"):
        world.check(name)


def test_a_shard_that_cannot_be_saved_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "a.db", snapshot_every=5)
    shot = State.shot

    def fails(state: State) -> bytes:
        raise ArithmeticError("a state that cannot be written")

    monkeypatch.setattr(State, "shot", fails)
    two_loops(world, learn="arrival")
    for name in ("bad", "good"):
        for number in range(5):
            world.reward(f"{name}{number}", 1.0, name)
        assert world.counts(name).learned == 5
    assert world.engine.failed_commands > 0
    monkeypatch.setattr(State, "shot", shot)
    for name in ("bad", "good"):
        world.reward(f"{name}0", 1.0, name)
        world.check(name)
