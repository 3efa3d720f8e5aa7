"""Engines that share a PostgreSQL store as processes do: one decision id for two scopes, and exports of all shards."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from driftbandit import LinUCB
from driftbandit.serving.api import views
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import Arm, CatalogueRequest, Decision, DecisionRequest, RewardRequest
from driftbandit.serving.engine.shards import Elsewhere, shard_of
from driftbandit.serving.log import export
from driftbandit.serving.log.rerun import read_export, rerun_log
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.page import shell
from driftbandit.serving.page.facts import brief
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.base import StoreError
from driftbandit.serving.stores.postgresql import PostgreSQLStore

from ..live import live
from ..world import START

SHARDS = 4


class Process:
    """An engine as a process of its own would have it."""

    now = START

    def __init__(self, database: str) -> None:
        self.store = PostgreSQLStore(database, shards=SHARDS, lease=600.0)
        self.engine = Engine(self.store, lambda: Process.now)
        self.engine.commit()

    def decide(self, scope: str, ident: str = "1") -> tuple[bool, Decision]:
        self.engine.look_up("x", [ident])
        try:
            return self.engine.decide("x", DecisionRequest(ident, scope))
        finally:
            self.engine.commit()

    def reward(self, scope: str | None, value: float, ident: str = "1") -> bool:
        self.engine.look_up("x", [ident])
        try:
            return self.engine.reward("x", ident, RewardRequest(value, None, scope))
        finally:
            self.engine.commit()

    def refresh(self) -> None:
        self.engine.refresh()
        self.engine.commit()

    def scope(self, number: int = 0) -> str:
        """A scope whose shard is held here; different numbers are on different shards."""
        shard = sorted(self.engine.held)[number]
        return next(f"user {i}" for i in itertools.count() if shard_of("x", f"user {i}", SHARDS) == shard)


@pytest.fixture
def processes(database: str) -> Iterator[tuple[Process, Process]]:
    """Two processes with two shards each, and a scoped loop."""
    first = Process(database)
    first.engine.configure("x", LoopConfig(policy="linucb", dim=2, scoped=True, window=60.0), None)
    arms = [Arm(f"a{i}", row) for i, row in enumerate(np.eye(2).tolist())]
    first.engine.put_arms("x", CatalogueRequest(arms))  # type: ignore[arg-type]
    first.engine.commit()
    second = Process(database)
    for process in (first, second, first):
        process.refresh()
    assert [len(process.engine.held) for process in (first, second)] == [2, 2]
    yield first, second
    for process in (first, second):
        process.store.close()


def test_within_a_process_an_id_belongs_to_one_scope(processes: tuple[Process, Process]) -> None:
    first, _ = processes
    assert first.decide(first.scope(0))[0]
    with pytest.raises(Refused, match="was used with another body"):
        first.decide(first.scope(1))


@pytest.mark.parametrize("saved", [False, True], ids=["open", "closed and saved"])
def test_processes_keep_two_decisions_of_one_id_apart(processes: tuple[Process, Process], saved: bool) -> None:
    """Both are decided, rewarded and found again, each on its own: while they are open, closed, or in one process."""
    first, second = processes
    ann, bob = first.scope(), second.scope()
    answers = [first.decide(ann), second.decide(bob)]
    assert [created for created, _ in answers] == [True, True]
    for process, other in ((first, bob), (second, ann)):  # neither speaks for the other
        with pytest.raises(Elsewhere):
            process.decide(other)
        with pytest.raises(Elsewhere):
            process.reward(other, 0.5)
    assert first.reward(ann, 1.0)
    if saved:
        Process.now += 100_000
        for process in (first, second):
            process.engine.tick()
            process.engine.commit()
            process.engine.snapshot()
    for process, scope, (_, answer) in zip(processes, (ann, bob), answers, strict=True):
        assert process.decide(scope) == (False, answer)
    second.engine.snapshot()
    second.store.close()
    first.refresh()  # which takes over what the other left
    assert len(first.engine.held) == SHARDS
    for scope, (_, answer) in zip((ann, bob), answers, strict=True):
        assert first.decide(scope) == (False, answer)
    assert first.reward(ann, 1.0) is False  # known already
    with pytest.raises(Refused, match="has the reward 1 already"):
        first.reward(ann, 0.0)
    if saved:
        with pytest.raises(Refused, match="has closed"):
            first.reward(bob, 0.0)
    else:
        assert first.reward(bob, 0.0)
        Process.now += 100_000
        first.engine.tick()
        first.engine.commit()
    counts = [part.counts for part in first.engine.parts("x")]
    assert sum(count.decisions for count in counts) == 2
    assert sum(count.learned for count in counts) == 2
    assert first.engine.digest("x") == first.engine.digest("x", whole_log=True)


def test_one_open_and_one_saved_are_kept_apart_too(processes: tuple[Process, Process]) -> None:
    first, second = processes
    ann, bob = first.scope(), second.scope()
    first.decide(ann)
    first.reward(ann, 1.0)
    Process.now += 100_000
    first.engine.tick()
    first.engine.commit()
    first.engine.snapshot()  # ann's is in the store only
    second.decide(bob)
    second.store.close()
    first.refresh()
    assert first.reward(ann, 1.0) is False
    assert first.reward(bob, 0.0)
    assert not first.decide(ann)[0]
    assert not first.decide(bob)[0]


def test_every_process_knows_the_totals_of_all(processes: tuple[Process, Process], database: str) -> None:
    """A process that holds no shard says how many decisions there were, and that its series has none of them."""
    first, second = processes
    for number in range(10):
        process = processes[number % 2]
        process.decide(process.scope(number // 2 % 2), f"d{number}")
    first.reward(first.scope(), 1.0, "d0")
    for process in (first, second):
        process.refresh()
    third = Process(database)
    assert third.engine.held == {}  # a third of four shards would be two, and the others have no more
    for process in (first, second, third):
        process.engine.refresh()
        found = views.stats(process.engine, "x", 0)
        assert (found["totals"]["decisions"], found["totals"]["rewards"], found["totals"]["open"]) == (10, 1, 10)
        here = len(process.engine.parts("x"))
        assert found["partial"] == f"the series is only of the {here} of 4 shards that this process serves"
        assert sum(bucket["decisions"] for bucket in found["series"]) < 10
    card = shell.overview([brief(third.engine, "x", Process.now, None)])
    assert "rates are only of the 0 of 4 shards that this process serves" in card
    with pytest.raises(Elsewhere):
        views.scope(first.engine, "x", second.scope())
    for process in (second, third):
        process.store.close()
    first.refresh()
    assert views.stats(first.engine, "x", 0)["partial"] is None
    assert views.stats(first.engine, "x", 0)["totals"]["decisions"] == 10


def test_exports_hold_all_shards(database: str, processes: tuple[Process, Process], tmp_path: Path) -> None:
    first, second = processes
    for number in range(60):
        process = processes[number % 2]
        scope, ident = process.scope(number // 2 % 2), f"d{number}"
        assert process.decide(scope, ident)[0]
        assert process.reward(scope, float(number % 3 == 0), ident)
    second.engine.snapshot()
    second.store.close()
    first.refresh()
    number = first.engine.number("x")
    for kind in ("ndjson", "parquet"):
        path = tmp_path / f"log.{kind}"
        path.write_bytes(b"".join(export.FORMATS[kind](first.store.reader, export.Wanted("x", number))))
        found = rerun_log(read_export(path))
        assert (found.decisions, found.identical) == (60, 60)
        assert found.digest == first.engine.digest("x")
    lines = b"".join(export.dsjson(first.store.reader, export.Wanted("x", number))).splitlines()
    costs = {line["EventId"]: line["_label_cost"] for line in map(json.loads, lines)}
    assert costs == {f"d{i}": -float(i % 3 == 0) for i in range(60)}
    with live(build_app(database, secure=False)) as url:
        log = f"{url}/v1/loops/x/log"
        rows = [json.loads(line) for line in httpx.get(log).text.splitlines()]
        assert {row["shard"] for row in rows} == set(range(SHARDS))
        one = [json.loads(line) for line in httpx.get(log, params={"shard": 1, "after": 2}).text.splitlines()]
        assert one == [row for row in rows if row["shard"] == 1 and row["seq"] > 2]
        for query in ({"after": 1}, {"shard": SHARDS}, {"shard": -1}):
            assert httpx.get(log, params=query).status_code == 422


def test_without_leave_no_tables_are_made(database: str) -> None:
    with pytest.raises(StoreError, match="there is no store in this database"):
        PostgreSQLStore(database, writer=False, create=False)
    with psycopg.connect(database) as db:
        assert db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    PostgreSQLStore(database, writer=False).close()
    PostgreSQLStore(database, writer=False, create=False).close()


def test_all_shards_begin_with_a_model_that_one_process_was_given(
    processes: tuple[Process, Process], database: str, tmp_path: Path
) -> None:
    policy = LinUCB(2)
    for _ in range(50):
        policy.learn([1.0, 0.0], 1.0)
        policy.learn([0.0, 1.0], 0.0)
    policy.save(tmp_path / "a.policy")
    first, second = processes
    first.engine.put_model("x", (tmp_path / "a.policy").read_bytes())
    for process in (first, second):
        process.refresh()
    for process in (first, second):
        process.decide(process.scope())
        process.reward(process.scope(), 0.25)
        process.decide(process.scope(1), "2")
    Process.now += 60_000
    for process in (first, second):
        process.engine.tick()
        process.engine.commit()
        for part in process.engine.parts("x"):
            rounds = {scope: policy.rounds for scope in part.models.scopes() if (policy := part.models.peek(scope))}
            assert set(rounds.values()) == {101}
        assert process.engine.digest("x") == process.engine.digest("x", whole_log=True)
        process.store.close()
    exported = tmp_path / "log.ndjson"
    wanted = export.Wanted("x", 1)
    exported.write_bytes(b"".join(export.ndjson(lambda: PostgreSQLStore(database, writer=False), wanted)))
    again = rerun_log(read_export(exported))
    assert (again.decisions, again.identical, again.learned) == (4, 4, 4)
    alone = Process(database)
    assert alone.engine.digest("x") == again.digest
    alone.store.close()
