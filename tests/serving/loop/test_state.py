"""What a loop knows, without its policies: settings, arms, snapshots, and what waits for the store."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from driftbandit.serving.loop.config import LoopConfig, Plan
from driftbandit.serving.loop.events import Catalogued, Configured, Ticked, decode, encode
from driftbandit.serving.loop.outbox import Outbox
from driftbandit.serving.loop.state import Counts, State
from driftbandit.serving.loop.windows import Open


def configured(version: int, **config: Any) -> Configured:
    return Configured(version, version, msgspec.json.encode(LoopConfig(**config)))


def test_models_start_afresh_when_settings_describe_others() -> None:
    state = State()
    steps: list[tuple[dict[str, Any], tuple[bool, bool], tuple[int, int]]] = [
        ({"policy": "linucb", "dim": 2}, (True, True), (1, 1)),
        ({"policy": "linucb", "dim": 2, "floor": 0.5, "window": 1.0}, (False, False), (1, 1)),
        ({"policy": "lints", "dim": 2}, (True, False), (2, 1)),
        ({"policy": "lints", "dim": 2, "shadow": Plan("linucb")}, (False, True), (2, 2)),
        ({"policy": "lints", "dim": 2, "seed": 1, "shadow": Plan("linucb")}, (True, True), (3, 3)),
    ]
    for version, (config, afresh, epochs) in enumerate(steps, 1):
        assert state.configure(configured(version, **config)) == afresh
        assert (state.version, state.seq, state.time, state.epochs) == (version, version, version, epochs)


def test_a_new_shadow_starts_its_counts_afresh_and_leaves_the_others() -> None:
    state = State()
    state.configure(configured(1, policy="ucb1", shadow=Plan("ucb1")))
    state.counts = Counts(
        decisions=5,
        closed=4,
        shadow_decisions=5,
        shadow_agreed=2,
        shadow_closed=4,
        shadow_weight=3.0,
        shadow_reward=1.0,
    )
    state.configure(configured(2, policy="ucb1", floor=0.5, shadow=Plan("ucb1")))
    assert state.counts.shadow_closed == 4
    state.configure(configured(3, policy="ucb1", shadow=Plan("random")))
    assert state.counts == Counts(decisions=5, closed=4)


def test_open_decisions_keep_the_features_of_a_replaced_catalogue() -> None:
    state = State()
    state.replace_arms(Catalogued(1, 1, ["a", "b"], np.array([[1.0], [2.0]]).tobytes()))
    waiting = Open("open", 1, 9, "", 1, 1, 0, 1, 0.0)
    own = Open("own", 2, 9, "", 1, 1, 0, np.array([5.0]).tobytes(), 0.0)
    done = Open("closed", 3, 9, "", 1, 1, 0, 0, 0.0, closed=True)
    state.recent = {record.id: record for record in (waiting, own, done)}
    state.replace_arms(Catalogued(2, 2, ["b"], np.array([[7.0]]).tobytes()))
    assert [record.features for record in (waiting, own, done)] == [
        np.array([2.0]).tobytes(),
        np.array([5.0]).tobytes(),
        0,
    ]
    assert state.catalogue is not None
    assert (state.catalogue.ids, state.arms_version, state.seq) == (["b"], 2, 2)


def test_a_snapshot_has_everything_but_closed_decisions() -> None:
    state = State()
    state.configure(configured(1, policy="ucb1", window=7.0))
    state.replace_arms(Catalogued(2, 1, ["a", "b"], None))
    for record in (Open("a", 3, 20, "s", 1, 1, 4, None, 2.0, reward=0.5), Open("b", 4, 10, "", 1, 1, 0, b"x", 0.0)):
        state.recent[record.id] = record
        state.due.add(record)
    state.recent["gone"] = Open("gone", 5, 1, "", 1, 1, 0, None, 0.0, closed=True)
    state.turn_over(12_000)
    state.bucket.decisions += 3
    state.counts.decisions = 3
    again = State()
    again.restore(state.core())
    assert again.core() == state.core()
    assert list(again.recent) == ["a", "b"]
    assert again.recent["a"] == state.recent["a"]
    assert again.due.first == 10
    assert (again.config.window, again.counts.decisions) == (7.0, 3)
    again.turn_over(14_000)  # the same bucket goes on
    assert (again.bucket.start, again.bucket.decisions, again.bucket_ends) == (10_000, 3, 15_000)


@pytest.mark.parametrize(("count", "least", "sealed"), [(3, 1, True), (3, 3, True), (3, 4, False), (0, 1, False)])
def test_events_are_sealed_together(count: int, least: int, sealed: bool) -> None:
    outbox = Outbox(number=8, shard=2)
    events = [Ticked(time) for time in range(count)]
    outbox.stored = 7
    outbox.events += events
    outbox.seal(least)
    if not sealed:
        assert (outbox.sealed, outbox.events) == ([], events)
        return
    (run,) = outbox.sealed
    assert (run.loop, run.shard, run.first, run.last, outbox.events) == (8, 2, 8, 10, [])
    assert [decode(run.event(seq)) for seq in (8, 9, 10)] == events
    assert run.event(9) == encode(events[1])
